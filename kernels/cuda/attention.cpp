#include "kernels/cuda/attention.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/of_process.h"
#include "kernels/philox.h"
#include "kernels/support/error.h"
#include "kernels/support/version.h"

namespace frugal::kernels {

std::string why_no_fused_attention(const FusedAttentionNeeds& needs) {
  constexpr int hopper = 9;
  // Up to this version the frontend gives the backward pass of other lengths a padding mask, beside
  // which it takes no function of the scores (scaled_dot_product_flash_attention.h).
  constexpr size_t padding = 91500;
  constexpr int64_t without_padding = 128;
  if (std::string why = cuda::why_never_fused(needs); !why.empty()) return why;
  if (needs.softcap && needs.cols % without_padding != 0 && cudnnGetVersion() <= padding)
    return fmt::format(
        "cuDNN {}'s fused attention has no backward pass with soft-capped scores over {} columns; "
        "use a multiple of {}, or install a cuDNN newer than 9.15.0",
        library_version(cudnnGetVersion()), needs.cols, without_padding);
  if (needs.softcap && why_no_gpu().empty() && gpus().front().major < hopper)
    return fmt::format(
        "cuDNN's fused attention has no backward pass with soft-capped scores on this GPU "
        "(compute capability {}, needed 9.0); run this model on the cpu or virtual",
        capability(gpus().front()));
  return "";
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(fe::error_t error, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  if (error.is_good()) return;
  throw CudaError(
      fmt::format("{} at {}: {}; run again with CUDNN_LOGLEVEL_DBG=3, which says what "
                  "the library objects to, or use --attention separate",
                  call, place(file, line), error.get_message()));
}

void check(cudnnStatus_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudaError(fmt::format("{} at {}: {}; check that libcudnn fits this GPU and driver", call,
                              place(file, line), cudnnGetErrorString(status)));
}

/// Tensors by number, so that a prepared graph can be given other addresses.
enum Id : int64_t { q, k, v, y, statistics, dy, dq, dk, dv, seed, offset };

/// A tensor as the library has it: [batch, heads, rows, d].
struct Layout {
  std::array<int64_t, 4> dims, strides;
  auto operator<=>(const Layout&) const = default;
};

/// Layout of an operand for cuDNN. If heads share keys and values, each group of them is a batch of
/// its own, [groups, heads, rows, d] beside [groups, 1, cols, d]; otherwise all matrices are heads
/// of one batch.
Layout layout_of(const FusedAttention& op, const View& view) {
  const int64_t all = view.shape[0], step = view.stride[0];
  if (view.shape.dims == 4)
    return {{all, view.shape[1], view.shape[2], view.shape[3]},
            {step, view.stride[1], view.stride[2], 1}};
  if (op.q.shape.dims == 4)
    return {{all, 1, view.shape[1], view.shape[2]}, {step, step, view.stride[1], 1}};
  return {{1, all, view.shape[1], view.shape[2]}, {all * step, step, view.stride[1], 1}};
}

Layout layout_of_statistics(const FusedAttention& op) {
  const auto [batch, heads, rows, d] = layout_of(op, op.q).dims;
  return {{batch, heads, rows, 1}, {heads * rows, rows, 1, 1}};
}

/// All that decides how an attention is prepared.
using Key = std::tuple<std::vector<Layout>, float, bool, int64_t, float, float>;

Key key_of(const FusedAttention& op, std::initializer_list<View> gradients) {
  std::vector<Layout> layouts;
  for (const View& view : {op.q, op.k, op.v, op.y}) layouts.push_back(layout_of(op, view));
  for (const View& view : gradients) layouts.push_back(layout_of(op, view));
  return {layouts,   op.scale,   op.causal,
          op.window, op.softcap, op.dropout.active() ? op.dropout.probability : 0};
}

template <class Tensor>
void set_layout(Tensor& tensor, const Layout& layout) {
  tensor.set_dim({layout.dims.begin(), layout.dims.end()})
      .set_stride({layout.strides.begin(), layout.strides.end()});
}

fe::graph::Tensor_attributes described(const Layout& layout, Id id) {
  auto tensor = fe::graph::Tensor_attributes().set_uid(id);
  set_layout(tensor, layout);
  return tensor;
}

Attributes input(fe::graph::Graph& graph, const FusedAttention& op, const View& view, Id id) {
  return graph.tensor(described(layout_of(op, view), id));
}

fe::graph::Tensor_attributes described_statistics(const FusedAttention& op) {
  return described(layout_of_statistics(op), statistics).set_data_type(fe::DataType_t::FLOAT);
}

void make_output(const Attributes& tensor, const Layout& layout, Id id) {
  tensor->set_output(true).set_uid(id);
  set_layout(*tensor, layout);
}

/// Number of columns up to its own that a row sees at most.
std::optional<int64_t> window_of(const FusedAttention& op) {
  return op.window > 0 && op.window < op.rows() ? std::optional(op.window) : std::nullopt;
}

/// Sets the function of the scores. Beside one the library takes no mask of its own, so that the
/// function is both: what becomes of a score, and then which are seen. A score that is not seen has
/// probability 0, and so has its gradient.
template <class Options>
void cap_scores(const FusedAttention& op, const Attributes& cap, Options& options) {
  namespace modifiers = fe::graph::attn::score_modifiers;
  using Graph = std::shared_ptr<fe::graph::Graph>;
  const auto softcap = std::make_shared<modifiers::Softcap>();
  const auto mask = [causal = op.causal, window = window_of(op), rows = op.rows(),
                     cols = op.cols()](const Graph& graph, const Attributes& scores) {
    if (!causal) return scores;
    return modifiers::sliding_window_mask(graph, scores, fe::DiagonalAlignment_t::TOP_LEFT, window,
                                          0, rows, cols, nullptr, nullptr);
  };
  options.set_score_mod([=](const Graph& graph, const Attributes& scores) {
    return mask(graph, softcap->forward(graph, scores, cap));
  });
  if constexpr (std::is_same_v<Options, fe::graph::SDPA_backward_attributes>)
    options.set_score_mod_bprop([=](const Graph& graph, const Attributes& gradient) {
      return softcap->backward(graph, gradient, cap);
    });
}

template <class Options>
void choose(fe::graph::Graph& graph, const FusedAttention& op, Options& options) {
  options.set_attn_scale(op.scale);
  if (op.softcap != 0) {
    cap_scores(op, graph.tensor(op.softcap), options);
  } else if (op.causal) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    if (const auto window = window_of(op))
      options.set_diagonal_band_left_bound(static_cast<int>(*window));
  }
  if (!op.dropout.active()) return;
  const auto word = [&](Id id) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(id)
                            .set_dim({1, 1, 1, 1})
                            .set_stride({1, 1, 1, 1})
                            .set_data_type(fe::DataType_t::INT64));
  };
  options.set_dropout(op.dropout.probability, word(seed), word(offset));
}

std::unique_ptr<fe::graph::Graph> new_graph() {
  auto graph = std::make_unique<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

std::unique_ptr<fe::graph::Graph> forward_graph(const FusedAttention& op) {
  auto graph = new_graph();
  auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
  choose(*graph, op, options);
  auto [result, sums] = graph->sdpa(input(*graph, op, op.q, q), input(*graph, op, op.k, k),
                                    input(*graph, op, op.v, v), options);
  make_output(result, layout_of(op, op.y), y);
  make_output(sums, layout_of_statistics(op), statistics);
  sums->set_data_type(fe::DataType_t::FLOAT);
  return graph;
}

std::unique_ptr<fe::graph::Graph> backward_graph(const FusedAttentionBackward& op) {
  const FusedAttention& f = op.forward;
  auto graph = new_graph();
  auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
  choose(*graph, f, options);
  auto [gradient_q, gradient_k, gradient_v] = graph->sdpa_backward(
      input(*graph, f, f.q, q), input(*graph, f, f.k, k), input(*graph, f, f.v, v),
      input(*graph, f, f.y, y), input(*graph, f, op.dy, dy), graph->tensor(described_statistics(f)),
      options);
  make_output(gradient_q, layout_of(f, op.dq), dq);
  make_output(gradient_k, layout_of(f, op.dk), dk);
  make_output(gradient_v, layout_of(f, op.dv), dv);
  return graph;
}

void require_possible(const FusedAttention& op) {
  const std::string why = why_no_fused_attention(needs_of(op));
  if (!why.empty()) throw InputError(why);
}

/// A seed for the library's generator that differs wherever ours would.
int64_t library_seed(const Dropout& dropout) {
  const auto words = Philox::generate(dropout.stream, static_cast<uint64_t>(dropout.index.offset));
  return static_cast<int64_t>(uint64_t{words[0]} << 32 | words[1]) & 0x7fffffffffffffff;
}

}  // namespace

std::string cudnn_version() { return library_version(cudnnGetVersion()); }

namespace {

using fe::graph::Graph;

/// cuDNN on one GPU, for as long as the process lives. A plan has the handle that it was made with,
/// and neither is for two threads at a time.
struct Library {
  /// Limit: a graph and its plan take memory of the host, and its code that of the GPU.
  static constexpr size_t most_graphs = 256;
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;  // made with the first attention: the library is long to load
  std::map<Key, std::unique_ptr<Graph>> graphs;
  std::map<cudaStream_t, cudaEvent_t> ends;  // of each stream's last attention

  template <class Make>
  Graph& graph(const Key& key, const Make& make, const Launch& on) {
    if (handle == nullptr) check(cudnnCreate(&handle), "cudnnCreate");
    if (const auto found = graphs.find(key); found != graphs.end()) return *found->second;
    if (graphs.size() == most_graphs) {  // all go, once their code is executed no more
      for (const auto& [stream, end] : ends) on.wait_for(end);
      graphs.clear();
    }
    std::unique_ptr<Graph> made = make();
    check(made->build(handle, {fe::HeurMode_t::A}), "cudnn_frontend::Graph::build");
    return *graphs.emplace(key, std::move(made)).first->second;
  }

  void issued(const Launch& on) {
    cudaEvent_t& end = ends[on.stream];
    if (end == nullptr)
      cuda::check(cudaEventCreateWithFlags(&end, cudaEventDisableTiming),
                  "cudaEventCreateWithFlags");
    cuda::check(cudaEventRecord(end, on.stream), "cudaEventRecord");
  }
};

}  // namespace

struct FusedAttentions::State {
  State(CudaMemory& memory_, int gpu) : memory(memory_), library(of_process<Library>(gpu)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { memory.deallocate(words, word_bytes); }

  template <class Make>
  void run(const FusedAttention& op, const Key& key, const Make& make,
           std::unordered_map<int64_t, void*> addresses, const Launch& on) {
    require_possible(op);
    if (words == nullptr) words = static_cast<int64_t*>(memory.allocate(word_bytes));
    const std::lock_guard lock(library.mutex);
    execute(library.graph(key, make, on), op, std::move(addresses), on);
    library.issued(on);
  }

  void execute(Graph& graph, const FusedAttention& op, std::unordered_map<int64_t, void*> addresses,
               const Launch& on) {
    check(cudnnSetStream(library.handle, on.stream), "cudnnSetStream");
    if (op.dropout.active()) {
      write_seed(on, words, library_seed(op.dropout), 0);
      addresses[seed] = words;
      addresses[offset] = words + 2;
    }
    int64_t workspace = 0;
    check(graph.get_workspace_size(workspace), "cudnn_frontend::Graph::get_workspace_size");
    void* const scratch =
        workspace == 0 ? nullptr : on.scratch->bytes(static_cast<size_t>(workspace));
    check(graph.execute(library.handle, addresses, scratch), "cudnn_frontend::Graph::execute");
    on.count_library_call();
  }

  static constexpr int64_t word_bytes = 4 * sizeof(int64_t);
  CudaMemory& memory;
  Library& library;
  int64_t* words = nullptr;  // seed and offset, 16 bytes apart
};

FusedAttentions::FusedAttentions(CudaMemory& memory, int gpu)
    : state_(std::make_unique<State>(memory, gpu)) {}
FusedAttentions::~FusedAttentions() = default;

void FusedAttentions::run(const FusedAttention& op, const Launch& on) {
  state_->run(
      op, key_of(op, {}), [&] { return forward_graph(op); },
      {{q, op.q.data},
       {k, op.k.data},
       {v, op.v.data},
       {y, op.y.data},
       {statistics, op.log_sum_exp.data}},
      on);
}

void FusedAttentions::run(const FusedAttentionBackward& op, const Launch& on) {
  const FusedAttention& f = op.forward;
  state_->run(
      f, key_of(f, {op.dy, op.dq, op.dk, op.dv}), [&] { return backward_graph(op); },
      {{q, f.q.data},
       {k, f.k.data},
       {v, f.v.data},
       {y, f.y.data},
       {statistics, f.log_sum_exp.data},
       {dy, op.dy.data},
       {dq, op.dq.data},
       {dk, op.dk.data},
       {dv, op.dv.data}},
      on);
}

}  // namespace frugal::kernels::cuda
