#!/usr/bin/env python3
"""Draws what `frugal explain --format json` says as waterfalls, one for each cell."""

import argparse
import math

import attribution
import style

LOOKS = {
    "frugal": {"facecolor": "#E69F00", "edgecolor": "#000000", "hatch": "///", "label": "frugal (virtual)"},
    "documented": {"facecolor": "#56B4E9", "edgecolor": "#000000", "label": "a documented behaviour"},
    "counted": {"facecolor": "#009E73", "edgecolor": "#000000", "label": "a counted one"},
    "supposed": {"facecolor": "#CC79A7", "edgecolor": "#000000", "hatch": "...", "label": "a supposed one"},
    "program": {"facecolor": "#F0E442", "edgecolor": "#000000", "hatch": "---", "label": "the paper's program (virtual)"},
    "left": {"facecolor": "#D55E00", "edgecolor": "#000000", "hatch": "xxx", "label": "not explained"},
    "paper": style.PAPER,
}


def draw(panel, cell):
    bars = attribution.steps_of(cell)
    panel.set_yticks(range(len(bars)), [name for name, *_ in bars])
    panel.set_ylim(len(bars) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    for row, (_, begin, end, what) in enumerate(bars):
        panel.barh(row, end - begin, 0.7, left=begin, **LOOKS[what])
        whole = what in ("frugal", "program", "paper")
        text = f"{end:.4g}" if whole else f"{end - begin:+.3g}"
        panel.annotate(text, (max(begin, end), row), xytext=(3, 0), textcoords="offset points", va="center",
                       fontsize=8.5, bbox=style.BEHIND_TEXT)
        if not whole and what != "left":
            panel.plot([end, end], [row, row + 1], color="#000000", linewidth=0.6)
    panel.set_xlim(0, panel.get_xlim()[1] * 1.12)
    panel.set_title(attribution.title_of(cell))


def figure_of(cells):
    columns = min(2, len(cells))
    lines = math.ceil(len(cells) / columns)
    steps = [attribution.steps_of(cell) for cell in cells]
    height = lines * (0.9 + 0.27 * max(map(len, steps))) + 0.8
    figure, axes = style.plt.subplots(lines, columns, figsize=(11, height), squeeze=False)
    for panel, cell in zip(axes.flat, cells):
        draw(panel, cell)
    for panel in axes.flat[len(cells):]:
        panel.set_axis_off()
    figure.suptitle("From frugal's number to the paper's, behaviour by behaviour of the paper's program")
    drawn = {what for bars in steps for *_, what in bars}
    style.legend(figure, [look for what, look in LOOKS.items() if what in drawn])
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="what `frugal explain --format json` printed")
    parser.add_argument("output", help="folder of the figures")
    parser.add_argument("name", help="of the figure's files, without a suffix")
    args = parser.parse_args()
    style.save(figure_of(attribution.read(args.input)), args.output, args.name)


if __name__ == "__main__":
    main()
