#pragma once
#include "engine/config.h"
#include "experiments/paper.h"

/// What "Mini-Sequence Transformer" reports, from experiments/mst2024/paper.json, and how it
/// trains.
namespace frugal::experiments::mst2024 {

inline constexpr const char* paper_id = "mst2024";
/// What it measured, in programs/.
inline constexpr const char* papers_program = "hugging-face-2024+mini-s";
/// Program whose script keeps what the model returns while it trains.
inline constexpr const char* papers_program_with_outputs =
    "hugging-face-2024+mini-s+mini-s-benchmark";
/// Program whose data are mostly padding, as its script makes them.
inline constexpr const char* papers_program_on_padding = "hugging-face-2024+mini-s+padded-c4";
/// Program of modules alone.
inline constexpr const char* papers_modules = "mini-s+mini-s-modules";
/// The machine of all its tables, in hardware/: one A100 of 80 GB, or several.
inline constexpr const char* papers_machine = "a100-80gb";

const Paper& paper();

/// What a run keeps of its activations, and whether it computes the MLP and the output head in
/// mini-sequences. A table's columns, or rows, have these names.
struct Technique {
  const char* name;
  Recompute recompute;
  bool mini_sequences;
};
inline constexpr Technique vanilla{"vanilla", Recompute::none, false};
inline constexpr Technique recomputation{"activation recomputation", Recompute::full, false};
inline constexpr Technique mini_sequence{"mini-sequence", Recompute::full, true};
inline constexpr Technique mini_sequence_alone{"mini-sequence without recomputation",
                                               Recompute::none, true};

/// Where a gradient is: used by the step in the backward pass as soon as it is complete, kept until
/// the backward pass ends, or kept from one microbatch to the next, of which there are two.
enum class Gradients : uint8_t { stepped, resident, accumulated };

/// A training step as the paper has it (section "setup" of paper.json): one sequence, bf16 weights,
/// gradients and moments without a float32 master copy, flash attention; mini-sequences by the
/// paper's rule.
RunConfig training_config(const std::string& model, const Technique& technique, int64_t sequence,
                          Gradients gradients = Gradients::stepped);

}  // namespace frugal::experiments::mst2024
