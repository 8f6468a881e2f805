#!/usr/bin/env python3
"""Steps by their operations, predicted and measured: where the time of a step goes, and where it goes beyond the
prediction.

  profile_tables.py PREDICTED MEASURED          folders that bench/gpu.sh wrote, with profile.jsonl: what
                                                `frugal operations --format line` says of each model"""

import contextlib
import json
import pathlib
import shlex
import statistics
import sys

FILE = "profile.jsonl"


def read(folder):
    """Whole lines; a kill may have cut the last one off."""
    path = pathlib.Path(folder) / FILE
    if not path.exists():
        sys.exit(f"profile_tables.py: {path} not found; the group profile of bench/gpu.sh writes it")
    documents = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            documents.append(json.loads(line))
    return documents


def name_of(document):
    """The model and how many layers of it, as the command says."""
    words = shlex.split(document["command"])
    model = words[words.index("--model") + 1]
    return f"{model} of {words[words.index('--layers') + 1]} layer" if "--layers" in words else model


def operations_of(document):
    """{form and size: (how many a step has, their seconds in a step)}, of all stages together."""
    found = {}
    for stage in document["stages"]:
        for each in stage["operations"]:
            size = " x ".join(map(str, each["product"])) if each["product"] else f"{each['bytes'] / 1e6:.4g} MB"
            what = f"{each['operation']} {size}"
            count, seconds = found.get(what, (0, 0))
            found[what] = count + each["count"], seconds + each["count"] * statistics.median(each["seconds"])
    return found


def step_of(document):
    """Seconds of a step whose operations are not timed."""
    return statistics.median(document["plain_step_seconds"])


def numbers_of(documents):
    """{what: (value, unit)} for check_predictions.py; of a model that was profiled again the last."""
    numbers = {}
    for document in documents:
        name, operations = f"profile of {name_of(document)}", operations_of(document)
        numbers[f"{name}: step"] = step_of(document), "s"
        numbers[f"{name}: operations together"] = sum(seconds for _, seconds in operations.values()), "s"
        numbers |= {f"{name}, {what}": (seconds, "s") for what, (_, seconds) in operations.items()}
    return numbers


def rows_of(predicted, measured):
    """[what, count, ms predicted, ms measured, difference] of two documents, the largest difference first; then all
    operations, what a step takes beyond them, and the step."""
    sides = [operations_of(document) for document in (predicted, measured)]
    taken = {what: [side.get(what, (0, 0))[1] for side in sides] for what in {**sides[0], **sides[1]}}
    counts = {what: max(side.get(what, (0, 0))[0] for side in sides) for what in taken}
    order = sorted(taken, key=lambda what: -abs(taken[what][1] - taken[what][0]))
    together = [sum(times) for times in zip(*taken.values())]
    steps = [step_of(document) for document in (predicted, measured)]
    rows = [(what, f"{counts[what]:g}", taken[what]) for what in order]
    rows += [("operations together", "", together),
             ("beyond them", "", [step - all_of for step, all_of in zip(steps, together)]), ("step", "", steps)]
    return [[what, count, *(f"{1e3 * seconds:.3f}" for seconds in times), f"{1e3 * (times[1] - times[0]):+.3f}"]
            for what, count, times in rows]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: profile_tables.py PREDICTED MEASURED")
    predicted, measured = ({name_of(document): document for document in read(folder)} for folder in sys.argv[1:])
    for name in predicted:
        if name in measured:
            print(f"\n{name}\n\n| operation | in a step | ms predicted | ms measured | difference |\n|---|--:|--:|--:|--:|")
            for row in rows_of(predicted[name], measured[name]):
                print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
