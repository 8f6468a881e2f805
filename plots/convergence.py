"""Runs of bench/convergence.sh: what was trained, in which way, and how much the ways differ."""

import math
import pathlib
import statistics

import reproduction

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
    for record in reproduction.lines(pathlib.Path(folder) / "records.jsonl"):
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
