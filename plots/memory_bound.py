#!/usr/bin/env python3
"""Memory-bound operations against a copy, out of cache: one point for every operation and state of
the machine. Reads comparisons that 'frugal_bench_compare memory-bound --json' wrote, one a line."""

import argparse
import pathlib
import statistics

import reproduction
import style

SCHEMA = "frugal.comparison/1"
TARGET = 0.8
LOOKS = {"slow": {**style.VIRTUAL, "marker": "s"}, "fast": {**style.MEASURED, "marker": "o"}}


def rounds(path):
    """For every case its rounds: (rate of the copy in GB/s, ratio of rates)."""
    cases = {}
    try:
        runs = reproduction.lines(path)
    except (OSError, ValueError) as error:
        reproduction.fail(f"{path}: {error}; give a file with one comparison a line")
    for run in runs:
        if run.get("schema") != SCHEMA:
            reproduction.fail(f"{path}: schema is not {SCHEMA}; give what --json wrote")
        for contest in run["contests"]:
            for ours, theirs in zip(contest["seconds"], contest["reference_seconds"]):
                copy = contest["reference_work"] / theirs
                cases.setdefault(contest["case"], []).append(
                    (copy / 1e9, contest["work"] / ours / copy))
    if not cases:
        reproduction.fail(f"{path}: no comparisons; give a file with one comparison a line")
    return cases


def medians(cases, boundary):
    """For every case the median ratio while the copy was slower than the boundary, and faster; None
    where there were fewer than five rounds."""
    def median(ratios):
        return statistics.median(ratios) if len(ratios) >= 5 else None
    return {case: {"slow": median([ratio for copy, ratio in all_rounds if copy < boundary]),
                   "fast": median([ratio for copy, ratio in all_rounds if copy >= boundary])}
            for case, all_rounds in cases.items()}


def rates(cases, boundary):
    """The tenth and ninetieth percentile of the copy's rate on either side of the boundary."""
    copies = [copy for all_rounds in cases.values() for copy, _ in all_rounds]
    def spread(values):
        if len(values) < 2:
            return "none"
        tenths = statistics.quantiles(values, n=10)
        share = round(100 * len(values) / len(copies))
        return f"{tenths[0]:.0f} to {tenths[-1]:.0f} GB/s, {share} % of rounds"
    return {"slow": spread([c for c in copies if c < boundary]),
            "fast": spread([c for c in copies if c >= boundary])}


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
    parser.add_argument("input", type=pathlib.Path, help="comparisons, one a line")
    parser.add_argument("output", help="folder for PNG and SVG files; made where it is missing")
    parser.add_argument("--boundary", type=float, default=55, metavar="GB/S",
                        help="rate of the copy that parts the machine's two states (default: 55)")
    args = parser.parse_args()
    cases = rounds(args.input)
    table = medians(cases, args.boundary)
    for state in LOOKS:
        known = {case: row[state] for case, row in table.items() if row[state]}
        missed = sorted(case for case, ratio in known.items() if ratio < TARGET)
        print(f"{state}: {len(known) - len(missed)} of {len(known)} cases reach {TARGET}; below:")
        for case in missed:
            print(f"  {case:46} {known[case]:.2f}")
    style.save(draw(table, rates(cases, args.boundary)), args.output, "memory_bound")


if __name__ == "__main__":
    main()
