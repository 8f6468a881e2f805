"""Training steps beside PyTorch's: what bench/compare_steps.py --on cpu wrote, as a table."""

import pathlib
import statistics

import reproduction
from modern_hardware_tables import table

SCHEMA = "frugal.step-comparison/2"
KEYS = ("model", "type", "attention", "dropout", "micro_batch", "flags")
SIDES = {"eager": 0.5, "compiled": 0.7}  # and the target of the time over theirs
MEMORY_TARGET = 0.6


def read(path):
    """The last summary of every row, in the order of the file."""
    rows = {}
    for result in reproduction.lines(path):
        if result["schema"] == SCHEMA:
            rows[tuple(result.get(key) for key in KEYS)] = result
    if not rows:
        raise SystemExit(f"{path}: no row is complete; give what bench/compare_steps.py wrote")
    return list(rows.values())


def name(result):
    return (f"{pathlib.PurePath(result['model']).stem}, {result['type']}, {result['attention']}"
            f"{', dropout' if result['dropout'] else ''}{', ' + result['flags'] if result.get('flags') else ''}")


def products(result):
    """The least time of the step's products: at their own shapes where they were timed so, else at the best rate of
    any."""
    return result["least"].get("products", result["least"]["flops"])


def bound(result, side):
    """That over their step's time."""
    return result["bound"][side]["value"] if "bound" in result else products(result) / result["medians"][side]


def share(result):
    """Of frugal's step that of its products: as it makes them, or the least."""
    return result.get("products_share", products(result) / result["medians"]["frugal"])


def ratio(result, side):
    over = result["time_over"][side]
    text = f"{over['value']:.2f} [{over['interval'][0]:.2f}, {over['interval'][1]:.2f}]"
    if over["value"] <= SIDES[side]:
        return text
    if bound(result, side) <= SIDES[side]:
        return f"**{text}**"
    interval = result["bound"][side]["interval"] if "bound" in result else None
    sure = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
    return f"**{text}**, bound {bound(result, side):.2f}{sure}"


def steps(results):
    rows = []
    for r in results:
        medians, memory = r["medians"], r["memory"]
        rows.append([name(r), *(f"{1000 * medians[side]:.0f}" for side in ("frugal", "eager", "compiled")),
                     *(ratio(r, side) for side in SIDES),
                     f"{1000 * products(r):.0f}", f"{1000 * r['least']['bytes']:.0f}", f"{share(r):.2f}",
                     *(f"{memory[side] / 1e6:.0f}" for side in ("frugal", "eager", "compiled")),
                     *(f"{r['memory_over'][side]:.2f}" for side in SIDES)])
    return table(["one step", "frugal, ms", "eager, ms", "compiled, ms", "time over eager's", "over compiled's",
                  "products at least, ms", "bytes at least, ms", "products' share of frugal's step", "frugal, MB",
                  "eager, MB", "compiled, MB", "memory over eager's", "over compiled's"], rows)


def said(results):
    """What is seen at once: how many rows reach the targets, and what the others have."""
    lines = []
    own = all("bound" in r for r in results)
    how = "each as fast as either library made it" if own else "at the best rate measured"
    for side, target in SIDES.items():
        missed = [r for r in results if r["time_over"][side]["value"] > target]
        bounded = [r for r in missed if bound(r, side) > target]
        lines.append(f"{len(results) - len(missed)} of {len(results)} rows take at most {target} of {side} PyTorch's "
                     f"time; of the other {len(missed)} the products alone, {how}, would take more than that in "
                     f"{len(bounded)}.")
    for side in SIDES:
        over = [r["memory_over"][side] for r in results]
        reached = sum(x <= MEMORY_TARGET for x in over)
        lines.append(f"Memory over {side} PyTorch's: {min(over):.2f} to {max(over):.2f}, median "
                     f"{statistics.median(over):.2f}; {reached} of {len(over)} rows at most {MEMORY_TARGET}."
                     + said_of_state(results, side))
    return " ".join(lines)


def said_of_state(results, side):
    """Of the memory that no switch saves, where it was recorded."""
    if any(r["memory"].get("state") is None for r in results):
        return ""
    over = [r["memory"]["state"] / r["memory"][side] for r in results]
    return f" Weights, their gradients and the optimizer's state alone are {min(over):.2f} to {max(over):.2f} of it."


def filling(results):
    """What the page has between the table's marks."""
    return said(results) + "\n\n" + steps(results)
