"""Every record that a test makes is run again, and its case comes out the same: by `frugal rerun` in a folder with nothing
but the record, and from its own command."""

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
# The user's files of which a record has the hash alone.
USERS = {"text": "--text", "weights": "--load-weights"}
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


def words_of(record):
    """The variables before a record's command, and the words behind `frugal`."""
    variables, _, arguments = record["command"].partition("frugal ")
    return dict(word.split("=", 1) for word in shlex.split(variables)), shlex.split(arguments)


def run_command(test, record, others):
    variables, words = words_of(record)
    if "--checkpoint" in words or "--resume" in words:  # what it goes on from has changed since
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        beside(folder, test.folder)
        done = subprocess.run([FRUGAL, *words, "--out", "again"], cwd=folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **variables})
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


def flags_of(test, record):
    """The user's files of a record, by the flags of `rerun`."""
    words = words_of(record)[1]
    flags = []
    for key, flag in USERS.items():
        if key in record["options"]:
            name = words[words.index(flag) + 1]
            flags += [flag, str(next(path for path in sorted(test.folder.rglob(name)) if "records" not in path.name))]
    return flags


def rerun(test, records):
    """Records that the same command of `rerun` can run."""
    variables = words_of(records[0])[0]
    flags = flags_of(test, records[0])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        done = subprocess.run([FRUGAL, "rerun", "records.jsonl", *flags, "--out", "again", "--format", "json"], cwd=folder,
                              capture_output=True, text=True, check=False, env={**os.environ, **variables})
        test.assertIn(done.returncode, (0, 2), done.stdout + done.stderr)
        again = [json.loads(line) for line in (folder / "again/records.jsonl").read_text().splitlines()]
    said = json.loads(done.stdout)["records"]
    test.assertEqual(len(said), len(records))
    for record, about in zip(records, said, strict=True):
        if about["verdict"] == "not run":
            allowed = (record["status"] == "skipped" or "resumed" in record["options"]
                       or "is not the file that it had" in about["reason"])
            test.assertTrue(allowed, about)
            continue
        test.assertEqual(about["verdict"], "equal", about)
        new = again.pop(0)
        test.assertEqual(outcome(new), outcome(record), record["command"])
    test.assertEqual(again, [])


def is_run_again(record):
    """A case on the processor is timed for a while: those of the papers' tables are tried by reproduce's own tests."""
    of_paper = record["artifact"] != "measure" and not record["artifact"].startswith("bench/")
    return record["status"] in ("ok", "oom", "skipped") and not (of_paper and record["source"] != "virtual")


def check(test):
    if "FRUGAL_RUN_ONCE" in os.environ:  # all but CI: what takes long there is done once
        return
    by_command, by_flags = {}, {}
    for record in records_below(test.folder):
        if not is_run_again(record):
            continue
        key = record["fingerprint"], *identity(record)
        if key not in seen:
            seen.add(key)
            flags = *flags_of(test, record), *words_of(record)[0].items()
            by_flags.setdefault(flags, []).append(record)
        by_command.setdefault(record["command"], {})[identity(record)] = record
    for records in by_flags.values():
        rerun(test, records)
    for command, records in by_command.items():
        if command in seen or command.startswith("frugal rerun "):
            continue
        seen.add(command)
        run_command(test, next(iter(records.values())), list(records.values()))
