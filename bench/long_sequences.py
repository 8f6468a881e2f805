#!/usr/bin/env python3
"""Four ways of dividing one long sequence among eight GPUs, on a virtual machine (docs/long-sequences.md).

    bench/long_sequences.py [PROGRAM] > results/virtual/long-sequences.json     (seconds)

For each: its command, the seconds of a step, a rank's peak of memory by kind, and how long what is sent occupies
the stream for communication, by collective, which is what `frugal trace` says of the same step.
"""

import json
import pathlib
import sys
import tempfile

from program import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEP = "--model llama3-8b --layers 4 --sequence 65536 --on virtual:a100-selene --type bf16 --recompute full".split()
WAYS = {"sequence parallelism, t = 8": "--tensor-parallel 8 --sequence-parallel",
        "Ulysses, c = 8": "--context-parallel 8 --context ulysses",
        "ring, c = 8": "--context-parallel 8 --context ring",
        "zigzag, c = 8": "--context-parallel 8 --context zigzag"}


COLLECTIVES = [f"stream: {axis}" for axis in ("communication", "sequences", "replicas", "stages")]


def communication(trace):
    """Seconds on the streams for collectives, by collective."""
    events = trace["traceEvents"]
    streams = {event["tid"] for event in events
               if event["name"] == "thread_name" and event["args"]["name"] in COLLECTIVES}
    seconds = {}
    for event in events:
        if event["ph"] == "X" and event["tid"] in streams:
            seconds[event["name"]] = seconds.get(event["name"], 0) + event["dur"] / 1e6
    return seconds


def case(frugal, name, flags, folder):
    step = [*STEP, *flags.split()]
    trace = folder / f"{flags.split()[-1].strip('-')}.json"
    run(frugal, "trace", *step, "--out-file", str(trace))
    record = json.loads(run(frugal, "measure", *step, "--out", str(trace.with_suffix("")), "--format", "json"))
    return {"case": name, "command": " ".join(["frugal", "measure", *step]),
            "step_seconds": record["metrics"]["step_time"]["median"], "peak_bytes": record["memory"]["peak_total"],
            "peak_bytes_of": record["memory"]["peak"],
            "communication_seconds": communication(json.loads(trace.read_text(encoding="utf-8")))}


def main(arguments):
    frugal = arguments[0] if arguments else str(ROOT / "build/release/frugal")
    with tempfile.TemporaryDirectory() as folder:
        cases = [case(frugal, name, flags, pathlib.Path(folder)) for name, flags in WAYS.items()]
    print(json.dumps({"schema": "frugal.long-sequences/1", "source": "virtual", "cases": cases}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
