"""What steps beside PyTorch's (bench/compare_steps.py) say to bench/gpu/check_predictions.py: numbers, and rows of a page."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import step_results  # noqa: E402  (the path comes first)

SIDES = ("eager", "compiled")


def name_of(row, before_batch=", "):
    """The model and its microbatch, and what is not as usual."""
    more = [row[key] for key in ("against", "weights", "turns") if row.get(key)]
    return ", ".join([f"{row['model']}{before_batch}{row['micro_batch']}", *more])


def numbers_of(records):
    """{what: (value, unit)}"""
    numbers = {}
    for row in step_results.results(records):
        label = f"step of {name_of(row, ', b ')}"
        numbers[f"{label}: frugal"] = (row["medians"]["frugal"], "s")
        for side, over in row["time_over"].items():
            numbers[f"{label}: times as fast as PyTorch, {side}"] = (1 / over["value"], "1")
    return numbers


def rows_of(records):
    """Of each model that took turns with PyTorch, eager and compiled."""
    def over(row, side):
        low, high = row["time_over"][side]["interval"]
        return f"{1 / row['time_over'][side]['value']:.2f} [{1 / high:.2f}, {1 / low:.2f}]"

    for row in step_results.results(records):
        if not set(SIDES) <= set(row["time_over"]):
            continue
        times = row["medians"]
        yield [name_of(row, ", microbatch "), *(f"{1000 * times[side]:.1f}" for side in ("frugal", *SIDES)),
               *(over(row, side) for side in SIDES),
               *(f"{row['memory'][side] / 2**30:.2f}" for side in ("ledger", *SIDES))]
