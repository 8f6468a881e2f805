#!/usr/bin/env python3
"""Figure 5 of pipedream2bw2021 at a small machine's size: losses with 2BW and with a flush.

usage: pipedream2bw2021_figure5.py RECORDS OUTPUT
RECORDS is a folder whose records.jsonl bench/convergence.sh has written. Draws the training and the
held-out losses of all seeds, and prints the difference of the last held-out losses with its interval.
"""

import json
import math
import pathlib
import statistics
import sys

import style
from matplotlib import pyplot as plt

SCHEDULES = {"1f1b": ("with a flush (1F1B)", "#000000", "-"),
             "2bw": ("2BW", "#D55E00", "--")}
# Student's t for a 95 % interval, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def runs_of(folder):
    """{model: {schedule: {seed: record}}}; of a case that was run again, the last."""
    runs = {}
    for line in (pathlib.Path(folder) / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        configuration = record["configuration"]
        if record["status"] == "ok" and record["held_out"]:
            runs.setdefault(configuration["model"]["name"], {}).setdefault(
                configuration["schedule"], {})[configuration["seed"]] = record
    return runs


def smoothed(losses, width):
    """Means of stretches of so many steps, at the stretch's last step."""
    return [(i + width, statistics.fmean(losses[i:i + width]))
            for i in range(0, len(losses) - width + 1, width)]


def difference(schedules):
    """Mean of 2BW's last held-out loss less the other's over the seeds both have, half of its 95 %
    interval (none for one seed), and how many seeds these are."""
    seeds = sorted(set(schedules["1f1b"]) & set(schedules["2bw"]))
    last = {name: [schedules[name][seed]["held_out"][-1]["loss"] for seed in seeds]
            for name in SCHEDULES}
    differences = [b - a for a, b in zip(last["1f1b"], last["2bw"])]
    mean = statistics.fmean(differences)
    n = len(differences)
    half = STUDENT[n - 1] * statistics.stdev(differences) / math.sqrt(n) if n > 1 else None
    return statistics.fmean(last["1f1b"]), mean, half, n


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    runs = runs_of(sys.argv[1])
    if not runs:
        raise SystemExit(f"{sys.argv[1]}/records.jsonl has no finished run with a text; "
                         "run bench/convergence.sh")
    figure, axes = plt.subplots(len(runs), 2, figsize=(9, 3.2 * len(runs)), squeeze=False)
    for row, (model, schedules) in zip(axes, sorted(runs.items(), reverse=True)):
        for name, (label, colour, line) in SCHEDULES.items():
            for i, record in enumerate(schedules.get(name, {}).values()):
                text = label if i == 0 else None
                steps = len(record["losses"])
                row[0].plot(*zip(*smoothed(record["losses"], max(steps // 40, 1))), line,
                            color=colour, linewidth=1, label=text)
                row[1].plot([p["step"] for p in record["held_out"]],
                            [p["loss"] for p in record["held_out"]], line, color=colour,
                            linewidth=1, marker=".", markersize=4, label=text)
        if all(name in schedules for name in SCHEDULES):
            base, mean, half, seeds = difference(schedules)
            interval = "" if half is None else f" ± {half:.4f}"
            print(f"{model}: held-out loss {base:.4f} with a flush; 2BW's less that: {mean:+.4f}"
                  f"{interval} nats ({seeds} seeds, 95 % interval of the mean)")
            row[1].set_title(f"{model}: held out (2BW {mean:+.4f}{interval})")
        row[0].set_title(f"{model}: training")
        for panel in row:
            panel.set(xlabel="step", ylabel="nats")
            panel.grid(axis="both")
        row[0].legend()
    figure.suptitle("Pre-training with 2BW and with a flush, two stages on a cpu")
    style.save(figure, sys.argv[2], "pipedream2bw2021-figure5")


if __name__ == "__main__":
    main()
