#!/usr/bin/env python3
"""The products of linear layers by frugal and by torch.mm, which take turns in an order that is drawn.

  torch_products.py FRUGAL                      bf16, of the models of `frugal bench gemm`; PyTorch sees the same GPU
  torch_products.py FRUGAL --on virtual:h100-dgx
                                                a prediction: both call one library, so PyTorch's take as long

y = x Wᵀ, dx = dy W, dW = dyᵀ x in float32, and dW += dyᵀ x in float32, as the size in each case's name says:
tokens x inputs x outputs. Writes a record (docs/records.md) of each side of each product, with a median of every turn as a
sample."""

import argparse
import json
import os
import pathlib
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import step_records  # noqa: E402  (the path comes first)
import step_results  # noqa: E402
from parts import SKIPPED  # noqa: E402

ARTIFACT = "bench/torch-products"
SIDES = ("frugal", "torch")
FLOPS = 2e12  # of a sample, as in bench/gemm.cpp; between 1 and 50 executions


def frugal_turn(arguments):
    """{product: record} of frugal bench gemm."""
    with tempfile.TemporaryDirectory() as out:
        command = [arguments.frugal, "bench", "gemm", "--on", arguments.on, "--case", f"{arguments.case}/frugal",
                   "--samples", str(arguments.samples), "--budget", "0.1", "--out", out]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["nothing on stderr"]
            sys.exit(f"torch_products.py: frugal bench gemm ended with {done.returncode}: {said[-1]}")
        lines = (pathlib.Path(out) / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return {f"{record['options']['type']}/{record['options']['product']}": record for record in map(json.loads, lines)}


def size_of(product):
    """Tokens, inputs and outputs of type/model/layer/16x32x64/kind."""
    return [int(extent) for extent in product.split("/")[-2].split("x")]


class Torch:
    """PyTorch's side, on the GPU or, to try it, on a processor."""

    def __init__(self, on):
        try:
            import torch  # pylint: disable=import-outside-toplevel  # who reads records needs none
        except ImportError:
            print("torch_products.py: there is no PyTorch here", file=sys.stderr)
            sys.exit(SKIPPED)
        self.torch, self.on = torch, on
        if on == "cuda" and not torch.cuda.is_available():
            sys.exit("torch_products.py: PyTorch sees no GPU")

    def versions(self):
        found = {"torch": self.torch.__version__}
        return found | ({"cuda": self.torch.version.cuda, "gpu": self.torch.cuda.get_device_name()} if self.on == "cuda" else {})

    def call(self, product):
        """A function that computes it once, and what it calls. Where PyTorch cannot write float32 it does as its
        training does: a product in the operands' type, which is added."""
        torch, (tokens, inputs, outputs) = self.torch, size_of(product)
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[product.split("/")[0]]

        def drawn(*shape, of=kind):
            return torch.randn(shape, device=self.on, dtype=of)
        x, w, dy = drawn(tokens, inputs), drawn(outputs, inputs), drawn(tokens, outputs)
        name, wide = product.split("/")[-1], kind == torch.float32
        if name == "forward":
            return lambda: torch.mm(x, w.t()), "mm"
        if name == "input-gradient":
            return lambda: torch.mm(dy, w), "mm"
        into = drawn(outputs, inputs, of=torch.float32)
        as_float32 = {} if wide else {"out_dtype": torch.float32}
        calls = {"first-weight-gradient": [(lambda: torch.mm(dy.t(), x, **as_float32), "mm in float32"),
                                           (lambda: torch.mm(dy.t(), x), "mm")],
                 "weight-gradient": [(lambda: torch.addmm(into, dy.t(), x, **as_float32), "addmm in float32"),
                                     (lambda: into.add_(torch.mm(dy.t(), x)), "mm and add_")]}[name]
        for function, called in calls:
            try:
                function()
                return function, called
            except (RuntimeError, TypeError):
                continue
        sys.exit(f"torch_products.py: PyTorch has no product for {product}")

    def seconds(self, function, repetitions):
        """Of one execution of several in a row."""
        if self.on == "cpu":
            start = time.perf_counter()
            for _ in range(repetitions):
                function()
            return (time.perf_counter() - start) / repetitions
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repetitions):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repetitions

    def turn(self, products, samples):
        """{product: (seconds of each sample, what was called)}; memory is given back."""
        found = {}
        for product in products:
            tokens, inputs, outputs = size_of(product)
            repetitions = 1 if self.on == "cpu" else min(50, max(1, int(FLOPS / (2 * tokens * inputs * outputs))))
            function, called = self.call(product)
            self.seconds(function, repetitions)
            found[product] = [self.seconds(function, repetitions) for _ in range(samples)], called
            del function
            if self.on == "cuda":
                self.torch.cuda.empty_cache()
        return found


class Records:
    """Of both sides of each product, which grow turn by turn."""

    def __init__(self, arguments):
        self.arguments, self.of = arguments, {}
        self.shared = {"artifact": ARTIFACT, "rounds": os.urandom(8).hex(), "command": shlex.join(
            ["bench/gpu/torch_products.py", "frugal", f"--on={arguments.on}", f"--case={arguments.case}",
             f"--rounds={arguments.rounds}", f"--samples={arguments.samples}", f"--seed={arguments.seed}"])}

    def add(self, about, product, by, seconds, **options):
        """A turn; frugal's record of the product is what it is `about`."""
        tokens, inputs, outputs = size_of(product)
        if (product, by) not in self.of:
            options |= {"product": product, "by": by, "seed": self.arguments.seed, "samples": self.arguments.samples}
            self.of[product, by] = step_records.new(about, f"{product}/{by}", options, program=about["program"], **self.shared)
        step_records.count(self.of[product, by], "work", "FLOP", 2 * tokens * inputs * outputs)
        step_records.add(self.of[product, by], "time", "s", statistics.median(seconds))


def measure(arguments, torch, records):
    """All rounds. PyTorch takes its first turn behind frugal's, which says what there is; where there is no PyTorch, its
    turns are predicted."""
    abouts = {}
    for number in range(arguments.rounds):
        order = random.Random(f"{arguments.seed} {number}").sample(SIDES, 2) if number else SIDES
        for side in order:
            if side == "frugal":
                abouts = frugal_turn(arguments)
                taken = {product: [record["metrics"]["time"]["samples"], {}] for product, record in abouts.items()}
            elif torch is None:
                taken = {product: [record["metrics"]["time"]["samples"], {"call": "predicted to be frugal's"}]
                         for product, record in abouts.items()}
            else:
                taken = {product: [seconds, {"call": called, **torch.versions()}]
                         for product, (seconds, called) in torch.turn(list(abouts), arguments.samples).items()}
            for product, (seconds, options) in taken.items():
                records.add(abouts[product], product, side, seconds, **options)


def numbers_of(records):
    """{what: (value, unit)} for check_predictions.py, of the last run of each product."""
    sides, numbers = {}, {}
    for record in records:
        if record["artifact"] == ARTIFACT:
            sides.setdefault(record["options"]["product"], {})[record["options"]["by"]] = record
    for product, by in sides.items():
        if len(by) < 2 or by["frugal"]["rounds"] != by["torch"]["rounds"]:
            continue
        turns = zip(*(by[side]["metrics"]["time"]["samples"] for side in SIDES))  # whole rounds
        ours, theirs = zip(*(([ours], [theirs]) for ours, theirs in turns))
        numbers[f"product {product}: frugal"] = (by["frugal"]["metrics"]["time"]["median"], "s")
        numbers[f"product {product}: times as fast as torch.mm"] = (1 / step_results.ratio(ours, theirs)["value"], "1")
    return numbers


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frugal", help="the program")
    parser.add_argument("--on", default="cuda", help="cuda, or virtual:MACHINE")
    parser.add_argument("--case", default="bf16/*x*x*", help="of frugal bench gemm, without who computes it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=10, help="of a turn; at least 10")
    parser.add_argument("--seed", help="of the order of turns; drawn, printed and recorded otherwise")
    arguments = parser.parse_args(words)
    arguments.seed = arguments.seed or os.urandom(4).hex()
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    print(f"torch_products.py: turns are drawn with --seed {arguments.seed}", file=sys.stderr, flush=True)
    predicts = arguments.on.startswith("virtual")
    if predicts:
        arguments.rounds = 1
    records = Records(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        measure(arguments, None if predicts else Torch(arguments.on), records)
    except KeyboardInterrupt:
        sys.exit("torch_products.py: stopped; what was measured is written")
    finally:
        for record in records.of.values():
            sys.stdout.write(step_records.line(record))


if __name__ == "__main__":
    main()
