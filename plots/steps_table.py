"""Training steps beside PyTorch's: what bench/compare_steps.py --on cpu wrote, as a table."""

import pathlib
import statistics
import sys

from modern_hardware_tables import table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import step_results  # noqa: E402  (the path comes first)

SIDES = {"eager": 0.5, "compiled": 0.7}  # and the target of the time over theirs
MEMORY_TARGET = 0.6


def read(path):
    """What each row says, in the order of the file."""
    results = step_results.read(path)
    if not results:
        raise SystemExit(f"{path}: no row has a whole round; give what bench/compare_steps.py wrote")
    return results


def name(result):
    return (f"{pathlib.PurePath(result['model']).stem}, {result['type']}, {result['attention']}"
            f"{', dropout' if result['dropout'] else ''}{', ' + result['flags'] if result['flags'] else ''}")


def products(result):
    """The least time of the step's products: each at its fastest where they were timed on their own, else at the best
    rate of any."""
    return result["least"].get("products", result["least"]["flops"])


def bound(result, side):
    """That over their step's time."""
    return products(result) / result["medians"][side]


def usual(result, side):
    """What the products usually take over their step's time, where they were timed on their own."""
    return result["products"]["over"][side] if "products" in result else None


def between(over):
    return f"{over['value']:.2f} [{over['interval'][0]:.2f}, {over['interval'][1]:.2f}]"


def ratio(result, side):
    text = between(result["time_over"][side])
    if result["time_over"][side]["value"] <= SIDES[side]:
        return text
    text = f"**{text}**"
    if bound(result, side) > SIDES[side]:
        text += f", bound {bound(result, side):.2f}"
    if usual(result, side) and usual(result, side)["value"] > SIDES[side]:
        text += f", usually {between(usual(result, side))}"
    return text


def products_columns(results):
    """Headers, and for each result texts: with own products their usual time and share, else the least alone."""
    if all("products" in r for r in results):
        return (["products at least, ms", "usually, ms", "products' and attention's share of operations"],
                [[f"{1000 * products(r):.0f}", f"{1000 * r['products']['usual']:.0f}", f"{r['products']['share']:.2f}"]
                 for r in results])
    return (["products at least, ms", "products' share of frugal's step"],
            [[f"{1000 * products(r):.0f}", f"{products(r) / r['medians']['frugal']:.2f}"] for r in results])


def steps(results):
    headers, texts = products_columns(results)
    rows = []
    for r, of_products in zip(results, texts):
        medians, memory = r["medians"], r["memory"]
        rows.append([name(r), *(f"{1000 * medians[side]:.0f}" for side in ("frugal", "eager", "compiled")),
                     *(ratio(r, side) for side in SIDES), *of_products, f"{1000 * r['least']['bytes']:.0f}",
                     *(f"{memory[side] / 1e6:.0f}" for side in ("frugal", "eager", "compiled")),
                     *(f"{r['memory_over'][side]:.2f}" for side in SIDES)])
    return table(["one step", "frugal, ms", "eager, ms", "compiled, ms", "time over eager's", "over compiled's", *headers,
                  "bytes at least, ms", "frugal, MB", "eager, MB", "compiled, MB", "memory over eager's",
                  "over compiled's"], rows)


def said(results):
    """What is seen at once: how many rows reach the targets, and what the others have."""
    lines = []
    own = all("products" in r for r in results)
    for side, target in SIDES.items():
        missed = [r for r in results if r["time_over"][side]["value"] > target]
        bounded = sum(bound(r, side) > target for r in missed)
        how = "each at its fastest" if own else "at the best rate measured"
        lines.append(f"{len(results) - len(missed)} of {len(results)} rows take at most {target} of {side} PyTorch's "
                     f"time; of the other {len(missed)} the products alone, {how}, would take more than that in "
                     f"{bounded}")
        if own:
            lines[-1] += f", and as they usually are in {sum(usual(r, side)['value'] > target for r in missed)}"
        lines[-1] += "."
    for side in SIDES:
        over = [r["memory_over"][side] for r in results]
        reached = sum(x <= MEMORY_TARGET for x in over)
        lines.append(f"Memory over {side} PyTorch's: {min(over):.2f} to {max(over):.2f}, median "
                     f"{statistics.median(over):.2f}; {reached} of {len(over)} rows at most {MEMORY_TARGET}."
                     + said_of_state(results, side))
    return " ".join(lines)


def said_of_state(results, side):
    """Of what the weights need, where it was recorded."""
    if any("state" not in r["memory"] for r in results):
        return ""
    over = [r["memory"]["state"] / r["memory"][side] for r in results]
    return f" Weights, their gradients and the optimizer's state alone are {min(over):.2f} to {max(over):.2f} of {side} PyTorch's memory."


def filling(results):
    """What the page has between the table's marks."""
    return said(results) + "\n\n" + steps(results)
