#!/usr/bin/env python3
"""How far predicted times of whole steps were off, of each machine of hardware/ whose steps were measured or published.

    bench/prediction_errors.py            prints, as JSON, what "predictions" of each machine's file must say
    bench/prediction_errors.py --check    status 1 where a file says something else

An error is |measured / predicted - 1| of a step. Of two configurations of the same model, devices and batch it is the
same of the ratio of their steps: what is left of it where both are off by as much. `frugal plan` shows both.
"""

import collections
import itertools
import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/gpu"))

import check_predictions  # noqa: E402  (the path comes first)

MEASURED = {"h100-dgx": "nvidia-h100-80gb"}
STEPS = ("steps of whole models", "GPT-2 steps, fused attention")
PUBLISHED = ("a100-selene", "v100-p3-16xlarge")
#: Rows that have a paper's number a second time.
REPEATED = "largest batch that fits here"


def measured_steps(machine):
    """[(measured / predicted, what both have: model, layers, sequence, batch, ranks)]"""
    predicted, measured = (check_predictions.numbers_of(ROOT / "results" / side)
                           for side in (f"{MEASURED[machine]}/predicted", MEASURED[machine]))
    for what, (value, _) in predicted.items():
        if check_predictions.family_of(what) in STEPS and what in measured:
            words = what.split(": ")[0].split(", ")
            same = [word for word in words if not word.startswith(("recompute ", "shard "))]
            yield measured[what][0] / value, (check_predictions.family_of(what), *same)


def published_steps(machine):
    """The same of the cells that no parameter was fitted to; a throughput is one over a time."""
    calibration = json.loads((ROOT / f"results/virtual/calibration-{machine}.json").read_text())
    for artifact in calibration["held_out"]:
        for cell in artifact["cells"]:
            if cell["error_percent"] is None or cell["seen"] or REPEATED in cell["row"]:
                continue
            ratio = cell["paper"] / cell["value"]
            throughput = cell["unit"] != "s"
            same = cell["column"] if throughput else cell["row"]
            yield (1 / ratio if throughput else ratio), (cell["artifact"], same)


def nine_in_ten(errors):
    """The smallest that nine of ten errors do not exceed."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1]


def errors_of(steps):
    alike = collections.defaultdict(list)
    for ratio, same in steps:
        alike[same].append(ratio)
    errors = [abs(ratio - 1) for ratio, _ in steps]
    pairs = [abs(max(a, b) / min(a, b) - 1) for ratios in alike.values() for a, b in itertools.combinations(ratios, 2)]
    return {"steps": {"count": len(errors), "median": round(statistics.median(errors), 4), "largest": round(max(errors), 4)},
            "pairs": {"count": len(pairs), "median": round(statistics.median(pairs), 4),
                      "nine_in_ten": round(nine_in_ten(pairs), 4)}}


def all_errors():
    of = {machine: list(measured_steps(machine)) for machine in MEASURED}
    of |= {machine: list(published_steps(machine)) for machine in PUBLISHED}
    return {machine: errors_of(steps) for machine, steps in of.items()}


def differing(errors):
    """Machines whose files say something else than these errors."""
    for file in sorted((ROOT / "hardware").glob("*.json")):
        said = json.loads(file.read_text()).get("predictions", {})
        if {key: said.get(key) for key in ("steps", "pairs")} != errors.get(file.stem, {"steps": None, "pairs": None}):
            yield file.stem


def main(arguments):
    errors = all_errors()
    if arguments == ["--check"]:
        wrong = list(differing(errors))
        for machine in wrong:
            print(f"prediction_errors.py: hardware/{machine}.json: predictions must be {json.dumps(errors.get(machine))}",
                  file=sys.stderr)
        return 1 if wrong else 0
    print(json.dumps(errors, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
