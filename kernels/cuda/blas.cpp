#include "kernels/cuda/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "kernels/cuda/algorithms.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::kernels {

bool tf32_products() {
  const char* const wanted = std::getenv("FRUGAL_TF32");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {
namespace {

/// The matrices behind a view, one way or the other: where rows are contiguous, column-major memory
/// has their transpose.
ColumnMajor column_major(const View& view, bool transpose) {
  const auto last = static_cast<size_t>(view.shape.dims) - 1;
  const int64_t rows = view.shape.extent[last - 1], cols = view.shape.extent[last];
  const int64_t row_stride = view.stride[last - 1], col_stride = view.stride[last];
  ColumnMajor matrix{.type = view.type, .batch_stride = view.shape.dims == 3 ? view.stride[0] : 0};
  // The stride of an extent of 1 means nothing.
  const bool rows_contiguous = col_stride == 1 || cols == 1;
  if (rows_contiguous) {
    matrix.rows = cols;
    matrix.cols = rows;
    matrix.leading = std::max(rows == 1 ? 0 : row_stride, cols);
    matrix.transposed = !transpose;
  } else {
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.leading = std::max(col_stride, rows);
    matrix.transposed = transpose;
  }
  return matrix;
}

/// The largest power of two, up to 256, that divides an address.
uint32_t alignment(const View& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.data) | 256U;
  return static_cast<uint32_t>(address & ~(address - 1));
}

}  // namespace

BlasProblem::BlasProblem(const Gemm& op, bool tf32_, Epilogue epilogue_, const View& auxiliary)
    : bias_type(!op.bias.empty()                       ? op.bias.type
                : epilogue_ == Epilogue::bias_gradient ? op.c.type
                                                       : DType::f32),
      bias(!op.bias.empty()),
      accumulate(op.accumulate),
      tf32(tf32_ && op.a.type == DType::f32),
      batch(op.batch()),
      epilogue(epilogue_) {
  d = column_major(op.c, false);
  // Where c's rows are contiguous, column-major memory holds cᵀ = op(b)ᵀ · op(a)ᵀ.
  exchanged = d.transposed;
  if ((bias || epilogue != Epilogue::none) && !exchanged)
    throw std::invalid_argument(
        "gemm: a bias, its gradient or GELU needs a result whose rows are contiguous");
  d.transposed = false;
  const ColumnMajor x = column_major(op.a, op.transpose_a), y = column_major(op.b, op.transpose_b);
  a = exchanged ? y : x;
  b = exchanged ? x : y;
  if (exchanged) {
    a.transposed = !a.transposed;
    b.transposed = !b.transposed;
  }
  alignment_a = alignment(exchanged ? op.b : op.a);
  alignment_b = alignment(exchanged ? op.a : op.b);
  alignment_d = alignment(op.c);
  alignment_bias = bias ? alignment(op.bias) : 0;
  alignment_auxiliary = epilogue == Epilogue::none ? 0 : alignment(auxiliary);
}

bool BlasProblem::divisible() const {
  return d.type != DType::bf16 || (!bias && epilogue == Epilogue::none);
}

bool BlasProblem::fusable() const {
  constexpr uint32_t wide = 16;
  const auto aligned = [](const ColumnMajor& m, uint32_t alignment) {
    return m.leading % 8 == 0 && alignment >= wide;
  };
  if (a.type != DType::bf16 || b.type != DType::bf16 || batch != 1) return false;
  if (!aligned(d, alignment_d) || alignment_auxiliary < wide) return false;
  const bool operands = aligned(a, alignment_a) && aligned(b, alignment_b);
  // In d's type: of bf16, what is added to the gradient would be rounded before.
  if (epilogue == Epilogue::bias_gradient) return operands && !bias && d.type == DType::f32;
  return d.type == DType::bf16 && !accumulate &&
         (!bias || (operands && bias_type == DType::bf16 && alignment_bias >= wide));
}

std::string BlasProblem::text() const {
  constexpr std::array epilogues = {"", ", GELU", ", GELU's gradient", ", a bias's gradient"};
  const auto matrix = [](const ColumnMajor& x) {
    return fmt::format("{} [{}, {}]{} leading {} batch {}", name_of(x.type), x.rows, x.cols,
                       x.transposed ? "T" : "", x.leading, x.batch_stride);
  };
  return fmt::format("{} x {} -> {}, {} of them{}{}{}{}{}, aligned to {} {} {} {} {}", matrix(a),
                     matrix(b), matrix(d), batch, divisible() ? "" : ", undivided",
                     tf32 ? ", tf32" : "", bias ? fmt::format(", bias {}", name_of(bias_type)) : "",
                     accumulate ? ", accumulated" : "", epilogues.at(static_cast<size_t>(epilogue)),
                     alignment_a, alignment_b, alignment_d, alignment_bias, alignment_auxiliary);
}

namespace {

using cuda::check;  // beside the one of cuBLASLt's calls

void check(cublasStatus_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(fmt::format(
      "{} at {}: {}; {}", call, place(file, line), cublasLtGetStatusString(status),
      status == CUBLAS_STATUS_NOT_SUPPORTED
          ? "this product is not one that the library computes on this GPU"
          : "run again with CUBLASLT_LOG_LEVEL=2, which says what the library objects to"));
}

/// Workspace that NVIDIA recommends for Hopper; also enough for older GPUs.
constexpr int64_t workspace_bytes = int64_t{32} << 20;
/// Algorithms that are asked for.
constexpr int candidates = 12;
/// Plans that a device keeps ready, of some 2 KB each.
constexpr size_t most_plans = 4096;

cudaDataType_t data_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
}

cublasComputeType_t compute_type(const BlasProblem& p) {
  if (p.a.type == DType::f64) return CUBLAS_COMPUTE_64F;
  return p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// A library's object that is destroyed with its owner.
template <class T, auto destroy>
struct Owned {
  T value = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Owned(Owned&& other) noexcept : value(std::exchange(other.value, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Owned() {
    if (value != nullptr) destroy(value);
  }
};
using Handle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LayoutOwner = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(description.value, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.value, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

LayoutOwner layout(const ColumnMajor& m, int64_t batch) {
  LayoutOwner owner;
  check(cublasLtMatrixLayoutCreate(&owner.value, data_type(m.type), static_cast<uint64_t>(m.rows),
                                   static_cast<uint64_t>(m.cols), m.leading),
        "cublasLtMatrixLayoutCreate");
  if (batch == 1) return owner;
  const auto count = static_cast<int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(owner.value, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(owner.value, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &m.batch_stride, sizeof(m.batch_stride)),
        "cublasLtMatrixLayoutSetAttribute");
  return owner;
}

cublasLtEpilogue_t epilogue(const BlasProblem& p) {
  switch (p.epilogue) {
    case Epilogue::gelu:
      return p.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::none:
      break;
  }
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Keeps partial sums in float32, and not in the result's type, where the depth is divided.
cublasLtReductionScheme_t reduction(const BlasProblem& p) {
  return p.divisible() ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
}

Description describe(const BlasProblem& p) {
  Description description;
  check(cublasLtMatmulDescCreate(&description.value, compute_type(p),
                                 p.a.type == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto operation = [](const ColumnMajor& m) {
    return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.a));
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.b));
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(p));
  if (p.has_bias()) set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(p.bias_type));
  if (p.has_auxiliary()) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.d.leading);
  return description;
}

/// A product that was prepared, and the algorithm that won.
struct Plan {
  Description description;
  LayoutOwner a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  bool possible = false;
  int64_t untimed = 0;  ///< executions for want of memory to time algorithms in, since the first
};

/// Operands of one execution of a plan. `bias` is written where it is a gradient.
struct Operands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void *d = nullptr, *auxiliary = nullptr;

  Operands(const BlasProblem& problem, const Gemm& op, const View& auxiliary)
      : a(problem.exchanged ? op.b.data : op.a.data),
        b(problem.exchanged ? op.a.data : op.b.data),
        bias(op.bias.data),
        d(op.c.data),
        auxiliary(auxiliary.data) {}
};

void point(const Plan& plan, const BlasProblem& problem, const Operands& operands) {
  if (problem.has_bias()) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (problem.has_auxiliary())
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.auxiliary);
}

int64_t bytes_of_result(const BlasProblem& p) {
  const int64_t elements =
      p.d.leading * (p.d.cols - 1) + p.d.rows + p.d.batch_stride * (p.batch - 1);
  return elements * size_of(p.d.type);
}

/// Memory of d's size for sums that must not go to d itself, zeros; given back when this goes. Null
/// where there is none to spare. Where there are other ranks the device's own memory keeps it: to
/// free it would wait for kernels that wait for them.
class Spare {
 public:
  Spare(CudaMemory& memory, const BlasProblem& problem, const Launch& on)
      : memory_(on.watch == nullptr ? nullptr : &memory), bytes_(bytes_of_result(problem)) {
    const auto size = static_cast<size_t>(bytes_);
    if (memory_ == nullptr) {
      if (cudaMalloc(&data_, size) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        data_ = nullptr;
      }
    } else {
      try {
        data_ = memory_->allocate(bytes_);
      } catch (const OutOfMemory&) {  // it is not needed
      }
    }
    if (data_ != nullptr) check(cudaMemsetAsync(data_, 0, size, on.stream), "cudaMemsetAsync");
  }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare() {
    if (memory_ == nullptr)
      cudaFree(data_);
    else
      memory_->deallocate(data_, bytes_);
  }
  void* data() const { return data_; }

 private:
  CudaMemory* const memory_;  ///< null where there are no other ranks
  const int64_t bytes_;
  void* data_ = nullptr;
};

/// Measures the time that passes on a stream from start() to stop().
class Stopwatch {
 public:
  explicit Stopwatch(const Launch& on) : on_(on) {
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  /// Keeps the stream busy for a moment, so that what is timed has been issued when it begins.
  void start() {
    constexpr double issuing = 2e-5;
    occupy(on_.stream, issuing);
    started_ = std::chrono::steady_clock::now();
    check(cudaEventRecord(events_[0], on_.stream), "cudaEventRecord");
  }
  /// Waits, as Launch::wait_for() does.
  Execution stop() {
    check(cudaEventRecord(events_[1], on_.stream), "cudaEventRecord");
    const std::chrono::duration<float, std::milli> issuing =
        std::chrono::steady_clock::now() - started_;
    on_.wait_for(events_[1]);
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
    return {milliseconds, issuing.count()};
  }

 private:
  const Launch& on_;
  std::array<cudaEvent_t, 2> events_{};
  std::chrono::steady_clock::time_point started_;
};

}  // namespace

struct Blas::State {
  State(CudaMemory& memory_, const Gpu& gpu) : memory(memory_), algorithms(algorithms_of(gpu)) {
    check(cublasLtCreate(&handle.value), "cublasLtCreate");
    workspace = memory.allocate(workspace_bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { memory.deallocate(workspace, workspace_bytes); }

  /// False where the library proposes nothing.
  bool run(const BlasProblem& problem, const Operands& operands, const Launch& on);
  /// Plans a product with the fastest algorithm, which is kept; with the library's first until
  /// there is memory to time them in. `untimed`: Plan::untimed so far.
  Plan prepare(const BlasProblem& problem, const Operands& operands, const Launch& on,
               int64_t untimed = 0);
  cublasStatus_t multiply(const BlasProblem& problem, const Plan& plan, const Operands& operands,
                          const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const;
  std::vector<cublasLtMatmulAlgo_t> propose(const BlasProblem& problem, const Plan& plan) const;
  /// True if the library can compute the product so, here.
  bool accepts(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const;
  /// The fastest; none where there is no memory to time them in.
  std::optional<cublasLtMatmulAlgo_t> choose(const BlasProblem& problem, const Plan& plan,
                                             Operands operands,
                                             const std::vector<cublasLtMatmulAlgo_t>& proposed,
                                             const Launch& on) const;

  CudaMemory& memory;
  Algorithms& algorithms;
  Handle handle;
  void* workspace = nullptr;
  std::map<BlasProblem, Plan> plans;
};

cublasStatus_t Blas::State::multiply(const BlasProblem& problem, const Plan& plan,
                                     const Operands& operands,
                                     const cublasLtMatmulAlgo_t& algorithm,
                                     cudaStream_t stream) const {
  const float one = 1, beta = problem.accumulate ? 1 : 0;
  const double wide_one = 1, wide_beta = beta;
  const bool wide = problem.a.type == DType::f64;
  return cublasLtMatmul(
      handle.value, plan.description.value, wide ? static_cast<const void*>(&wide_one) : &one,
      operands.a, plan.a.value, operands.b, plan.b.value,
      wide ? static_cast<const void*>(&wide_beta) : &beta, operands.d, plan.d.value, operands.d,
      plan.d.value, &algorithm, workspace, static_cast<size_t>(workspace_bytes), stream);
}

std::vector<cublasLtMatmulAlgo_t> Blas::State::propose(const BlasProblem& problem,
                                                       const Plan& plan) const {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(&preference.value), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(reduction(problem)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.alignment_a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.alignment_b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.alignment_d);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.alignment_d);
  std::array<cublasLtMatmulHeuristicResult_t, candidates> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle.value, plan.description.value, plan.a.value, plan.b.value, plan.d.value, plan.d.value,
      preference.value, candidates, found.data(), &count);
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (problem.epilogue != Epilogue::none && status == CUBLAS_STATUS_INVALID_VALUE);
  if (refused) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> proposed;
  for (int i = 0; i < count; ++i)
    if (found[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      proposed.push_back(found[static_cast<size_t>(i)].algo);
  return proposed;
}

bool Blas::State::accepts(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t found{};
  return cublasLtMatmulAlgoCheck(handle.value, plan.description.value, plan.a.value, plan.b.value,
                                 plan.d.value, plan.d.value, &algorithm,
                                 &found) == CUBLAS_STATUS_SUCCESS &&
         found.workspaceSize <= static_cast<size_t>(workspace_bytes);
}

/// Times the operands themselves, but for what is accumulated into.
std::optional<cublasLtMatmulAlgo_t> Blas::State::choose(
    const BlasProblem& problem, const Plan& plan, Operands operands,
    const std::vector<cublasLtMatmulAlgo_t>& proposed, const Launch& on) const {
  if (proposed.size() == 1) return proposed.front();
  std::optional<Spare> spare;
  if (problem.accumulate) {
    spare.emplace(memory, problem, on);
    if (spare->data() == nullptr) return std::nullopt;
    operands.d = spare->data();
  }
  Stopwatch watch(on);
  const auto execute = [&](size_t i) -> std::optional<Execution> {
    watch.start();
    const cublasStatus_t status = multiply(problem, plan, operands, proposed[i], on.stream);
    const Execution execution = watch.stop();
    if (status != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    return execution;
  };
  return proposed[fastest(proposed.size(), execute).value_or(0)];
}

Plan Blas::State::prepare(const BlasProblem& problem, const Operands& operands, const Launch& on,
                          int64_t untimed) {
  Plan plan{describe(problem), layout(problem.a, problem.batch), layout(problem.b, problem.batch),
            layout(problem.d, problem.batch)};
  point(plan, problem, operands);
  const std::string text = problem.text();
  if (const auto known = algorithms.find(text)) {
    plan.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(known->algorithm);
    plan.possible = !known->read || accepts(plan, plan.algorithm);
    if (plan.possible && known->read) algorithms.keep_read(text, known->algorithm);
    if (plan.possible) return plan;
  }
  const auto proposed = propose(problem, plan);
  plan.possible = !proposed.empty();
  if (!plan.possible) return plan;
  const auto chosen = choose(problem, plan, operands, proposed, on);
  plan.algorithm = proposed.front();
  plan.untimed = chosen ? 0 : untimed + 1;
  if (chosen)
    plan.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(
        algorithms.keep_timed(text, std::bit_cast<Algorithm>(*chosen)));
  return plan;
}

bool Blas::State::run(const BlasProblem& problem, const Operands& operands, const Launch& on) {
  auto found = plans.find(problem);
  if (found == plans.end()) {
    if (plans.size() >= most_plans) plans.clear();
    found = plans.emplace(problem, prepare(problem, operands, on)).first;
  } else if (int64_t& untimed = found->second.untimed; untimed > 0) {
    // To ask for memory where there is none takes long: it is asked for ever more seldom.
    if (std::has_single_bit(static_cast<uint64_t>(untimed) + 1))
      found->second = prepare(problem, operands, on, untimed);
    else
      ++untimed;
  }
  const Plan& plan = found->second;
  if (!plan.possible) return false;
  point(plan, problem, operands);
  check(multiply(problem, plan, operands, plan.algorithm, on.stream), "cublasLtMatmul");
  on.count_library_call();
  return true;
}

Blas::Blas(CudaMemory& memory, const Gpu& gpu) : state_(std::make_unique<State>(memory, gpu)) {}
Blas::~Blas() = default;

void Blas::run(const Gemm& op, const Launch& on) {
  if (op.c.size() == 0) return;
  const BlasProblem problem(op, tf32_products());
  if (!state_->run(problem, Operands(problem, op, {}), on))
    throw CudaError(fmt::format("cublasLtMatmulAlgoGetHeuristic: nothing computes {} on this GPU",
                                problem.text()));
}

/// Has the library write y, and what stands before GELU as its auxiliary output.
bool Blas::run(const GemmGelu& op, const Launch& on) {
  Gemm product = op.gemm;
  product.c = op.y;
  const BlasProblem problem(product, tf32_products(), Epilogue::gelu, op.gemm.c);
  if (!problem.fusable()) return false;
  return state_->run(problem, Operands(problem, product, op.gemm.c), on);
}

bool Blas::run(const GemmGeluBackward& op, const Launch& on) {
  const BlasProblem problem(op.gemm, tf32_products(), Epilogue::gelu_backward, op.x);
  if (!problem.fusable()) return false;
  return state_->run(problem, Operands(problem, op.gemm, op.x), on);
}

bool Blas::run(const GemmBiasGradient& op, const Launch& on) {
  const View& dbias = op.dbias;
  const DType type = op.gemm.c.type;
  void* const memory = on.scratch->bytes(static_cast<size_t>(dbias.size() * size_of(type)));
  const View own(memory, type, {1, dbias.size()});
  const BlasProblem problem(op.gemm, tf32_products(), Epilogue::bias_gradient, own);
  if (!problem.fusable()) return false;
  Operands operands(problem, op.gemm, {});
  operands.bias = memory;
  if (!state_->run(problem, operands, on)) return false;
  cuda::run(Copy{own, dbias.reshaped({1, dbias.size()}), true}, on);
  return true;
}

}  // namespace frugal::kernels::cuda
