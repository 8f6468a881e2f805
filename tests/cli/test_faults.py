"""What goes wrong in a run of several ranks: every process ends in time, says whose fault it was, and what was
finished is kept. FRUGAL_FAULTY is the program in which something goes wrong. Each kind of fault is tried at a moment
drawn by the number of commits; with FRUGAL_WRITE_FAULTS, a folder of results/, at all of them, and faults.json there
gets what was seen (plots/rank_tables.py)."""

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import processes
from program import FRUGAL, SOURCE, Cli

sys.path.append(str(pathlib.Path(SOURCE) / "scripts"))
import hosts  # noqa: E402

FAULTY = os.environ.get("FRUGAL_FAULTY", "")
WRITE = os.environ.get("FRUGAL_WRITE_FAULTS", "")
COMMITS = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=SOURCE, capture_output=True, text=True,
                         check=False).stdout.strip()
RANKS = 4
DEADLINE = 2.0  # seconds, of the runs below
# From the fault to its end a run takes the deadline, what explains it, and what mpirun takes to end its processes,
# or to miss a host.
LIMIT = DEADLINE * 2 + 8
RUN = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--tensor-parallel", "2",
       "--pipeline-parallel", "2", "--microbatches", "2", "--steps", "40"]
MOMENTS = ["start", "forward", "backward", "optimizer", "write"]
ALONE = f"env -i PATH='{os.environ['PATH']}' {FRUGAL}"  # not as one of the processes


@dataclasses.dataclass
class Kind:
    what: str
    named: str  # what is said: {} is the rank
    threads: set | None  # exit statuses; None: not where ranks are threads
    processes: set
    command: str = ""  # that a shell runs in that moment, for what comes from outside
    one_rank: bool = True  # whose fault it is; otherwise nobody's among them
    moments: tuple = tuple(MOMENTS)
    # The rank's program and arguments, instead of those of all.
    started: list | None = None


START = ("start",)
# Of a process that is killed the status is mpirun's own where mpirun comes first: 128 and the signal's number, 1 for
# one that was told to end.
KINDS = {
    "kill": Kind("the process is killed (SIGKILL)", r"rank {}: lost", {-9}, {137, 5}),
    "crash": Kind("the process crashes (SIGSEGV)", r"rank {}: lost", {-11}, {139, 5}),
    "leave": Kind("the process ends, without a word and with status 0", r"rank {}: lost", {0}, {1, 5}),
    "stall": Kind("the rank stops (SIGSTOP; a thread sleeps)", r"rank {} is late", {4}, {4}),
    "hang": Kind("the rank computes and never ends", r"rank {} is late", {4}, {4}),
    "throw": Kind("an exception", r"rank {}: thrown by the test", {6}, {6}),
    "memory": Kind("no more memory", r"rank {}: the host has no more memory", {3}, {3}),
    "nan": Kind("a NaN is computed", r"rank {}( was the first with what is not finite|: \S+ is not finite)", {6},
                {6}, moments=tuple(MOMENTS[:-1])),
    "full": Kind("the disk is full", r"rank {}: .* cannot be written \(No space left on device\)", {2}, {2}),
    "read-only": Kind("the folder becomes read-only", r"rank {}: .* cannot be written \(Read-only file system\)", {2},
                      {2}),
    "cut": Kind("the last line of the records is cut off", "", {0}, {0}, "truncate -s -9 out/records.jsonl",
                one_rank=False),
    "records": Kind("another run writes the same records", "--out: another run of frugal writes", {0}, {0},
                    f"{ALONE} measure --model gpt-tiny --on cpu --out out", one_rank=False),
    "checkpoints": Kind("another run writes the same checkpoints", "--checkpoint: (another run of frugal|k has check)",
                        {0}, {0}, f"{ALONE} {' '.join(RUN)} --out other --checkpoint k", one_rank=False),
    "terminate": Kind("the launcher, or the process, is to end (SIGTERM)", "interrupted", {130}, {1, 130},
                      one_rank=False),
    "interrupt": Kind("the same by the user (SIGINT)", "interrupted", {130}, {1, 130}, one_rank=False),
    "network": Kind("the link to a host is down", r"rank [23]( is late|: lost)", None, {4, 5}, "ip link set eth0 down"),
    "seed": Kind("a rank has another seed", r"rank {} on \S+ was started with seed 7", None, {2}, moments=START,
                 started=[FRUGAL, *RUN, "--seed", "7"]),
    "configuration": Kind("a rank has another configuration", r"rank {} on \S+ was started with learning_rate", None,
                          {2}, moments=START, started=[FRUGAL, *RUN, "--learning-rate", "0.5"]),
    "program": Kind("a rank has another program", r"rank {} on \S+ was started with program", None, {2}, moments=START,
                    started=[FAULTY, *RUN]),
    "number": Kind("there are more processes than ranks", "has 4 ranks .* and 5 processes were started", None, {2},
                   one_rank=False, moments=START, started=[FRUGAL, *RUN, ":", "-n", "1", FRUGAL, *RUN]),
}


class Faults(Cli):
    table = {}

    def setUp(self):
        super().setUp()
        for seed in ("1", "2"):
            self.run_frugal("measure", "--model", "gpt-tiny", "--on", "cpu", "--seed", seed)
        self.finished = (self.folder / "out/records.jsonl").read_text().splitlines()

    def threads(self, program, *arguments, variables=None):
        return subprocess.run([program, *RUN, *arguments], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=120, env={**os.environ, **(variables or {})})

    def on_hosts(self, arguments, variables):
        """Two hosts with two ranks each."""
        with hosts.Hosts(count=2, slots=RANKS // 2) as two:
            command = two.command("mpirun", "-n", str(RANKS), "--map-by", f"ppr:{RANKS // 2}:node",
                                  *processes.exported(variables), FAULTY, *RUN, *arguments)
            return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120,
                                  env={**two.variables(), **variables})

    def started_otherwise(self, kind, rank):
        """All but one are started alike; nothing is in them that goes wrong."""
        alike = [FRUGAL, *RUN, "--out", "out"]
        rest = [":", "-n", str(RANKS - rank - 1), *alike] if rank < RANKS - 1 else []
        return processes.run(rank, *alike, ":", "-n", "1", *KINDS[kind].started, *rest, folder=self.folder)

    def kept(self, kind):
        """The finished records are there, no line is half a record, and the last checkpoint is whole."""
        lines = (self.folder / "out/records.jsonl").read_text().splitlines()
        finished = self.finished[:-1] if kind == "cut" else self.finished
        self.assertEqual(lines[:len(finished)], finished)
        for line in lines:
            json.loads(line)
        whole = self.folder / "k/step-00000040/manifest.json"
        if whole.exists():  # the run was not stopped, or came to its end before it was
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

    def run_with(self, kind, moment, rank, as_processes):
        # A run that comes to its end must not be ended because the machine is slow.
        deadline = 60 if KINDS[kind].processes == {0} else DEADLINE
        arguments = ["--deadline", str(deadline), "--out", "out", "--checkpoint", "k", "--every", "5"]
        variables = {"FRUGAL_FAULT": f"{kind} {moment} {rank}", "FRUGAL_FAULT_COMMAND": KINDS[kind].command,
                     "FRUGAL_FAULT_FILE": str(self.folder / "fault")}
        if KINDS[kind].started:
            return self.started_otherwise(kind, rank)
        if kind == "network":
            return self.on_hosts(arguments, variables)
        if as_processes:
            return processes.run(RANKS, FAULTY, *RUN, *arguments, folder=self.folder, variables=variables)
        return self.threads(FAULTY, *arguments, variables=variables)

    def try_fault(self, kind, moment, rank, as_processes):
        """One fault; notes what the table says of it."""
        of = KINDS[kind]
        begin = time.monotonic()
        done = self.run_with(kind, moment, rank, as_processes)
        end = time.monotonic()
        noted = self.folder / "fault"
        happened = noted.exists() and re.match(f"fault: {kind} at ([0-9.]+)\n", noted.read_text())
        seconds = end - (float(happened[1]) if happened else begin)
        # A thread that ends the process takes the others with it; and what is written all write as one.
        in_common = of.one_rank and not as_processes and (kind in ("kill", "crash", "leave", "full", "read-only") or
                                                          moment == "write")
        with self.subTest(kind=kind, moment=moment, rank=rank, processes=as_processes):
            self.assertTrue(happened or of.started, done.stderr)
            self.assertIn(done.returncode, of.processes if as_processes else of.threads, done.stderr)
            if happened and done.returncode != 0:
                self.assertLess(seconds, LIMIT, done.stderr)
            said = done.stderr + (self.folder / "out/records.jsonl").read_text()
            if of.named and not in_common:
                self.assertRegex(said, of.named.format(rank))
            self.kept(kind)
            whose = "" if not of.one_rank else "the process" if in_common else "the rank"
            row = self.table.setdefault((kind, as_processes), {})
            row[moment] = (done.returncode, seconds, whose)

    def try_all(self, kind):
        draw = random.Random(f"20261125 {kind}")
        moments = KINDS[kind].moments
        for moment in moments if WRITE else random.Random(f"{COMMITS} {kind}").sample(moments, 1):
            for as_processes in (False, True):
                # For a thread that waits for the disk nobody waits.
                if not as_processes and (KINDS[kind].threads is None or
                                         (moment == "write" and kind in ("stall", "hang"))):
                    continue
                # Those on the second host lose their link; rank 0 is what others are compared with.
                rank = draw.randrange(2 if kind == "network" else 1 if KINDS[kind].started else 0, RANKS)
                base = self.folder
                self.folder = base / f"{moment}-{as_processes}"
                self.folder.mkdir()
                shutil.copytree(base / "out", self.folder / "out")
                self.try_fault(kind, moment, rank, as_processes)
                shutil.rmtree(self.folder)
                self.folder = base

    def test_network(self):
        try:
            with hosts.Hosts():
                pass
        except hosts.Unable as error:
            self.skipTest(str(error))
        self.try_all("network")

    @classmethod
    def tearDownClass(cls):
        if not WRITE:
            return
        faults = []
        for (kind, as_processes), row in sorted(cls.table.items(), key=lambda item: (list(KINDS).index(item[0][0]),
                                                                                     item[0][1])):
            whose = " or ".join(sorted({whose for _, _, whose in row.values()}, reverse=True)) or "nobody's"
            faults.append({"fault": kind, "what": KINDS[kind].what, "ranks": "processes" if as_processes else "threads",
                           "whose": whose, "moments": {moment: {"status": status, "seconds": round(seconds, 3)}
                                                       for moment, (status, seconds, _) in row.items()}})
        processes.keep(WRITE, "faults", {"ranks": RANKS, "deadline_seconds": DEADLINE, "moments": MOMENTS, "faults": faults})


def add_test(kind):
    setattr(Faults, f"test_{kind}".replace("-", "_"), lambda self: self.try_all(kind))


for each in KINDS:
    if each != "network":
        add_test(each)
