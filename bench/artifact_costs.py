#!/usr/bin/env python3
"""Measures what each artifact costs here: time, memory and disk.

    artifact_costs.py FILE.json [--frugal PROGRAM] [ARTIFACT...]

Every artifact is run alone, in a fresh folder: on its virtual machine, and where it has cases for this processor, on it.
docs/artifact-evaluation.md is made of the file.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import costs

ROOT = pathlib.Path(__file__).resolve().parent.parent


def places(artifact):
    """Timelines have no cases, and are computed on no machine."""
    on_cpu = any(case["on"] == "cpu" for case in artifact["cases"])
    return ["virtual", "cpu"] if on_cpu else ["virtual"]


def cost_of(frugal, artifact, place):
    """Of one artifact at one place."""
    with tempfile.TemporaryDirectory() as folder:
        cost = costs.run([frugal, "reproduce", artifact["id"], "--on", place, "--out", "out", "--format", "json"],
                         cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        records = pathlib.Path(folder, "out/records.jsonl")
        cases = len(records.read_text(encoding="utf-8").splitlines()) if records.exists() else 0
        return {"id": artifact["id"], "on": place, "cases": cases, **cost, "disk_bytes": costs.disk(folder)}


def machine(frugal):
    said = subprocess.run([frugal, "measure", "--model", "gpt-tiny", "--on", "virtual", "--format", "json", "--out",
                           tempfile.mkdtemp()], capture_output=True, text=True, check=True).stdout
    environment = json.loads(said)["environment"]
    return {"processor": environment["processor"]["model"], "cores": os.cpu_count(),
            "memory_bytes": environment["memory_bytes"], "system": platform.freedesktop_os_release()["PRETTY_NAME"],
            "commit": environment["build"]["commit"], "load_average": os.getloadavg()[0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("artifacts", nargs="*")
    parser.add_argument("--frugal", default=ROOT / "build/release/frugal", type=pathlib.Path)
    given = parser.parse_args()
    if not given.frugal.exists():
        parser.exit(2, f"artifact_costs.py: {given.frugal} not found; first run scripts/build.sh release frugal\n")
    return given


def main():
    given = arguments()
    frugal = given.frugal.resolve()
    listed = subprocess.run([frugal, "list", *given.artifacts, "--format", "json"], capture_output=True, text=True,
                            check=False)
    if listed.returncode != 0:
        sys.stderr.write(listed.stderr)
        return listed.returncode
    artifacts = json.loads(listed.stdout)["artifacts"]
    result = {"schema": "frugal.costs/1", "machine": machine(frugal), "runs": []}
    for artifact in artifacts:
        for place in places(artifact):
            result["runs"].append(cost_of(frugal, artifact, place))
            print(json.dumps(result["runs"][-1]), file=sys.stderr)
    pathlib.Path(given.file).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
