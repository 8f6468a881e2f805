#!/usr/bin/env python3
"""How far predictions of published runs are off, and each of them beside what was published.

published.py RESULTS FIGURES    RESULTS/published is what bench/published.py wrote; writes published-errors and
                                published-runs"""

import pathlib
import sys

import matplotlib.pyplot as plt
import style

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import published_errors as judging  # noqa: E402  (the path comes first)

MEAN = {**style.VIRTUAL, "label": "mean magnitude"}
MOST = {**style.FORMULA, "label": "95 % are within"}
#: How the points of a set look.
LOOKS = {"llm-foundry": ("o", "#0072B2"), "megatron-ci": ("s", "#E69F00"), "others": ("v", "#56B4E9"), "simumax": ("^", "#009E73"), "torchtitan": ("D", "#CC79A7")}
UNITS = {"memory": ("GiB", 2**30), "time": ("s", 1)}


def bars(sets):
    found = {what: {f"{name}: {group}": one for name, lines in sets.items() for group, one in judging.groups(lines, what).items()}
             for what in judging.WHAT}
    labels = dict.fromkeys(label for groups in found.values() for label in groups)
    labels = sorted(labels, key=lambda label: list(sets).index(label.split(":")[0]))
    figure, panels = style.panels(2, 1.2 + 0.42 * len(labels), "Predictions of published runs: how far off they are", labels)
    for panel, (what, groups) in zip(panels, found.items()):
        series = [(look, [(100 * groups[label][key], None) if label in groups else None for label in labels])
                  for look, key in ((MEAN, "mean"), (MOST, "95 %"))]
        style.bars(panel, series, "{:.1f}")
        panel.axvline(10, color="#000000", linewidth=0.8, linestyle="--")
        panel.set_xlabel(f"{what}: magnitude of the error, % (dashed: 10)")
    style.legend(figure, [MEAN, MOST])
    return figure


def scatter(sets):
    figure, panels = plt.subplots(1, 2, figsize=(11, 5.2))
    figure.suptitle("Published runs: published, then predicted")
    for panel, what in zip(panels, judging.WHAT):
        unit, scale = UNITS[what]
        ends = []
        for name, lines in sets.items():
            points = [[line[what][side] / scale for side in ("published", "predicted")] for line in lines
                      if judging.error(line, what) is not None]
            if points:
                marker, colour = LOOKS[name]
                panel.scatter(*zip(*points), marker=marker, facecolor=colour, edgecolor="#000000", linewidth=0.4, s=26, zorder=3,
                              label=f"{name} ({len(points)})")
                ends += [value for point in points for value in point]
        ends = [min(ends, default=1) / 1.4, max(ends, default=1) * 1.4]
        panel.plot(ends, ends, color="#000000", linewidth=0.8)
        for share in (0.9, 1.1):
            panel.plot(ends, [share * end for end in ends], color="#000000", linewidth=0.8, linestyle="--")
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"{what}, published, {unit}",
                  ylabel=f"{what}, predicted, {unit} (dashed: 10 % off)")
        panel.legend(loc="upper left", fontsize=8.5)
        panel.grid(axis="both")
    return figure


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1]) / "published"
    sets = judging.read(folder)
    if not any("program" in line for lines in sets.values() for line in lines):
        raise SystemExit(f"published.py: {folder}: no predictions; make them with bench/published.py")
    style.save(bars(sets), sys.argv[2], "published-errors")
    style.save(scatter(sets), sys.argv[2], "published-runs")


if __name__ == "__main__":
    main()
