#!/usr/bin/env python3
"""Table 5 of korthikanti2022: utilization recomputed from the paper's own iteration times."""

import reproduction
import style

MODELS = ["22B", "175B", "530B", "1T"]


def main():
    args = reproduction.arguments(__doc__)
    data = reproduction.read(args.input, "korthikanti2022/table5")
    columns = ("MFU", "HFU", "throughput increase")
    origin = data.origins("formula", MODELS, columns)[-1]  # a formula is the same everywhere
    formula = {**style.FORMULA, "label": "equations 7 and 8 with the printed times"}
    paper = {**style.PAPER, "label": "paper (printed)"}
    figure, axes = style.panels(
        3, 4, "Table 5: sequence parallelism and selective recomputation, end to end", MODELS)
    for column, panel in zip(columns, axes):
        style.bars(panel, [(paper, [data.paper(model, column) for model in MODELS]),
                           (formula, [data.ours(model, column, origin) for model in MODELS])],
                   "{:.1f}")
        panel.set(title=column, xlabel="%")
    style.legend(figure, [paper, formula])
    style.save(figure, args.output, "korthikanti2022-table5")


if __name__ == "__main__":
    main()
