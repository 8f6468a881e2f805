"""What goes wrong in a run whose ranks are processes with a GPU each, whatever carries their tensors: every process
ends in time, and says whose fault it was. GPUs are emulated, and do not compute. FRUGAL_FAULTY_EMULATED is the program
in which something goes wrong, at a moment that is drawn by the number of commits."""

import os
import random
import re
import time
import unittest

import processes
from program import Cli
from test_faults import COMMITS, DEADLINE, KINDS, LIMIT, RANKS
from test_faults import RUN as RUN_ON_CPU

FAULTY = os.environ.get("FRUGAL_FAULTY_EMULATED", "")
RUN = ["measure", "--model", "gpt-tiny", "--on", "cuda", *RUN_ON_CPU[RUN_ON_CPU.index("--tensor-parallel"):]]
# A GPU says that an operation has ended when it is waited for.
VARIABLES = {"FRUGAL_EMULATED_GPUS": str(RANKS), "FRUGAL_EMULATED_COMPUTE": "0", "FRUGAL_CACHE": "",
             "FRUGAL_CUDA_SYNCHRONOUS": "1"}


@unittest.skipUnless(FAULTY, "a sanitizer does not know the emulated GPU's fibers")
class GpuFaults(Cli):
    def try_fault(self, kind, moment, rank, transport):
        done = processes.run(RANKS, FAULTY, *RUN, "--transport", transport, "--deadline", str(DEADLINE),
                             "--out", transport, folder=self.folder,
                             variables={**VARIABLES, "FRUGAL_FAULT": f"{kind} {moment} {rank}"})
        end = time.monotonic()
        happened = re.search(f"^fault: {kind} at ([0-9.]+)$", done.stderr, re.MULTILINE)
        self.assertTrue(happened, done.stderr)
        self.assertIn(done.returncode, KINDS[kind].processes, done.stderr)
        self.assertLess(end - float(happened[1]), LIMIT, done.stderr)
        path = self.folder / transport / "records.jsonl"
        said = done.stderr + (path.read_text() if path.exists() else "")
        self.assertRegex(said, KINDS[kind].named.format(rank))


def add_test(kind):
    def try_all(self):
        draw = random.Random(f"{COMMITS} {kind}")
        for transport in ("nccl", "host"):
            fault = (kind, draw.choice(("forward", "backward", "optimizer")), draw.randrange(RANKS), transport)
            with self.subTest(fault=fault):
                self.try_fault(*fault)
    setattr(GpuFaults, f"test_{kind}", try_all)


for each in ("kill", "crash", "leave", "stall", "hang", "throw", "memory", "interrupt"):
    add_test(each)
