"""Clocks, power and heat of a GPU while parts of bench/gpu.sh ran, from clocks.csv, for bench/gpu/check_predictions.py."""

import collections
import csv
import datetime
import statistics
import typing

BUSY = 90  # percent of the time since the look before in which a kernel ran, at least

# Bits of nvidia-smi's clocks_event_reasons.active.
REASONS = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal slowdown by software",
           0x40: "thermal slowdown by hardware", 0x80: "power brake"}


class Look(typing.NamedTuple):
    at: datetime.datetime
    clock: int  # MHz, of the multiprocessors
    watts: float
    celsius: int
    reasons: int


def busy(folder):
    """Looks at which the GPU computed, in their order."""
    with (folder / "clocks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    return [Look(datetime.datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f"), int(row["clocks.current.sm [MHz]"]),
                 float(row["power.draw [W]"]), int(row["temperature.gpu"]), int(row["clocks_event_reasons.active"], 16))
            for row in rows if int(row["utilization.gpu [%]"]) >= BUSY]


def moment(text):
    """Of a record, which has UTC as clocks.csv has on a machine whose clock is UTC's."""
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")


def part_of(record):
    """What clocks are shown of together: cases that took turns, or one kind of step."""
    if record["artifact"] == "measure":
        model = record["configuration"]["model"]
        return f"steps of {model['name']}, {model['sequence_length']} tokens"
    return record["artifact"] if record["rounds"] and record["artifact"].startswith(("korthikanti2022/", "bench/recompute")) else None


def turns(records):
    """{part: [(begin, end) of a case, ...]}"""
    found = collections.defaultdict(list)
    for record in records:
        if record["started"] and record["status"] == "ok" and (part := part_of(record)):
            found[part].append((moment(record["started"]), moment(record["ended"])))
    return found


def held_back(looks):
    """In which part of the looks each reason held the clock back."""
    parts = {name: sum(bool(look.reasons & bit) for look in looks) / len(looks) for bit, name in REASONS.items()}
    return ", ".join(f"{name} {100 * part:.0f} %" for name, part in parts.items() if part) or "nothing"


def row(what, looks):
    clocks = [look.clock for look in looks]
    return [what, str(len(looks)), f"{statistics.mean(clocks):.0f} [{min(clocks)}, {max(clocks)}]",
            f"{statistics.mean(look.watts for look in looks):.0f}", str(max(look.celsius for look in looks)), held_back(looks)]


def rows(folder, records):
    looks = busy(folder) if (folder / "clocks.csv").exists() else []
    if not looks:
        return
    yield row("all that ran", looks)
    for part, times in turns(records).items():
        inside = [look for look in looks if any(begin <= look.at <= end for begin, end in times)]
        if inside:
            yield row(part, inside)
