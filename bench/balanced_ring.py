#!/usr/bin/env python3
"""How much faster a ring of two ranks is where both compute as much of causal attention (docs/techniques.md).

    balanced_ring.py OUT.json [--program FRUGAL] [--turns 10] [--steps 5] [--tokens 4096,8192]     (six minutes, two cores)

Two ranks of one thread each train a small model on long sequences: `--context ring`, where the last rank computes three
quarters of causal attention, and `--context zigzag`, where each computes half. `frugal compare --repeat` runs the two by
turns, each time in a process of its own. Beside the ratio of their step times stands what it should be: attention's share f
of a step with zigzag, which `frugal operations` times, takes 1.5 times as long with ring, and the rest as long as before,
so 1 + f/2. Both ranks need a core that nothing else uses. Needs nothing but Python.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from program import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEP = "--model llama-tiny --layers 2 --on cpu --threads 1 --context-parallel 2".split()
BOUND = 1.5  # three quarters of attention over half of it
KINDS = ("fused-attention", "merge-attention")  # what operations of attention are called


def attention_share(frugal, step):
    """Of the seconds that a rank's operations take in a step."""
    (stage,) = json.loads(run(frugal, "operations", *step, "--context", "zigzag", "--format", "json"))["stages"]
    seconds = {by["operation"]: 0 for by in stage["operations"]}
    for by in stage["operations"]:
        seconds[by["operation"]] += sum(by["seconds"])
    return sum(took for name, took in seconds.items() if name.startswith(KINDS)) / sum(seconds.values())


def case(frugal, tokens, said, folder):
    """What one length takes; `step` is what both commands have in common."""
    step = [*STEP, "--sequence", str(tokens)]
    share = attention_share(frugal, [*step, "--steps", "2"])
    sides, records = {}, {}
    for context in ("zigzag", "ring"):
        sides[context] = str(folder / f"{context}-{tokens}")
        records[context] = json.loads(run(frugal, "measure", *step, "--context", context, "--steps", str(said.steps),
                                          "--out", sides[context], "--format", "json"))
    compared = json.loads(run(frugal, "compare", sides["zigzag"], sides["ring"], "--across", "context", "--repeat",
                              str(said.turns - 1), "--format", "json"))
    (time,) = [found for found in compared["quantities"] if found["quantity"] == "step_time"]
    every = {context: [json.loads(line) for line in
                       (pathlib.Path(sides[context]) / "records.jsonl").read_text(encoding="utf-8").splitlines()]
             for context in sides}
    return {"tokens": tokens, "attention_share": share, "predicted_ratio": 1 + share / 2, "bound": BOUND,
            "time": {key: time[key] for key in ("base", "candidate", "ratio", "interval", "p", "change", "by_turns",
                                                "base_processes")},
            "commands": {context: records[context]["command"] for context in records},
            "device": records["ring"]["device"], "program": records["ring"]["program"],
            "peak_bytes": {context: records[context]["memory"]["peak_total"] for context in records},
            "step_seconds": {context: [record["metrics"]["step_time"]["samples"] for record in of]
                             for context, of in every.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--program", default=str(ROOT / "build/release/frugal"))
    parser.add_argument("--turns", type=int, default=10, help="processes of each side; an interval needs six")
    parser.add_argument("--steps", type=int, default=5, help="of a process")
    parser.add_argument("--tokens", default="4096,8192", help="lengths of sequences")
    said = parser.parse_args()
    if said.out.exists():
        print(f"balanced_ring.py: {said.out} exists; remove it or name another file", file=sys.stderr)
        return 2
    if said.turns < 2:
        print(f"balanced_ring.py: --turns is {said.turns}; it must be at least 2, and 6 for an interval", file=sys.stderr)
        return 2
    load, cases = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for tokens in map(int, said.tokens.split(",")):
            cases.append(case(said.program, tokens, said, pathlib.Path(folder)))
            time = cases[-1]["time"]
            print(f"{tokens} tokens: ring / zigzag {time['ratio']:.3f} {time['interval']}, predicted "
                  f"{cases[-1]['predicted_ratio']:.3f}", file=sys.stderr)
    said.out.write_text(json.dumps({"schema": "frugal.balanced-ring/1", "source": "measured", "turns": said.turns,
                                    "load_before": load, "cases": cases}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
