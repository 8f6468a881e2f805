#!/usr/bin/env python3
"""What each technique adds to the model FLOPs utilization that planned training reaches on virtual machines.

planned_training.py RESULTS FIGURES   reads RESULTS/planned-training.json, which bench/planned_training.py wrote, and
                                      writes FIGURES/planned-training.png and .svg"""

import json
import pathlib
import sys

import matplotlib.pyplot as plt
import style

# From white to dark, as one technique after the other is added.
COLOURS = ("#FFFFFF", "#F0E442", "#E69F00", "#56B4E9", "#0072B2", "#CC79A7", "#009E73")
MACHINES = {"h100-dgx": "H100", "h200-hgx": "H200", "b200-dgx": "B200"}


def draw_model(panel, model, cases, steps):
    width = 0.8 / len(steps)
    for i, (step, colour) in enumerate(zip(steps, COLOURS, strict=True)):
        for group, machine in enumerate(MACHINES):
            choice = cases[model, machine, step]
            left = group + (i - (len(steps) - 1) / 2) * width
            if choice is None:
                panel.text(left, 0.5, "nothing fits", rotation=90, ha="center", va="bottom", fontsize=7)
                continue
            panel.bar(left, 100 * choice["mfu"], width, color=colour, edgecolor="#000000", linewidth=0.6,
                      label=step if group == 0 else None)
    panel.set(title=model, xlim=(-0.6, len(MACHINES) - 0.4), xticks=range(len(MACHINES)), xticklabels=MACHINES.values())
    panel.grid(axis="y")
    panel.grid(visible=False, axis="x")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    found = json.loads((pathlib.Path(sys.argv[1]) / "planned-training.json").read_text(encoding="utf-8"))
    cases = {(case["model"], case["machine"], case["step"]): case["choice"] for case in found["planned"]}
    models, _, steps = (list(dict.fromkeys(key[i] for key in cases)) for i in range(3))
    figure, panels = plt.subplots(1, len(models), figsize=(12, 4.2), sharey=True)
    figure.suptitle("Model FLOPs utilization of planned training on virtual machines, one technique after the other")
    for panel, model in zip(panels, models):
        draw_model(panel, model, cases, steps)
    lowest, highest = (100 * pick(case["published_mfu"] for case in found["published"]) for pick in (min, max))
    panels[-1].axhspan(lowest, highest, color=style.APART, zorder=0)
    panels[-1].text(2.45, highest + 0.4, "published, H100s", ha="right", fontsize=7.5)
    panels[0].set_ylabel("MFU, % of the data sheet's peak")
    panels[0].set_ylim(0, 90)
    panels[0].legend(loc="upper left", ncols=2, fontsize=8)
    style.save(figure, sys.argv[2], "planned-training")


if __name__ == "__main__":
    main()
