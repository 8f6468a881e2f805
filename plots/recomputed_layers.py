#!/usr/bin/env python3
"""What a layer keeps that recomputes modules, and what that adds to its time: predicted, and measured on a GPU.

recomputed_layers.py TIMES FIGURES NAME   TIMES is what bench/gpu/check_predictions.py --times printed; writes
                                          FIGURES/NAME.png and .svg"""

import json
import pathlib
import sys

import matplotlib.pyplot as plt
import style

GIB = 2**30
SHORT = {"core-attention": "core", "activation": "act", "projection": "proj"}


def short(modules):
    return "+".join(SHORT.get(module, module) for module in modules.split("+"))


def label_heights(points, room, near):
    """Where labels stand whose points are (x, y): `room` above what is to the left or right within `near`."""
    placed = []
    for x, y in sorted(points, key=lambda point: point[1]):
        below = [height for other, height in placed if abs(other - x) < near and height > y - room]
        placed.append((x, max([y, *(height + room for height in below)])))
    return dict(zip(sorted(points, key=lambda point: point[1]), (height for _, height in placed)))


def draw_layer(panel, layer, rows):
    kept = [row["kept"] / GIB for row in rows]
    measured = [100 * row["measured"] for row in rows]
    low = [100 * (row["measured"] - row["interval"][0]) for row in rows]
    high = [100 * (row["interval"][1] - row["measured"]) for row in rows]
    ends = [row for row in rows if row["modules"] in ("none", "full")]
    panel.plot([row["kept"] / GIB for row in ends], [100 * row["measured"] for row in ends], color="#999999",
               linewidth=1, zorder=1, label="some layers none, the others full (measured)")
    panel.scatter(kept, [100 * row["predicted"] for row in rows], marker="o", s=46, facecolor="none",
                  edgecolor="#D55E00", linewidth=1.4, zorder=3, label="predicted")
    panel.errorbar(kept, measured, yerr=[low, high], fmt="o", markersize=4, color="#0072B2", capsize=2, zorder=4,
                   label="measured, 95 % interval")
    points = [(row["kept"] / GIB, 100 * row["measured"]) for row in rows]
    heights = label_heights(points, 0.035 * max(measured), 0.35 * max(kept))
    for row, point in zip(rows, points):
        panel.annotate(short(row["modules"]), point, xytext=(point[0] + 0.03 * max(kept), heights[point]), fontsize=7,
                       va="center", arrowprops={"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2},
                       bbox=style.BEHIND_TEXT)
    panel.set(title=layer, xlabel="kept by a layer between its passes, GiB", ylabel="adds to the layer's time, %",
              xlim=(0, 1.3 * max(kept)))
    panel.grid(axis="both")


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    read = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    layers = list(dict.fromkeys(row["layer"] for row in read["recomputed"]))
    if not layers:
        raise SystemExit("recomputed_layers.py: nothing of bench/recompute is in both folders; run bench/gpu.sh techniques")
    figure, panels = plt.subplots(1, len(layers), figsize=(5.5 * len(layers), 4.6), squeeze=False)
    figure.suptitle(f"Recomputing modules of a layer on one {read['device']}")
    for panel, layer in zip(panels[0], layers):
        draw_layer(panel, layer, [row for row in read["recomputed"] if row["layer"] == layer])
    panels[0][0].legend(loc="upper right", fontsize=8)
    style.save(figure, sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
