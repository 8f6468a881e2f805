// Matrix multiplications of a layer through the device against oneDNN's primitive executed
// directly.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "harness/peaks/peak.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

dnnl::memory::data_type type_of(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// A view as oneDNN describes it, transposed if asked.
dnnl::memory::desc described(const View& view, bool transposed) {
  const int dims = view.shape.dims;
  dnnl::memory::dims extents(view.shape.extent.begin(), view.shape.extent.begin() + dims);
  dnnl::memory::dims strides(view.stride.begin(), view.stride.begin() + dims);
  if (transposed) {
    std::swap(extents[extents.size() - 1], extents[extents.size() - 2]);
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  }
  return {extents, type_of(view.type), strides};
}

/// The same multiplication with a primitive made beforehand: what the library can do at best.
class Direct {
 public:
  explicit Direct(const Gemm& gemm) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const auto a = described(gemm.a, gemm.transpose_a), b = described(gemm.b, gemm.transpose_b);
    const auto c = described(gemm.c, false);
    dnnl::primitive_attr attributes;
    if (gemm.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    arguments_ = {{DNNL_ARG_SRC, {a, engine_, gemm.a.data}},
                  {DNNL_ARG_WEIGHTS, {b, engine_, gemm.b.data}},
                  {DNNL_ARG_DST, {c, engine_, gemm.c.data}}};
    primitive_ = dnnl::matmul({{dnnl::matmul::desc(a, b, c)}, attributes, engine_});
  }
  void operator()() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// Extents of c = op(a) · op(b), as in a layer's pass.
struct Product {
  std::string name;
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b, weight_gradient;
};

Shape matrix(int64_t batch, int64_t rows, int64_t cols, bool transposed) {
  if (transposed) std::swap(rows, cols);
  return batch == 1 ? Shape{rows, cols} : Shape{batch, rows, cols};
}

/// Those of a layer with weights.
void add_layer(const std::string& prefix, int64_t hidden, int64_t tokens,
               std::vector<Product>& all) {
  struct Weights {
    const char* name;
    int64_t in, out;
  };
  for (const auto& [what, in, out] : {Weights{"qkv", hidden, 3 * hidden},
                                      {"projection", hidden, hidden},
                                      {"mlp-up", hidden, 4 * hidden},
                                      {"mlp-down", 4 * hidden, hidden}}) {
    const std::string name = prefix + what;
    all.push_back({name + "/forward", 1, tokens, out, in, false, true, false});
    all.push_back({name + "/input-gradient", 1, tokens, in, out, false, false, false});
    all.push_back({name + "/weight-gradient", 1, out, in, tokens, true, false, true});
  }
}

std::vector<Product> products() {
  constexpr int64_t hidden = 1024, tokens = 2048, sequence = 1024, heads = 32, head_size = 64;
  constexpr int64_t between = 1536;  // no power of two: rows that lie badly in caches
  std::vector<Product> all;
  add_layer("", hidden, tokens, all);
  add_layer("h1536/", between, tokens, all);
  all.push_back({"attention/scores", heads, sequence, sequence, head_size, false, true, false});
  all.push_back({"attention/context", heads, sequence, head_size, sequence, false, false, false});
  all.push_back(
      {"attention/key-gradient", heads, sequence, head_size, sequence, true, false, false});
  return all;
}

std::vector<std::string> names_of(const std::vector<Product>& all) {
  std::vector<std::string> names;
  for (const Product& product : all) names.push_back(product.name);
  return names;
}

const Product& product_of(const std::string& name) {
  static const std::vector<Product> all = products();
  return *std::find_if(all.begin(), all.end(), [&](const Product& p) { return p.name == name; });
}

/// A product with its operands, on a device of its own.
struct Operands {
  std::unique_ptr<Cluster> alone;
  Device& device;
  Buffer a, b, c;
  Gemm gemm;

  Operands(const Target& target, DType type, const Product& p)
      : alone(one_rank(target)),
        device(alone->rank(0).device),
        a(device, type, matrix(p.batch, p.m, p.k, p.transpose_a)),
        b(device, type, matrix(p.batch, p.k, p.n, p.transpose_b)),
        c(device, p.weight_gradient ? DType::f32 : type, matrix(p.batch, p.m, p.n, false)),
        gemm{.a = a.view(),
             .b = b.view(),
             .c = c.view(),
             .bias = {},
             .transpose_a = p.transpose_a,
             .transpose_b = p.transpose_b,
             .accumulate = p.weight_gradient} {}
};

std::unique_ptr<CaseRun> run_of(const Target& target, DType type, const Product& product,
                                bool directly) {
  const auto operands = std::make_shared<Operands>(target, type, product);
  std::function<void()> work = [operands] {
    operands->device.execute(operands->gemm);
    operands->device.synchronize();
  };
  if (directly) {
    omp_set_num_threads(target.threads().value());
    work = [operands, direct = std::make_shared<Direct>(operands->gemm)] { (*direct)(); };
  }
  return std::make_unique<Timed>(operands->gemm.cost().flops, "FLOP", timed(std::move(work)));
}

}  // namespace

const Benchmark& gemm() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "gemm",
      .title = "A layer's matrix multiplications, through the device and by oneDNN directly",
      .axes = {{"type", {"f32", "bf16"}},
               {"product", names_of(products())},
               {"by", {"frugal", "oneDNN"}}},
      .at = [](const Point& point) -> std::optional<BenchmarkCase> {
        const DType type = point.at("type") == "bf16" ? DType::bf16 : DType::f32;
        BenchmarkCase found;
        found.make = [type, product = product_of(point.at("product")),
                      directly = point.at("by") == "oneDNN"](const Target& target) {
          return run_of(target, type, product, directly);
        };
        return found;
      },
      .by_turns = {"by"},
      .reference = Reference{"by", {"oneDNN"}},
      .columns = {{"GFLOP/s", metric::time, Shows::rate, 1e9},
                  {"times oneDNN's", metric::time, Shows::speed}}};
  return benchmark;
}

}  // namespace frugal::bench
