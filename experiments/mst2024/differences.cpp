#include "experiments/mst2024/differences.h"

#include <array>

#include "experiments/mst2024/paper.h"

namespace frugal::mst2024 {
namespace {

struct Difference {
  const char *artifact, *row, *column, *why;
};

constexpr const char* logits =
    "3 tensors of the logits' size in 2 bytes here; 6 would give the paper's number";
constexpr const char* kept =
    "3 tensors of the logits' size in 2 bytes here, where 6 agree with recomputation's number; "
    "SiLU "
    "of the gate is computed again here and supposed to be kept there; 2.6 GiB are not explained";

constexpr const char* all_parts =
    "the paper's MLP has 109 KB more for each token (its table 16); of the memory that its length "
    "leaves here (\"peak at its length\") another 5 to 7 GiB are not explained";
constexpr const char* logits_of_length =
    "bounded by the logits: 6 bytes for each here, and 17 at the paper's length";
constexpr const char* quotient =
    "a quotient of two lengths, each of them longer here: recomputation by its logits, "
    "mini-sequences by the MLP's parts, vanilla by logits and by what else a layer keeps";
constexpr const char* later_logits =
    "bounded by the logits: 6 bytes for each here, and 14 at the reported length on one H200";
constexpr const char* faster_products =
    "products have 62 % of the data sheet's rate here (gemm_fraction was fitted to another paper), "
    "and 72 % in the paper, by the steps of batches 2 and 8";
constexpr const char* slower_optimizer =
    "a step of the paper has a part of about 0.4 s that does not grow with the batch, here 0.1 s; "
    "supposed to be the optimizer, an operation for each weight";

constexpr std::array differences{
    Difference{"table2", "", "mini-sequence", all_parts},
    Difference{"table2", "", "mini-sequence / vanilla", quotient},
    Difference{"table2", "", "mini-sequence / activation recomputation", quotient},
    Difference{"table3", "gemma-2-9b", "",
               "supposed: its vanilla and recomputation had no flash attention, which did not have "
               "soft-caps at first; scores that are kept would shorten them"},
    Difference{"table3", "", "", quotient},
    Difference{"table4", "", "mini-sequence", all_parts},
    Difference{"table4", "", "activation recomputation", logits_of_length},
    Difference{"table4", "", "mini-sequence / vanilla", quotient},
    Difference{"one-h200", "baseline", "", later_logits},
    Difference{
        "one-h200", "+ activation offload", "length",
        "the reported length does not fill the memory: its peak is 126.8 GiB, here as there"},
    Difference{"one-h200", "+ tiled MLP", "",
               "29 GiB more are reported at 1.2 million tokens; a norm in float32 would take 18"},
    Difference{"eight-h100", "baseline", "", later_logits},
    Difference{"eight-h100", "+ tiled MLP", "",
               "as on one H200, whose peak is reported to be 29 GiB higher than here"},
    Difference{"eight-h100", "all", "",
               "bounded by the host's memory here, of which optimizer state takes 90 GiB for each "
               "GPU; there ZeRO-3 divides it, and what bounds the length is not reported"},
    Difference{"eight-h100", "", "length",
               "no peak is reported of these lengths, which are round numbers; on one H200 such a "
               "length did not fill the memory"},
    Difference{"table6", "llama2-7b vanilla, batch 1", "", slower_optimizer},
    Difference{"table6", "llama2-7b mini-sequence without recomputation, batch 1", "",
               slower_optimizer},
    Difference{"table6", "llama2-7b activation recomputation, batch 1", "", slower_optimizer},
    Difference{"table6", "", "", faster_products},
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
    Difference{
        "table16", "standard", "80000",
        "23 hidden states' size in the paper's, which are 6 [S, I] and 2 [S, d], and 2 [S, I] "
        "less here, where gradients take the place of what they are computed from"},
    Difference{
        "table16", "M=8", "80000",
        "18 hidden states' size in the paper's, so that most of what all parts have computed "
        "is there; here each part is computed again"},
};

bool is(const char* name, const std::string& of) { return *name == '\0' || name == of; }

}  // namespace

void explain(Cell& cell) {
  if (!cell.paper || !cell.value) return;
  for (const Difference& d : differences)
    if (std::string(paper_id) + "/" + d.artifact == cell.artifact && is(d.row, cell.row) &&
        is(d.column, cell.column)) {
      cell.reason = d.why;
      return;
    }
}

}  // namespace frugal::mst2024
