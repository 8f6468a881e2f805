#!/usr/bin/env python3
"""Frontiers of step time against peak memory over all ways to recompute, on virtual machines (docs/techniques.md).

    bench/recompute_frontier.py [PROGRAM] > results/virtual/recompute-frontier.json     (seconds)

For each model and machine what `frugal recompute` prints, with the memory that the machine has.
"""

import json
import pathlib
import sys

from program import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {
    "Llama 3 8B": "--model llama3-8b --tensor-parallel 4 --micro-batch 4",
    "Llama 3 70B": "--model llama3-70b --tensor-parallel 8 --pipeline-parallel 4 --micro-batch 2 --microbatches 16",
}
MACHINES = {"H100": "h100-dgx", "H200": "h200-hgx"}


def case(frugal, model, machine):
    flags = f"--on virtual:{MACHINES[machine]} --type bf16 --sequence-parallel {MODELS[model]}".split()
    # 3: nothing fits, which the frontier shows
    return {"model": model, "machine": machine, **json.loads(run(frugal, "recompute", *flags, "--format", "json", good=(0, 3)))}


def main(arguments):
    frugal = arguments[0] if arguments else str(ROOT / "build/release/frugal")
    cases = [case(frugal, model, machine) for model in MODELS for machine in MACHINES]
    print(json.dumps({"schema": "frugal.recompute-frontier/1", "source": "virtual", "cases": cases}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
