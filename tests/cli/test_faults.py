"""What goes wrong in a run of several ranks: every process ends in time, says whose fault it was, and what was
finished is kept. FRUGAL_FAULTY is the program in which something goes wrong. Each kind of fault is tried at two moments,
drawn by the number of commits; with FRUGAL_WRITE_FAULTS, which is docs/cluster.md, at all of them, and that gets the
table."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time
import unittest

import processes
from program import FRUGAL, SOURCE, Cli

FAULTY = os.environ.get("FRUGAL_FAULTY", "")
WRITE = os.environ.get("FRUGAL_WRITE_FAULTS", "")
BEGIN, END = "<!-- faults -->", "<!-- /faults -->"
COMMITS = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=SOURCE, capture_output=True, text=True,
                         check=False).stdout.strip()
RANKS = 4
DEADLINE = 2.0  # seconds, of the runs below
# To end, a run takes the deadline, what explains it, and what mpirun takes to end its processes.
LIMIT = DEADLINE * 2 + 6
RUN = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--tensor-parallel", "2",
       "--pipeline-parallel", "2", "--microbatches", "2", "--steps", "40"]
MOMENTS = ["start", "forward", "backward", "optimizer", "write"]
# Whose fault it is, in words, and the exit status: of threads, and of processes (137 and 1 are mpirun's
# own, which may come before or after frugal's).
KINDS = {
    "kill": ("the process is killed (SIGKILL)", r"rank {}: lost", {-9}, {137, 5}),
    "stall": ("the rank stops (SIGSTOP; a thread sleeps)", r"rank {} is late", {4}, {4}),
    "throw": ("an exception", r"rank {}: thrown by the test", {6}, {6}),
    "memory": ("no more memory", r"rank {}: the host has no more memory", {3}, {3}),
    "terminate": ("the launcher, or the process, is to end (SIGTERM)", "interrupted", {130}, {1, 130}),
    "interrupt": ("the same by the user (SIGINT)", "interrupted", {130}, {1, 130}),
    "nan": ("a NaN is computed", r"rank {} was the first with what is not finite", {6}, {6}),
}


class Faults(Cli):
    table = []

    def setUp(self):
        super().setUp()
        self.run_frugal("measure", "--model", "gpt-tiny", "--on", "cpu")
        self.finished = (self.folder / "out/records.jsonl").read_text()

    def threads(self, program, *arguments, variables=None):
        return subprocess.run([program, *RUN, *arguments], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=120, env={**os.environ, **(variables or {})})

    def kept(self):
        """The finished record is there, no line is half a record, and the last checkpoint is whole."""
        text = (self.folder / "out/records.jsonl").read_text()
        self.assertTrue(text.startswith(self.finished))
        for line in text.splitlines():
            json.loads(line)
        whole = self.folder / "k/step-00000040/manifest.json"
        if whole.exists():  # the launcher has taken longer to act than the steps
            self.assertEqual(json.loads(whole.read_text())["losses"], self.expected())
            return
        there = [path for path in self.folder.glob("k/step-*") if path.suffix != ".part"]
        done = self.threads(FRUGAL, *(["--resume", "k"] if there else []), "--out", "again", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["losses"], self.expected())

    @classmethod
    def expected(cls):
        """The losses of a run to which nothing happens."""
        if not hasattr(cls, "undisturbed"):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([FRUGAL, *RUN, "--format", "json"], cwd=folder, capture_output=True, text=True,
                                      check=True)
            cls.undisturbed = json.loads(done.stdout)["losses"]
        return cls.undisturbed

    def try_fault(self, kind, moment, rank, as_processes):
        """One fault; returns what the table says of it."""
        what, named, of_threads, of_processes = KINDS[kind]
        arguments = ["--deadline", str(DEADLINE), "--out", "out", "--checkpoint", "k", "--every", "5"]
        variables = {"FRUGAL_FAULT": f"{kind} {moment} {rank}"}
        begin = time.monotonic()
        if as_processes:
            done = processes.run(RANKS, FAULTY, *RUN, *arguments, folder=self.folder, variables=variables)
        else:
            done = self.threads(FAULTY, *arguments, variables=variables)
        seconds = time.monotonic() - begin
        # A thread that is killed takes the others with it; and what is written all ranks write as one.
        by_user = kind in ("terminate", "interrupt")
        names = by_user or as_processes or (kind != "kill" and moment != "write")
        with self.subTest(kind=kind, moment=moment, rank=rank, processes=as_processes):
            self.assertIn(f"fault: {kind}", done.stderr)
            self.assertIn(done.returncode, of_processes if as_processes else of_threads, done.stderr)
            self.assertLess(seconds, LIMIT)
            said = done.stderr + (self.folder / "out/records.jsonl").read_text()
            if names:
                self.assertRegex(said, named.format(rank))
            self.kept()
        return [what, moment, "processes" if as_processes else "threads", str(done.returncode),
                "the user's" if by_user else f"rank {rank}'s" if names else "the process's", f"{seconds:.1f}"]

    def try_all(self, kind):
        draw = random.Random(f"20261125 {kind}")
        for moment in MOMENTS if WRITE else random.Random(f"{COMMITS} {kind}").sample(MOMENTS, 2):
            for as_processes in (False, True):
                # Nothing is computed then; and for threads that wait for the disk nobody waits.
                if moment == "write" and (kind == "nan" or (kind == "stall" and not as_processes)):
                    continue
                # Records are the first rank's to write; checkpoints are everybody's.
                rank = draw.randrange(RANKS)
                base = self.folder
                self.folder = base / f"{moment}-{as_processes}"
                self.folder.mkdir()
                shutil.copytree(base / "out", self.folder / "out")
                self.table.append(self.try_fault(kind, moment, rank, as_processes))
                shutil.rmtree(self.folder)
                self.folder = base

    def test_kill(self):
        self.try_all("kill")

    def test_stall(self):
        self.try_all("stall")

    def test_throw(self):
        self.try_all("throw")

    def test_memory(self):
        self.try_all("memory")

    def test_nan(self):
        self.try_all("nan")

    def test_terminate(self):
        self.try_all("terminate")

    def test_interrupt(self):
        self.try_all("interrupt")

    @classmethod
    def tearDownClass(cls):
        if not WRITE:
            return
        order = [what for what, *_ in KINDS.values()]
        rows = sorted(cls.table, key=lambda row: order.index(row[0]))
        lines = ["| what goes wrong | when | ranks | exit status | said to be whose | ended after, s |",
                 "|---|---|---|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)]
        page = pathlib.Path(WRITE).read_text(encoding="utf-8")
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        pathlib.Path(WRITE).write_text(page[:begin] + "\n" + "\n".join(lines) + "\n" + page[end:], encoding="utf-8")


if __name__ == "__main__":
    unittest.main()
