"""A machine's file with the numbers that it takes of its base, for scripts: kernels/virtual/machine.cpp."""

import json
import pathlib


def load(path):
    machine = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if "base" in machine:
        base = load(pathlib.Path(path).with_name(machine.pop("base") + ".json"))
        for group in ("device", "network"):
            machine[group] = {**base[group], **machine.get(group, {})}
        if "operations" in base:
            machine.setdefault("operations", base["operations"])
    return machine
