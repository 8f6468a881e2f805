#!/usr/bin/env python3
"""Figure 5 of pipedream2bw2021 at a small machine's size, and table 1's question.

usage: pipedream2bw2021_figure5.py RECORDS OUTPUT
RECORDS is a folder whose records.jsonl bench/convergence.sh has written. Draws the training and the
held-out losses of all seeds and what is told of last words, and prints how much 2BW differs from a
schedule with a flush, with the interval of the mean over the seeds.
"""

import json
import math
import pathlib
import statistics
import sys

import style
from matplotlib import pyplot as plt

WAYS = {"flush": ("with a flush (1F1B)", "#000000", "-"),
        "2bw": ("2BW", "#D55E00", "--"),
        "predicted": ("2BW, weights predicted", "#0072B2", ":")}
# Student's t for a 95 % interval, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# What a run is judged by: its name, and the number of a record.
JUDGED = {"held-out loss, nats": lambda record: record["held_out"][-1]["loss"],
          "last words told, %": lambda record: 100 * told(record, "last_word_accuracy"),
          "their letters told, %": lambda record: 100 * told(record, "last_word_letter_accuracy")}


def told(record, metric):
    return record["metrics"][metric]["median"]


def way_of(record):
    if record["configuration"]["schedule"] != "2bw":
        return "flush"
    return "predicted" if "weight_prediction" in record["options"] else "2bw"


def model_of(model):
    kind = "BERT" if model.get("objective") == "masked-token" else "GPT"
    return f"{kind}, {model['layers']} layers, h {model['hidden_size']}, s {model['sequence_length']}"


def runs_of(folder):
    """{(model, steps, learning rate): {way: {seed: record}}}; of a case that was run again, the last."""
    runs = {}
    for line in (pathlib.Path(folder) / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        configuration = record["configuration"]
        if record["status"] == "ok" and record["held_out"] and "last_words" in record["options"]:
            case = (model_of(configuration["model"]), int(record["options"]["steps"]),
                    float(record["options"]["learning_rate"]))
            runs.setdefault(case, {}).setdefault(way_of(record), {})[configuration["seed"]] = record
    return runs


def smoothed(losses, width):
    """Means of stretches of so many steps, at the stretch's last step."""
    return [(i + width, statistics.fmean(losses[i:i + width]))
            for i in range(0, len(losses) - width + 1, width)]


def interval(values):
    """Mean, and half of its 95 % interval (none for one value)."""
    n = len(values)
    t = STUDENT.get(n - 1, STUDENT[max(STUDENT)])  # more values than that: a little too wide
    half = t * statistics.stdev(values) / math.sqrt(n) if n > 1 else None
    return statistics.fmean(values), half


def spoken(mean, half, digits):
    return f"{mean:+.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def difference(ways, way, number):
    """A way's numbers less those with a flush, by pairs of runs with the same seed."""
    seeds = sorted(set(ways["flush"]) & set(ways[way]))
    return interval([number(ways[way][seed]) - number(ways["flush"][seed]) for seed in seeds])


def print_comparison(case, ways):
    for name, number in JUDGED.items():
        for way in ways:
            mean, half = interval([number(record) for record in ways[way].values()])
            text = f"{case}: {name}, {WAYS[way][0]}: {mean:.4f}" + ("" if half is None else f" ± {half:.4f}")
            if way != "flush" and "flush" in ways:
                text += f"; less that with a flush {spoken(*difference(ways, way, number), 4)}"
            print(f"{text} ({len(ways[way])} seeds)")


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
    figure, axes = plt.subplots(len(runs), 3, figsize=(12, 3.4 * len(runs)), squeeze=False,
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
