"""What recomputation by module saves at equal memory, for paper_tables.py: of what bench/recompute_frontier.py found."""

from evaluation_tables import read, table

KINDS = ("recompute-frontier",)
GIB = 2**30
PARTS = (0.25, 0.5, 0.75)  # of the way from the memory of full recomputation to that of none


def fastest(ways, memory):
    return min((way for way in ways if way["peak_bytes"] <= memory), key=lambda way: way["step_seconds"])


def cells(way):
    return [f"{way['modules'] or way['recompute']}, {way['layers']} layers", f"{way['step_seconds']:.4g}"]


def recompute_frontier(path):
    rows = []
    for case in read(path)["cases"]:
        peaks = [way["peak_bytes"] for way in case["frontier_without_modules"]]
        for part in PARTS:
            memory = min(peaks) + part * (max(peaks) - min(peaks))
            ways = [fastest(case[key], memory) for key in ("frontier", "frontier_without_modules")]
            saved = 1 - ways[0]["step_seconds"] / ways[1]["step_seconds"]
            rows.append([case["model"], case["machine"], f"{memory / GIB:.1f}", *cells(ways[0]), *cells(ways[1]),
                         f"{100 * saved:.1f}"])
    return table(["model", "machine", "GiB of a rank", "fastest", "step time, virtual s", "without modules",
                  "step time, virtual s", "time saved, %"], 1, rows)
