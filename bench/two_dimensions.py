#!/usr/bin/env python3
"""Ways of dividing one long sequence among sixteen GPUs on two nodes, beside a prediction (docs/techniques.md).

    bench/two_dimensions.py [PROGRAM] > results/virtual/two-dimensions.json     (seconds)
    bench/two_dimensions.py --predict                                           the predictions alone

For each way and length: the command, the seconds of a step, how long what is sent occupies the stream for
communication, by collective (`frugal trace`), and what `predicted()` says of them. A prediction is bytes over
bandwidths and FLOPs over a rate, all from the machine's file: no latency, tile or schedule of kernels.
"""

import json
import pathlib
import sys
import tempfile

from long_sequences import ROOT, communication
from program import run

MACHINE = "h100-dgx"
STEP = f"--model llama3-8b --layers 4 --on virtual:{MACHINE} --type bf16 --recompute full --head-chunks paper".split()
LAYERS, HIDDEN, HEADS, GROUPS, WIDTH, MLP, TOKENS = 4, 4096, 32, 8, 128, 14336, 128256
RANKS, NODES = 16, 2
LENGTHS = (131072, 262144, 524288)
WAYS = {"Ulysses": ("ulysses", 16), "ring": ("ring", 1), "zigzag": ("zigzag", 1), "ring of 8 x 2": ("ring", 8),
        "zigzag of 8 x 2": ("zigzag", 8)}


class Machine:
    """Rates of the described machine: FLOP/s, and B/s of memory, links and the network."""

    def __init__(self, name):
        values = {}
        while name:
            described = json.loads((ROOT / f"hardware/{name}.json").read_text(encoding="utf-8"))
            for part in ("device", "network"):
                for key, value in described[part].items():
                    values.setdefault(key, value["value"] if isinstance(value, dict) else value)
            name = described.get("base")
        self.flops = values["flops_bf16"] * values["gemm_sustained"]
        self.memory = values["memory_bandwidth"] * values["memory_fraction"]
        self.link = values["link_bandwidth"] * values["link_fraction"]
        self.network = values["network_bandwidth"] * values["network_fraction"]
        self.compute_speed = 1 - values["collective_share"]
        self.collective_speed = 1 - values["compute_share"]

    def together(self, compute, message):
        """Seconds until a computation and the message beside it are through: they slow each other."""
        return max(compute + (1 - self.compute_speed) / self.collective_speed * message,
                   message + (1 - self.collective_speed) / self.compute_speed * compute)


def all_to_alls(machine, tokens, heads):
    """Of a layer, forward, again, and backward: seconds, and those of packing what is sent."""
    if heads == 1:
        return 0, 0
    context = HEADS * WIDTH * tokens * 2
    qkv = (HEADS + 2 * max(GROUPS, heads)) * WIDTH * tokens * 2
    sent = 2 * (qkv + context) + 2 * context + qkv
    near = min(heads, RANKS // NODES)
    seconds = sent / heads * max((near - 1) / machine.link, (heads - near) / machine.network)
    return seconds, 2 * sent / machine.memory


def attention(machine, sequence, kind, heads):
    """Of a layer, forward, again, and backward, with what travels around a ring beside it: seconds on the critical
    path, and seconds of shifts."""
    ring = RANKS // heads
    half = 4 * WIDTH * HEADS / heads * (sequence / ring) ** 2 / 2 / machine.flops  # a causal block, forward
    if ring == 1:
        return (2 + 2.5) * half, 0
    block = 2 * max(GROUPS, heads) / heads * WIDTH * sequence / ring * 2
    send = block / machine.network
    later = 2 * half if kind == "ring" else half  # the last rank's, for which the others wait
    forward = machine.together(half, send) + (ring - 2) * machine.together(later, send) + later
    backward = (machine.together(2.5 * half, send) + (ring - 2) * machine.together(2.5 * later, 3 * send) +
                machine.together(2.5 * later, 2 * send) + 2 * send)
    # Partial contexts are merged in float32, twice, and gradients of queries added up.
    merged = (ring - 1) * 3 * 10 * HEADS * WIDTH * sequence / RANKS / machine.memory
    return 2 * forward + backward + merged, send * (3 * (ring - 1) + 2 * ring)


def predicted(kind, heads, sequence):
    """Of a step: its seconds, and those of the stream for communication."""
    machine, tokens = Machine(MACHINE), sequence / RANKS
    layer = HIDDEN * (2 * HEADS * WIDTH + 2 * GROUPS * WIDTH + 3 * MLP)
    dense = LAYERS * 8 * layer * tokens + 6 * TOKENS * HIDDEN * tokens
    # Norms, residuals, rotations and gated units move about this many bytes of a token forward, and as many again
    # when that is made again, and twice as many backward.
    moved = LAYERS * 4 * tokens * 2 * (10 * HIDDEN + 2 * (HEADS + GROUPS) * WIDTH + 3 * MLP)
    weights = LAYERS * layer + 2 * TOKENS * HIDDEN
    reduced = 2 * (RANKS - 1) / RANKS * 4 * weights / min(machine.link, RANKS / NODES * machine.network)
    exchanged, packed = all_to_alls(machine, tokens, heads)
    computed, shifted = attention(machine, sequence, kind, heads)
    seconds = (dense / machine.flops + moved / machine.memory + LAYERS * (computed + exchanged + packed) +
               reduced + 30 * weights / machine.memory)
    return {"step_seconds": seconds, "communication_seconds": {"all-to-all": LAYERS * exchanged,
                                                              "shift": LAYERS * shifted, "all-reduce": reduced}}


def case(frugal, name, sequence, folder):
    kind, heads = WAYS[name]
    step = [*STEP, "--sequence", str(sequence), "--context-parallel", str(RANKS), "--context", kind]
    if kind != "ulysses" and heads > 1:
        step += ["--ulysses-size", str(heads)]
    found = {"case": name, "sequence": sequence, "command": " ".join(["frugal", "measure", *step]),
             "predicted": predicted(kind, heads, sequence)}
    if frugal is None:
        return found
    trace = folder / f"{kind}-{heads}-{sequence}.json"
    run(frugal, "trace", *step, "--out-file", str(trace))
    record = json.loads(run(frugal, "measure", *step, "--out", str(trace.with_suffix("")), "--format", "json"))
    return {**found, "step_seconds": record["metrics"]["step_time"]["median"],
            "peak_bytes": record["memory"]["peak_total"],
            "communication_seconds": communication(json.loads(trace.read_text(encoding="utf-8")))}


def main(arguments):
    frugal = arguments[0] if arguments else str(ROOT / "build/release/frugal")
    if frugal == "--predict":
        frugal = None
    with tempfile.TemporaryDirectory() as folder:
        cases = [case(frugal, name, sequence, pathlib.Path(folder)) for sequence in LENGTHS for name in WAYS]
    print(json.dumps({"schema": "frugal.two-dimensions/1", "source": "virtual", "cases": cases}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
