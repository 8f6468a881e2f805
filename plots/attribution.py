"""What `frugal explain --format json` says, as bars: from frugal's number, behaviour by behaviour, to that of the
paper's program, and what is left to the paper's."""

import json
import math
import pathlib

SMALL = 1e-3  # of the largest number of a cell: such terms are one bar


def title_of(cell):
    return f"{cell['artifact'].split('/')[1]}, {cell['row']}\n{cell['column']}, {cell['unit']}"


def steps_of(cell):
    """From the top down: (name, where it begins, where it ends, what it is: "frugal", how the behaviour is known,
    "program", "left" or "paper")."""
    least = SMALL * max(abs(cell[key]) for key in ("frugal", "program", "paper"))
    bars, at, small = [("frugal", 0, cell["frugal"], "frugal")], cell["frugal"], 0
    for term in cell["terms"]:
        if abs(term["added"]) < least:
            small += term["added"]
            continue
        bars.append((term["behaviour"], at, at + term["added"], term["status"]))
        at += term["added"]
    if abs(small) >= least / 10:
        bars.append(("smaller ones", at, at + small, "documented"))
    at += small
    if not math.isclose(at, cell["program"], rel_tol=1e-9):
        raise SystemExit(f"{title_of(cell)}: the terms add up to {at}, and the program's number is {cell['program']}")
    bars.append(("the paper's program", 0, cell["program"], "program"))
    bars.append(("not explained", cell["program"], cell["paper"], "left"))
    bars.append(("the paper", 0, cell["paper"], "paper"))
    return bars


def read(path):
    """The cells of such a file that have a number of the paper, and a behaviour that changes theirs."""
    data = json.loads(pathlib.Path(path).read_text())
    if data.get("schema") != "frugal.attribution/1":
        raise SystemExit(f"{path}: no output of `frugal explain --format json` (schema {data.get('schema')!r})")
    cells = [cell for cell in data["cells"] if cell["paper"] is not None and any(term["added"] for term in cell["terms"])]
    if not cells:
        raise SystemExit(f"{path}: no behaviour changes a cell that has a number of the paper; name another artifact")
    return cells
