#!/usr/bin/env python3
"""Table 5 and figure 8 of korthikanti2022: whole iterations, and what layers' time is made of."""

import reproduction
import style

TIMES = ("full recompute", "sequence parallel + selective recompute")
RATIOS = ("throughput increase", "MFU", "HFU")
PARTS = ("forward", "backward", "recompute", "total")


def table5(folder):
    """Times differ by two orders of magnitude, so it is their errors that are drawn."""
    data = reproduction.read(folder, "korthikanti2022/table5")
    models = data.names("row")
    virtual = data.origins("virtual", models, TIMES, "1")
    looks = style.looks(virtual)
    formula = {**style.FORMULA, "label": "equations 7 and 8 with the paper's times"}
    printed = data.origins("formula", models, RATIOS)[-1]  # a formula is the same everywhere
    figure, axes = style.panels(
        5, style.height(4.6, 2 + len(looks)), "Table 5: whole iterations; nothing was fitted to them, but they had been seen",
        models)
    for column, panel in zip(TIMES, axes):
        style.bars(panel, [(look, [(cell["error_percent"], None) if (cell := data.find(m, column, origin)) else None
                                   for m in models]) for look, origin in looks], "{:+.1f}")
        panel.axvline(0, color="#000000", linewidth=0.8)
        panel.set_xlim(-12, 9)
        panel.set(title=column.replace(" + ", "\n+ "), xlabel="error of the time, %")
    for column, panel in zip(RATIOS, axes[2:]):
        style.bars(panel, [(style.PAPER, [data.paper(model, column) for model in models])] +
                   [(look, [data.ours(model, column, origin) for model in models])
                    for look, origin in looks] +
                   [(formula, [data.ours(model, column, printed) for model in models])], "{:.1f}")
        panel.set(title=column, xlabel="%")
    style.legend(figure, [style.PAPER] + [look for look, _ in looks] + [formula])
    return figure


def figure8(folder):
    data = reproduction.read(folder, "korthikanti2022/figure8", "virtual")
    bars = data.names("row")
    looks = style.looks(data.origins("virtual", bars, PARTS, "1"))
    figure, axes = style.panels(
        4, style.height(5.4, 1 + len(looks)),
        "Figure 8: time of a layer, percent of the baseline layer's; only table 4, of 22B, was fitted to",
        bars)
    for part, panel in zip(PARTS, axes):
        style.bars(panel, [(style.PAPER, [data.paper(row, part) for row in bars])] +
                   [(look, [data.ours(row, part, origin) for row in bars]) for look, origin in looks],
                   "{:.1f}")
        panel.set(title=part, xlabel="%")
    style.legend(figure, [style.PAPER] + [look for look, _ in looks])
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(table5(args.input), args.output, "korthikanti2022-table5")
    style.save(figure8(args.input), args.output, "korthikanti2022-figure8")


if __name__ == "__main__":
    main()
