#!/usr/bin/env python3
"""Figures 6, 8, 10 and 12 of pipedream2bw2021: throughput of five systems, and of 2BW's
configurations."""

import pipedream2bw2021 as paper
import reproduction
import style

UNIT = "sequences per second"


def systems(folder, figure, model):
    """Three panels: a node, eight of them, and eight with a larger model."""
    titles = [f"{model} 2.2B, 8 GPUs", f"{model} 2.2B, 64 GPUs", f"{model} 3.8B, 64 GPUs"]
    return paper.by_system(folder, [figure + part for part in "abc"], titles,
                           f"Figure {figure.removeprefix('figure')}: throughput of five systems",
                           UNIT, "{:#.3g}")


def sweep(folder, name, heading, height):
    """A panel for each configuration of 2BW, all on one axis so that they can be compared."""
    data = paper.artifact(folder, name)
    rows = data.names("row")
    columns = sorted(data.names("column"), key=paper.number_in)
    figure, axes = style.panels(len(rows), height, heading, columns)
    for row, panel in zip(rows, axes):
        looks, errors = paper.compare(panel, data, [(row, column) for column in columns], "{:#.3g}")
        panel.set(title=f"{row}\n{errors}", xlabel=UNIT)
    end = max(panel.get_xlim()[1] for panel in axes)
    for panel in axes:
        panel.set_xlim(0, end)
    style.legend(figure, looks)
    return figure


def figure8(folder):
    return sweep(folder, "figure8",
                 "Figure 8: 2BW by pipeline depth d and microbatch b, GPT 1.3B, 64 GPUs", 5)


def figure12(folder):
    return sweep(folder, "figure12", "Figure 12: 2BW with and without recomputation, 8 GPUs", 4.2)


def main():
    args = reproduction.arguments(__doc__)
    for name, figure in {"figure6": systems(args.input, "figure6", "GPT"),
                         "figure8": figure8(args.input),
                         "figure10": systems(args.input, "figure10", "BERT"),
                         "figure12": figure12(args.input)}.items():
        style.save(figure, args.output, f"pipedream2bw2021-{name}")


if __name__ == "__main__":
    main()
