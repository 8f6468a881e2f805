#!/usr/bin/env python3
"""Table 2 and figure 7 of korthikanti2022: activation memory of one transformer layer."""

import reproduction
import style

# Rows, and their lines.
TABLE2 = {
    "no parallelism": "no parallelism",
    "tensor parallel (baseline)": "tensor parallel\n(baseline)",
    "tensor + sequence parallel": "tensor + sequence\nparallel",
    "tensor parallel + selective recompute": "tensor parallel\n+ selective recompute",
    "tensor + sequence parallel + selective recompute":
        "tensor + sequence parallel\n+ selective recompute",
    "full recompute": "full recompute",
}
BYTES_IN_GIB = 1 / 2**30


def table2(folder):
    """Full size only: bytes at another scale are other bytes."""
    data = reproduction.read(folder, "korthikanti2022/table2", "virtual")
    models = data.names("column")
    paper = {**style.PAPER, "label": "paper (formula)"}
    virtual = style.looks(data.origins("virtual", TABLE2, models, "1"))
    figure, axes = style.panels(4, style.height(5.4, 1 + len(virtual)),
                                "Table 2: activations of one layer on one device", TABLE2.values())
    for model, panel in zip(models, axes):
        style.bars(panel, [(paper, [data.paper(row, model, BYTES_IN_GIB) for row in TABLE2])] +
                   [(look, [data.ours(row, model, origin, BYTES_IN_GIB) for row in TABLE2])
                    for look, origin in virtual])
        panel.set(title=model, xlabel="GiB")
    style.legend(figure, [paper] + [look for look, _ in virtual])
    return figure


def figure7(folder):
    data = reproduction.read(folder, "korthikanti2022/figure7")
    models, theirs, more = data.names("row"), data.names("column"), data.names("column", False)
    columns = theirs + more
    series = [one for source in ("virtual", "measured")
              for one in style.looks(data.origins(source, models, columns))]
    figure, axes = style.panels(
        4, style.height(5 if not more else 6.5, 1 + len(series)),
        "Figure 7: activations as a percentage of tensor parallelism alone", style.in_lines(columns))
    for model, panel in zip(models, axes):
        style.bars(panel, [(style.PAPER, [data.paper(model, column) for column in columns])] +
                   [(look, [data.ours(model, column, origin) for column in columns])
                    for look, origin in series], "{:.1f}")
        panel.set(title=model, xlabel="% of baseline")
    if more:
        style.set_apart(axes, len(theirs), "not the paper's")
    style.legend(figure, [style.PAPER] + [look for look, _ in series])
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(table2(args.input), args.output, "korthikanti2022-table2")
    style.save(figure7(args.input), args.output, "korthikanti2022-figure7")


if __name__ == "__main__":
    main()
