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


def output_of(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or ["nothing on stderr"]
        sys.exit(f"compare_steps.py: {command[0]} ended with {result.returncode}: {lines[-1]}")
    return json.loads(result.stdout)


def frugal_step(program, model, micro_batch, steps):
    """Without dropout, as PyTorch's side: what is compared is the same computation."""
    with tempfile.TemporaryDirectory() as out:
        record = output_of([program, "measure", "--model", model, "--on", "cuda", "--type", "bf16",
                            "--attention", "fused", "--dropout", "0", "--micro-batch",
                            str(micro_batch), "--steps", str(steps + 1), "--out", out, "--format",
                            "json"])
    return record["metrics"]["step_time"]["samples"], record


def pytorch_step(model, micro_batch, steps, compiled):
    command = [sys.executable, str(HERE / "pytorch_step.py"), "--model", model, "--micro-batch",
               str(micro_batch), "--steps", str(steps)] + (["--compile"] if compiled else [])
    result = output_of(command)
    return result["seconds"], result


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
    sides = {"frugal": lambda: frugal_step(arguments.frugal, model, batch, steps),
             "eager": lambda: pytorch_step(model, batch, steps, False),
             "compiled": lambda: pytorch_step(model, batch, steps, True)}
    samples, last = {side: [] for side in sides}, {}
    for _ in range(arguments.rounds):
        for side, run in sides.items():
            seconds, last[side] = run()
            samples[side].append(seconds)
    ratios = {side: ratio(samples["frugal"], samples[side]) for side in ("eager", "compiled")}
    json.dump({"schema": "frugal.step-comparison/1", "model": model, "micro_batch": batch,
               "seconds": samples, "speed_up": ratios,
               "frugal": {key: last["frugal"][key] for key in ("device", "program", "command")},
               "pytorch": {key: last["compiled"][key] for key in ("torch", "cudnn", "gpu")}},
              sys.stdout)
    print()
    for side, (value, (low, high)) in ratios.items():
        print(f"{model} batch {batch}: {value:.3f} [{low:.3f}, {high:.3f}] x {side}",
              file=sys.stderr)


if __name__ == "__main__":
    main()
