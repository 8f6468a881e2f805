#!/usr/bin/env python3
"""What each technique of today adds to the papers', for models and GPUs of today (docs/modern-hardware.md).

    bench/planned_training.py [PROGRAM] > results/virtual/planned-training.json     (about four minutes on two cores)

`frugal plan` searches with one technique more from step to step, and executes its first ten choices on the virtual
machine. Configurations that others have published the utilization of are executed as they are.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from machine import load

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINES = ("h100-dgx", "h200-hgx", "b200-dgx")
#: Of Grattafiori et al. 2024 (arXiv:2407.21783), table 3: layers, hidden size, heads, intermediate size; and how many
#: GPUs and sequences of 8192 tokens.
MODELS = {"Llama 3 8B": ((32, 4096, 32, 14336), 128, 512), "Llama 3 70B": ((80, 8192, 64, 28672), 512, 512),
          "Llama 3 405B": ((126, 16384, 128, 53248), 16384, 2048)}
PAPERS = ("1f1b", "interleaved")
#: What the papers do not search.
PAPERS_SPACE = {"--stage-layers": "equal", "--shard": "none", "--recompute-modules": "core-attention", "--recompute-layers": "all",
                "--validate-steps": "before", "--offload-modules": "none"}
#: What is searched from each step on: of these, and schedules to choose among.
STEPS = (("the papers'", [], PAPERS),
         ("+ stages of any size", ["--stage-layers"], PAPERS),
         ("+ shards", ["--shard"], PAPERS),
         ("+ modules", ["--recompute-modules"], PAPERS),
         ("+ schedules since", [], ("searched",)),
         ("+ some layers, late steps", ["--recompute-layers", "--validate-steps"], ("searched",)),
         ("+ offload", ["--offload-modules"], ("searched",)))
#: Table 4 of the same paper: GPUs, sequences of a batch, tokens of one, context-parallel size, MFU in %. Stages are 16
#: and tensor-parallel size is 8 in all; the first and the last part of the model have one layer, the others two.
LLAMA = ((8192, 2048, 8192, 1, 43), (16384, 2048, 8192, 1, 41), (16384, 128, 131072, 16, 38))


def frugal_output(frugal, *arguments):
    """None where nothing fits."""
    done = subprocess.run([frugal, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0 and "none of" not in done.stderr and "no depth" not in done.stderr:
        sys.exit(f"planned_training.py: status {done.returncode}: frugal {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout if done.returncode == 0 else None


def described(folder, name):
    layers, hidden, heads, intermediate = MODELS[name][0]
    path = folder / name.lower().replace(" ", "-")
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": 8,
        "intermediate_size": intermediate, "vocab_size": 128256, "max_position_embeddings": 8192,
        "rope_theta": 500000.0, "tie_word_embeddings": False}))
    return path


def first_choice(frugal, model, machine, devices, batch, flags, schedule):
    out = frugal_output(frugal, "plan", "--model", model, "--hardware", machine, "--devices", devices, "--batch", batch,
                        "--context-parallel", 1, "--attention", "fused", "--schedule", schedule,
                        *(word for pair in flags.items() for word in pair), "--within", 1.5, "--execute", 10, "--rows", 10, "--format", "json")
    if out is None:
        return None
    plan = json.loads(out)
    best = plan["fitting"][0]
    seconds = best["executed"]["seconds"]
    return {"seconds": seconds, "mfu": best["mfu"] * best["seconds"] / seconds,
            "predicted_seconds": best["seconds"], "peak_bytes": max(best["executed"]["memory_per_stage"]),
            "considered": plan["considered"],
            "gpu_hours_per_billion_tokens": best["device_hours_per_billion_tokens"] * seconds / best["seconds"],
            "command": plan["command"], "name": best["name"]}


def planned_on(frugal, model, name, machine):
    _, devices, batch = MODELS[name]
    cases, flags = [], dict(PAPERS_SPACE)
    for step, searched, schedules in STEPS:
        flags.update(dict.fromkeys(searched, "searched"))
        found = [first_choice(frugal, model, machine, devices, batch, flags, schedule)
                 for schedule in schedules]
        fitting = [choice for choice in found if choice is not None]
        best = min(fitting, key=lambda choice: choice["seconds"], default=None)
        print(f"{name} on {machine}, {step}", file=sys.stderr)
        cases.append({"model": name, "machine": machine, "devices": devices, "batch": batch, "step": step,
                      "source": "virtual", "choice": best})
    return cases


def planned(frugal, folder):
    """Several at once, because each plan is made by one thread; in the same order each time."""
    models = {name: described(folder, name) for name in MODELS}
    pairs = [(name, machine) for name in MODELS for machine in MACHINES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for cases in pool.map(lambda pair: planned_on(frugal, models[pair[0]], *pair), pairs):
            yield from cases


def roomy(folder, name):
    """The machine with memory without end: no configuration is known exactly enough to fit as closely as it did."""
    machine = load(ROOT / "hardware" / f"{name}.json")
    machine["device"]["memory_capacity"].update(value=10**15)
    (folder / "roomy.json").write_text(json.dumps(machine))
    return folder / "roomy.json"


def published(frugal, folder):
    model, machine = described(folder, "Llama 3 405B"), roomy(folder, "h100-dgx")
    for devices, batch, tokens, context, mfu in LLAMA:
        replicas = devices // (8 * 16 * context)
        with tempfile.TemporaryDirectory() as out:
            flags = ["measure", "--model", model, "--sequence", tokens, "--on", f"virtual:{machine}", "--type", "bf16",
                     "--attention", "fused", "--sequence-parallel", "--tensor-parallel", 8, "--pipeline-parallel", 16,
                     "--data-parallel", replicas, "--microbatches", batch // replicas, "--schedule", "interleaved",
                     "--chunks", 4, "--stage-layers", "1+62*2+1", "--shard", "optimizer", "--context-parallel", context]
            flags += ["--context", "zigzag"] if context > 1 else []
            frugal_output(frugal, *flags, "--out", out)
            record = json.loads((pathlib.Path(out) / "records.jsonl").read_text())
        yield {"model": "Llama 3 405B", "machine": "h100-dgx", "devices": devices, "batch": batch, "tokens": tokens,
               "context_parallel_size": context, "published_mfu": mfu / 100, "source": "virtual",
               "status": record["status"], "seconds": record["metrics"]["step_time"]["median"],
               "mfu": record["utilization"]["mfu"]["data_sheet"]["value"],
               "hfu": record["utilization"]["hfu"]["data_sheet"]["value"],
               "peak_bytes": record["memory"]["peak_total"]}


def main():
    frugal = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/frugal")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(json.dumps({"published": list(published(frugal, folder)), "planned": list(planned(frugal, folder))},
                         indent=1))


if __name__ == "__main__":
    main()
