# compile_alone: every header, and every source that is compiled as one with others (Units.cmake), as a file of its
# own. What it forgets to include others include before it elsewhere. Nothing is linked. Machine code without
# optimisation takes longer than -fsyntax-only, but is what a compiler cache keeps.
if(NOT FRUGAL_UNITY)
  return()
endif()

find_package(GTest REQUIRED)
add_custom_target(compile_alone)

# frugal_alone(NAME SOURCES…): an object library that is part of compile_alone.
function(frugal_alone name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  add_dependencies(${name} frugal_build_info)
  add_dependencies(compile_alone ${name})
endfunction()

get_property(targets GLOBAL PROPERTY frugal_units_targets)
foreach(target IN LISTS targets)
  get_property(sources GLOBAL PROPERTY frugal_units_of_${target})
  frugal_alone(${target}_alone ${sources})
  get_target_property(emulated ${target} FRUGAL_EMULATED)
  set_property(TARGET ${target}_alone PROPERTY FRUGAL_EMULATED ${emulated})
  foreach(what IN ITEMS INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    set_property(TARGET ${target}_alone PROPERTY ${what} $<TARGET_PROPERTY:${target},${what}>)
  endforeach()
  target_compile_options(${target}_alone PRIVATE -O0 -g0)
endforeach()

file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/kernels/*.h ${CMAKE_SOURCE_DIR}/engine/*.h ${CMAKE_SOURCE_DIR}/harness/*.h
  ${CMAKE_SOURCE_DIR}/experiments/*.h ${CMAKE_SOURCE_DIR}/tests/*.h)
set(includers "")
foreach(header IN LISTS headers)
  set(includer ${CMAKE_BINARY_DIR}/alone/${header}.cpp)
  file(CONFIGURE OUTPUT ${includer} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND includers ${includer})
endforeach()
frugal_alone(frugal_headers_alone ${includers})
target_link_libraries(frugal_headers_alone PRIVATE frugal_options fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11
  OpenMP::OpenMP_CXX DNNL::dnnl GTest::gtest GTest::gmock)
if(FRUGAL_HAVE_MPI)
  target_link_libraries(frugal_headers_alone PRIVATE MPI::MPI_CXX)
endif()
# Headers of the CUDA back end are read as the emulated one's.
target_include_directories(frugal_headers_alone PRIVATE ${CMAKE_SOURCE_DIR}/tests/emulator)
target_compile_definitions(frugal_headers_alone PRIVATE FRUGAL_SIMD=baseline)
target_compile_options(frugal_headers_alone PRIVATE -O0 -g0)
