#!/usr/bin/env python3
"""GPT-2 training steps of frugal and of PyTorch, eager and compiled, on the same GPU: the three take
turns, and what is reported is the ratio of their times. One JSON object with every sample."""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def fail(who, status, stderr):
    lines = stderr.strip().splitlines() or ["nothing on stderr"]
    sys.exit(f"compare_steps.py: {who} ended with {status}: {lines[-1]}")


def frugal_steps(program, model, micro_batch, steps):
    """Without dropout, as PyTorch's side: what is compared is the same computation. The record."""
    with tempfile.TemporaryDirectory() as out:
        result = subprocess.run(
            [program, "measure", "--model", model, "--on", "cuda", "--type", "bf16", "--attention",
             "fused", "--dropout", "0", "--micro-batch", str(micro_batch), "--steps",
             str(steps + 1), "--out", out, "--format", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        fail(program, result.returncode, result.stderr)
    return json.loads(result.stdout)


class PyTorch:
    """bench/gpu/pytorch_step.py, started once: loading and compiling take longer than the steps."""

    def __init__(self, model, micro_batch):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "pytorch_step.py"), "--model", model, "--micro-batch",
             str(micro_batch)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def steps(self, kind, count):
        try:
            self.process.stdin.write(f"{kind} {count}\n")
            self.process.stdin.flush()
        except OSError:
            pass  # the answer that is missing says it
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            fail("PyTorch", self.process.wait(), self.errors.read())
        return json.loads(answer)


def ratio(ours, theirs, draws=2000):
    """Median time of theirs over ours, with a 95 % bootstrap interval over rounds: samples of one
    process share its luck, so rounds are drawn, not samples."""
    def of(rounds):
        return (statistics.median(x for i in rounds for x in theirs[i])
                / statistics.median(x for i in rounds for x in ours[i]))
    rounds, generator = range(len(ours)), random.Random(1)
    all_draws = sorted(of(generator.choices(rounds, k=len(ours))) for _ in range(draws))
    return of(rounds), (all_draws[draws // 40], all_draws[-draws // 40])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frugal", help="the program")
    parser.add_argument("--model", required=True)
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()

    model, batch, steps = arguments.model, arguments.micro_batch, arguments.steps
    pytorch = PyTorch(model, batch)
    samples = {"frugal": [], "eager": [], "compiled": []}
    try:
        for _ in range(arguments.rounds):
            taken = {kind: pytorch.steps(kind, steps) for kind in ("eager", "compiled")}
            record = frugal_steps(arguments.frugal, model, batch, steps)
            for kind, answer in taken.items():
                samples[kind].append(answer["seconds"])
            samples["frugal"].append(record["metrics"]["step_time"]["samples"])
    except KeyboardInterrupt:
        if not samples["frugal"]:
            sys.exit("compare_steps.py: stopped before the first round was complete")
    ratios = {side: ratio(samples["frugal"], samples[side]) for side in ("eager", "compiled")}
    json.dump({"schema": "frugal.step-comparison/1", "model": model, "micro_batch": batch,
               "seconds": samples, "speed_up": ratios,
               "frugal": {key: record[key] for key in ("device", "program", "command")},
               "pytorch": {key: answer[key] for key in ("torch", "cudnn", "gpu")}},
              sys.stdout)
    print()
    for side, (value, (low, high)) in ratios.items():
        print(f"{model} batch {batch}: {value:.3f} [{low:.3f}, {high:.3f}] x {side}",
              file=sys.stderr)


if __name__ == "__main__":
    main()
