#!/usr/bin/env python3
"""How much a training step launches and moves, with and without what saves it, beside the least that it needs.

    bench/step_work.py OUT [--frugal PROGRAM] [--on DEVICE]

Runs GPT-2 124M and 1.5B, and Llama-3 8B with one and two layers (their difference is a layer's), each as it is and
with --narrow-logits --overwrite-gradients, all in bf16 with fused attention, by `frugal measure`, whose records are in
OUT (`work`: docs/records.md); a table in Markdown goes to stdout. On a virtual machine, which is the default, the
numbers are the same wherever this runs. On a GPU, or an emulated one, launches and waits of the host are those that
were made.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPT = {"gpt2-124m": "16", "gpt2-1.5b": "4"}  # and the microbatch
FLAGS = {"as it is": [], "saving": ["--narrow-logits", "--overwrite-gradients"]}


def measured(arguments, *options):
    """Work and seconds of a step."""
    command = [arguments.frugal, "measure", "--on", arguments.on, "--type", "bf16", "--attention", "fused", *options,
               "--out", arguments.out, "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)  # frugal said why
    record = json.loads(done.stdout)
    return record["work"], record["metrics"]["step_time"]["median"]


def minus(two, one):
    """Two of the same keys, number by number."""
    if isinstance(two, tuple):
        return tuple(map(minus, two, one))
    if isinstance(two, dict):
        return {key: minus(value, one[key]) for key, value in two.items()}
    return two if two is None or isinstance(two, str) else two - one


def bytes_of(work, prefix):
    return sum(all["bytes"] for name, all in work["operations"].items() if name.startswith(prefix))


def row(model, variant, work, seconds):
    calls = work["calls"] or {}
    count = sum(all["count"] for all in work["operations"].values())
    whole = [count, calls.get("launches"), calls.get("synchronisations")]
    kinds = [bytes_of(work, prefix) for prefix in ("gemm", "cross-entropy", "fill")]
    giga = [work["bytes"], work["least"]["total"], *kinds]
    texts = [model, variant, *("" if count is None else f"{count:.0f}" for count in whole),
             *(f"{each / 1e9:.2f}" for each in giga), f"{1e3 * seconds:.2f}"]
    return "| " + " | ".join(texts) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--frugal", default=str(ROOT / "build/release/frugal"))
    parser.add_argument("--on", default="virtual:h200-hgx")
    arguments = parser.parse_args()
    print("| step | | operations | launches | waits | GB | least GB | GB of products | of cross-entropy | of fills | ms |")
    print("|---|---|" + "---:|" * 9)
    for model, batch in GPT.items():
        for variant, flags in FLAGS.items():
            print(row(model, variant, *measured(arguments, "--model", model, "--micro-batch", batch, *flags)))
    for variant, flags in FLAGS.items():
        one, two = (measured(arguments, "--model", "llama3-8b", "--micro-batch", "1", "--layers", layers, *flags)
                    for layers in ("1", "2"))
        print(row("llama3-8b, a layer", variant, *minus(two, one)))


if __name__ == "__main__":
    main()
