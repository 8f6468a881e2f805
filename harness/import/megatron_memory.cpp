#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "engine/config.h"
#include "harness/import/megatron_reader.h"

/// What several of Megatron-LM's arguments together say of activations that are computed again, or
/// kept on the host.
namespace frugal::harness {
namespace {

/// What Megatron-LM's --recompute-modules call modules that frugal has, too.
const std::map<std::string, LayerModule> modules_of_megatron = {
    {"core_attn", LayerModule::core_attention},
    {"layernorm", LayerModule::norm},
    {"mlp", LayerModule::mlp}};

/// What frugal calls the inputs of the modules that Megatron-LM's --offload-modules names, and what
/// it offloads beside.
struct OffloadedInput {
  LayerModule module;
  std::string_view beside;
};
const std::map<std::string, OffloadedInput> offloaded_by_megatron = {
    {"attn_norm", {LayerModule::residual, "the input of the MLP's norm"}},
    {"qkv_linear", {LayerModule::norm, "the output of the MLP's norm"}},
    {"core_attn", {LayerModule::projection, ""}},
    {"attn_proj", {LayerModule::core_attention, ""}},
    {"mlp_norm", {LayerModule::residual, "the input of attention's norm"}}};

}  // namespace

void MegatronReader::read_selective_recomputation() {
  const char* const by =
      on("--recompute-activations") ? "--recompute-activations" : "--recompute-granularity";
  const char* const modules_name = "--recompute-modules";
  std::vector<std::string> asked = {"core_attn"}, others;
  if (has(modules_name)) asked = texts(modules_name);
  LayerModules modules;
  for (const std::string& name : asked) {
    const auto known = modules_of_megatron.find(name);
    if (known == modules_of_megatron.end())
      others.push_back(name);
    else
      modules.add(known->second);
  }
  if (!others.empty())
    miss(modules_name, fmt::format("frugal has no {}, and recomputes the other modules alone",
                                   fmt::join(others, ", ")));
  if (modules.empty()) return;
  out.add(said(by), "recompute", "selective");
  if (has(modules_name)) {
    out.add(said(modules_name), "recompute", "selective");
    out.add(said(modules_name), "recompute_modules", name_of(modules));
  }
  const nlohmann::json& attention =
      is_given("attention") ? options_.given.at("attention") : out.given.at("attention");
  if (attention == "fused" && modules.has(LayerModule::core_attention))
    miss(by,
         "the output of fused attention, which stays for the projection; frugal discards it with "
         "the core's statistics, and has that much memory less");
}

void MegatronReader::read_full_recomputation() {
  const char* const method_name = "--recompute-method";
  const char* const layers_name = "--recompute-num-layers";
  const int64_t together = count(layers_name).value_or(1);
  const int64_t of_stage = size("layers") / size("pipeline_parallel_size");
  const int64_t of_part = of_stage / size("chunks");
  const std::string method = word(method_name, {"uniform", "block"}, "uniform");
  const bool stage =
      method == "uniform" && together > 1 && together >= of_stage && size("chunks") == 1;
  const nlohmann::json value = stage ? "stage" : "full";
  for (const char* name :
       {"--checkpoint-activations", "--recompute-granularity", method_name, layers_name})
    if (has(name)) out.add(said(name), "recompute", value);
  if (method == "uniform" && together > 1 && !stage)
    out.add(said(layers_name), "recompute_group", together);
  if (method == "block" && together < of_part)
    out.add(said(layers_name), "recompute_layers", together);
}

void MegatronReader::read_recomputation() {
  const std::string granularity = on("--recompute-activations")
                                      ? "selective"
                                      : word("--recompute-granularity", {"full", "selective"}, "");
  if (granularity == "selective")
    read_selective_recomputation();
  else if (granularity == "full" || on("--checkpoint-activations") ||
           (has("--recompute-method") &&
            find("--recompute-method")->name != "--recompute-method"))  // the old name does
    read_full_recomputation();
  else
    for (const char* name :
         {"--recompute-granularity", "--recompute-method", "--recompute-num-layers",
          "--recompute-modules", "--checkpoint-activations"})
      if (has(name)) out.same.push_back({said(name), "nothing is recomputed"});
}

/// Reads how the loss is fused, which decides how many copies of the logits there are.
void MegatronReader::read_loss() {
  const char* const fused = "--cross-entropy-loss-fusion";
  const char* const by = "--cross-entropy-fusion-impl";
  const std::string made_by = word(by, {"native", "te", "linear"}, "native");
  const bool narrow = out.given.value("narrow_logits", false);
  if (on(fused) && made_by == "native" && !narrow) {
    // Compiled functions do not write where they read: both passes have one float32 copy more.
    for (const char* name : {fused, by})
      imitate(name, "+float32-loss",
              "its compiled kernels write a further float32 copy of the logits");
  } else {
    for (const char* name : {fused, by})
      if (has(name)) {
        if (on(fused))
          miss(name, fmt::format("a loss of {}{}, whose copies of the logits are others", made_by,
                                 narrow ? " in 16 bits" : ""));
        else
          out.same.push_back({said(name), "the loss is not fused"});
      }
  }
}

/// When the output layer computes its weights' gradients.
void MegatronReader::read_deferred_gradients() {
  const char* const name = "--defer-embedding-wgrad-compute";
  const char* const most = "--wgrad-deferral-limit";
  if (!has(name)) return;
  if (!on(name)) {
    out.same.push_back({said(name), "it is off"});
    return;
  }
  const int64_t limit = text(most) == "0" ? 0 : count(most).value_or(0);
  const int64_t microbatches = size("microbatches");
  const int64_t kept = limit > 0 ? std::min(limit, microbatches) : microbatches;
  if (is_core() && kept == microbatches) {
    imitate(name, "+deferred-head-gradients");
    if (has(most))
      out.same.push_back({said(most), "it is no fewer than there are microbatches, or all"});
    return;
  }
  const int64_t tensor_parallel = size("tensor_parallel_size");
  const bool divided = out.given.value("sequence_parallel", false);
  const auto bytes = [&](int64_t columns) {
    return bounded_product({size("sequence_length"), size("microbatch_size"), columns,
                            out.given.value("type", "f32") == "f32" ? 4 : 2}) /
           size("context_parallel_size");
  };
  miss(
      name,
      fmt::format(
          "gradients of the output layer's weights are computed behind the last microbatch: until "
          "then the last stage keeps its inputs, {} bytes, and its logits' gradients, {} bytes, of "
          "each of {} microbatches",
          bytes(size("hidden_size")) / (divided ? tensor_parallel : 1),
          bytes(size("vocabulary_size") / tensor_parallel), kept));
}

void MegatronReader::imitate(const char* name, std::string_view behaviour, std::string_view note) {
  if (!has(name)) return;
  if (program_.find(behaviour) == std::string::npos) program_ += behaviour;
  imitated_.push_back({said(name), std::string(note)});
}

/// The program of the list's time is imitated, where arguments tell it, and what single arguments
/// add to it, or take from it, in any case.
void MegatronReader::read_program() {
  const char* const no_masks = "--no-create-attention-mask-in-dataloader";
  const char* const no_sentences = "--bert-no-binary-head";
  const bool core = is_core();
  if (core && is_local()) {
    program_ += "~transformer-engine-workspace~flash-attention-copies~separate-attention-module";
    if (out.given.value("attention", "") == "separate") program_ += "+score-buffer";
    if (on("--no-masked-softmax-fusion"))
      imitate("--no-masked-softmax-fusion", "+wide-probabilities");
  } else if (core && (lower(text("--attention-backend").value_or("")) == "flash" ||
                      on("--use-flash-attn"))) {
    program_ += "+flash-attention";
  }
  if (core && on("--deterministic-mode")) imitate("--deterministic-mode", "+pytorch-deterministic");
  if (core && on("--no-gradient-accumulation-fusion"))
    imitate("--no-gradient-accumulation-fusion", "+accumulation-kernel");
  if (core && on("--log-num-zeros-in-grad"))
    imitate("--log-num-zeros-in-grad", "+megatron-zero-counts");
  if (core && on(no_sentences))
    imitate(no_sentences, "~sentence-head");
  else if (has(no_sentences))
    out.same.push_back({said(no_sentences), "frugal has no such head"});
  if (core && on("--fp16") && !on("--accumulate-allreduce-grads-in-fp32"))
    imitate("--fp16", "+narrow-sums", "gradients in 2 bytes");
  if (core && on(no_masks))
    imitate(no_masks, "~batch-masks");
  else if (has(no_masks))
    out.same.push_back({said(no_masks), core ? "it is off" : "masks are not imitated"});
  if (core && out.given.value("narrow_logits", false)) program_ += "~copied-logits";
  struct Named {
    std::string program, list;
  };
  Named base;
  if (core)
    base = {"megatron-core", "Megatron-Core"};
  else if (on("--deepspeed"))
    base = {"megatron-deepspeed-2022", "Megatron-DeepSpeed"};
  else if (is_old())
    base = {"megatron-lm-2022", "Megatron-LM before Megatron-Core"};
  std::string program = base.program + program_;
  if (program.starts_with('+')) program.erase(0, 1);
  if (program.empty()) return;
  for (const auto& one : imitated_) {
    out.add(one.said, "program", program, one.what);
    std::erase_if(out.missing, [&](const Imported::Part& part) { return part.said == one.said; });
  }
  if (base.program.empty() || is_given("program")) return;
  out.assume("program", program,
             fmt::format("the list has arguments of {}; --program otherwise", base.list));
  if (!core) return;
  out.predicts =
      "the peak of PyTorch's allocated bytes, which Megatron-LM logs as mem-max-allocated-bytes";
}

void MegatronReader::read_offloading() {
  const char* const layers_name = "--cpu-offloading-num-layers";
  const char* const fine = "--fine-grained-activation-offloading";
  const char* const modules_name = "--offload-modules";
  if (has(layers_name) && text(layers_name) == "0") {
    out.same.push_back({said(layers_name), "no layers are offloaded"});
  } else if (const auto layers = count(layers_name)) {
    out.add(said(layers_name), "offload", true);
    out.add(said(layers_name), "offload_modules", name_of(LayerModules::every()));
    out.add(said(layers_name), "offload_layers", *layers);
  }
  if (on(fine) && has(modules_name)) {
    read_offloaded_modules(fine, modules_name);
    return;
  }
  for (const char* name : {fine, modules_name})
    if (has(name)) out.same.push_back({said(name), "no modules are offloaded"});
}

LayerModules MegatronReader::offloadable() const {
  const std::string recompute = out.given.value("recompute", "none");
  if (recompute == "none") return LayerModules::every();
  if (recompute != "selective") return {};
  const auto again = out.given.find("recompute_modules");
  return LayerModules::every().without(again == out.given.end()
                                           ? RunConfig::cores
                                           : layer_modules(again->get<std::string>()).value());
}

void MegatronReader::read_offloaded_modules(const char* by, const char* name) {
  LayerModules modules;
  std::map<LayerModule, std::string_view> beside;
  std::vector<std::string> others;
  for (const std::string& asked : texts(name)) {
    const auto known = offloaded_by_megatron.find(asked);
    if (known == offloaded_by_megatron.end()) {
      others.push_back(asked);
      continue;
    }
    const auto& [module, more] = known->second;
    if (modules.has(module))
      beside.erase(module);  // both norms are named
    else if (!more.empty())
      beside[module] = more;
    modules.add(module);
  }
  if (!others.empty())
    miss(name, fmt::format("frugal has no {}, and offloads the other modules alone",
                           fmt::join(others, ", ")));
  modules = modules & offloadable();
  for (const auto& [module, more] : beside)
    if (modules.has(module)) miss(name, fmt::format("frugal offloads {} as well", more));
  if (modules.empty()) {
    for (const char* each : {by, name})
      if (others.empty() || each == by)
        out.same.push_back({said(each), "nothing that it names is kept"});
    return;
  }
  out.add(said(by), "offload", true);
  out.add(said(name), "offload_modules", name_of(modules));
}

}  // namespace frugal::harness
