#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <dnnl.hpp>
#include <limits>
#include <map>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/support/scratch.h"

namespace frugal::kernels {
namespace {

using Dims = dnnl::memory::dims;

dnnl::memory::data_type data_type(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// One matrix, or `batch` of them, as oneDNN sees them: transposition is a matter of strides.
struct Matrices {
  DType type = DType::f32;
  int64_t batch_stride = 0, rows = 0, cols = 0, row_stride = 0, col_stride = 0;

  Matrices() = default;
  Matrices(const View& v, bool transpose)
      : type(v.type), batch_stride(v.shape.dims == 3 ? v.stride[0] : 0) {
    const int last = v.shape.dims - 1;
    rows = v.shape[last - 1];
    cols = v.shape[last];
    row_stride = v.stride[static_cast<size_t>(last) - 1];
    col_stride = v.stride[static_cast<size_t>(last)];
    if (transpose) {
      std::swap(rows, cols);
      std::swap(row_stride, col_stride);
    }
    // The stride of an extent of 1 means nothing, but oneDNN chooses its method by it.
    if (cols == 1) col_stride = row_stride == 1 ? std::max<int64_t>(1, rows) : 1;
    if (rows == 1) row_stride = col_stride == 1 ? std::max<int64_t>(1, cols) : 1;
  }

  auto operator<=>(const Matrices&) const = default;
  dnnl::memory::desc description() const {
    return {Dims{rows, cols}, data_type(type), Dims{row_stride, col_stride}};
  }
  // Runs of consecutive elements (rows, or columns where it is transposed) and how they lie.
  int64_t run() const { return col_stride == 1 ? cols : rows; }
  int64_t runs() const { return col_stride == 1 ? rows : cols; }
  int64_t stride() const { return col_stride == 1 ? row_stride : col_stride; }

  Matrices packed() const {
    Matrices m = *this;
    (col_stride == 1 ? m.row_stride : m.col_stride) = run();
    return m;
  }
  /// Number of the result's rows from which on it pays to copy the second operand, with a cache
  /// line between rows. Where they lie a multiple of 2 KiB apart, those of a column's neighbourhood
  /// share few sets of the first cache. oneDNN packs by itself what lies a power of two apart, and
  /// what matrix units multiply.
  int64_t rows_worth_a_copy() const {
    constexpr int64_t never = std::numeric_limits<int64_t>::max(), small = int64_t{32} << 20;
    static const bool matrix_units =
        dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
    const int64_t apart = row_stride * size_of(type);
    if (col_stride != 1 || (apart & (apart - 1)) == 0) return never;
    if (type == DType::f32 && apart % 2048 == 0) return 128;
    return (type == DType::bf16 && matrix_units) || bytes() > small ? never : 768;
  }
  /// Copy with a cache line between rows.
  Matrices padded() const {
    constexpr int64_t line = 64;
    Matrices m = *this;
    m.row_stride = cols + line / size_of(type);
    return m;
  }
  int64_t bytes() const { return runs() * stride() * size_of(type); }
  char* at(const View& v, int64_t i) const {
    return static_cast<char*>(v.data) + i * batch_stride * size_of(type);
  }
};

/// Key of the cache: all that decides how a multiplication is prepared.
struct Problem {
  Matrices a, b, c;
  bool bias = false, accumulate = false, one_thread = false;

  auto operator<=>(const Problem&) const = default;
};

/// One thread's arguments of a prepared multiplication: only the addresses change between calls.
class Arguments {
 public:
  Arguments(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& d) {
    const std::array descriptions{d.src_desc(), d.weights_desc(), d.dst_desc(), d.scratchpad_desc(),
                                  d.bias_desc()};
    constexpr std::array ids{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                             DNNL_ARG_BIAS};
    for (size_t i = 0; i < ids.size(); ++i) {
      if (descriptions[i].get_size() == 0) continue;
      memory_[i] = dnnl::memory(descriptions[i], engine, nullptr);
      arguments_[static_cast<size_t>(count_++)] = {ids[i], memory_[i].get()};
    }
  }
  dnnl_status_t run(const dnnl::matmul& matmul, const dnnl::stream& stream,
                    const std::array<void*, 5>& addresses) const {
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (memory_[i]) dnnl_memory_set_data_handle(memory_[i].get(), addresses[i]);
    }
    return dnnl_primitive_execute(matmul.get(), stream.get(), count_, arguments_.data());
  }

 private:
  std::array<dnnl::memory, 5> memory_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  int count_ = 0;
};

/// Copies the runs of a matrix to where they lie otherwise.
void copy(const Matrices& from, const char* source, const Matrices& to, char* target,
          bool all_threads) {
  const int64_t size = size_of(from.type), run = from.run() * size;
  const int64_t from_stride = from.stride() * size, to_stride = to.stride() * size;
#pragma omp parallel for schedule(static) if (all_threads)
  for (int64_t i = 0; i < from.runs(); ++i)
    std::memcpy(target + i * to_stride, source + i * from_stride, static_cast<size_t>(run));
}

/// A prepared multiplication of one pair of matrices.
class Prepared {
 public:
  Prepared(const dnnl::engine& engine, const Problem& p, int threads) : used_{p.a, p.b, p.c} {
    // oneDNN's fast method wants whole rows of memory. Parts of a larger tensor, as the heads of
    // attention are, are packed first; where a is transposed that method is not the faster one,
    // except for the small blocks that a thread multiplies alone.
    const bool alone = p.one_thread && p.c.batch_stride == 0;
    if (alone || (p.c.batch_stride != 0 && p.a.col_stride == 1)) {
      for (Matrices& m : used_) m = m.packed();
    } else if (p.c.batch_stride == 0 && p.c.rows >= p.b.rows_worth_a_copy()) {
      used_[1] = p.b.padded();
    }
    dnnl::primitive_attr attributes;
    // The library's own scratchpad belongs to the thread that prepares, not to those that execute.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const auto a = used_[0].description(), b = used_[1].description(), c = used_[2].description();
    const dnnl::memory::desc bias =
        p.bias ? dnnl::memory::desc({1, p.c.cols}, data_type(p.a.type), Dims{p.c.cols, 1})
               : dnnl::memory::desc();
    const dnnl::matmul::desc operation =
        p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    omp_set_num_threads(p.one_thread ? 1 : threads);  // what oneDNN divides the work for
    const dnnl::matmul::primitive_desc description(operation, attributes, engine);
    matmul_ = dnnl::matmul(description);
    omp_set_num_threads(threads);
    place_scratch(p, static_cast<int64_t>(description.scratchpad_desc().get_size()));
    for (int i = 0; i < (p.one_thread ? threads : 1); ++i) {
      arguments_.emplace_back(engine, description);
    }
  }

  /// The i-th of the batch.
  dnnl_status_t run(const dnnl::stream& stream, const Problem& p, const Gemm& op, int64_t i) const {
    const std::array given{p.a, p.b, p.c};
    const std::array<char*, 3> data{p.a.at(op.a, i), p.b.at(op.b, i), p.c.at(op.c, i)};
    std::array<char*, 3> used = data;
    auto* const memory = static_cast<char*>(scratch(Scratch::gemm, scratch_bytes_));
    for (size_t x = 0; x < used.size(); ++x) {
      if (used_[x] == given[x]) continue;
      used[x] = memory + packed_at_[x];
      if (x < 2 || p.accumulate) copy(given[x], data[x], used_[x], used[x], !p.one_thread);
    }
    const auto thread = static_cast<size_t>(arguments_.size() == 1 ? 0 : omp_get_thread_num());
    const auto status =
        arguments_[thread].run(matmul_, stream, {used[0], used[1], used[2], memory, op.bias.data});
    if (used[2] != data[2]) copy(used_[2], used[2], p.c, data[2], !p.one_thread);
    return status;
  }

 private:
  /// oneDNN's first, then those matrices that are packed.
  void place_scratch(const Problem& p, int64_t bytes) {
    const std::array given{p.a, p.b, p.c};
    for (size_t x = 0; x < given.size(); ++x) {
      packed_at_[x] = bytes = (bytes + 63) / 64 * 64;
      if (used_[x] != given[x]) bytes += used_[x].bytes();
    }
    scratch_bytes_ = static_cast<size_t>(bytes);
  }

  std::array<Matrices, 3> used_;
  std::array<int64_t, 3> packed_at_{};
  size_t scratch_bytes_ = 0;
  dnnl::matmul matmul_;
  std::vector<Arguments> arguments_;
};

/// Multiplies float64, which oneDNN does not have; only tests need it.
void multiply_f64(const Problem& p, const Gemm& op) {
  const int64_t batch = op.batch(), m = p.c.rows, n = p.c.cols, k = p.a.cols;
#pragma omp parallel for schedule(static) collapse(2) if (batch * m * n * k > 32768)
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t i = 0; i < m; ++i) {
      const auto* const a = reinterpret_cast<const double*>(p.a.at(op.a, g)) + i * p.a.row_stride;
      const auto* const b = reinterpret_cast<const double*>(p.b.at(op.b, g));
      auto* const c = reinterpret_cast<double*>(p.c.at(op.c, g)) + i * p.c.row_stride;
      for (int64_t j = 0; j < n; ++j) {
        double sum = p.bias ? op.bias.as<double>()[j] : 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a[l * p.a.col_stride] * b[l * p.b.row_stride + j * p.b.col_stride];
        }
        double& result = c[j * p.c.col_stride];
        result = (p.accumulate ? result : 0) + sum;
      }
    }
  }
}

}  // namespace

struct CpuGemm::Cache {
  explicit Cache(int threads) : threads(threads) {}

  const Prepared& prepare(const Problem& problem) {
    return prepared.try_emplace(problem, engine, problem, threads).first->second;
  }

  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Problem, Prepared> prepared;
};

namespace {

Problem problem_of(const Gemm& op, bool one_thread) {
  return {.a = {op.a, op.transpose_a},
          .b = {op.b, op.transpose_b},
          .c = {op.c, false},
          .bias = !op.bias.empty(),
          .accumulate = op.accumulate,
          .one_thread = one_thread};
}

bool library_multiplies_bf16() {
  const dnnl::memory::desc matrix(Dims{16, 16}, dnnl::memory::data_type::bf16, Dims{16, 1});
  constexpr bool may_be_absent = true;
  const dnnl::matmul::primitive_desc product({matrix, matrix, matrix}, {dnnl::engine::kind::cpu, 0},
                                             may_be_absent);
  return static_cast<bool>(product);
}

}  // namespace

CpuGemm::CpuGemm(int threads, const Kernels& kernels)
    : kernels_(kernels),
      widens_(!choose_instructions().starts_with("avx512") || !library_multiplies_bf16()),
      cache_(std::make_unique<Cache>(threads)) {}
CpuGemm::~CpuGemm() = default;

/// A batch of at least this many for each thread is divided among them: faster than oneDNN's
/// batched form, above all where the matrices are strided as in attention.
bool CpuGemm::one_thread_to_a_matrix(int64_t batch) const {
  return batch >= int64_t{4} * cache_->threads && cache_->threads > 1;
}

void CpuGemm::run(const Gemm& op) {
  const int64_t batch = op.batch();
  if (batch == 0 || op.m() == 0 || op.n() == 0) return;
  if (widens(op)) return run_widened(op);
  const bool one_thread = one_thread_to_a_matrix(batch);
  const Problem problem = problem_of(op, one_thread);
  if (op.a.type == DType::f64) return multiply_f64(problem, op);
  const Prepared& prepared = cache_->prepare(problem);
  std::atomic<dnnl_status_t> status = dnnl_success;  // an exception may not leave the threads
#pragma omp parallel for schedule(static) if (one_thread)
  for (int64_t i = 0; i < batch; ++i) {
    const dnnl_status_t result = prepared.run(cache_->stream, problem, op, i);
    if (result != dnnl_success) status = result;
  }
  dnnl::error::wrap_c_api(status, "cpu: oneDNN could not execute a matrix multiplication");
}

/// Large batches are divided among threads, and large matrices into parts.
void CpuGemm::run_widened(const Gemm& op) {
  const int64_t batch = op.batch();
  if (!one_thread_to_a_matrix(batch)) {
    for (int64_t i = 0; i < batch; ++i) {
      each_part(matrix_of(op, i), [&](const Gemm& part) {
        const WidenedGemm widened(part);
        widened.widen(kernels_);
        run(widened.product());
        widened.round(kernels_);
      });
    }
    return;
  }
  prepare_alone(matrix_of(op, 0));
  std::atomic<bool> failed = false;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < batch; ++i)
    if (!run_alone(matrix_of(op, i))) failed = true;
  if (failed) throw std::runtime_error("cpu: oneDNN could not execute a matrix multiplication");
}

void CpuGemm::prepare_alone(const Gemm& op) {
  if (widens(op)) return prepare_alone(WidenedGemm(op).product());
  if (op.a.type != DType::f64) cache_->prepare(problem_of(op, true));
}

bool CpuGemm::run_alone(const Gemm& op) const {
  if (widens(op)) {
    const WidenedGemm widened(op);
    widened.widen(kernels_);
    const bool done = run_alone(widened.product());
    widened.round(kernels_);
    return done;
  }
  const Problem problem = problem_of(op, true);
  if (op.a.type == DType::f64) {
    multiply_f64(problem, op);
    return true;
  }
  const auto found = cache_->prepared.find(problem);
  assert(found != cache_->prepared.end());
  return found->second.run(cache_->stream, problem, op, 0) == dnnl_success;
}

namespace {

bool is_narrow(const View& v) { return v.type == DType::bf16; }

/// Whole lines of a cache, none for what is used as it is.
int64_t floats_of(const View& v) { return is_narrow(v) ? (v.size() + 15) / 16 * 16 : 0; }

View matrix_of(const View& v, int64_t i) {
  if (v.shape.dims != 3) return v;
  return v.strided(i * v.stride[0], {v.shape[1], v.shape[2]}, {v.stride[1], v.stride[2]});
}

}  // namespace

WidenedGemm::WidenedGemm(const Gemm& op) : op_(op), product_(op) {
  const std::array views{&product_.a, &product_.b, &product_.bias, &product_.c};
  int64_t floats = 0;
  for (const View* v : views) floats += floats_of(*v);
  auto* memory = static_cast<float*>(
      scratch(Scratch::widened, static_cast<size_t>(floats * size_of(DType::f32))));
  for (View* v : views) {
    if (!is_narrow(*v)) continue;
    const int64_t taken = floats_of(*v);
    *v = View(memory, DType::f32, v->shape);
    memory += taken;
  }
  if (is_narrow(op.c)) product_.accumulate = false;
}

void WidenedGemm::widen(const Kernels& kernels) const {
  kernels(Copy{op_.a, product_.a});
  kernels(Copy{op_.b, product_.b});
  if (!op_.bias.empty()) kernels(Copy{op_.bias, product_.bias});
}

void WidenedGemm::round(const Kernels& kernels) const {
  if (is_narrow(op_.c)) kernels(Copy{product_.c, op_.c, op_.accumulate});
}

Gemm matrix_of(const Gemm& op, int64_t i) {
  Gemm one = op;
  for (View* v : {&one.a, &one.b, &one.c}) *v = matrix_of(*v, i);
  return one;
}

void each_part(const Gemm& op, const std::function<void(const Gemm&)>& f) {
  constexpr int64_t side = 1024;
  for (int64_t i = 0; i < op.m(); i += side) {
    for (int64_t j = 0; j < op.n(); j += side) {
      const int64_t rows = std::min(side, op.m() - i), cols = std::min(side, op.n() - j);
      Gemm part = op;
      part.a = op.a.sliced(op.transpose_a ? 1 : 0, i, rows);
      part.b = op.b.sliced(op.transpose_b ? 0 : 1, j, cols);
      part.c = op.c.sliced(0, i, rows).sliced(1, j, cols);
      if (!op.bias.empty()) part.bias = op.bias.sliced(0, j, cols);
      f(part);
    }
  }
}

}  // namespace frugal::kernels
