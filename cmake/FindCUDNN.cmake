# cuDNN: cudnn.h and libcudnn, beside the CUDA toolkit or where CMake looks anyhow. Sets CUDNN_FOUND and makes
# cudnn::cudnn.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR)
if(CUDNN_FOUND AND NOT TARGET cudnn::cudnn)
  add_library(cudnn::cudnn SHARED IMPORTED)
  # Not for CUDA's files, which do not include it: ccache knows no file again in another clone
  # whose command has a path of this one, and cannot take it out of nvcc's form of the option.
  set_target_properties(cudnn::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY})
  target_include_directories(cudnn::cudnn SYSTEM INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${CUDNN_INCLUDE_DIR}>")
endif()
