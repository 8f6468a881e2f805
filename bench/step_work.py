#!/usr/bin/env python3
"""How much a training step launches and moves, with and without what saves it, beside the least that it needs.

    bench/step_work.py OUT [--frugal PROGRAM] [--on DEVICE]

Runs GPT-2 124M and 1.5B, and Llama-3 8B with one and two layers (their difference is a layer's), each as it is and
with --narrow-logits --overwrite-gradients, all in bf16 with fused attention, by `frugal measure`. OUT/step-work.jsonl
gets the work of each (docs/records.md), its command and the commit; a table in Markdown goes to stdout. On a virtual
machine, which is the default, the numbers are the same wherever this runs. On a GPU, or an emulated one, launches and
waits of the host are those that were made.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {
    "gpt2-124m": ["--model", "gpt2-124m", "--micro-batch", "16"],
    "gpt2-1.5b": ["--model", "gpt2-1.5b", "--micro-batch", "4"],
    "llama3-8b, 1 layer": ["--model", "llama3-8b", "--layers", "1", "--micro-batch", "1"],
    "llama3-8b, 2 layers": ["--model", "llama3-8b", "--layers", "2", "--micro-batch", "1"],
}
LAYER = "llama3-8b, a layer"
FLAGS = {"as it is": [], "saving": ["--narrow-logits", "--overwrite-gradients"]}


def measure(frugal, on, options):
    with tempfile.TemporaryDirectory() as folder:
        command = [frugal, "measure", "--on", on, "--type", "bf16", "--attention", "fused", *options,
                   "--out", folder, "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"step_work.py: status {done.returncode}: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def line_of(name, variant, record):
    build = record["environment"]["build"]
    metrics = record["metrics"]["step_time"]
    return {"model": name, "variant": variant, "on": record["on"], "device": record["device"],
            "seconds": metrics["median"], "work": record["work"], "command": record["command"],
            "commit": build["commit"], "dirty": build["dirty"]}


def minus(two, one):
    """Two of the same keys, number by number."""
    if isinstance(two, dict):
        return {key: minus(value, one[key]) for key, value in two.items()}
    return two if two is None or isinstance(two, str) else two - one


def bytes_of(work, prefix):
    return sum(all["bytes"] for name, all in work["operations"].items() if name.startswith(prefix))


def count_of(work):
    return sum(all["count"] for all in work["operations"].values())


def row(line):
    work, calls = line["work"], line["work"]["calls"] or {}
    giga = [work["bytes"], work["least"]["total"], bytes_of(work, "gemm"), bytes_of(work, "cross-entropy"),
            bytes_of(work, "fill")]
    whole = [count_of(work), calls.get("launches"), calls.get("synchronisations")]
    texts = [line["model"], line["variant"]]
    texts += ["" if count is None else f"{count:.0f}" for count in whole]
    texts += [f"{each / 1e9:.2f}" for each in giga]
    texts.append(f"{1e3 * line['seconds']:.2f}")
    return "| " + " | ".join(texts) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--frugal", default=str(ROOT / "build/release/frugal"))
    parser.add_argument("--on", default="virtual:h200-hgx")
    arguments = parser.parse_args()
    lines = []
    for variant, flags in FLAGS.items():
        for name, options in MODELS.items():
            lines.append(line_of(name, variant, measure(arguments.frugal, arguments.on, options + flags)))
        one, two = lines[-2:]
        layer = {**two, "model": LAYER, "command": "", "seconds": two["seconds"] - one["seconds"],
                 "work": minus(two["work"], one["work"])}
        lines.append(layer)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with open(arguments.out / "step-work.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print("| step | | operations | launches | waits | GB | least GB | GB of products | of cross-entropy | of fills | ms |")
    print("|---|---|" + "---:|" * 9)
    for line in sorted(lines, key=lambda line: line["model"]):
        print(row(line))


if __name__ == "__main__":
    main()
