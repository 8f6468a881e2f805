#pragma once
#include <cublasLt.h>

#ifdef CUBLAS_VER_MAJOR  // NVIDIA's; the emulated one is linked
#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/support/error.h"

/// Functions of cuBLASLt, under their names. The library is loaded by the first call: that takes
/// longer than all of a command that needs no GPU.
namespace frugal::kernels {

/// Throws InputError where the library, or a function of it, is not there.
inline void* in_cublaslt(const char* function) {
  static const std::string file = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  static void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, function);
  if (found == nullptr)
    throw InputError(fmt::format(
        "{} of {} is not there, which products on GPUs need ({}); install the CUDA toolkit's "
        "cuBLAS, or name its folder in LD_LIBRARY_PATH",
        function, file, library == nullptr ? ::dlerror() : "another version"));
  return found;
}

#define FRUGAL_CUBLASLT(function)                                                                \
  struct Loaded_##function {                                                                     \
    template <class... Arguments>                                                                \
    auto operator()(Arguments... arguments) const {                                              \
      static const auto found = reinterpret_cast<decltype(&::function)>(in_cublaslt(#function)); \
      return found(arguments...);                                                                \
    }                                                                                            \
  };                                                                                             \
  inline constexpr Loaded_##function function;

FRUGAL_CUBLASLT(cublasLtCreate)
FRUGAL_CUBLASLT(cublasLtDestroy)
FRUGAL_CUBLASLT(cublasLtGetStatusString)
FRUGAL_CUBLASLT(cublasLtGetVersion)
FRUGAL_CUBLASLT(cublasLtMatmul)
FRUGAL_CUBLASLT(cublasLtMatmulAlgoCheck)
FRUGAL_CUBLASLT(cublasLtMatmulAlgoGetHeuristic)
FRUGAL_CUBLASLT(cublasLtMatmulDescCreate)
FRUGAL_CUBLASLT(cublasLtMatmulDescDestroy)
FRUGAL_CUBLASLT(cublasLtMatmulDescSetAttribute)
FRUGAL_CUBLASLT(cublasLtMatmulPreferenceCreate)
FRUGAL_CUBLASLT(cublasLtMatmulPreferenceDestroy)
FRUGAL_CUBLASLT(cublasLtMatmulPreferenceSetAttribute)
FRUGAL_CUBLASLT(cublasLtMatrixLayoutCreate)
FRUGAL_CUBLASLT(cublasLtMatrixLayoutDestroy)
FRUGAL_CUBLASLT(cublasLtMatrixLayoutSetAttribute)
#undef FRUGAL_CUBLASLT

}  // namespace frugal::kernels
#endif
