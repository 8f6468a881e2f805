#!/usr/bin/env python3
"""Memory-bound operations against a copy, out of cache: one point for every operation and state of
the machine. Reads records that 'frugal bench memory-bound' wrote, of one run or several."""

import argparse
import pathlib

import style
from memory_bound_rounds import BOUNDARY, TARGET, medians, missed, rates, rounds

LOOKS = {"slow": {**style.VIRTUAL, "marker": "s"}, "fast": {**style.MEASURED, "marker": "o"}}


def draw(table, spreads):
    names = sorted(table, key=lambda case: (case.rsplit("/", 1)[1], case))
    half = len(names) // 2
    figure, axes = style.plt.subplots(1, 2, figsize=(11, 9.5))
    for panel, part in zip(axes, (names[:half], names[half:])):
        panel.axvline(TARGET, color="#000000", linewidth=1, linestyle="--")
        for state, look in LOOKS.items():
            points = [(table[name][state], y) for y, name in enumerate(part) if table[name][state]]
            panel.scatter([ratio for ratio, _ in points], [y for _, y in points], s=34, marker=look["marker"], zorder=3,
                          facecolor=look["facecolor"], edgecolor="#000000", linewidth=0.6,
                          label=f"copy at {spreads[state]}")
        panel.set_yticks(range(len(part)), part, fontsize=8.5)
        panel.set_ylim(len(part) - 0.5, -0.5)
        panel.set_xlim(0, 1.3)
        panel.set_xlabel("bytes per second over a copy's")
        for state, look in LOOKS.items():
            for y, name in enumerate(part):
                if (table[name][state] or 0) > 1.28:
                    panel.scatter(1.28, y, s=34, marker=">", facecolor=look["facecolor"],
                                  edgecolor="#000000", linewidth=0.6, zorder=3)
    figure.suptitle("Memory-bound operations out of cache (dashed: the target; triangles: beyond)")
    handles, labels = axes[0].get_legend_handles_labels()
    strip = 0.4 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    figure.legend(handles, labels, loc="lower center", ncol=2)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=pathlib.Path, help="records.jsonl, or several of them joined")
    parser.add_argument("output", help="folder for PNG and SVG files; made where it is missing")
    parser.add_argument("--boundary", type=float, default=BOUNDARY, metavar="GB/S",
                        help="rate of the copy that parts the machine's two states (default: %(default)s)")
    args = parser.parse_args()
    cases = rounds(args.input)
    table = medians(cases, args.boundary)
    for state in LOOKS:
        known, below = missed(table, state)
        print(f"{state}: {len(known) - len(below)} of {len(known)} cases reach {TARGET}; below:")
        for case in below:
            print(f"  {case:46} {known[case]:.2f}")
    style.save(draw(table, rates(cases, args.boundary)), args.output, "memory-bound")


if __name__ == "__main__":
    main()
