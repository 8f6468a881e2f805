#pragma once
#include <functional>
#include <initializer_list>
#include <optional>

#include "experiments/artifacts.h"
#include "experiments/cases.h"
#include "experiments/declaration.h"
#include "experiments/korthikanti2022/paper.h"

namespace frugal::experiments::korthikanti2022 {

/// How a layer is parallelised and what it computes again: a row of table 2. `id` ends case ids.
struct Technique {
  std::string_view id;
  bool tensor_parallel;
  bool sequence_parallel;
  Recompute recompute;
  AttentionKind attention = AttentionKind::separate;  ///< the paper's
};
inline constexpr Technique serial{"serial", false, false, Recompute::none};
inline constexpr Technique baseline{"baseline", true, false, Recompute::none};
inline constexpr Technique sequence{"sequence-parallel", true, true, Recompute::none};
inline constexpr Technique selective{"selective", true, false, Recompute::selective};
inline constexpr Technique present{"sequence-parallel+selective", true, true, Recompute::selective};
inline constexpr Technique full{"full", true, false, Recompute::full};

/// The paper's parallelism without what fused attention makes superfluous. Not the paper's rows.
inline constexpr Technique fused{"fused", true, false, Recompute::none, AttentionKind::fused};
inline constexpr Technique fused_sequence{"sequence-parallel+fused", true, true, Recompute::none,
                                          AttentionKind::fused};
inline constexpr std::string_view not_the_papers =
    "not the paper's, which had no fused attention: there is no number to compare with";

/// Techniques on one device, where there is nothing to communicate: what they cost by themselves.
inline constexpr Technique alone_baseline{"baseline/t1", false, false, Recompute::none};
inline constexpr Technique alone_selective{"selective/t1", false, false, Recompute::selective};
inline constexpr Technique alone_full{"full/t1", false, false, Recompute::full};
inline constexpr Technique alone_fused{"fused/t1", false, false, Recompute::none,
                                       AttentionKind::fused};

/// A technique under the name that a table or figure gives it.
struct Named {
  std::string_view name;
  Technique technique;
};

/// A layer of a model as the paper runs it, at 1/k of its size. Throws InputError where k does not
/// divide it.
RunConfig layer_config(const Model& model, const Technique& technique, int64_t k = 1);

/// Which layers an artifact runs: on the paper's machine and on GPUs as the paper runs them,
/// smaller on the CPU.
struct LayerPlan {
  Workload observed = workload::ModuleMemory{};
  std::vector<Technique> techniques;
  std::vector<std::string> models = {};  ///< all of the paper where none are named
  int64_t cpu_scale = 8;                 ///< 0: table 4 says what the techniques cost there
  DType cpu_type = DType::bf16;
  std::optional<int64_t> cpu_micro_batch = {};  ///< the paper's otherwise
  std::vector<Technique> cuda_only = {};        ///< that are run on GPUs besides
};
Cases layer_cases(LayerPlan plan);

/// "22B/full"
std::string case_id(std::string_view model, const Technique& technique);

/// A cell of a model's layers with these techniques, as the paper has it at any size.
DeclaredCell layer_cell(std::string row, std::string column, std::string unit,
                        const std::string& model, const std::vector<Technique>& techniques,
                        Number number);

/// What a formula of the paper gives for a layer at 1/k of its model's size; nothing where k does
/// not divide that.
std::function<std::optional<double>(int64_t k)> layer_formula(
    const Model& model, const Technique& technique, std::function<int64_t(const RunConfig&)> bytes);

using Samples = std::vector<double>;

/// Samples of a layer's passes, in the order of their rounds.
Samples forward_samples(const Record& record);
Samples backward_samples(const Record& record);
/// Both together.
Samples combined(const Record& record);
/// f of the samples of each round. Throws InputError where they are not equally many.
Samples combine(const Samples& a, const Samples& b, const std::function<double(double, double)>& f);
/// Throws InputError unless the samples of all these records were taken in the same rounds: only
/// then does what slowed one of them down cancel.
void require_same_rounds(std::initializer_list<const Record*> records);

/// Whether the forward passes of two of layer_config()'s layers of a model are the same work: they
/// differ in what they compute again alone.
bool same_forward(const RunConfig& a, const RunConfig& b);
/// Throws InputError where the forward passes of two layers of which same_forward() holds differ in
/// time by more than both passes together (why_no_effect).
void require_still_forward(const Record& ours, const Record& without);

/// Bytes of a kind kept after the forward pass of the layer; exact.
double bytes_kept(const Record& record, Kind kind);

}  // namespace frugal::experiments::korthikanti2022
