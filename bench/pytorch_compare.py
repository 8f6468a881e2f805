#!/usr/bin/env python3
"""Training steps that PyTorch counts, beside the same steps that frugal executes as PyTorch's program.

    pytorch_compare.py OUT.json [--seed N] [--count N] [--program FRUGAL]     (Python with PyTorch; two minutes, no GPU)

Draws models of the families of GPT, BERT and Llama, their sizes, attention, recomputation, and what becomes of gradients
and logits. Each is counted on PyTorch's meta device (pytorch_models.py), and executed on a virtual machine with the
behaviours of programs/pytorch.json. Compared are a step's peak, within 1 %, and the tensors that the forward pass keeps:
equal in number and bytes, module for module. OUT has all of them. Exit status 1 where one differs.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch

import pytorch_models
from pytorch_models import Step

ALLOWED = 0.01
CAPACITY = 70 * 2**30  # of the machine's 78
FAMILIES = ("gpt", "bert", "llama")
MODELS = {"gpt": "gpt2-124m", "bert": "bert-355m", "llama": "llama3-8b"}


def drawn(rng, family):
    """Groups of queries share keys and values with fused attention alone: separate products would copy these."""
    llama, fused = family == "llama", rng.random() < 0.5
    groups, shared, size = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4)), rng.choice((64, 128))
    heads = groups * (shared if llama and fused else 1)
    hidden = 128 * rng.randint(4, 32) if llama else heads * size
    return Step(family=family, layers=rng.choice((1, 2, 4, 8, 16, 24)), hidden=hidden, heads=heads,
                key_value_heads=groups, head_size=size,
                intermediate=256 * rng.randint(4, 56) if llama else 4 * hidden, vocabulary=512 * 2**rng.randint(0, 8),
                sequence=256 * rng.randint(1, 32 if fused else 8), batch=rng.choice((1, 2, 4)),
                dropout=0.0 if llama else rng.choice((0.0, 0.1)), fused_attention=fused,
                recompute=rng.choice(("none", "none", "reentrant", "other")),
                gradients=rng.choice(("new", "there", "stepped")),
                norm=rng.choice(("fused", "float32")) if llama else "layer", loss=rng.choice(("narrow", "float32")),
                returned_logits=rng.random() < 0.5)


def program_of(step):
    """programs/pytorch.json, with what the drawn model does besides."""
    besides = {"+separate-projections": step.family == "llama", "+float32-norms": step.norm == "float32",
               "+float32-loss": step.loss == "float32", "+returned-logits": step.returned_logits,
               "+recomputed-inputs": step.recompute != "none", "+recomputed-outputs": step.recompute == "reentrant",
               "~gradients-when-needed": step.gradients == "there"}
    return "pytorch" + "".join(name for name, has in besides.items() if has)


def command_of(step):
    described = {"layers": step.layers, "hidden_size": step.hidden, "attention_heads": step.heads,
                 "vocabulary_size": step.vocabulary, "dropout": step.dropout}
    if step.family == "llama":
        described |= {"key_value_heads": step.key_value_heads, "head_size": step.head_size,
                      "intermediate_size": step.intermediate}
    command = ["measure", "--model", MODELS[step.family], "--sequence", str(step.sequence), "--micro-batch", str(step.batch),
               "--on", "virtual:a100-80gb", "--type", "bf16", "--precision", "pure", "--clip", "0",
               "--program", program_of(step), "--attention", "fused" if step.fused_attention else "separate",
               "--recompute", "none" if step.recompute == "none" else "full"]
    command += [word for key, value in described.items() for word in ("--set", f"{key}={value}")]
    return command + ["--step-in-backward"] * (step.gradients == "stepped")


def executed(frugal, step, folder):
    """Bytes of the peak, what is kept, and what a later reader runs again."""
    command = [frugal, *command_of(step), "--format", "json", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pytorch_compare.py: {' '.join(command)}: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    kept = {name: held for name, held in record["memory"]["stages"][0]["kept"].items() if held["tensors"]}
    return record["memory"]["peak_total"], kept, record["command"]


def compared(frugal, step, folder):
    counted = {"peak": pytorch_models.peak(step), "kept": pytorch_models.kept(step)}
    peak, kept, command = executed(frugal, step, folder)
    error = peak / counted["peak"] - 1
    return {"step": dataclasses.asdict(step), "counted": counted, "executed": {"peak": peak, "kept": kept},
            "error_percent": round(100 * error, 3), "peak_agrees": abs(error) <= ALLOWED,
            "kept_agrees": kept == counted["kept"], "command": command}


def difference(line):
    """Of what is kept, for a reader of the progress."""
    counted, here = line["counted"]["kept"], line["executed"]["kept"]
    return "".join(f"; {part}: {counted.get(part)} counted, {here.get(part)} here"
                   for part in sorted({*counted, *here}) if counted.get(part) != here.get(part))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--program", default="build/release/frugal")
    said = parser.parse_args()
    if said.out.exists():
        print(f"pytorch_compare.py: {said.out} exists; remove it or name another file", file=sys.stderr)
        return 2
    rng, lines = random.Random(said.seed), []
    with tempfile.TemporaryDirectory() as folder:
        while len(lines) < said.count:
            step = drawn(rng, FAMILIES[len(lines) % len(FAMILIES)])
            if pytorch_models.peak(step) > CAPACITY:
                continue
            lines.append(compared(said.program, step, folder))
            print(f"[{len(lines)}/{said.count}] {step.family} {lines[-1]['error_percent']:+.2f} %{difference(lines[-1])}",
                  file=sys.stderr)
    peaks, kept = (sum(line[what] for line in lines) for what in ("peak_agrees", "kept_agrees"))
    said.out.write_text(json.dumps({"schema": "frugal.pytorch_compare/2", "pytorch": torch.__version__.split("+")[0],
                                    "seed": said.seed, "count": said.count, "within_percent": 100 * ALLOWED,
                                    "peaks": peaks, "kept": kept, "steps": lines}, indent=1) + "\n", encoding="utf-8")
    print(f"{peaks} of {said.count} peaks within {100 * ALLOWED:g} %, kept tensors equal in {kept} (seed {said.seed})")
    return 0 if peaks == kept == said.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
