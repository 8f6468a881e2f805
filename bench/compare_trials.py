#!/usr/bin/env python3
"""How often `frugal compare` finds a slowdown, and how often one that is not there.

  bench/compare_trials.py FRUGAL FRUGAL_FAULTY --out FILE.json [--processes 14] [--same 200] [--slower 50]
                          [--google compare.py] [--nvbench nvbench_compare.py]

A trial is one case of `frugal bench memory-bound --threads 1`, run as so many processes of each side, by turns in random
order (frugal compare --repeat). Both sides are the same program. In trials of a slowdown the candidate's operations take
5 or 10 % longer, by the clock (tests/faulty/lasting.h); the cases of a mere copy do not, and are left out. Every case is
judged by itself, as a comparison of one quantity. Cases of one command share their processes, so trials are not independent of each other, but those of different commands are.
FILE.json is written after every command; a file that is there is gone on with.

The comparison scripts of Google Benchmark and of nvbench judge the same samples, where they are given: all samples of a
side as one run's. Needs nothing but Python; nvbench's script needs tabulate, colorama and jsondiff."""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

GLOBS = ["f32/softmax/*", "bf16/softmax-backward/*", "f32/gelu*", "bf16/gelu*", "f32/rotary/*", "f32/layer-norm*",
         "bf16/rms-norm/*", "f32/bias-dropout-add/*", "bf16/bias-dropout-add-backward/*", "bf16/softmax/*"]


def frugal(program, *words, **options):
    return subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=False, **options)


def records(folder):
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def slowed(faulty, fraction, folder):
    """A program that is the faulty one, whose operations take longer by a fraction."""
    path = folder / f"slower-{fraction}"
    path.write_text(f"#!/bin/sh\nFRUGAL_FAULT='slow any 0' FRUGAL_FAULT_SLOWER={fraction} exec '{faulty}' \"$@\"\n",
                    encoding="utf-8")
    path.chmod(0o755)
    return path


def run_pairs(programs, glob, processes, seed, folder):
    """Records of both sides, by case."""
    sides = [folder / "base", folder / "candidate"]
    for program, side in zip(programs, sides, strict=True):
        shutil.rmtree(side, ignore_errors=True)
        ended = frugal(program, "bench", "memory-bound", "--case", glob, "--samples", 20, "--budget", 1, "--threads", 1,
                        "--out", side)
        if ended.returncode:
            sys.exit(f"compare_trials.py: {glob}: {ended.stderr.splitlines()[-1]}")
    ended = frugal(programs[0], "compare", *sides, "--repeat", processes - 1, "--seed", seed, "--format", "json",
                   "--base-program", programs[0], "--candidate-program", programs[1])
    if ended.returncode:
        sys.exit(f"compare_trials.py: {glob}: {ended.stderr.splitlines()[-1]}")
    by_case = {}
    for index, side in enumerate(sides):
        for record in records(side):
            by_case.setdefault(record["case"], ([], []))[index].append(record)
    return by_case


def judged_by_frugal(program, both, folder):
    sides = [folder / "one-base", folder / "one-candidate"]
    for side, of_side in zip(sides, both, strict=True):
        side.mkdir(exist_ok=True)
        (side / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in of_side), encoding="utf-8")
    ended = frugal(program, "compare", *sides, "--format", "json")
    if ended.returncode:
        sys.exit(f"compare_trials.py: {ended.stderr}")
    (quantity,) = [q for q in json.loads(ended.stdout)["quantities"] if q["quantity"] == "time"]
    return {key: quantity[key] for key in ("change", "ratio", "interval", "p", "by_turns")}


def samples(of_side):
    return [sample for record in of_side for sample in record["metrics"]["time"]["samples"]]


def judged_by_google(script, both, folder):
    """Its U test at 5 %, and the sign of the medians' difference."""
    files = []
    for name, of_side in zip(("base", "candidate"), both, strict=True):
        times = [1e9 * sample for sample in samples(of_side)]
        runs = [{"name": "case", "run_name": "case", "run_type": "iteration", "repetitions": len(times),
                 "repetition_index": i, "threads": 1, "iterations": 1, "real_time": time, "cpu_time": time,
                 "time_unit": "ns"} for i, time in enumerate(times)]
        files.append(folder / f"google-{name}.json")
        files[-1].write_text(json.dumps({"context": {}, "benchmarks": runs}), encoding="utf-8")
    dumped = folder / "google.json"
    subprocess.run([sys.executable, script, "--no-color", "-d", dumped, "benchmarks", *files], check=True,
                   capture_output=True)
    (result,) = [r for r in json.loads(dumped.read_text(encoding="utf-8")) if r["run_type"] != "aggregate"]
    p = result["utest"]["time_pvalue"]
    if p is None or p >= 0.05:
        return "same"
    slower = statistics.median(samples(both[1])) > statistics.median(samples(both[0]))
    return "slower" if slower else "faster"


def nvbench_file(of_side, path):
    times = samples(of_side)
    mean = statistics.fmean(times)
    noise = statistics.stdev(times) / mean

    def summary(tag, value):
        return {"tag": tag, "name": tag, "data": [{"name": "value", "type": "float64", "value": repr(value)}]}
    state = {"name": "case", "device": 0, "type_config_index": 0, "axis_values": [], "is_skipped": False, "summaries": [
        summary("nv/cold/time/gpu/mean", mean), summary("nv/cold/time/gpu/stdev/relative", noise)]}
    version = {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}
    path.write_text(json.dumps({
        "meta": {"argv": [], "version": {"json": version, "nvbench": version}},
        "devices": [{"id": 0, "name": "processor"}],
        "benchmarks": [{"name": "trial", "index": 0, "devices": [0], "axes": [], "states": [state]}]}), encoding="utf-8")
    return path


def judged_by_nvbench(script, both, folder):
    files = [nvbench_file(of_side, folder / f"nvbench-{i}.json") for i, of_side in enumerate(both)]
    ended = subprocess.run([sys.executable, script, "--no-color", *files], capture_output=True, text=True, check=False)
    found = re.findall(r"\b(SAME|FAST|SLOW)\b", ended.stdout)
    if not found:
        sys.exit(f"compare_trials.py: {script} said {ended.stdout} {ended.stderr}")
    return {"SAME": "same", "FAST": "faster", "SLOW": "slower"}[found[0]]


class Trials:
    """The trials so far, which are written after every command."""

    def __init__(self, path, processes):
        self.path = path
        self.all = {"schema": "frugal.compare-trials/1", "processes": processes, "cpus": os.cpu_count(), "trials": []}
        if path.exists():
            self.all = json.loads(path.read_text(encoding="utf-8"))

    def of(self, kind):
        return [trial for trial in self.all["trials"] if trial["slower_by"] == kind]

    def add(self, trials, example):
        self.all["trials"] += trials
        self.all |= {key: example[key] for key in ("device", "environment")}
        rest = {key: value for key, value in self.all.items() if key != "trials"}
        head = json.dumps({**rest, "trials": []}, indent=1).removesuffix("[]\n}")
        lines = ",\n".join("  " + json.dumps(trial) for trial in self.all["trials"])
        part = self.path.with_suffix(".part")
        part.write_text(f"{head}[\n{lines}\n ]\n}}\n", encoding="utf-8")
        part.replace(self.path)


def trials_of_command(kind, number, asked, folder):
    """A trial of each of its cases, with a slowdown of `kind`, 0 for none; and one record."""
    glob = GLOBS[number % len(GLOBS)]
    programs = [asked.frugal, asked.frugal if kind == 0 else slowed(asked.faulty, kind, folder)]
    trials = []
    for case, both in run_pairs(programs, glob, asked.processes, number + 1, folder).items():
        if kind and case.endswith("/copy"):
            continue
        trial = {"slower_by": kind, "command": glob, "seed": number + 1, "case": case,
                 "frugal": judged_by_frugal(asked.frugal, both, folder),
                 "samples": [[record["metrics"]["time"]["samples"] for record in of_side] for of_side in both]}
        if asked.google:
            trial["google"] = judged_by_google(asked.google, both, folder)
        if asked.nvbench:
            trial["nvbench"] = judged_by_nvbench(asked.nvbench, both, folder)
        trials.append(trial)
    return trials, both[0][0]


def run(asked):
    trials = Trials(asked.out, asked.processes)
    with tempfile.TemporaryDirectory() as name:
        for kind, count in ((0, asked.same), (0.1, asked.slower), (0.05, asked.slower)):
            number = len({trial["seed"] for trial in trials.of(kind)})
            while (missing := count - len(trials.of(kind))) > 0:
                made, example = trials_of_command(kind, number, asked, pathlib.Path(name))
                trials.add(made[:missing], example)
                number += 1
                print(f"slower by {kind}: {len(trials.of(kind))} of {count}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frugal", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("faulty", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--same", type=int, default=200)
    parser.add_argument("--slower", type=int, default=50)
    parser.add_argument("--google", type=pathlib.Path)
    parser.add_argument("--nvbench", type=pathlib.Path)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
