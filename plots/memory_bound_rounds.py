"""Rounds of memory-bound operations beside a copy, from the records of 'frugal bench memory-bound', one run or
several: what plots/memory_bound.py draws."""

import statistics

import reproduction

ARTIFACT = "bench/memory-bound"
TARGET = 0.8
#: GB/s of the copy, which part the two states of the machine of results/amd-epyc-2-cores.
BOUNDARY = 55


def rounds(path):
    """For every case its rounds: (rate of the copy in GB/s, ratio of rates)."""
    timings = {}  # in whose rounds an operation and the copy took turns
    try:
        records = reproduction.lines(path)
    except (OSError, ValueError) as error:
        reproduction.fail(f"{path}: {error}; give the records.jsonl of frugal bench memory-bound")
    for record in records:
        if record.get("artifact") == ARTIFACT and record["status"] == "ok":
            options = record["options"]
            case = "/".join(options[key] for key in ("operation", "width", "type") if key in options)
            timings.setdefault((case, record["rounds"]), {})[options["by"]] = record
    cases = {}
    for (case, _), by in timings.items():
        if len(by) == 2:
            cases.setdefault(case, []).extend(
                (copy / 1e9, ours / copy) for ours, copy in zip(rates_of(by["frugal"]), rates_of(by["copy"])))
    if not cases:
        reproduction.fail(f"{path}: no operation beside a copy; give the records.jsonl of frugal bench memory-bound")
    return cases


def rates_of(record):
    """Bytes per second in each round."""
    (work,) = record["metrics"]["work"]["samples"]
    return [work / seconds for seconds in record["metrics"]["time"]["samples"]]


def medians(cases, boundary):
    """For every case the median ratio while the copy was slower than the boundary, and faster; None
    where there were fewer than five rounds."""
    def median(ratios):
        return statistics.median(ratios) if len(ratios) >= 5 else None
    return {case: {"slow": median([ratio for copy, ratio in all_rounds if copy < boundary]),
                   "fast": median([ratio for copy, ratio in all_rounds if copy >= boundary])}
            for case, all_rounds in cases.items()}


def rates(cases, boundary):
    """The tenth and ninetieth percentile of the copy's rate on either side of the boundary."""
    copies = [copy for all_rounds in cases.values() for copy, _ in all_rounds]
    def spread(values):
        if len(values) < 2:
            return "none"
        tenths = statistics.quantiles(values, n=10)
        share = round(100 * len(values) / len(copies))
        return f"{tenths[0]:.0f} to {tenths[-1]:.0f} GB/s, {share} % of rounds"
    return {"slow": spread([c for c in copies if c < boundary]),
            "fast": spread([c for c in copies if c >= boundary])}


def missed(table, state):
    """Of a state the cases that are known, and those of them that miss the target."""
    known = {case: row[state] for case, row in table.items() if row[state]}
    return known, sorted(case for case, ratio in known.items() if ratio < TARGET)
