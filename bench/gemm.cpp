// Matrix multiplications of a layer, forward and backward; on the processor against oneDNN's
// primitive executed directly.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "harness/peaks/products.h"
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

/// A product by its name, and where it is timed.
struct Named {
  std::string name;
  Product product;
  std::vector<DeviceKind> places;
};

struct Weights {
  const char* name;
  LinearSize size;
};

/// Names of shapes: a processor's alone; others say their sizes, tokens x inputs x outputs.
void add_layer(const std::string& prefix, const std::vector<Weights>& layer,
               const std::vector<DeviceKind>& places, std::vector<Named>& all) {
  const bool cpu = places.front() == DeviceKind::cpu;
  for (const auto& [name, size] : layer) {
    const std::string sized = fmt::format("/{}x{}x{}", size.tokens, size.in, size.out);
    for (const Product& product : products_of(size))
      all.push_back({fmt::format("{}{}{}/{}", prefix, name, cpu ? "" : sized, product.name),
                     product, places});
  }
}

/// Query, key and value, the projection, and the two of an MLP without gates.
std::vector<Weights> gpt_layer(int64_t hidden, int64_t tokens) {
  return {{"qkv", {tokens, hidden, 3 * hidden}},
          {"projection", {tokens, hidden, hidden}},
          {"mlp-up", {tokens, hidden, 4 * hidden}},
          {"mlp-down", {tokens, 4 * hidden, hidden}}};
}

/// Shapes: a processor's are small, a GPU's are of models that train on one.
std::vector<Named> products() {
  constexpr int64_t hidden = 1024, tokens = 2048, sequence = 1024, heads = 32, head_size = 64;
  constexpr int64_t between = 1536;  // no power of two: rows that lie badly in caches
  const std::vector<DeviceKind> cpu = {DeviceKind::cpu};
  const std::vector<DeviceKind> gpus = {DeviceKind::cuda, DeviceKind::simulated};
  std::vector<Named> all;
  add_layer("", gpt_layer(hidden, tokens), cpu, all);
  add_layer("h1536/", gpt_layer(between, tokens), cpu, all);
  for (const Product& of_heads :
       {Product{"scores", heads, sequence, sequence, head_size, false, true},
        Product{"context", heads, sequence, head_size, sequence, false, false},
        Product{"key-gradient", heads, sequence, head_size, sequence, true, false}})
    all.push_back({fmt::format("attention/{}", of_heads.name), of_heads, cpu});
  constexpr int64_t gpt2_vocabulary = 50304, llama_vocabulary = 128256;
  const auto with_head = [](std::vector<Weights> layer, const LinearSize& head) {
    layer.push_back({"head", head});
    return layer;
  };
  add_layer("gpt2-124m/", with_head(gpt_layer(768, 16384), {16384, 768, gpt2_vocabulary}), gpus,
            all);
  add_layer("gpt2-1.5b/", with_head(gpt_layer(1600, 4096), {4096, 1600, gpt2_vocabulary}), gpus,
            all);
  add_layer("llama3-8b/",
            {{"qkv", {8192, 4096, 6144}},
             {"projection", {8192, 4096, 4096}},
             {"mlp-up", {8192, 4096, int64_t{2} * 14336}},
             {"mlp-down", {8192, 14336, 4096}},
             {"head", {8192, 4096, llama_vocabulary}},
             // Of 60,000 tokens in 32 parts.
             {"head-part", {1875, 4096, llama_vocabulary}}},
            gpus, all);
  add_layer("22B/", gpt_layer(6144, 8192), gpus, all);
  return all;
}

std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& product : all) names.push_back(product.name);
  return names;
}

const Named& product_of(const std::string& name) {
  static const std::vector<Named> all = products();
  return *std::find_if(all.begin(), all.end(), [&](const Named& p) { return p.name == name; });
}

/// A product with its operands, on a device of its own.
struct Operands : OneDevice {
  Buffer a, b, c;
  Gemm gemm;

  Operands(const Target& target, DType type, const Product& p)
      : OneDevice(target),
        a(device, type, p.shape_of_a()),
        b(device, type, p.shape_of_b()),
        c(device, p.type_of_c(type), p.shape_of_c()),
        gemm(p.gemm(a.view(), b.view(), c.view())) {}
};

/// Executions of a sample: what is issued has to be long beside waiting for it.
int repetitions(const Target& target, const Gemm& gemm) {
  constexpr double flops = 2e12;  // some milliseconds of a GPU
  return target.kind() == DeviceKind::cpu
             ? 1
             : static_cast<int>(std::clamp(flops / gemm.cost().flops, 1.0, 50.0));
}

std::unique_ptr<CaseRun> run_of(const Target& target, DType type, const Product& product,
                                bool directly) {
  const auto operands = std::make_shared<Operands>(target, type, product);
  const int count = repetitions(target, operands->gemm);
  std::function<double()> seconds = [operands, count] {
    const auto issue = [&] {
      for (int i = 0; i < count; ++i) operands->device.execute(operands->gemm);
    };
    return operands->device.seconds_on(Stream::compute, issue) / count;
  };
  if (directly) {
    omp_set_num_threads(target.threads().value());
    seconds = timed([operands, direct = std::make_shared<Direct>(operands->gemm)] { (*direct)(); });
  }
  return std::make_unique<Timed>(operands->gemm.cost().flops, "FLOP", std::move(seconds));
}

}  // namespace

const Benchmark& gemm() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "gemm",
      .title = "A layer's matrix multiplications, on the cpu also by oneDNN directly",
      .axes = {{"type", {"f32", "bf16"}},
               {"product", names_of(products())},
               {"by", {"frugal", "oneDNN"}}},
      .at = [](const Point& point) -> std::optional<BenchmarkCase> {
        const bool directly = point.at("by") == "oneDNN";
        const Named& product = product_of(point.at("product"));
        BenchmarkCase made =
            without_model([type = type_at(point), &product, directly](const Target& target) {
              return run_of(target, type, product.product, directly);
            });
        made.only_on = directly ? std::vector{DeviceKind::cpu} : product.places;
        if (directly && product.places != made.only_on) return std::nullopt;
        return made;
      },
      .by_turns = {"by"},
      .reference = Reference{"by", {"oneDNN"}},
      .columns = {{"GFLOP/s", metric::time, Shows::rate, 1e9},
                  {"times oneDNN's", metric::time, Shows::speed}},
      .places = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::simulated}};
  return benchmark;
}

}  // namespace frugal::bench
