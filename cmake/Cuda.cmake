# The CUDA back end, where there is a CUDA toolkit; its parts that need NCCL or cuDNN, where these
# are. FRUGAL_HAVE_CUDA, FRUGAL_HAVE_NCCL and FRUGAL_HAVE_CUDNN choose source files.
frugal_parts(CUDA NCCL CUDNN)

if(NOT FRUGAL_WITH_CUDA STREQUAL OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Machine code for Ampere, Hopper and Blackwell, and PTX for what comes later. Making PTX is half of the
    # compiler's work: it is made once for Ampere and once for Hopper, and Blackwell's code of Hopper's.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES OFF)
      target_compile_options(frugal_options INTERFACE
        $<$<COMPILE_LANGUAGE:CUDA>:--generate-code=arch=compute_80,code=[sm_80]>
        $<$<COMPILE_LANGUAGE:CUDA>:--generate-code=arch=compute_90,code=[sm_90,sm_100,compute_90]>)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc has C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit)
  endif()
  frugal_optional(CUDA "the CUDA toolkit (nvcc, cuBLAS)" TARGET CUDA::cublasLt)
endif()

if(FRUGAL_HAVE_CUDA AND NOT FRUGAL_WITH_NCCL STREQUAL OFF)
  find_package(NCCL QUIET)
  frugal_optional(NCCL "NCCL (nccl.h, libnccl)" NCCL_FOUND)
endif()

if(FRUGAL_HAVE_CUDA AND NOT FRUGAL_WITH_CUDNN STREQUAL OFF)
  find_package(CUDNN QUIET)
  # Headers only, from the Python package of this name or from NVIDIA's repository.
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS ${CMAKE_SOURCE_DIR}/build/cudnn-frontend/include)
  frugal_optional(CUDNN "cuDNN (cudnn.h, libcudnn, cudnn_frontend.h)" CUDNN_FOUND AND CUDNN_FRONTEND_INCLUDE_DIR)
  if(FRUGAL_HAVE_CUDNN)
    target_include_directories(cudnn::cudnn SYSTEM INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:${CUDNN_FRONTEND_INCLUDE_DIR}>")
  endif()
endif()
message(STATUS "Back ends: cpu, virtual, cuda ${FRUGAL_HAVE_CUDA} "
               "(NCCL ${FRUGAL_HAVE_NCCL}, cuDNN ${FRUGAL_HAVE_CUDNN})")
