#!/usr/bin/env python3
"""Training on long sequences with and without mini-sequences (mst2024), at a small machine's size.

usage: training_mst2024.py RECORDS OUTPUT
RECORDS is a folder whose records.jsonl bench/long_training.sh has written. Draws the losses of all
ways to train and how far they are from training without mini-sequences, and prints what each needs.
"""

import pathlib
import sys

import reproduction
import style
from matplotlib import pyplot as plt

LOOKS = {"as it is": ("#000000", "-"), "mini-sequences": ("#D55E00", "--"),
         "mini-sequences, Ulysses on two ranks": ("#0072B2", ":"), "as it is, another seed": ("#999999", "-.")}


def way_of(configuration):
    if configuration["seed"] != 1:
        return "as it is, another seed"
    if configuration.get("mlp_chunks", 1) == 1:
        return "as it is"
    ranks = configuration.get("context_parallel_size", 1)
    return "mini-sequences" if ranks == 1 else "mini-sequences, Ulysses on two ranks"


def runs_of(folder):
    """{way: record}, in the order of LOOKS; of a case that was run again, the last."""
    path = pathlib.Path(folder) / "records.jsonl"
    records = reproduction.lines(path) if path.exists() else []
    runs = {way_of(r["configuration"]): r for r in records if r["status"] == "ok" and r["held_out"]}
    if "as it is" not in runs:
        raise SystemExit(f"{path} has no finished run without mini-sequences; run bench/long_training.sh")
    return {way: runs[way] for way in LOOKS if way in runs}


def distances(record, reference):
    return [abs(a - b) for a, b in zip(record["losses"], reference["losses"], strict=True)]


def print_needs(way, record, reference):
    peak, whole = (r["memory"]["peak_total"] / 2**20 for r in (record, reference))
    print(f"{way}: held-out loss {record['held_out'][-1]['loss']:.6f}, greatest difference of a step's loss "
          f"{max(distances(record, reference)):.2g} nats, peak of a rank {peak:.1f} MiB ({peak / whole:.3f})")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    runs = runs_of(sys.argv[1])
    reference = runs["as it is"]
    figure, (losses, apart) = plt.subplots(1, 2, figsize=(10, 3.6))
    for way, record in runs.items():
        colour, line = LOOKS[way]
        steps = range(1, len(record["losses"]) + 1)
        losses.plot(steps, record["losses"], line, color=colour, linewidth=1.2, label=way)
        if record is not reference:
            # Losses that are the same bit for bit have no place on a logarithmic axis.
            apart.plot(steps, [d or None for d in distances(record, reference)], line, color=colour,
                       linewidth=1.2)
        print_needs(way, record, reference)
    model = reference["configuration"]["model"]
    losses.set(title="training loss", xlabel="step", ylabel="nats per byte")
    apart.set(title="distance from training as it is, where there is any", xlabel="step", ylabel="nats per byte", yscale="log")
    for panel in (losses, apart):
        panel.grid(axis="both")
    losses.legend()
    figure.suptitle(f"Llama of {model['layers']} layers, h {model['hidden_size']}, on sequences of "
                    f"{model['sequence_length']} bytes of a book: measured on a cpu")
    style.save(figure, sys.argv[2], "mst2024-training")


if __name__ == "__main__":
    main()
