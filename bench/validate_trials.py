#!/usr/bin/env python3
"""Does `frugal validate` pass a sound machine every time, and does it find each fault that is put into it?

  bench/validate_trials.py [--build build/release] [--runs 20] [--fault-runs 3] [--only NAME...] RESULTS

It makes a reference of this machine, validates the machine so many times, and then the same program with a fault in
it (tests/faulty): a wrong element, a slow rank, half the bandwidth, a drift. RESULTS is a JSON file with the verdict of
each run, what failed in it, how long it took, and what else the machine did. A file that is there is gone on with: what
it has is not run again. --table writes the table of these results into PAGE, between its marks."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOUND = "none"
# What is wrong, FRUGAL_FAULT (tests/faulty/lasting.h), flags, and the check that has to fail.
FAULTS = {
    "wrong element of gelu": ("element gelu 0", ["--quick"], "operations gelu"),
    "wrong element of softmax": ("element softmax 0", ["--quick"], "operations softmax"),
    "wrong element of gemm": ("element gemm 0", ["--quick"], "operations gemm"),
    "rank 1 slower by 20 %": ("slow any 1", ["--quick"], "ranks rank/1"),
    "copies at half their rate": ("half convert 0", ["--quick"], "rooflines memory/copy"),
    "memory at half its bandwidth": ("half memory 0", ["--quick"], "peaks memory/copy"),
    "drift of 10 % a minute": ("drift any 0", [], "drift clock"),
    "drift of 10 % a minute, --quick": ("drift any 0", ["--quick"], "drift clock"),
}


def fail(why):
    print(f"validate_trials.py: {why}", file=sys.stderr)
    sys.exit(2)


def load():
    return [round(one, 2) for one in os.getloadavg()]


def validate(program, flags, reference, fault=""):
    """One run, in a few words."""
    began = load()
    command = [program, "validate", "--format", "json", *flags]
    if reference:
        command += ["--reference", reference]
    variables = {**os.environ, "FRUGAL_FAULT": fault} if fault else os.environ
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode not in (0, 1, 6):
        fail(f"{' '.join(map(str, command))} ended with status {done.returncode}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    failed = [check for check in said["checks"] if check["outcome"] == "failed"]
    return {"status": done.returncode, "verdict": said["verdict"], "text": said["text"],
            "failed": [f"{check['group']} {check['name']}" for check in failed],
            "reasons": [check["reason"] for check in failed], "skipped": said["skipped"],
            "timed": bool(said["series"]), "seconds": round(said["seconds"], 1), "others": said["others"],
            "load": began, "started": said["started"]}


class Trials:
    """The results so far, which are written after every run."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.all = {"schema": "frugal.validation-trials/2", "trials": {}}
        if self.path.exists():
            self.all = json.loads(self.path.read_text(encoding="utf-8"))

    def of(self, name):
        check = None if name == SOUND else FAULTS[name][2]
        return self.all["trials"].setdefault(name, {"check": check, "runs": []})["runs"]

    def write(self):
        text = json.dumps(self.all, indent=1) + "\n"
        part = self.path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.path)

    def add(self, name, run):
        self.of(name).append(run)
        self.write()
        print(f"{datetime.datetime.now():%H:%M:%S} {name} {len(self.of(name))}: {run['text']} "
              f"{'; '.join(run['failed'])} ({run['seconds']:.0f} s, load {run['load'][0]})", file=sys.stderr, flush=True)


def reference_of(trials, program, folder):
    """The reference that all runs have, from the results or made now."""
    path = pathlib.Path(folder) / "reference.json"
    if "reference" not in trials.all:
        began = load()
        done = subprocess.run([program, "validate", "--quick", "--write-reference", path], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            fail(f"no reference could be made, which takes a validation that passes:\n{done.stdout}{done.stderr}")
        trials.all["reference"] = json.loads(path.read_text(encoding="utf-8"))
        trials.all["reference_load"] = began
        trials.write()
    path.write_text(json.dumps(trials.all["reference"]), encoding="utf-8")
    return path


def run(arguments):
    build = pathlib.Path(arguments.build).resolve()
    sound, faulty = build / "frugal", build / "tests/frugal_faulty"
    for program in (sound, faulty):
        if not program.exists():
            fail(f"{program} is not there; build the targets frugal and frugal_faulty, or name another --build")
    wanted = {SOUND: arguments.runs, **{name: arguments.fault_runs for name in FAULTS}}
    for name in arguments.only or []:
        if name not in wanted:
            fail(f"--only is {name!r}; it must be one of {', '.join(wanted)}")
    trials = Trials(arguments.results)
    with tempfile.TemporaryDirectory() as folder:
        reference = reference_of(trials, sound, folder)
        for name, runs in wanted.items():
            if arguments.only and name not in arguments.only:
                continue
            fault, flags, _ = FAULTS.get(name, ("", ["--quick"], ""))
            while len(trials.of(name)) < runs:
                trials.add(name, validate(faulty if fault else sound, flags, reference, fault))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="where the programs are")
    parser.add_argument("--runs", type=int, default=20, help="of the sound machine")
    parser.add_argument("--fault-runs", type=int, default=3, help="of each fault")
    parser.add_argument("--only", action="append", help="only these runs, by name")
    parser.add_argument("results", metavar="RESULTS")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
