"""What bench/modern_hardware.sh computed, for the figures and tables of docs/modern-hardware.md."""

import pathlib

import reproduction

GIB = 2**30
MACHINES = {"a100-no-software": "A100", "h100-dgx": "H100", "h200-hgx": "H200", "b200-dgx": "B200"}
SHAPES = [("22B", 2048), ("175B", 2048), ("530B", 2048), ("1T", 2048), ("175B", 8192)]
TECHNIQUES = ["full", "full + SP", "selective", "selective + SP", "none", "none + SP", "fused", "fused + SP",
              "fused + full + SP"]


def read(folder):
    return reproduction.lines(pathlib.Path(folder) / "modern-hardware.jsonl")


def cases(results, **keys):
    """Those that have all of these values, in their order."""
    return [r for r in results if all(r.get(key) == value for key, value in keys.items())]


def case(results, **keys):
    found = cases(results, **keys)
    if len(found) != 1:
        raise SystemExit(f"modern-hardware.jsonl has {len(found)} cases of {keys}, not one; "
                         "make it again with bench/modern_hardware.sh")
    return found[0]


def shape_name(shape):
    return shape[0] if shape[1] == 2048 else f"{shape[0]}, s = {shape[1]}"


def microbatches(r):
    return int(r["options"].split("--microbatches ")[1].split()[0])
