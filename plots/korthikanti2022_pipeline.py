#!/usr/bin/env python3
"""Figures 1 and 9 of korthikanti2022: memory of whole training steps, on each GPU of a pipeline."""

import reproduction
import style

FIGURE1 = {
    "parameters and optimizer state": "parameters and\noptimizer state",
    "total, baseline": "total, baseline",
    "total, present work": "total, sequence parallel\n+ selective recompute",
}
# Everything that the fullest stage holds; the paper has no such number.
MOST = {
    "most of a stage, baseline": "fullest stage,\nbaseline",
    "most of a stage, present work": "fullest stage,\nsequence parallel\n+ selective recompute",
}
FIGURE9 = {"no deallocation": ("o", "-"), "deallocation": ("s", "--")}
CAPACITY = 80  # GiB, of an A100


def figure1(folder):
    """Full size only: a smaller model is held against no GPU of 80 GiB."""
    data = reproduction.read(folder, "korthikanti2022/figure1", "virtual")
    columns, models = FIGURE1 | MOST, data.names("row")
    virtual = style.looks(data.origins("virtual", models, columns, "1"))
    figure, axes = style.panels(4, style.height(5.6, 1 + len(virtual)),
                                "Figure 1: memory of a GPU; the dotted line is an A100's 80 GiB",
                                columns.values())
    for model, panel in zip(models, axes):
        style.bars(panel, [(style.PAPER, [data.paper(model, column) for column in columns])] +
                   [(look, [data.ours(model, column, origin) for column in columns])
                    for look, origin in virtual], "{:.1f}")
        panel.axvline(CAPACITY, color="#000000", linewidth=0.9, linestyle=":")
        panel.set(title=model, xlabel="GiB")
    style.set_apart(axes, len(FIGURE1), "not in the paper's figure")
    style.legend(figure, [style.PAPER] + [look for look, _ in virtual])
    return figure


def figure9(folder):
    data = reproduction.read(folder, "korthikanti2022/figure9", "virtual")
    ranks = sorted({int(cell["column"].removeprefix("rank ")) for cell in data.cells})
    figure, panel = style.plt.subplots(figsize=(8, 4.8))
    origins = data.origins("virtual", FIGURE9, [f"rank {rank}" for rank in ranks], "1")
    for look, origin in style.looks(origins):
        for row, (_, line) in FIGURE9.items():
            ours = [data.ours(row, f"rank {rank}", origin) for rank in ranks]
            panel.plot(ranks, [cell and cell[0] for cell in ours], line, linewidth=1.6,
                       color=look["facecolor"], label=f"{origin.label()}, {row}")
    for row, (marker, _) in FIGURE9.items():
        read = [(rank, paper[0]) for rank in ranks if (paper := data.paper(row, f"rank {rank}"))]
        panel.plot(*zip(*read), marker, markerfacecolor=style.PAPER["facecolor"],
                   markeredgecolor=style.PAPER["edgecolor"], label=f"paper, {row}")
    panel.set(title="Figure 9: activation memory of each pipeline rank, 530B", xlabel="pipeline rank",
              ylabel="GiB")
    panel.set_ylim(bottom=0)
    panel.grid(axis="both")
    panel.legend(frameon=True, facecolor="white", edgecolor="none", framealpha=1)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(figure1(args.input), args.output, "korthikanti2022-figure1")
    style.save(figure9(args.input), args.output, "korthikanti2022-figure9")


if __name__ == "__main__":
    main()
