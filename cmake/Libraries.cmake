# One library per folder; each may use those before it only.
# Object libraries, so that files which register themselves are linked in.
function(frugal_objects name sources)
  frugal_units(sources ${name})
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PUBLIC frugal_options ${ARGN})
endfunction()

# A folder's files but for the back ends for GPUs, which are libraries of their own.
function(frugal_library name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX
       "/kernels/cpu/simd/|/kernels/cuda/|/engine/comm/nccl/(no_)?nccl[^/]*\\.cpp$|/engine/comm/processes/(no_)?mpi[^/]*\\.cpp$|/bench/micro/")
  frugal_objects(${name} "${sources}" ${ARGN})
endfunction()

frugal_library(frugal_kernels_objects kernels
  Threads::Threads OpenMP::OpenMP_CXX Boost::context DNNL::dnnl fmt::fmt nlohmann_json::nlohmann_json)
frugal_library(frugal_engine_objects engine fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)

# The CUDA back end and NCCL's communicators, or what stands in their places.
set(cuda_sources ${CMAKE_SOURCE_DIR}/kernels/cuda/none.cpp)
set(cuda_libraries "")
set(nccl_sources ${CMAKE_SOURCE_DIR}/engine/comm/nccl/no_nccl.cpp)
set(nccl_libraries "")
if(FRUGAL_HAVE_CUDA)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp
    ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/ops/*.cpp ${CMAKE_SOURCE_DIR}/kernels/cuda/ops/*.cu)
  list(FILTER cuda_sources EXCLUDE REGEX "/none\\.cpp$|/attention[^/]*\\.cpp$")
  set(cuda_libraries CUDA::cudart_static ${CMAKE_DL_LIBS})  # cuBLASLt is loaded when it is called
  if(FRUGAL_HAVE_CUDNN)
    list(APPEND cuda_sources ${CMAKE_SOURCE_DIR}/kernels/cuda/attention.cpp)
    list(APPEND cuda_libraries cudnn::cudnn)
  else()
    list(APPEND cuda_sources ${CMAKE_SOURCE_DIR}/kernels/cuda/attention_none.cpp)
  endif()
  if(FRUGAL_HAVE_NCCL)
    file(GLOB nccl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/comm/nccl/nccl*.cpp)
    set(nccl_libraries nccl::nccl CUDA::cudart_static)
  endif()
endif()
frugal_objects(frugal_cuda_objects "${cuda_sources}" ${cuda_libraries} fmt::fmt nlohmann_json::nlohmann_json)
frugal_objects(frugal_nccl_objects "${nccl_sources}" ${nccl_libraries} fmt::fmt)

frugal_library(frugal_harness_objects harness
  fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 Threads::Threads)
frugal_library(frugal_experiments_objects experiments fmt::fmt nlohmann_json::nlohmann_json)
frugal_library(frugal_bench_objects bench fmt::fmt nlohmann_json::nlohmann_json DNNL::dnnl OpenMP::OpenMP_CXX)

# Ranks that are processes of MPI's, or what stands in their place.
set(mpi_sources ${CMAKE_SOURCE_DIR}/engine/comm/processes/no_mpi.cpp)
set(mpi_libraries "")
if(FRUGAL_HAVE_MPI)
  file(GLOB mpi_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/comm/processes/mpi*.cpp)
  set(mpi_libraries MPI::MPI_CXX)
endif()
frugal_objects(frugal_mpi_objects "${mpi_sources}" ${mpi_libraries} fmt::fmt)

# What is not executed for long is not optimised for long, either: half of the compiler's time is optimising.
foreach(name harness experiments bench)
  target_compile_options(frugal_${name}_objects PRIVATE $<$<CONFIG:Release>:-O1>)
endforeach()
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cuda/attention.cpp PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)

# The vectorised kernels are compiled once per instruction set from the same sources, each in a
# namespace of its own; kernels/cpu/dispatch chooses at run time.
file(GLOB simd_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/simd/*.cpp)
# Normal numbers, and directions, are the same on every processor: multiplications and additions stay
# apart.
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/simd/normal.cpp
  ${CMAKE_SOURCE_DIR}/kernels/cpu/simd/rotary.cpp
  PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
frugal_units(simd_sources frugal_simd_baseline)  # every level compiles the same units
set(simd_objects "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"
   AND NOT FRUGAL_SANITIZE MATCHES "thread|fuzzer")  # threads share the same with vectors of any length; readers none
  set(simd_levels baseline avx2 avx512 avx512bf16)
else()
  set(simd_levels baseline)
endif()
set(simd_flags_baseline "")
set(simd_flags_avx2 -march=x86-64-v3)
set(simd_flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
set(simd_flags_avx512bf16 ${simd_flags_avx512} -mavx512bf16)
# The larger a unit, the less g++ inlines of it, unless it may grow: layer normalization of bf16 took 3.5 times as long.
foreach(level IN LISTS simd_levels)
  add_library(frugal_simd_${level} OBJECT ${simd_sources})
  target_link_libraries(frugal_simd_${level} PUBLIC frugal_options OpenMP::OpenMP_CXX)
  target_compile_options(frugal_simd_${level} PRIVATE
    ${simd_flags_${level}} -fno-math-errno -fno-trapping-math
    $<$<CXX_COMPILER_ID:GNU>:--param=inline-unit-growth=1000>)
  target_compile_definitions(frugal_simd_${level} PRIVATE FRUGAL_SIMD=${level})
  list(APPEND simd_objects frugal_simd_${level})
  string(TOUPPER ${level} upper)
  target_compile_definitions(frugal_kernels_objects PRIVATE FRUGAL_HAVE_${upper})
endforeach()

# frugal_linked(NAME OBJECTS… [USES LIBRARIES…]): what a program links of a folder.
function(frugal_linked name)
  cmake_parse_arguments(PARSE_ARGV 1 linked "" "" USES)
  add_library(${name} INTERFACE)
  foreach(objects IN LISTS linked_UNPARSED_ARGUMENTS)
    target_link_libraries(${name} INTERFACE ${objects} $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_link_libraries(${name} INTERFACE ${linked_USES})
endfunction()

# A program whose property FRUGAL_EMULATED is on has an emulated GPU (tests/emulator) instead.
set(emulated $<BOOL:$<TARGET_PROPERTY:FRUGAL_EMULATED>>)
frugal_linked(frugal_cuda frugal_cuda_objects)
frugal_linked(frugal_nccl frugal_nccl_objects)
frugal_linked(frugal_mpi frugal_mpi_objects)
frugal_linked(frugal_kernels frugal_kernels_objects ${simd_objects}
  USES $<IF:${emulated},frugal_emulated_cuda,frugal_cuda>)
frugal_linked(frugal_engine frugal_engine_objects
  USES $<IF:${emulated},frugal_emulated_nccl,frugal_nccl> frugal_mpi frugal_kernels)
frugal_linked(frugal_harness frugal_harness_objects USES frugal_engine)
frugal_linked(frugal_experiments frugal_experiments_objects USES frugal_harness)
frugal_linked(frugal_bench frugal_bench_objects USES frugal_harness)

file(GLOB machine_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/hardware/*.json ${CMAKE_SOURCE_DIR}/programs/*.json)
frugal_embed(frugal_kernels_objects ${machine_files})
# Records of machines that a validation compares with (harness/validate/expectations.cpp).
frugal_embed(frugal_harness_objects results/nvidia-h100-80gb/peak.json)
# Errors of predicted times on published runs (harness/calibrate/known_errors.cpp).
frugal_embed(frugal_harness_objects results/virtual/published/bands.json)
frugal_embed(frugal_harness_objects harness/import/follow.sh)
file(GLOB paper_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/experiments/*/paper.json)
frugal_embed(frugal_experiments_objects ${paper_files})
