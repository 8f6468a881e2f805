#pragma once
#include <array>
#include <tuple>

#include "experiments/korthikanti2022/paper.h"
#include "experiments/outcome.h"
#include "harness/artifact.h"
#include "kernels/support/error.h"

namespace frugal::korthikanti2022 {

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
RunConfig layer_config(const Model& model, const Technique& technique, int64_t k);

/// Which layers an artifact runs: on the paper's machine and on GPUs as the paper runs them,
/// smaller on the CPU.
struct LayerPlan {
  Case::What what = Case::What::module_memory;
  std::vector<std::string> models;
  std::vector<Technique> techniques;
  int64_t cpu_scale = 8;
  DType cpu_type = DType::bf16;
  std::optional<int64_t> cpu_micro_batch;  ///< the paper's otherwise
  std::vector<Technique> cuda_only = {};   ///< that are run on GPUs besides
};

/// Bytes of a kind kept after the forward pass of the layer; exact.
double bytes_kept(const Record& record, Kind kind);

/// The cases of one model in one setting.
class Layers {
 public:
  Layers(const Records& records, std::string artifact, std::string_view model, Setting setting)
      : records_(records),
        artifact_(std::move(artifact)),
        model_(model),
        setting_(std::move(setting)) {}

  const Setting& setting() const { return setting_; }

  Found find(const Technique& technique) const;
  /// Whether what is made of these techniques has a place in this setting. On GPUs the cases of an
  /// artifact are divided among two: the parallel ones may be lone ranks, the others are real. What
  /// is in one of them is not missing from the other. Nor does anything lack that is not the
  /// paper's: results may be older than it.
  template <class... T>
  bool expects(const T&... techniques) const {
    return ((recorded(techniques) || (setting_.on != "cuda" && papers(techniques))) && ...);
  }

  /// What `estimate` makes of the records of these techniques, in their order. It may throw
  /// InputError for records that do not belong together; the outcome is then failed.
  template <class F, class... T>
  Outcome observe(const F& estimate, const T&... techniques) const {
    const std::array<Found, sizeof...(T)> found{find(techniques)...};
    for (const Found& one : found)
      if (one.record == nullptr) return {{}, one.status, one.reason};
    try {
      return {std::apply([&](const auto&... f) { return estimate(*f.record...); }, found)};
    } catch (const InputError& error) {
      return {{}, Status::failed, error.what()};
    }
  }

 private:
  static bool papers(const Technique& t) { return t.attention == AttentionKind::separate; }
  bool recorded(const Technique& technique) const;

  const Records& records_;
  std::string artifact_;
  std::string model_;
  Setting setting_;
};

/// A table or figure about single transformer layers: its cases are the models of the plan by its
/// techniques, its cells what a derived class makes of them in each setting.
class LayerArtifact : public Artifact {
 public:
  LayerArtifact(std::string name, LayerPlan plan)
      : name_(std::move(name)), plan_(std::move(plan)) {}

  std::string id() const override { return std::string(paper_id) + "/" + name_; }
  std::string title() const override { return caption(name_); }
  std::vector<Case> cases(const Selection& selection) const override;
  std::vector<Cell> cells(const Records& records) const override;

 protected:
  virtual std::vector<Cell> cells_in(const Setting& setting, const Records& records) const = 0;

  const std::vector<std::string>& model_names() const { return plan_.models; }
  Layers layers(const Records& records, std::string_view model, const Setting& setting) const {
    return {records, id(), model, setting};
  }
  /// With the paper's number where there is one.
  Cell make_cell(std::string_view row, std::string_view column, std::string_view unit,
                 const Setting& setting, const Outcome& outcome) const;

 private:
  std::string name_;
  LayerPlan plan_;
};

}  // namespace frugal::korthikanti2022
