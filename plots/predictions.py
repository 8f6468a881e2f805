#!/usr/bin/env python3
"""Times that a virtual machine predicted for a GPU beside those that the GPU took.

predictions.py PREDICTED MEASURED FIGURES NAME   both are folders that bench/gpu.sh wrote; writes
                                                 FIGURES/NAME.png and .svg"""

import pathlib
import sys

import matplotlib.pyplot as plt
import style

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench/gpu"))

import check_predictions as check  # noqa: E402  (the path comes first)

FAMILIES = {"korthikanti2022": ("o", "#0072B2", "korthikanti2022: layers, one rank of eight or alone"),
            "mst2024": ("s", "#E69F00", "mst2024: heads and MLPs in mini-sequences"),
            "measure": ("^", "#009E73", "steps of whole models"), "step": ("D", "#CC79A7", "GPT-2 steps beside PyTorch")}


def draw(all_points, device):
    figure, (scatter, error) = plt.subplots(1, 2, figsize=(11, 4.6))
    figure.suptitle(f"Times of layers and steps on one {device}: predicted, then measured")
    for family, (marker, colour, label) in FAMILIES.items():
        mine = [(x, y) for name, x, y in all_points if name == family]
        look = {"marker": marker, "facecolor": colour, "edgecolor": "#000000", "linewidth": 0.5, "s": 34, "zorder": 3}
        scatter.scatter(*zip(*mine), label=f"{label} ({len(mine)})", **look)
        error.scatter([x for x, _ in mine], [100 * (y / x - 1) for x, y in mine], **look)
    ends = [min(min(p[1:]) for p in all_points) / 1.5, max(max(p[1:]) for p in all_points) * 1.5]
    scatter.plot(ends, ends, color="#000000", linewidth=0.8)
    scatter.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="predicted, s", ylabel="measured, s")
    scatter.legend(loc="upper left", fontsize=8.5)
    error.axhspan(-10, 10, facecolor=style.APART, zorder=0)
    error.axhline(0, color="#000000", linewidth=0.8)
    error.set(xscale="log", xlim=ends, xlabel="predicted, s", ylabel="measured over predicted, % (shaded: within 10)")
    for panel in (scatter, error):
        panel.grid(axis="both")
    return figure


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    predicted, measured = (check.numbers_of(pathlib.Path(folder)) for folder in sys.argv[1:3])
    device = check.lines_of(pathlib.Path(sys.argv[2]) / "records.jsonl")[0]["device"].split(",")[0]
    style.save(draw(check.paired_times(predicted, measured), device), sys.argv[3], sys.argv[4])


if __name__ == "__main__":
    main()
