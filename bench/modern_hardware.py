#!/usr/bin/env python3
"""Helper of modern_hardware.sh.

modern_hardware.py machines HARDWARE OUT   writes the machines that are studied, and prints what was changed
modern_hardware.py compact                 a line of JSON for each line of what the script noted
"""

import json
import pathlib
import sys

from machine import load

ROOMY = 10**15  # bytes: where nothing fails to fit
GROUPS = {
    "products": ["device.gemm_fraction", "device.gemm_sustained", "device.l2_bandwidth"],
    "memory": ["device.memory_bandwidth"],
    "links": ["network.link_bandwidth"],
    "gathers": ["network.gather_fraction"],
    "network": ["network.network_bandwidth"],
    "share": ["network.collective_share"],
    "latencies": ["device.launch_overhead", "device.kernel_latency", "network.collective_latency",
                  "network.link_latency", "network.network_latency"],
}


def parameter(machine, key):
    part, name = key.split(".")
    return machine[part][name]


def write(machine, folder, name, changed):
    """A machine and its twin with endless memory, and a line about it."""
    machine = json.loads(json.dumps(machine))
    before = {key: parameter(machine, key)["value"] for key in changed}
    for key, value in changed.items():
        parameter(machine, key).update(value=value, source="changed for a study, see bench/modern_hardware.py")
    base, machine["name"] = machine["name"], name
    (folder / f"{name}.json").write_text(json.dumps(machine))
    print("machine", json.dumps({
        "machine": name, "base": base, "calibration": machine["calibration"],
        "changed": {key: [before[key], value] for key, value in changed.items()},
        "flops_bf16": parameter(machine, "device.flops_bf16")["value"],
        "gemm_sustained": parameter(machine, "device.gemm_sustained")["value"],
        "memory_capacity": parameter(machine, "device.memory_capacity")["value"]}), sep="\t")
    machine["name"] += "-roomy"
    parameter(machine, "device.memory_capacity").update(value=ROOMY)
    (folder / f"{name}-roomy.json").write_text(json.dumps(machine))
    machine["name"] = name
    return machine


def machines(hardware, folder):
    read = {name: load(hardware / f"{name}.json")
            for name in ("a100-selene", "h100-dgx", "h200-hgx", "b200-dgx")}
    a100 = read["a100-selene"]
    del a100["fit"]
    a100["calibration"] = "not calibrated: fitted with the kernels of Megatron-LM of 2022, which are taken away here"
    write(a100, folder, "a100-no-software", {})
    for name in ("h100-dgx", "h200-hgx", "b200-dgx"):
        write(read[name], folder, name, {})
    for name in ("h100-dgx", "b200-dgx"):
        machine = json.loads((folder / f"{name}.json").read_text())
        write(machine, folder, f"{name}-sharded", {})
        for group, keys in GROUPS.items():
            for factor in (0.8, 1.2):
                write(machine, folder, f"{name}-{group}-{factor}",
                      {key: parameter(machine, key)["value"] * factor for key in keys})


def of_step(seconds, configuration):
    """Devices, tokens of a step, and GPU-hours per billion tokens."""
    devices = 1
    for key in ("tensor", "pipeline", "data"):
        devices *= configuration[f"{key}_parallel_size"]
    tokens = configuration["global_batch"] * configuration["model"]["sequence_length"]
    return {"devices": devices, "tokens": tokens, "step_seconds": seconds,
            "gpu_hours_per_billion_tokens": devices * seconds / tokens * 1e9 / 3600}


def numbers(record):
    peak = record["memory"]["peak"]
    return {**of_step(record["metrics"]["step_time"]["median"], record["configuration"]),
            "mfu": record["utilization"]["mfu"]["data_sheet"]["value"],
            "hfu": record["utilization"]["hfu"]["data_sheet"]["value"],
            "peak_bytes": record["memory"]["peak_total"], "activation_bytes": peak["activation"],
            "state_bytes": peak["parameter"] + peak["gradient"] + peak["optimizer"]}


def measured(fields):
    """A case. One that did not fit has the numbers it would have with endless memory."""
    group, name, model, machine, options, *records = fields
    records = [json.loads(record) for record in records]
    return {"set": group, "case": name, "model": model, "machine": machine, "source": "virtual",
            "sequence": records[0]["configuration"]["model"]["sequence_length"], "status": records[0]["status"],
            "reason": records[0]["reason"], "options": options, "machine_hash": records[0]["machine"],
            **numbers(records[-1])}


def planned(fields):
    model, machine, devices, batch, plan = fields
    best = json.loads(plan)["fitting"][0]
    config = best["config"]
    executed = best["executed"]
    return {"set": "plan", "model": model, "machine": machine, "source": "virtual", "batch": int(batch),
            "t": config["tensor_parallel_size"], "w": config["data_parallel_size"],
            "d": config["pipeline_parallel_size"], "b": config["microbatch_size"], "m": config["microbatches"],
            "recompute": config["recompute"], "predicted_seconds": best["seconds"],
            "seconds_by_part": best["seconds_by_part"], "peak_bytes": max(executed["memory_per_stage"]),
            **of_step(executed["seconds"], config)}


def compact(lines):
    kinds = {"machine": lambda fields: {"set": "machines", **json.loads(fields[0])},
             "measure": measured, "plan": planned}
    for line in lines:
        kind, *fields = line.rstrip("\n").split("\t")
        print(json.dumps(kinds[kind](fields)))


if __name__ == "__main__":
    if sys.argv[1:] == ["compact"]:
        compact(sys.stdin)
    elif len(sys.argv) == 4 and sys.argv[1] == "machines":
        machines(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        raise SystemExit(__doc__)
