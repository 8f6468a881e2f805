#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/types.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

struct cublasLtContext {
  int gpu;
};

struct cublasLtMatmulDescription {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* auxiliary = nullptr;
  int64_t auxiliary_leading = 0;
  int32_t bias_type = -1;  // the library's default: as the result's
};

struct cublasLtMatrixLayout {
  cudaDataType_t type;
  int64_t rows, cols, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct cublasLtMatmulPreference {
  std::map<cublasLtMatmulPreferenceAttributes_t, uint64_t> values;
};

namespace {

constexpr uint64_t proposed = 0x66727567616cULL;  // in algorithms that the heuristic made
constexpr int algorithms = 2;
std::atomic<int64_t> asked = 0, issued = 0;  // for algorithms of a product; products
/// Promises to an algorithm about the addresses of a, b, c and d, and where it keeps them.
constexpr std::array promised = {
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
constexpr size_t first_promise = 2;
/// Word of an algorithm that says if it divides the depth. Every algorithm that may, does.
constexpr size_t divides = 6;

bool aligned(const cublasLtMatmulAlgo_t& algorithm, const std::array<const void*, 4>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const uint64_t bytes = algorithm.data[first_promise + i];
    if (bytes == 0 || reinterpret_cast<uintptr_t>(operands[i]) % bytes != 0) return false;
  }
  return true;
}

using Description = cublasLtMatmulDescription;
using Layout = cublasLtMatrixLayout;

bool is_gelu(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
/// Written: sums of op(b) over the depth, one for each of d's columns.
bool has_bias_gradient(cublasLtEpilogue_t e) { return e == CUBLASLT_EPILOGUE_BGRADB; }
bool has_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_auxiliary(cublasLtEpilogue_t e) { return is_gelu(e) || e == CUBLASLT_EPILOGUE_DGELU; }

double get(cudaDataType_t type, const void* data, int64_t at) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[at];
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(data)[at]);
  return static_cast<double>(
      static_cast<float>(static_cast<const frugal::kernels::Bf16*>(data)[at]));
}

void put(cudaDataType_t type, void* data, int64_t at, double value) {
  if (type == CUDA_R_64F)
    static_cast<double*>(data)[at] = value;
  else if (type == CUDA_R_32F)
    static_cast<float*>(data)[at] = static_cast<float>(value);
  else
    static_cast<frugal::kernels::Bf16*>(data)[at] =
        frugal::kernels::Bf16(static_cast<float>(value));
}

double rounded(cudaDataType_t type, double value) {
  double there = 0;  // wide enough for each type
  put(type, &there, 0, value);
  return get(type, &there, 0);
}

/// Types that go together, and demands of an epilogue on memory: the documentation of
/// cublasLtMatmul() and of CUBLASLT_MATMUL_DESC_*.
bool supported(const Description& p, const Layout& a, const Layout& b, const Layout& d) {
  const bool wide = a.type == CUDA_R_64F;
  const bool types = a.type == b.type &&
                     (d.type == a.type || (a.type == CUDA_R_16BF && d.type == CUDA_R_32F)) &&
                     (p.compute == CUBLAS_COMPUTE_64F) == wide && (p.scale == CUDA_R_64F) == wide &&
                     (p.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || a.type == CUDA_R_32F);
  const bool any_bias = has_bias(p.epilogue) || has_bias_gradient(p.epilogue);
  const bool bias = (!any_bias || p.bias_type == -1 || p.bias_type == d.type) &&
                    (!has_bias_gradient(p.epilogue) || d.batch == 1);
  const bool auxiliary = !has_auxiliary(p.epilogue) ||
                         (d.type == CUDA_R_16BF && d.batch == 1 && p.auxiliary_leading % 8 == 0 &&
                          reinterpret_cast<uintptr_t>(p.auxiliary) % 16 == 0);
  return types && bias && auxiliary;
}

/// True unless the descriptions contradict each other.
bool consistent(const Description& p, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = p.operation_a == CUBLAS_OP_T, tb = p.operation_b == CUBLAS_OP_T;
  const auto dense = [](const Layout& m) { return m.rows > 0 && m.leading >= m.rows; };
  return dense(a) && dense(b) && dense(d) && a.batch == d.batch && b.batch == d.batch &&
         (ta ? a.cols : a.rows) == d.rows && (tb ? b.rows : b.cols) == d.cols &&
         (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) &&
         ((!has_bias(p.epilogue) && !has_bias_gradient(p.epilogue)) || p.bias != nullptr) &&
         (!has_auxiliary(p.epilogue) || (p.auxiliary != nullptr && p.auxiliary_leading >= d.rows));
}

/// The approximation by tanh, which the library's epilogues have.
double gelu(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * x * (1 + t);
}
double gelu_gradient(double x) {
  const double c = 0.7978845608028654;
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

struct Product {
  Description description;
  Layout a, b, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  double alpha, beta;
  bool divided;  ///< its depth, among parts

  /// True if the library does the epilogue after the product, and not with it: of what it has
  /// rounded to d's type.
  bool apart() const {
    const auto wide = [](const Layout& m, const void* data) {
      return m.leading % 8 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    };
    if (description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
      return divided || !wide(a, a_data) || !wide(b, b_data);
    return divided && description.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
           !has_bias_gradient(description.epilogue);
  }

  double finish(int64_t i, int64_t j, double sum) const {
    const Description& p = description;
    if (apart()) sum = rounded(d.type, sum);
    if (has_bias(p.epilogue)) sum += get(d.type, p.bias, i);
    const int64_t at = j * p.auxiliary_leading + i;
    if (p.epilogue == CUBLASLT_EPILOGUE_DGELU)
      return sum * gelu_gradient(get(d.type, p.auxiliary, at));
    if (!is_gelu(p.epilogue)) return sum;
    put(d.type, p.auxiliary, at, sum);
    return gelu(sum);
  }

  /// op(m)'s column or row, as vectors along the depth: [count, depth].
  static std::vector<double> along_depth(const Layout& m, const void* data, bool depth_is_rows,
                                         int64_t s) {
    const int64_t depth = depth_is_rows ? m.rows : m.cols, count = depth_is_rows ? m.cols : m.rows;
    std::vector<double> values(static_cast<size_t>(depth * count));
    for (int64_t x = 0; x < count; ++x)
      for (int64_t l = 0; l < depth; ++l) {
        const int64_t row = depth_is_rows ? l : x, col = depth_is_rows ? x : l;
        values[static_cast<size_t>(x * depth + l)] =
            get(m.type, data, s * m.stride + col * m.leading + row);
      }
    return values;
  }

  void operator()() const {
    const bool ta = description.operation_a == CUBLAS_OP_T;
    const bool tb = description.operation_b == CUBLAS_OP_T;
    const int64_t depth = ta ? a.rows : a.cols;
    for (int64_t s = 0; s < d.batch; ++s) {
      const std::vector<double> left = along_depth(a, a_data, ta, s);
      const std::vector<double> right = along_depth(b, b_data, !tb, s);
      for (int64_t j = 0; has_bias_gradient(description.epilogue) && j < d.cols; ++j)
        put(d.type, description.bias, j,
            std::accumulate(right.begin() + j * depth, right.begin() + (j + 1) * depth, 0.0));
      for (int64_t j = 0; j < d.cols; ++j)
        for (int64_t i = 0; i < d.rows; ++i) {
          const double *x = left.data() + i * depth, *y = right.data() + j * depth;
          double sum = 0;
          for (int64_t l = 0; l < depth; ++l) sum += x[l] * y[l];
          const int64_t at = s * d.stride + j * d.leading + i;
          sum *= alpha;
          // As the library's algorithms for Hopper add: all of them, so that their bits are the
          // same.
          if (beta != 0) sum = rounded(d.type, sum) + beta * get(d.type, c_data, at);
          put(d.type, d_data, at, finish(i, j, sum));
        }
    }
  }
};

/// Stores `value` where its size is the attribute's.
template <class T>
cublasStatus_t store(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* object) {
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

double number(cudaDataType_t type, const void* at) { return get(type, at, 0); }

}  // namespace

int64_t emulator::asked_for_algorithms() { return asked; }
int64_t emulator::products() { return issued; }

size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_SUCCESS";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{emulator::current_gpu()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *description = new Description{.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy(d); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return store(p->operation_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return store(p->operation_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return store(p->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return store(p->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return store(p->auxiliary, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return store(p->auxiliary_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return store(p->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t leading) {
  *layout = new Layout{.type = type,
                       .rows = static_cast<int64_t>(rows),
                       .cols = static_cast<int64_t>(cols),
                       .leading = leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return destroy(l); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? store(layout->batch, value, bytes)
                                                         : store(layout->stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return destroy(p); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  const size_t wanted =
      attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&preference->values[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t p,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t /*c*/,
                                              cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  *returned = 0;
  ++asked;
  if (!consistent(*p, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*p, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *returned < std::min(requested, algorithms); ++*returned)
    results[*returned] = {.algo = {{proposed, static_cast<uint64_t>(*returned)}},
                          .workspaceSize = 0,
                          .state = CUBLAS_STATUS_SUCCESS};
  for (int i = 0; i < *returned; ++i) {
    uint64_t* const data = results[i].algo.data;
    data[divides] = preference->values[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != 0;
    for (size_t operand = 0; operand < promised.size(); ++operand)
      data[first_promise + operand] = preference->values[promised[operand]];
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t p,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!consistent(*p, *a, *b, *d) || algorithm->data[0] != proposed ||
      algorithm->data[1] >= static_cast<uint64_t>(algorithms))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*p, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = 0;
  return result->state = CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const emulator::Call call;
  if (handle->gpu != emulator::current_gpu() || !emulator::is_current(stream))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!consistent(*p, *layout_a, *layout_b, *layout_d) || algorithm->data[0] != proposed ||
      layout_c->leading != layout_d->leading || !aligned(*algorithm, {a, b, c, d}) ||
      !emulator::arena::contains(workspace, workspace_bytes, handle->gpu))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*p, *layout_a, *layout_b, *layout_d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++issued;
  if (emulator::gpu().computes)
    emulator::push(stream,
                   Product{*p, *layout_a, *layout_b, *layout_d, a, b, c, d, number(p->scale, alpha),
                           number(p->scale, beta), algorithm->data[divides] != 0});
  return CUBLAS_STATUS_SUCCESS;
}
