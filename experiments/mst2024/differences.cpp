#include "experiments/mst2024/differences.h"

#include <array>

#include "experiments/mst2024/paper.h"

namespace frugal::mst2024 {
namespace {

struct Difference {
  const char *artifact, *row, *column, *why;
};

constexpr const char* logits =
    "PyTorch's loss holds 6 tensors of the logits' size in 2 bytes, here 3";
constexpr const char* kept =
    "PyTorch keeps SiLU of the gate and float32 copies in its norms, and 6 tensors of the logits' "
    "size in 2 bytes, here 3";

constexpr std::array differences{
    Difference{"table6", "llama2-7b vanilla, batch 1", "",
               "a step of the paper has a part of about 0.4 s that does not grow with the batch, "
               "here 0.1 s: the optimizer, an operation for each weight"},
    Difference{"table6", "llama2-7b mini-sequence without recomputation, batch 1", "",
               "as without mini-sequences; a sequence of 4096 tokens is one part of the MLP's"},
    Difference{"tables8-11", "vanilla", "activation", kept},
    Difference{"tables8-11", "vanilla", "optimizer intermediate",
               "an update is one operation that writes over weights and moments; PyTorch's makes "
               "tensors between"},
    Difference{"tables8-11", "vanilla", "peak",
               "the paper's peak is the optimizer's: 15 + 15 + 30 + 15; here gradients have their "
               "place from the beginning, beside the activations"},
    Difference{"tables8-11", "optimizer in backward", "peak", kept},
    Difference{"tables8-11", "activation recomputation", "activation", logits},
    Difference{"tables8-11", "activation recomputation", "peak", logits},
    Difference{"tables8-11", "mini-sequence", "activation",
               "with the gradient of the output layer, which is there at the peak, it is 4.1"},
    Difference{"figure11", "standard", "peak",
               "the paper does not say what its standard is; this is the optimizer in backward"},
    Difference{"figure11", "mini-sequence", "peak",
               "tables 8 to 11 of the paper add up to 49 for the same"},
    Difference{"figure3", "llama3-8b", "vanilla / activation recomputation", logits},
    Difference{"figure3", "llama3-8b", "activation recomputation / mini-sequence", logits},
    Difference{"table13", "standard", "1024",
               "printed as 0.01 s: products at 65 % of the data sheet's rate take longer"},
    Difference{"table14", "M=16", "80000",
               "a part of the paper's holds 5 tensors of logits' size in 2 bytes, here 3; the sum "
               "of the weights' gradient over the parts is float32 here"},
    Difference{"table14", "M=32", "80000 saving",
               "the float32 sum of the weights' gradient does not become smaller with M"},
    Difference{
        "table15", "", "1024",
        "the paper's time is ten times what its GPU needs for the products; why is not known"},
    Difference{"table16", "standard", "80000",
               "the paper's holds 6 tensors [S, I], SiLU of the gate and its gradient too, where "
               "here gradients take the place of what they are computed from"},
    Difference{"table16", "M=8", "80000",
               "the paper's keeps 4 tensors [S, I] of all parts, here each part is computed again"},
};

bool is(const char* name, const std::string& of) { return *name == '\0' || name == of; }

}  // namespace

void explain(Cell& cell) {
  if (!cell.paper || !cell.value) return;
  for (const Difference& d : differences)
    if (std::string(paper_id) + "/" + d.artifact == cell.artifact && is(d.row, cell.row) &&
        is(d.column, cell.column))
      cell.reason = d.why;
}

}  // namespace frugal::mst2024
