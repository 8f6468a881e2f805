#pragma once
#include <span>

#include "experiments/korthikanti2022/paper.h"
#include "harness/artifact.h"

namespace frugal::korthikanti2022 {

/// How a layer is parallelised and what it computes again: a row of table 2. `id` ends case ids.
struct Technique {
  std::string_view id;
  bool tensor_parallel;
  bool sequence_parallel;
  Recompute recompute;
};
inline constexpr Technique serial{"serial", false, false, Recompute::none};
inline constexpr Technique baseline{"baseline", true, false, Recompute::none};
inline constexpr Technique sequence{"sequence-parallel", true, true, Recompute::none};
inline constexpr Technique selective{"selective", true, false, Recompute::selective};
inline constexpr Technique present{"sequence-parallel+selective", true, true, Recompute::selective};
inline constexpr Technique full{"full", true, false, Recompute::full};

/// A technique under the name that a table or figure gives it.
struct Named {
  std::string_view name;
  Technique technique;
};

/// A layer of a model as the paper runs it, at 1/k of its size. Throws InputError where k does not
/// divide it.
RunConfig layer_config(const Model& model, const Technique& technique, int64_t k);

/// Which layers an artifact runs, on the paper's machine and, smaller, on the CPU.
struct LayerPlan {
  Case::What what = Case::What::layer_memory;
  std::vector<std::string> models;
  std::vector<Technique> techniques;
  int64_t cpu_scale = 8;
  DType cpu_type = DType::bf16;
  std::optional<int64_t> cpu_micro_batch;  ///< the paper's otherwise
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
  /// Without value; with the paper's number where there is one.
  Cell empty_cell(std::string_view row, std::string_view column, std::string_view unit,
                  const Setting& setting) const;
  /// The record of a case if it is ok; otherwise null, and the cell says why.
  const Record* record(const Records& records, std::string_view model, const Technique& technique,
                       const Setting& setting, Cell& cell) const;

 private:
  std::string name_;
  LayerPlan plan_;
};

/// Bytes of a kind kept after the forward pass of the layer.
int64_t bytes_kept(const Record& record, Kind kind);

/// A claim about a cell's number.
Claim claim_about(const Cell& cell, std::string id, std::string statement, double tolerance,
                  std::string justification);

}  // namespace frugal::korthikanti2022
