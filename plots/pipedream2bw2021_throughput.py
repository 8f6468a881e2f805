#!/usr/bin/env python3
"""Figures 6, 8, 10 and 12 of pipedream2bw2021: throughput of five systems, and of 2BW's
configurations."""

import pipedream2bw2021 as paper
import reproduction
import style

UNIT = "sequences per second"
BATCHES = [64, 128, 256, 512, 1024, 2048]
MICROBATCHES = [1, 2, 4, 8, 16]


def systems(folder, figure, model):
    """Three panels: a node, eight of them, and eight with a larger model."""
    titles = [f"{model} 2.2B, 8 GPUs", f"{model} 2.2B, 64 GPUs", f"{model} 3.8B, 64 GPUs"]
    return paper.by_system(folder, [figure + part for part in "abc"], titles,
                           f"Figure {figure.removeprefix('figure')}: throughput of five systems",
                           UNIT, "{:.3g}")


def figure8(folder):
    data = paper.artifact(folder, "figure8")
    rows = ["(d,b)=(4,1)", "(d,b)=(8,1)", "(d,b)=(8,32)"]
    figure, axes = style.panels(3, 5, "Figure 8: 2BW by pipeline depth d and microbatch b, "
                                "GPT 1.3B, 64 GPUs", [f"batch {batch}" for batch in BATCHES])
    for row, panel in zip(rows, axes):
        looks, errors = paper.compare(panel, data, [(row, f"batch {batch}") for batch in BATCHES],
                                      "{:.3g}")
        panel.set(title=f"{row}\n{errors}", xlabel=UNIT)
    style.legend(figure, looks)
    return figure


def figure12(folder):
    data = paper.artifact(folder, "figure12")
    rows = [f"GPT {size}, {how}" for size in ("1.3B", "2.2B") for how in ("recompute", "no recompute")]
    figure, axes = style.panels(4, 4.2, "Figure 12: 2BW with and without recomputation, 8 GPUs",
                                [f"microbatch {b}" for b in MICROBATCHES])
    for row, panel in zip(rows, axes):
        keys = [(row, f"microbatch {b}") for b in MICROBATCHES]
        looks, errors = paper.compare(panel, data, keys, "{:.3g}")
        panel.set(title=f"{row}\n{errors}", xlabel=UNIT)
    style.legend(figure, looks)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    for name, figure in {"figure6": systems(args.input, "figure6", "GPT"),
                         "figure8": figure8(args.input),
                         "figure10": systems(args.input, "figure10", "BERT"),
                         "figure12": figure12(args.input)}.items():
        style.save(figure, args.output, f"pipedream2bw2021-{name}")


if __name__ == "__main__":
    main()
