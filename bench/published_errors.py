"""How good predictions of published runs are, from the lines that bench/published.py writes: errors by group, the worst rows
with their reasons, orders of pairs, what behaviours move, and the bands that a predicted time carries.

An error is predicted / published - 1. Rows that are `left_out` count nowhere but in their own list.
"""

import collections
import itertools
import json
import math
import pathlib
import re
import statistics

WHAT = ("memory", "time")
WITHIN = (2, 5, 10, 20)  # percent
#: Published values that are nearer to each other than this have no order: repeated runs differ as much.
NO_ORDER = 0.02
NOTHING = "nothing: repeated runs"  # what published numbers of the same run differ by
#: Seconds that a launch takes at the data sheet's rate of products, on average, below which the host may take longer to make it.
HOST_BOUND = 50e-6
#: Share of a GPU's memory that is predicted to be allocated, above which PyTorch's allocator may run out of it at first.
FILLED = 0.98
LONG = 8192  # tokens
#: What is known of rows, first match first: words of the reason, and whether a line and a kind of error have it.
REASONS = (
    ("products in 8 bits, which are not imitated", lambda line, what: what == "time" and has_float8(line)),
    ("a resumed run, whose peak may be that of loading", lambda line, what: what == "memory" and line["name"].endswith(", resumed")),
    ("its program is not imitated", lambda line, what: line["program"] == "frugal"),
    ("bound by the host, which launches longer than the device computes", lambda line, what: what == "time" and host_bound(line)),
    ("fills its GPU: PyTorch's allocator gives blocks back and asks for others", lambda line, what: what == "time" and fills(line)),
    ("runs without TransformerEngine", lambda line, what: "local" in json.dumps(line["techniques"].get("kernels", {}))),
    ("Megatron-FSDP, whose units frugal has not", lambda line, what: "megatron-fsdp" in json.dumps(line["techniques"].get("sharding", {}))),
)


def read(folder):
    """{set: its lines}"""
    return {path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for path in sorted(pathlib.Path(folder).glob("*.jsonl"))}


def error(line, what):
    """None where nothing was predicted, nothing published, or where the row is left out."""
    both = line.get(what)
    return both["predicted"] / both["published"] - 1 if both and not line.get("left_out") else None


def errors(lines, what):
    return [e for line in lines if (e := error(line, what)) is not None]


def quantile(values, share):
    """The smallest of the values that this share of them does not exceed."""
    return sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]


def summary(values):
    """Of signed errors; None of none."""
    if not values:
        return None
    sizes = [abs(value) for value in values]
    return {"count": len(values), "mean": statistics.fmean(sizes), "median": statistics.median(sizes),
            "bias": statistics.median(values), "95 %": quantile(sizes, 0.95), "largest": max(values, key=abs),
            "within": {percent: sum(size <= percent / 100 for size in sizes) / len(sizes) for percent in WITHIN}}


def groups(lines, what):
    """{group: summary}, in the order of the lines; behind them "all", where there are several, and those that set no number,
    where others did."""
    found = collections.defaultdict(list)
    for line in lines:
        if (e := error(line, what)) is not None:
            found[line["group"]].append(e)
    if len(found) > 1:
        found["all"] = errors(lines, what)
    check = [line for line in lines if what not in line["used_for"]]
    if errors(check, what) and len(errors(check, what)) < len(errors(lines, what)):
        found["that set no number"] = errors(check, what)
    return {group: summary(values) for group, values in found.items()}


def has_float8(line):
    """True for products in 8 bits, but for torchtitan's, whose time its program has."""
    if line["program"].startswith("torchtitan"):
        return False
    return bool(line["techniques"].get("float8")) or "fp8" in json.dumps(line["techniques"].get("precision", ""))


def fills(line):
    return line["share_of_memory"] > FILLED


def host_bound(line):
    return line["seconds_per_launch"] is not None and line["seconds_per_launch"] < HOST_BOUND


def reason(line, what):
    return next((words for words, holds in REASONS if holds(line, what)), "not explained")


def worst(lines, what, count=10):
    """[(error, line, reason)], the largest error first."""
    found = [(e, line) for line in lines if (e := error(line, what)) is not None]
    return [(e, line, reason(line, what)) for e, line in sorted(found, key=lambda one: -abs(one[0]))[:count]]


def pairs(lines, what):
    """[(technique, published ratio, predicted ratio)] of all pairs that differ in one technique and in nothing else, and of
    those that differ in NOTHING. The ratio of bytes of a rank, or of GPU-seconds of a token."""
    alike = collections.defaultdict(list)
    for line in lines:
        if error(line, what) is not None:
            alike[json.dumps(line["alike"], sort_keys=True)].append(line)
    found = []
    for a, b in itertools.chain.from_iterable(itertools.combinations(same, 2) for same in alike.values()):
        differing = [t for t in {**a["techniques"], **b["techniques"]} if a["techniques"].get(t) != b["techniques"].get(t)]
        if len(differing) <= 1:
            scale = b["per_token"] / a["per_token"] if what == "time" else 1
            found.append((differing[0] if differing else NOTHING, *(scale * b[what][side] / a[what][side] for side in ("published", "predicted"))))
    return found


def orders(lines, what):
    """{technique: pairs, how many have an order, and which shares of those have the right sign and of all a ratio within
    a tenth}, and "all"."""
    found = collections.defaultdict(list)
    for technique, *ratios in pairs(lines, what):
        found[technique].append(ratios)
    repeated = found.pop(NOTHING, None)
    if len(found) > 1:
        found["all"] = [ratios for several in found.values() for ratios in several]
    if repeated:
        found[NOTHING] = repeated
    said = {}
    for technique, several in found.items():
        ordered = [(a, b) for a, b in several if abs(math.log(a)) > math.log1p(NO_ORDER)]
        said[technique] = {
            "pairs": len(several), "ordered": len(ordered),
            "right_sign": sum((a > 1) == (b > 1) and b != 1 for a, b in ordered) / len(ordered)
            if ordered and technique != NOTHING else None,
            "within_10": sum(abs(b / a - 1) <= 0.1 for a, b in several) / len(several)}
    return said


def moved(lines, without):
    """What the same rows' predictions and errors do when a behaviour is taken out: {what: how many rows change, by how much
    they do on average, and the mean error without it and how far it is from that with it; or how many have no prediction
    without it}."""
    found = {}
    for what in WHAT:
        both = [(a, b) for a, b in zip(lines, without) if error(a, what) is not None and error(b, what) is not None]
        changes = [b[what]["predicted"] / a[what]["predicted"] - 1 for a, b in both]
        if both:
            before, after = (statistics.fmean(abs(error(pair[side], what)) for pair in both) for side in (0, 1))
            found[what] = {"rows": sum(change != 0 for change in changes), "change": round(statistics.fmean(map(abs, changes)), 5),
                           "mean_error": round(after, 5), "moves": round(after - before, 5)}
        if lost := sum(error(a, what) is not None and error(b, what) is None for a, b in zip(lines, without)):
            found.setdefault(what, {"rows": 0})["lost"] = lost
    return found


def base_of(program):
    """The program that it is a variant of, by a configuration's behaviours."""
    return re.match(r"[^+~:]*", program)[0]


def class_of(line):
    """What a predicted time's band is chosen by (harness/calibrate/known_errors.h)."""
    return {"machine": line["machine"], "program": base_of(line["program"]), "host_bound": host_bound(line),
            "long": line["sequence"] >= LONG, "several_nodes": line["nodes"] > 1}


def bands(lines):
    """[a class, and how many published times of it there are, the median and the largest magnitude of their errors]; without
    rows that a number of the machine or the program was set by, or that run what frugal has not."""
    found = collections.defaultdict(list)
    for line in lines:
        e = error(line, "time")
        if e is not None and "time" not in line["used_for"] and not has_float8(line):
            found[json.dumps(class_of(line))].append(abs(e))
    return [json.loads(kind) | {"count": len(sizes), "median": round(statistics.median(sizes), 4), "largest": round(max(sizes), 4)}
            for kind, sizes in sorted(found.items())]


def json_of_bands(found):
    """"frugal.published-bands/1", which is compiled into the program."""
    lines = ",\n".join(f"  {json.dumps(one)}" for one in found)
    return (f'{{\n "schema": "frugal.published-bands/1",\n "host_bound_below": {HOST_BOUND:g},\n "long_from": {LONG},\n'
            f' "bands": [\n{lines}\n ]\n}}\n')


def in_words(name, lines):
    """A line for each group, and how many were not predicted, for a terminal."""
    for what in WHAT:
        for group, one in groups(lines, what).items():
            yield (f"{name:12} {group:32} {what:6} {one['count']:4} mean {100 * one['mean']:6.2f} %, median {100 * one['median']:6.2f}, "
                   f"bias {100 * one['bias']:+7.2f}, 95 % {100 * one['95 %']:6.2f}, largest {100 * one['largest']:+7.2f}")
    for why, count in collections.Counter(line["not_predicted"] for line in lines if "not_predicted" in line).items():
        yield f"{name:12} {count} not predicted: {why}"
