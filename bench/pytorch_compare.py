#!/usr/bin/env python3
"""Steps that PyTorch counts, beside the same steps that frugal executes with a program's behaviour.

    pytorch_compare.py OUT.json [--seed N] [--count N] [--program FRUGAL]     (Python with PyTorch; a minute, no GPU)

Draws models of the Llama family, lengths, recomputation, and where gradients and logits are kept. Each is counted on
PyTorch's meta device by pytorch_memory.py, whose model is that of transformers of 2024, and executed on a virtual machine
with the behaviours of hugging-face-2024. What is compared is a step's peak. OUT has all of them, and how many are within
1 %. Exit status 1 where one is not.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch

from pytorch_memory import Way, count_step

BEHAVIOURS = ("float32-logits+log-probabilities+separate-softcap+float32-norms+separate-activation+"
              "recomputed-outputs+separate-weight-gradients")
ALLOWED = 0.01


def drawn(rng):
    """A model as pytorch_memory.py describes them, and how it is trained."""
    head = rng.choice((64, 128))
    groups = rng.choice((1, 2, 4, 8))
    heads = groups * rng.choice((1, 2, 4))
    model = {"layers": rng.randint(1, 12), "hidden": 128 * rng.randint(4, 32), "heads": heads, "kv_heads": groups,
             "head_dim": head, "intermediate": 256 * rng.randint(4, 56), "vocab": 1024 * rng.randint(4, 140)}
    way = Way("drawn", recompute=rng.random() < 0.5, stepped=rng.random() < 0.5,
              kept=rng.choice(("float32", "")))
    return model, way, 256 * rng.randint(1, 48)


def executed(frugal, model, way, tokens, folder):
    """Bytes of the peak, and what a later reader runs again."""
    program = BEHAVIOURS
    if way.kept == "float32":
        program += "+returned-logits"
    if way.stepped:
        program += "+gradients-when-needed"
    described = {"layers": model["layers"], "hidden_size": model["hidden"], "attention_heads": model["heads"],
                 "key_value_heads": model["kv_heads"], "head_size": model["head_dim"],
                 "intermediate_size": model["intermediate"], "vocabulary_size": model["vocab"]}
    command = [frugal, "measure", "--model", "llama3-8b", "--sequence", str(tokens), "--on", "virtual:a100-80gb",
               "--type", "bf16", "--precision", "pure", "--program", program, "--format", "json",
               "--recompute", "full" if way.recompute else "none", "--clip", "0", "--out", str(folder)]
    for key, value in described.items():
        command += ["--set", f"{key}={value}"]
    if way.stepped:
        command.append("--step-in-backward")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pytorch_compare.py: {' '.join(command)}: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    return record["memory"]["peak_total"], record["command"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--program", default="build/release/frugal")
    said = parser.parse_args()
    if said.out.exists():
        print(f"pytorch_compare.py: {said.out} exists; remove it or name another file", file=sys.stderr)
        return 2
    rng, within = random.Random(said.seed), 0
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        while len(steps) < said.count:
            model, way, tokens = drawn(rng)
            peak = count_step(model, way, tokens)[1]
            if peak > 70 * 2**30:  # of the machine's 78
                continue
            ours, command = executed(said.program, model, way, tokens, folder)
            error = ours / peak - 1
            within += abs(error) <= ALLOWED
            steps.append({"model": model, "tokens": tokens, "recompute": way.recompute, "stepped": way.stepped,
                          "kept_logits": way.kept, "counted_bytes": peak, "executed_bytes": ours,
                          "error_percent": round(100 * error, 3), "command": command})
            print(f"[{len(steps)}/{said.count}] {100 * error:+.2f} %", file=sys.stderr)
    said.out.write_text(json.dumps({"schema": "frugal.pytorch_compare/1", "pytorch": torch.__version__.split("+")[0],
                                    "seed": said.seed, "count": said.count, "within_percent": 100 * ALLOWED,
                                    "within": within, "steps": steps}, indent=1) + "\n", encoding="utf-8")
    print(f"{within} of {said.count} peaks within {100 * ALLOWED:g} % (seed {said.seed})")
    return 0 if within == said.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
