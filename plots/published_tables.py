"""Tables of docs/published.md, for paper_tables.py: what bench/published.py predicted of published runs, judged by
bench/published_errors.py. A path ends with #time or #memory where a table is of one of both."""

import json
import pathlib
import sys

from evaluation_tables import read, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))

import published_errors as judging  # noqa: E402  (the path comes first)

KINDS = ("published-sets", "published-groups", "published-worst", "published-orders", "published-ablation", "published-bands")
#: What stands where a behaviour moves no row's prediction, or nothing is published.
NONE = ""


def percent(share, form=".1f"):
    return NONE if share is None else f"{100 * share:{form}}"


def of(path):
    """{set: its lines}, and "time" or "memory"."""
    folder, _, what = str(path).partition("#")
    return judging.read(folder), what


def published_sets(path):
    """What is published, of what nothing was predicted and why, and what was used to set a number."""
    rows = []
    for name, lines in of(path)[0].items():
        document = read(ROOT / "published" / f"{name}.json")
        why = {}
        for line in lines:
            said = line.get("not_predicted") or line.get("left_out") or line.get("without_time")
            if said:
                why[said] = why.get(said, 0) + 1
        programs = sorted({judging.base_of(line["program"]) for line in lines if "program" in line})
        used = [f"{use['for']} ({use['of']}): {' and '.join(f'{key} {values}' for key, values in use['rows'].items())}" for use in document["used_for"]]
        rows.append([f"[{name}](../published/{name}.json)", document["source"], ", ".join(f"`{program}`" for program in programs),
                     "; ".join(f"{count}: {words}" for words, count in why.items()), "; ".join(used) or "nothing", str(len(lines))])
    return table(["set", "source", "predicted as", "not counted", "used to set", "rows"], 1, rows)


def published_groups(path):
    sets, what = of(path)
    rows = []
    for name, lines in sets.items():
        for group, one in judging.groups(lines, what).items():
            rows.append([name, group, str(one["count"]), percent(one["mean"]), percent(one["median"]), percent(one["bias"], "+.1f"),
                         percent(one["95 %"]), percent(one["largest"], "+.1f"),
                         " / ".join(percent(share, ".0f") for share in one["within"].values())])
    within = " / ".join(map(str, judging.WITHIN))
    return table(["set", "group", "rows", "mean, %", "median, %", "bias, %", "95 % within, %", "largest, %",
                  f"share within {within} %"], 7, rows)


def published_worst(path):
    """Ten of each set."""
    sets, what = of(path)
    rows = []
    for e, line, reason in (one for lines in sets.values() for one in judging.worst(lines, what)):
        value = [f"{line[what][side]:.4g}" if what == "time" else f"{line[what][side] / 2**30:.2f}" for side in ("published", "predicted")]
        rows.append([line["set"], line["name"], line["gpu"], reason, *value, percent(e, "+.1f")])
    unit = {"time": "s", "memory": "GiB"}[what]
    return table(["set", "run", "GPU", "reason", f"published, {unit}", f"predicted, {unit}", "error, %"], 3, rows)


def published_orders(path):
    sets, what = of(path)
    rows = [[name, technique, str(one["pairs"]), str(one["ordered"]), percent(one["right_sign"], ".0f"), percent(one["within_10"], ".0f")]
            for name, lines in sets.items() for technique, one in judging.orders(lines, what).items()]
    return table(["set", "differ in", "pairs", "with an order", "right order, %", "ratio within 10 %, %"], 4, rows)


def published_ablation(path):
    """Behaviours by the time they move, and in words those that move nothing, and those without which nothing is predicted."""
    document = read(path)
    rows, moves = [], {}
    for name, one in document["sets"].items():
        for behaviour, moved in sorted(one["behaviours"].items(), key=lambda item: -item[1].get("time", {}).get("change", 0)):
            changed = sum(what["rows"] + what.get("lost", 0) for what in moved.values()) if any("change" in what for what in moved.values()) else None
            moves.setdefault(behaviour, []).append(changed)
            if changed:
                cells = [["no prediction", NONE] if moved.get(what, {}).get("lost") else
                         [percent(moved[what]["change"], ".2f"), percent(moved[what]["moves"], "+.2f")] if what in moved else [NONE, NONE]
                         for what in ("time", "memory")]
                rows.append([name, f"`{behaviour}`", *cells[0], *cells[1]])
    every = f"Of every {document['every']}th row. " if document["every"] > 1 else ""
    said = [f"{words}: {', '.join(names)}." for words, names in (
        ("Without effect on what these rows have published", [f"`{b}`" for b, found in sorted(moves.items()) if set(found) <= {0, None} and 0 in found]),
        ("Cannot be taken out alone", [f"`{b}`" for b, found in sorted(moves.items()) if set(found) == {None}])) if names]
    return (every + " ".join(said) + "\n\n"
            + table(["set", "without", "times change by, %", "mean error of times, points", "bytes change by, %",
                     "mean error of bytes, points"], 4, rows))


def published_bands(path):
    """The bands as the program has them."""
    rows = [[f"`{one['machine']}`", f"`{one['program']}`", "the host" if one["host_bound"] else "the device",
             "8k and more" if one["long"] else "fewer than 8k", "several" if one["several_nodes"] else "one", str(one["count"]),
             percent(one["median"]), percent(one["largest"])] for one in read(path)["bands"]]
    return table(["machine", "program", "bound by", "tokens", "nodes", "runs", "median, %", "largest, %"], 3, rows)
