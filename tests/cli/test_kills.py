"""Runs that are killed while they write checkpoints: what they leave has a whole one in it, and nothing else that looks
like one. Each is killed in one of the calls by which files are changed, of a write in its middle; which call of which
rank is drawn. FRUGAL_KILLS are so many kills; with FRUGAL_WRITE_FAULTS, a folder of results/, kills.json there gets what
was seen (plots/rank_tables.py)."""

import json
import os
import random
import re
import shutil
import subprocess

import processes
from program import Cli

FAULTY = os.environ.get("FRUGAL_FAULTY", "")
WRITE = os.environ.get("FRUGAL_WRITE_FAULTS", "")
KILLS = int(os.environ.get("FRUGAL_KILLS", "8"))
SEED = "20261125"
RANKS, STEPS = 2, 6
RUN = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--pipeline-parallel", str(RANKS),
       "--microbatches", "2", "--schedule", "2bw", "--warm-up", "0"]


class Kills(Cli):
    def run_killed(self, call, rank, as_processes, kind="kill"):
        arguments = [*RUN, "--steps", str(STEPS), "--checkpoint", "k", "--every", "1", "--resume", "k", "--out", "out"]
        variables = {"FRUGAL_FAULT": f"{kind} call-{call} {rank}"}
        if as_processes:
            return processes.run(RANKS, FAULTY, *arguments, folder=self.folder, variables=variables)
        return subprocess.run([FAULTY, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=120, env={**os.environ, **variables})

    def begin(self):
        """The first step's checkpoint, from which every run goes on."""
        for name in ("k", "out", "again"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / "begin", self.folder / "k")

    def calls(self, rank, as_processes):
        """How many a run that is not killed makes."""
        self.begin()
        done = self.run_killed(1 << 40, rank, as_processes, kind="none")
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"^calls: (\d+)$", done.stderr, re.MULTILINE)[1])

    def found(self):
        """The checkpoints that were found, each of which goes on to the losses of a run that was not killed."""
        whole = sorted(path for path in (self.folder / "k").glob("step-*") if path.suffix != ".part")
        for path in whole:
            manifest = json.loads((path / "manifest.json").read_text())
            if manifest["step"] == STEPS:
                self.assertEqual(manifest["losses"], self.expected)
                continue
            done = self.run_frugal(*RUN, "--steps", str(STEPS), "--resume", str(path), "--out", "again", "--force",
                                   "--format", "json")
            self.assertEqual(json.loads(done.stdout)["losses"], self.expected, path.name)
        return whole

    def test_a_whole_checkpoint_is_found(self):
        self.run_frugal(*RUN, "--steps", "1", "--checkpoint", "begin", "--out", "first")
        done = self.run_frugal(*RUN, "--steps", str(STEPS), "--checkpoint", "u", "--every", "1", "--out", "all",
                               "--format", "json")
        self.expected = json.loads(done.stdout)["losses"]
        draw = random.Random(SEED)
        counts = {(rank, as_processes): self.calls(rank, as_processes)
                  for as_processes in (False, True) for rank in range(RANKS if as_processes else 1)}
        kills = []
        for number in range(KILLS):
            as_processes = number % 2 == 1
            rank = draw.randrange(RANKS) if as_processes else 0
            call = draw.randint(1, counts[rank, as_processes])
            self.begin()
            with self.subTest(rank=rank, processes=as_processes, call=call, of=counts[rank, as_processes]):
                done = self.run_killed(call, rank, as_processes)
                self.assertIn("fault: kill", done.stderr)
                self.assertNotEqual(done.returncode, 0)
                half = any(path.suffix == ".part" for path in (self.folder / "k").iterdir())
                found = self.found()
                self.assertGreater(len(found), 0)
                kills.append({"ranks_are": "processes" if as_processes else "threads", "rank": rank, "call": call,
                              "calls": counts[rank, as_processes], "left_half": half,
                              "whole": [int(path.name.removeprefix("step-")) for path in found]})
        print(f"seed {SEED}: {len(kills)} of {KILLS} kills left a whole checkpoint")
        if WRITE:
            processes.keep(WRITE, "kills", {"seed": SEED, "ranks": RANKS, "steps": STEPS, "kills": kills})
