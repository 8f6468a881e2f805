#!/usr/bin/env python3
"""Figures 7, 9 and 11 of pipedream2bw2021: memory of five systems, and the largest models of 2BW."""

import pipedream2bw2021 as paper
import reproduction
import style

CAPACITY = 16 * 1.024  # of a GPU, in 1000 MiB


def footprints(folder):
    figure = paper.by_system(folder, ["figure7", "figure11"],
                             ["Figure 7: GPT 2.2B, 8 GPUs", "Figure 11: BERT 2.2B, 8 GPUs"],
                             "Memory of the GPU that needs most; the dotted line is its 16 GiB",
                             "1000 MiB", "{:.1f}")
    for panel in figure.axes:
        panel.axvline(CAPACITY, color="#000000", linewidth=0.9, linestyle=":")
        panel.set_xlim(0, 1.18 * CAPACITY)
    return figure


def figure9(folder):
    data = paper.artifact(folder, "figure9")
    depths = sorted(data.names("column"), key=paper.number_in)
    figure, (panel,) = style.panels(1, 5.2, "Figure 9: the largest model that 2BW trains on as many "
                                    "GPUs of 16 GB as stages", [paper.counted(paper.number_in(d), "stage") for d in depths])
    looks, errors = paper.compare(panel, data, [(row, d) for row in data.names("row") for d in depths], "{:.1f}")
    panel.set(title=errors, xlabel="billion parameters")
    style.legend(figure, looks)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(footprints(args.input), args.output, "pipedream2bw2021-memory")
    style.save(figure9(args.input), args.output, "pipedream2bw2021-figure9")


if __name__ == "__main__":
    main()
