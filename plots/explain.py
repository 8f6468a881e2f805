#!/usr/bin/env python3
"""What `frugal explain --format json` says, drawn: from frugal's number, behaviour by behaviour, to that of the
paper's program, and what is left to the paper's."""

import argparse
import json
import math
import pathlib

import style

FRUGAL = {"facecolor": "#E69F00", "edgecolor": "#000000", "hatch": "///", "label": "frugal (virtual)"}
PROGRAM = {"facecolor": "#F0E442", "edgecolor": "#000000", "hatch": "---", "label": "the paper's program (virtual)"}
TERMS = {
    "documented": {"facecolor": "#56B4E9", "edgecolor": "#000000", "label": "a documented behaviour"},
    "counted": {"facecolor": "#009E73", "edgecolor": "#000000", "label": "a counted one"},
    "supposed": {"facecolor": "#CC79A7", "edgecolor": "#000000", "hatch": "...", "label": "a supposed one"},
}
LEFT = {"facecolor": "#D55E00", "edgecolor": "#000000", "hatch": "xxx", "label": "not explained"}
SMALL = 1e-3  # of the largest number of a cell: such terms are one bar


def steps_of(cell):
    """Bars from the top down: (name, where it begins, where it ends, look)."""
    least = SMALL * max(abs(cell[key]) for key in ("frugal", "program", "paper"))
    bars, at, small = [("frugal", 0, cell["frugal"], FRUGAL)], cell["frugal"], 0
    for term in cell["terms"]:
        if abs(term["added"]) < least:
            small += term["added"]
            continue
        bars.append((term["behaviour"], at, at + term["added"], TERMS[term["status"]]))
        at += term["added"]
    if abs(small) >= least / 10:
        bars.append(("smaller ones", at, at + small, TERMS["documented"]))
    at += small
    if not math.isclose(at, cell["program"], rel_tol=1e-9):
        raise SystemExit(f"{title_of(cell)}: the terms add up to {at}, and the program's number is {cell['program']}")
    bars.append(("the paper's program", 0, cell["program"], PROGRAM))
    bars.append(("not explained", cell["program"], cell["paper"], LEFT))
    bars.append(("the paper", 0, cell["paper"], style.PAPER))
    return bars


def title_of(cell):
    return f"{cell['artifact'].split('/')[1]}, {cell['row']}\n{cell['column']}, {cell['unit']}"


def draw(panel, cell):
    bars = steps_of(cell)
    panel.set_yticks(range(len(bars)), [name for name, *_ in bars])
    panel.set_ylim(len(bars) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    for row, (name, begin, end, look) in enumerate(bars):
        panel.barh(row, end - begin, 0.7, left=begin, **look)
        whole = begin == 0
        text = f"{end:.4g}" if whole else f"{end - begin:+.3g}"
        panel.annotate(text, (max(begin, end), row), xytext=(3, 0), textcoords="offset points", va="center",
                       fontsize=8.5, bbox=style.BEHIND_TEXT)
        if not whole and name != "not explained":
            panel.plot([end, end], [row, row + 1], color="#000000", linewidth=0.6)
    panel.set_xlim(0, panel.get_xlim()[1] * 1.12)
    panel.set_title(title_of(cell))


def figure_of(cells):
    columns = min(2, len(cells))
    lines = math.ceil(len(cells) / columns)
    most = max(len(steps_of(cell)) for cell in cells)
    figure, axes = style.plt.subplots(lines, columns, figsize=(11, lines * (0.9 + 0.27 * most) + 0.8), squeeze=False)
    looks = {}
    for panel, cell in zip(axes.flat, cells):
        draw(panel, cell)
        for *_, look in steps_of(cell):
            looks[look["label"]] = look
    for panel in axes.flat[len(cells):]:
        panel.set_axis_off()
    figure.suptitle("From frugal's number to the paper's, behaviour by behaviour of the paper's program")
    style.legend(figure, list(looks.values()))
    return figure


def read(path):
    data = json.loads(pathlib.Path(path).read_text())
    if data.get("schema") != "frugal.attribution/1":
        raise SystemExit(f"{path}: no output of `frugal explain --format json` (schema {data.get('schema')!r})")
    cells = [cell for cell in data["cells"] if cell["paper"] is not None and any(term["added"] for term in cell["terms"])]
    if not cells:
        raise SystemExit(f"{path}: no behaviour changes a cell that has a number of the paper; name another artifact")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="what `frugal explain --format json` printed")
    parser.add_argument("output", help="folder of the figures")
    parser.add_argument("name", help="of the figure's files, without a suffix")
    args = parser.parse_args()
    cells = read(args.input)
    style.save(figure_of(cells), args.output, args.name)


if __name__ == "__main__":
    main()
