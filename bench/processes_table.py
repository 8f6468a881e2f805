#!/usr/bin/env python3
"""The table of docs/cluster.md that compares ranks as processes with ranks as threads, from the records of
`mpirun -n 2 frugal bench processes`.

  bench/processes_table.py results/MACHINE/bench-processes.jsonl docs/cluster.md

Of each case the records may have several runs (--rerun all). A ratio is the median run's, with the lowest and the
highest; of one run, its 95 % interval over rounds."""

import json
import pathlib
import statistics
import sys

from step_results import ratio

BEGIN, END = "<!-- processes -->", "<!-- /processes -->"


def fail(why):
    print(f"processes_table.py: {why}", file=sys.stderr)
    sys.exit(2)


def runs_of(path):
    """The records of each case's runs, as {(what, by): [record]}."""
    runs = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        what, by = record["case"].rsplit("/", 1)
        runs.setdefault((what, by), []).append(record)
    return runs


def times(record):
    return record["metrics"]["time"]["samples"]


def compared(processes, threads):
    """The ratio, with what it varies by."""
    each = [ratio([[x] for x in times(ours)], [[x] for x in times(theirs)])
            for ours, theirs in zip(processes, threads, strict=True)]
    values = sorted(one["value"] for one in each)
    low, high = each[0]["interval"] if len(each) == 1 else (values[0], values[-1])
    return f"{statistics.median(values):.3f} [{low:.3f}, {high:.3f}]", len(each)


def milliseconds(records):
    return f"{1e3 * statistics.median(x for record in records for x in times(record)):.4g}"


def table(path):
    runs = runs_of(path)
    lines = ["| | threads, ms | processes, ms | time over threads' | runs |", "|---|---:|---:|---|---:|"]
    for (what, by), threads in runs.items():
        if by != "threads":
            continue
        processes = runs.get((what, "processes"))
        if processes is None:
            fail(f"{path}: there is no {what}/processes; start mpirun -n 2 frugal bench processes")
        said, count = compared(processes, threads)
        lines.append(f"| {what} | {milliseconds(threads)} | {milliseconds(processes)} | {said} | {count} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) != 3:
        fail("usage: bench/processes_table.py RECORDS PAGE")
    page = pathlib.Path(sys.argv[2])
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        fail(f"{page}: the table stands between {BEGIN} and {END}; write them where it is to be")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:begin]}\n{table(sys.argv[1])}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
