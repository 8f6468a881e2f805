#!/usr/bin/env python3
"""Whether frugal computes here what it computed where its results were made; the end of `./reproduce.sh --quick`.

    quick_check.py PROGRAM [--results FOLDER] [--only ARTIFACT...]

1. On virtual machines: all artifacts are regenerated, or those that are named. Every cell and every claim must be that
   of FOLDER, to the bit.
2. On this processor: a small model is trained serially and by parallel ranks. In float64 their losses must be the serial
   run's, but for the order of sums; in float32 those of float64, but for its precision. The ledger's peak must be that of
   the same run on a virtual machine, to the byte.

The last line begins with OK or FAILED, and the exit status is 0 or 1.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Trainings of the same batches by one rank, two and four, in every combination.
TRAINED = ("measure", "--model", "gpt-tiny", "--steps", "5", "--microbatches", "4", "--type", "f64,f32",
           "--tensor-parallel", "1,2", "--pipeline-parallel", "1,2", "--recompute", "none,selective")
# float64 has 53 bits: some thousand sums in another order are off by less. A loss in float32 is one of 24 bits.
ALLOWED = {"f64": 1e-12, "f32": 1e-6}


class Failed(Exception):
    """What is wrong, in one line."""


def answer(program, *arguments):
    """What the program prints as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = [] if arguments[0] == "list" else ["--out", "out"]
        done = subprocess.run([program, *arguments, "--format", "json", *out], cwd=folder, capture_output=True,
                              text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise Failed(f"status {done.returncode} of frugal {' '.join(arguments)}: {said[-1]}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Failed(f"frugal {' '.join(arguments)} printed no JSON: {error}") from error


def named(entries):
    """Cells or claims by what names each."""
    keys = ("artifact", "row", "column", "id", "source", "on", "scale", "program")
    return {tuple(str(entry.get(key, "")) for key in keys): entry for entry in entries}


def expected_of(kind, all_expected, here, chosen):
    """Those of the artifacts. A cell says whose it is; so does the name of most claims, and of the others those that are
    made here are held against what is expected."""
    names = [artifact.split("/")[1] for artifact in chosen]
    return {name: entry for name, entry in all_expected.items()
            if (entry["artifact"] in chosen if kind == "cells" else entry["id"].split("/")[0] in names or name in here)}


def differences(kind, here, expected):
    """Each in words."""
    for name in sorted(here.keys() | expected.keys()):
        what = f"{kind} {' / '.join(part for part in name if part)}"
        if name not in here or name not in expected:
            yield f"{what} is {'not expected' if name in here else 'missing'}"
        elif here[name] != expected[name]:
            key = next(key for key in here[name].keys() | expected[name] if
                       here[name].get(key) != expected[name].get(key))
            yield f"{what}: {key} is {here[name].get(key)}, expected {expected[name].get(key)}"


def check_paper(program, results, paper, chosen):
    """How many cells and claims are as expected. Raises Failed."""
    begin = time.monotonic()
    here = answer(program, "reproduce", *chosen, "--on", "virtual")
    expected = json.loads((results / f"{paper}.json").read_text(encoding="utf-8"))
    counts, wrong = {}, []
    for kind in ("cells", "claims"):
        made = named(here[kind])
        wanted = expected_of(kind, named(expected[kind]), made, chosen)
        wrong += differences(kind[:-1], made, wanted)
        counts[kind] = len(wanted)
    for line in wrong[:10]:
        print(f"  {line}")
    if wrong:
        raise Failed(f"{paper}: {len(wrong)} of {sum(counts.values())} cells and claims are not as expected; "
                     f"the first: {wrong[0]}")
    print(f"{paper}: {len(chosen)} artifacts on virtual machines, {counts['cells']} cells and {counts['claims']} claims "
          f"as expected, to the bit ({time.monotonic() - begin:.0f} s)", flush=True)
    return counts


def check_virtual(program, results, only):
    """Of all papers together."""
    papers, total = {}, {"artifacts": 0, "cells": 0, "claims": 0}
    for artifact in only or [artifact["id"] for artifact in answer(program, "list")["artifacts"]]:
        papers.setdefault(artifact.split("/")[0], []).append(artifact)
    for paper, chosen in papers.items():
        counts = check_paper(program, results, paper, chosen)
        for kind, count in {"artifacts": len(chosen), **counts}.items():
            total[kind] += count
    return total


def in_words(training):
    configuration = training["configuration"]
    return ", ".join(f"{key.replace('_', ' ')} {configuration[key]}" for key in
                     ("type", "tensor_parallel_size", "pipeline_parallel_size", "recompute"))


def check_processor(program):
    """How many trainings were compared, of which the first is the serial one in float64. Raises Failed."""
    begin = time.monotonic()
    trainings, counted = (answer(program, *TRAINED, "--on", place) for place in ("cpu", "virtual"))
    if not len(trainings) == len(counted) > 0:
        raise Failed(f"{len(trainings)} trainings ran on the processor, and {len(counted)} on a virtual machine")
    for here, there in zip(trainings, counted, strict=True):
        off = max(abs(loss / serial - 1) for loss, serial in zip(here["losses"], trainings[0]["losses"], strict=True))
        allowed = ALLOWED[here["configuration"]["type"]]
        if not off <= allowed:  # not a number is not, either
            raise Failed(f"{in_words(here)}: losses are {off:.1e} off those of the serial run in float64, at most "
                         f"{allowed:.0e} is allowed")
        peaks = [training["memory"]["peak_total"] for training in (here, there)]
        if peaks[0] != peaks[1]:
            raise Failed(f"{in_words(here)}: a rank held {peaks[0]} bytes here and {peaks[1]} on a virtual machine")
    print(f"cpu: {len(trainings)} trainings in float64 and float32, serial and parallel: losses are the serial run's in "
          f"float64, and memory is that of virtual runs to the byte ({time.monotonic() - begin:.0f} s)", flush=True)
    return len(trainings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--results", default=ROOT / "results/virtual", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", metavar="ARTIFACT")
    given = parser.parse_args()
    begin = time.monotonic()
    program = given.program.resolve()
    try:
        total = check_virtual(program, given.results, given.only)
        trainings = check_processor(program)
    except (Failed, OSError) as failure:
        print(f"FAILED: {failure}")
        return 1
    print(f"OK: {total['artifacts']} artifacts of the papers have the {total['cells']} cells and {total['claims']} "
          f"claims that are expected, and {trainings} trainings on this processor agree, "
          f"{time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
