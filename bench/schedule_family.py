#!/usr/bin/env python3
"""Schedules since 1F1B: what stages hold and how long they wait, planned and executed (docs/schedules.md).

    bench/schedule_family.py [PROGRAM] > results/virtual/schedule-family.json     (seconds)

For p stages and m microbatches: planned with passes that take equal time, and executed on a virtual machine, where
stages meet before they step, and where they validate their steps after it. For several tensor-parallel sizes, with
DualPipeV's passes that stand beside each other made together and one after the other.
"""

import json
import pathlib
import re
import sys
import tempfile

from program import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ["1f1b", "interleaved", "zb-h1", "zb-h2", "interleaved-zb", "zb-v", "v-half", "v-min", "dualpipe-v"]
MACHINE = "h100-dgx"
STAGES = (4, 8, 16)
TIMES = (1, 2, 4, 8)  # microbatches over stages
TOGETHER = ("1f1b", "zb-v", "dualpipe-v --overlap-passes off", "dualpipe-v")
STEPS = 4  # of which those in the middle have a batch before them and one behind
PASS = re.compile(r"(?<![<\w])([FBIW])[\d.]+@")


def chunks_of(kind):
    """The kinds that have one chunk refuse two, and those in a V have no other number."""
    return 2 if kind.startswith("interleaved") else None


def most_held(schedule):
    """Microbatches of a stage's whole part, from a forward pass until its weights' gradients are there."""
    chunks = int(re.search(r"^chunks (\d+)", schedule, re.MULTILINE)[1])
    most = 0
    for stage in re.split(r"^stage .*$", schedule, flags=re.MULTILINE)[1:]:
        held = 0
        for letter in PASS.findall(stage):
            held += {"F": 1, "B": -1, "W": -1, "I": 0}[letter]
            most = max(most, held)
    return most / chunks


def longest_wait(drawn):
    """Of a stage between its first and last pass, where a microbatch's forward pass through a stage takes 1."""
    rows = [line.split() for line in drawn.splitlines() if re.fullmatch(r"\s*\d+(\s+[\d.]+){8}", line)]
    return max(float(row[5]) + float(row[6]) for row in rows)


def planned(frugal, kind, stages, microbatches):
    flags = ["schedule", kind, "--stages", str(stages), "--microbatches", str(microbatches)]
    flags += ["--chunks", str(chunks_of(kind))] if chunks_of(kind) else []
    return {"held": most_held(run(frugal, *flags, "--format", "text")),
            "waits": longest_wait(run(frugal, *flags))}


def executed(frugal, kind, stages, microbatches, more="", tensor=4):
    with tempfile.TemporaryDirectory() as out:
        flags = (f"measure --model llama3-8b --on virtual:{MACHINE} --type bf16 --tensor-parallel {tensor} --sequence-parallel "
                 f"--pipeline-parallel {stages} --schedule {kind} --microbatches {microbatches}")
        flags += (f" --chunks {chunks_of(kind)}" if chunks_of(kind) else "") + more
        run(frugal, *flags.split(), "--out", out)
        record = json.loads((pathlib.Path(out) / "records.jsonl").read_text())
    of_stages = record["memory"]["stages"]
    return {"step_seconds": record["metrics"]["step_time"]["median"],
            "peak_bytes": max(stage["peak"] for stage in of_stages),
            "activation_bytes": max(stage["peak_per_kind"]["activation"] for stage in of_stages),
            "mfu": record["utilization"]["mfu"]["data_sheet"]["value"], "command": f"frugal {flags}"}


def main(arguments):
    frugal = arguments[0] if arguments else str(ROOT / "build/release/frugal")
    cases = [{"schedule": kind, "stages": stages, "microbatches": stages * times,
              "planned": planned(frugal, kind, stages, stages * times),
              "executed": executed(frugal, kind, stages, stages * times),
              "validated": executed(frugal, kind, stages, stages * times, f" --steps {STEPS} --validate-steps after")}
             for kind in KINDS for stages in STAGES for times in TIMES
             if kind != "dualpipe-v" or times > 1]  # which needs two to a stage
    together = [{"schedule": kind, "tensor": tensor, "stages": stages, "microbatches": stages * times,
                 "executed": executed(frugal, kind, stages, stages * times, tensor=tensor)}
                for tensor in (2, 4, 8) for stages in (4, 8) for kind in TOGETHER for times in TIMES[1:]]
    print(json.dumps({"schema": "frugal.schedule-family/1", "source": "virtual", "machine": MACHINE, "cases": cases,
                      "together": together}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
