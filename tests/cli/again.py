"""Every record that a test makes is run again from its own command, and its case comes out the same."""

import functools
import json
import os
import pathlib
import shlex
import subprocess
import tempfile

FRUGAL = os.environ["FRUGAL"]
# What a run gives that does not depend on how fast it was.
GIVEN = ("status", "configuration", "options", "fingerprint", "memory", "flops", "work", "losses", "held_out")
seen = set()


@functools.lru_cache
def program():
    """The hash of this program, by which its records are known."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([FRUGAL, "measure", "--model", "gpt-tiny", "--on", "virtual"], cwd=folder, check=True,
                       capture_output=True)
        return json.loads(pathlib.Path(folder, "out/records.jsonl").read_text())["program"]


def records_below(folder):
    for file in sorted(path for path in folder.rglob("records*.jsonl") if path.is_file()):
        for line in file.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and record.get("program") == program():
                yield record


def beside(folder, files):
    """The user's files, by name: a command names no folders."""
    for path in sorted(files.rglob("*")):
        if not path.name.startswith("records") and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)


def outcome(record):
    given = {key: record[key] for key in GIVEN}
    if record["source"] == "virtual":
        given["metrics"] = record["metrics"]
    return given


def identity(record):
    """What is one case: an artifact has it once for each program that is executed."""
    return record["artifact"], record["case"], (record["configuration"] or {}).get("program")


def files_changed(again, other):
    """Whether the test has since written another text or schedule to a file of the same name."""
    options = [r["options"] for r in again if identity(r) == identity(other)]
    return any(other["options"].get(key, new.get(key)) != new.get(key, other["options"].get(key))
               for new in options for key in ("schedule_file", "text", "weights"))


def run_again(test, record, others):
    *variables, first = record["command"].partition("frugal ")[::2]
    words = [FRUGAL, *shlex.split(first)]
    environment = {**os.environ, **dict(word.split("=", 1) for word in shlex.split(variables[0]))}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        beside(folder, test.folder)
        done = subprocess.run([*words, "--out", "again"], cwd=folder, capture_output=True, text=True, check=False,
                              env=environment)
        if record["status"] == "skipped" and record["artifact"] == "measure":
            test.assertEqual(done.returncode, 2, record["command"])
            test.assertIn(record["reason"], done.stderr)
            return
        test.assertTrue((folder / "again/records.jsonl").exists(), f"{record['command']}: {done.stderr}")
        again = [json.loads(line) for line in (folder / "again/records.jsonl").read_text().splitlines()]
    for other in others:
        if files_changed(again, other):
            continue
        same = [r for r in again if identity(r) == identity(other)]
        test.assertEqual(len(same), 1, record["command"])
        test.assertEqual(outcome(same[0]), outcome(other), record["command"])


def check(test):
    if "FRUGAL_RUN_ONCE" in os.environ:  # all but CI: what takes long there is done once
        return
    by_command = {}
    for record in records_below(test.folder):
        if record["status"] in ("ok", "oom", "skipped"):
            by_command.setdefault(record["command"], {})[identity(record)] = record
    for command, records in by_command.items():
        # A case on the processor is timed for a while: those of the papers' tables are tried by reproduce's own tests.
        if command in seen or (" reproduce " in f" {command}" and "--on virtual" not in command):
            continue
        seen.add(command)
        run_again(test, next(iter(records.values())), list(records.values()))
