#include "experiments/mst2024/differences.h"

#include <array>

#include "experiments/mst2024/paper.h"

namespace frugal::experiments::mst2024 {
namespace {

struct Difference {
  const char *artifact, *row, *column, *why;
};

// What PyTorch takes is counted by bench/pytorch_memory.py; results/pytorch/mst2024.json has it.
constexpr const char* logits =
    "6 bytes for each logit here; in PyTorch, counted, 12 where nobody keeps them, and then 7.00 "
    "GiB "
    "of activations with recomputation";
constexpr const char* kept =
    "30.5 GiB of activations in PyTorch, counted: 12 bytes for each logit instead of 6, SiLU of "
    "the "
    "gate beside its product, and norms in float32";
constexpr const char* all_parts =
    "PyTorch, counted, takes 73.0 to 76.2 GiB of the 78.2 at the paper's lengths: its autograd "
    "keeps "
    "the MLP's parts until the layer is through, and norms in float32; here these are not kept";
constexpr const char* logits_of_length =
    "bounded by the logits: 6 bytes for each here, 16 in PyTorch, counted, of which 8.40 thousand "
    "tokens fit";
constexpr const char* later_logits =
    "bounded by the logits: 6 bytes for each here, 14 in PyTorch, counted, where the caller keeps "
    "those in bf16, as in the reported peak on one H200";
constexpr const char* round_length =
    "no peak is reported of this length, which is a round number; on one H200 such a length did "
    "not "
    "fill the memory";
constexpr const char* faster_products =
    "products have 62 % of the data sheet's rate here (gemm_fraction was fitted to another paper), "
    "and 72 % in the paper, by the steps of batches 2 and 8";
constexpr const char* slower_optimizer =
    "a step of the paper has a part of about 0.4 s that does not grow with the batch, here 0.1 s; "
    "supposed to be the optimizer, an operation for each weight";
constexpr const char* no_flash =
    "supposed: its vanilla and recomputation had no flash attention, which did not have soft-caps "
    "at "
    "first; scores that are kept would shorten them";

constexpr const char *to_vanilla = "mini-sequence / vanilla",
                     *to_recomputation = "mini-sequence / activation recomputation";

constexpr std::array differences{
    Difference{"table2", "", "mini-sequence", all_parts},
    Difference{"table2", "llama3-8b", to_vanilla,
               "16.9x in PyTorch, counted: 70.9 / 4.20 thousand"},
    Difference{
        "table2", "llama3-8b", to_recomputation,
        "4.65x in PyTorch, counted: 70.9 / 15.24 thousand, the latter bounded by 16 bytes for "
        "each logit, here 6"},
    Difference{
        "table2", "llama2-7b", to_recomputation,
        "1.64x in PyTorch, counted: 88.2 / 53.9 thousand, the latter bounded by 16 bytes for "
        "each logit, here 6"},
    Difference{"table3", "mistral-7b", to_vanilla,
               "13.8x in PyTorch, counted: 80.1 / 5.81 thousand"},
    Difference{"table3", "qwen2-7b", to_vanilla, "19.0x in PyTorch, counted: 82.8 / 4.36 thousand"},
    Difference{"table3", "gemma-2-9b", to_vanilla, no_flash},
    Difference{"table3", "gemma-2-9b", to_recomputation, no_flash},
    Difference{"table4", "", "mini-sequence", all_parts},
    Difference{"table4", "", "activation recomputation", logits_of_length},
    Difference{"table4", "llama3-8b", to_vanilla,
               "16.9x in PyTorch, counted: 39.1 / 2.32 thousand"},
    Difference{"one-h200", "baseline", "", later_logits},
    Difference{
        "one-h200", "+ activation offload", "length",
        "the reported length does not fill the memory: its peak is 126.8 GiB, here as there"},
    Difference{"one-h200", "+ tiled MLP", "",
               "29 GiB more are reported at 1.2 million tokens; a norm in float32 would take 18"},
    Difference{"eight-h100", "baseline", "", later_logits},
    Difference{"eight-h100", "+ Ulysses", "", round_length},
    Difference{"eight-h100", "+ tiled MLP", "",
               "as on one H200, whose peak is reported to be 29 GiB higher than here"},
    Difference{"eight-h100", "+ activation offload, no tiled MLP", "", round_length},
    Difference{"eight-h100", "all", "",
               "bounded by the host's memory here, of which optimizer state takes 90 GiB for each "
               "GPU; there ZeRO-3 divides it, and what bounds the length is not reported"},
    Difference{"table6", "llama3-8b activation recomputation, batch 2", "", faster_products},
    Difference{"table6", "llama3-8b mini-sequence, batch 2", "", faster_products},
    Difference{"table6", "llama3-8b mini-sequence, batch 8", "", faster_products},
    Difference{"table6", "llama2-7b mini-sequence, batch 16", "", faster_products},
    Difference{"table6", "llama2-7b vanilla, batch 1", "", slower_optimizer},
    Difference{"table6", "llama2-7b mini-sequence without recomputation, batch 1", "",
               slower_optimizer},
    Difference{"table6", "llama2-7b activation recomputation, batch 1", "", slower_optimizer},
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
    Difference{"figure3", "llama3-8b", "vanilla / activation recomputation",
               "6 bytes for each logit here, and 12 in PyTorch, counted, where nobody keeps them"},
    Difference{"figure3", "llama3-8b", "activation recomputation / mini-sequence",
               "6 bytes for each logit here, and 12 in PyTorch, counted, where nobody keeps them"},
    Difference{"table13", "standard", "1024",
               "printed as 0.01 s: products at 74 % of the data sheet's rate take longer"},
    Difference{"table13", "M=32", "1024",
               "32 tokens at a time are bound by memory: the table and the float32 sum of its "
               "gradient 32 times, at 79 % of the data sheet's bandwidth"},
    Difference{
        "table14", "M=16", "80000",
        "5 tensors of a part's logits in 2 bytes are near the paper's number, here 3; the sum "
        "of the weights' gradient over the parts is float32 here"},
    Difference{"table14", "M=32", "80000 saving",
               "the float32 sum of the weights' gradient does not become smaller with M"},
    Difference{
        "table15", "", "1024",
        "the paper's time is ten times what its GPU needs for the products; why is not known"},
    Difference{"table16", "standard", "80000",
               "14.69 GiB in PyTorch, counted, which keeps SiLU of the gate beside its product and "
               "does not write gradients over what they are computed from"},
    Difference{"table16", "M=8", "80000",
               "11.68 GiB in PyTorch, counted, where autograd keeps what all parts have computed; "
               "here each part is computed again"},
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

}  // namespace frugal::experiments::mst2024
