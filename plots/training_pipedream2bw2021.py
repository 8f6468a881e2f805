#!/usr/bin/env python3
"""Figure 5 of pipedream2bw2021 at a small machine's size, and table 1's question.

usage: training_pipedream2bw2021.py RECORDS OUTPUT
RECORDS is a folder whose records.jsonl bench/convergence.sh has written. Draws the training and the
held-out losses of all seeds and what is told of last words, and prints how much 2BW differs from a
schedule with a flush, with the interval of the mean over the seeds.
"""

import sys

import style
from convergence import JUDGED, WAYS, difference, print_comparison, runs_of, smoothed, spoken, told
from matplotlib import pyplot as plt


def draw_losses(training, held_out, ways):
    for way, (label, colour, line) in WAYS.items():
        for i, record in enumerate(ways.get(way, {}).values()):
            text = label if i == 0 else None
            width = max(len(record["losses"]) // 40, 1)
            training.plot(*zip(*smoothed(record["losses"], width)), line, color=colour, linewidth=1, label=text)
            held_out.plot([p["step"] for p in record["held_out"]], [p["loss"] for p in record["held_out"]],
                          line, color=colour, linewidth=1, marker=".", markersize=4, label=text)
    for panel in (training, held_out):
        panel.set(xlabel="step", ylabel="nats")
        panel.grid(axis="both")


def draw_letters(panel, ways):
    """A dot for each seed."""
    for i, (way, (label, colour, _)) in enumerate(WAYS.items()):
        values = [100 * told(record, "last_word_letter_accuracy") for record in ways.get(way, {}).values()]
        panel.plot([i] * len(values), values, "o", color=colour, markersize=5, fillstyle="none")
    panel.set_xticks(range(len(WAYS)), ["flush", "2BW", "predicted"])
    panel.set(xlim=(-0.6, len(WAYS) - 0.4), ylim=(0, None), ylabel="%")
    panel.grid(axis="y")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    runs = runs_of(sys.argv[1])
    if not runs:
        raise SystemExit(f"{sys.argv[1]}/records.jsonl has no finished run with a text and --last-words; "
                         "run bench/convergence.sh")
    figure, axes = plt.subplots(len(runs), 3, figsize=(10, 2.7 * len(runs)), squeeze=False,
                                width_ratios=(4, 4, 2.6))
    models_first = sorted(runs.items(), key=lambda run: (not run[0][0].startswith("GPT"), run[0]))
    for row, ((model, _, rate), ways) in zip(axes, models_first):
        case = f"{model}, learning rate {rate:g}"
        draw_losses(row[0], row[1], ways)
        draw_letters(row[2], ways)
        print_comparison(case, ways)
        row[0].set_title(case)
        title = "held out"
        if {"flush", "2bw"} <= set(ways):
            title += f": 2BW {spoken(*difference(ways, '2bw', JUDGED['held-out loss, nats']), 3)} nats"
        row[1].set_title(title)
        row[2].set_title("letters of last words told")
        row[0].legend()
    figure.suptitle("Pre-training with 2BW and with a flush: measured on a cpu, two stages\n"
                    "(differences are means over seeds with their 95 % interval)")
    style.save(figure, sys.argv[2], "pipedream2bw2021-figure5")


if __name__ == "__main__":
    main()
