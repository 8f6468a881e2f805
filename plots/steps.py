#!/usr/bin/env python3
"""Training steps beside PyTorch's: the table of docs/performance.md and a figure, from what
bench/compare_steps.py --on cpu wrote.

steps.py RESULTS.jsonl PAGE FIGURES [NAME]   writes the table between <!-- table NAME --> and <!-- end --> of the
                                             page, and FIGURES/NAME.png and .svg; NAME is steps"""

import pathlib
import sys

import steps_table
import style
from modern_hardware_tables import with_tables

LOOKS = {"eager": style.MORE["measured"][1], "compiled": style.MEASURED}


def draw(results):
    figure, (time, memory) = style.panels(2, 0.55 * len(results) + 1.5, "One training step over PyTorch's, by turns",
                                          [steps_table.name(r).replace(", --", ",\n--") for r in results])
    style.bars(time, [(LOOKS[side] | {"label": side}, [(r["time_over"][side]["value"], r["time_over"][side]["interval"])
                                                      for r in results]) for side in steps_table.SIDES], "{:.2f}")
    style.bars(memory, [(LOOKS[side] | {"label": side}, [(r["memory_over"][side], None) for r in results])
                        for side in steps_table.SIDES], "{:.2f}")
    for i, side in enumerate(steps_table.SIDES):
        time.scatter([steps_table.bound(r, side) for r in results], [row - 0.2 + 0.4 * i for row in range(len(results))],
                     marker="|", s=120, color="#D55E00", zorder=4)
        time.axvline(steps_table.SIDES[side], color=LOOKS[side]["facecolor"], linewidth=1, linestyle="--", zorder=0)
    memory.axvline(steps_table.MEMORY_TARGET, color="#000000", linewidth=1, linestyle="--", zorder=0)
    time.set_xlabel("time over PyTorch's\n(dashed: targets; |: products alone)")
    memory.set_xlabel("memory over PyTorch's\n(dashed: target)")
    style.legend(figure, [LOOKS[side] | {"label": f"over {side} PyTorch's"} for side in steps_table.SIDES])
    return figure


def main():
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    results, page, name = steps_table.read(sys.argv[1]), pathlib.Path(sys.argv[2]), [*sys.argv, "steps"][4]
    text = page.read_text(encoding="utf-8")
    page.write_text(with_tables(text, {name: steps_table.filling(results)}), encoding="utf-8")
    style.save(draw(results), sys.argv[3], name)


if __name__ == "__main__":
    main()
