#!/usr/bin/env python3
"""Times that a virtual machine predicted for a GPU beside those that the GPU took.

predictions.py TIMES FIGURES NAME   TIMES is what bench/gpu/check_predictions.py --times printed; writes
                                    FIGURES/NAME.png and .svg"""

import json
import pathlib
import sys

import matplotlib.pyplot as plt
import style

# By what bench/gpu/check_predictions.py calls a kind of case: how its points look, and what they are.
KINDS = {"korthikanti2022": ("o", "#0072B2", "korthikanti2022: layers, one rank of eight or alone"),
            "mst2024": ("s", "#E69F00", "mst2024: heads and MLPs in mini-sequences"),
            "bench": ("v", "#56B4E9", "layers that recompute modules"),
            "measure": ("^", "#009E73", "steps of whole models"), "step": ("D", "#CC79A7", "GPT-2 steps beside PyTorch")}


def draw(all_points, device):
    figure, (scatter, error) = plt.subplots(1, 2, figsize=(11, 4.6))
    figure.suptitle(f"Times of layers and steps on one {device}: predicted, then measured")
    for kind, (marker, colour, label) in KINDS.items():
        mine = [(x, y) for name, x, y in all_points if name == kind]
        if not mine:
            continue
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
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    read = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    if unknown := {kind for kind, _, _ in read["times"]} - set(KINDS):
        raise SystemExit(f"predictions.py: nothing is drawn for {', '.join(sorted(unknown))}; add it to KINDS")
    style.save(draw(read["times"], read["device"]), sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
