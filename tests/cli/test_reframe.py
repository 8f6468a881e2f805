"""docs/cluster/reframe_check.py, as ReFrame runs it. ReFrame comes from the Python package index, into build/."""

import json
import os
import shlex
import shutil
import subprocess

import documented
import processes
import python_package
from program import FRUGAL, SOURCE, Cli

# More ranks than this machine may have cores.
CROWDED = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
# In place of frugal: it records what was recorded before, of processes with another last loss.
ANOTHER_LOSS = """#!/bin/sh
while [ "$1" != --out ]; do shift; done
mkdir -p "$2"
cp {kept}/"$2"/records.jsonl "$2/$$" && mv "$2/$$" "$2/records.jsonl"
"""


class ReFrame(Cli):
    @classmethod
    def setUpClass(cls):
        cls.place = python_package.installed("reframe-hpc", "4.10.4")

    def check(self, *options):
        """The command of the documentation, for a small training. ReFrame's report, of one run."""
        (self.folder / "bin").mkdir(exist_ok=True)
        if not (self.folder / "docs").exists():
            (self.folder / "docs").symlink_to(SOURCE / "docs")
            (self.folder / "bin/frugal").symlink_to(FRUGAL)
        environment = {**os.environ, **processes.AS_ROOT, **CROWDED, "HOME": str(self.folder),
                       "TMPDIR": str(self.folder), "PATH": f"{self.folder}/bin:{self.place}/bin:{os.environ['PATH']}"}
        report = self.folder / "report.json"
        done = subprocess.run(
            [*documented.command("reframe"), "--setvar", "FrugalMeasure.model=gpt-tiny",
             "--setvar", "FrugalMeasure.steps=3", f"--report-file={report}", *options],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=240)
        self.assertTrue(report.exists(), done.stdout + done.stderr)
        run, = json.loads(report.read_text())["runs"]
        return done, {case["ranks"]: case for case in run["testcases"]}

    def test_processes_train_what_threads_train_and_their_speed_is_recorded(self):
        done, cases = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(cases), [1, 2, 4])
        for ranks, case in cases.items():
            self.assertEqual(case["result"], "pass")
            record, = self.records(f"{case['outputdir']}/processes")
            self.assertEqual(len(record["environment"].get("ranks", [0])), ranks)
            step = record["metrics"]["step_time"]["median"]
            of = record["configuration"]
            tokens = of["microbatch_size"] * of["microbatches"] * of["data_parallel_size"]
            self.assertEqual(tokens, 4)
            expected = {"step_time": (step, "s"), "throughput": (tokens * 32 / step, "tokens/s"),
                        "mfu": (record["utilization"]["mfu"]["measured"]["value"], "1")}
            found = {name.split(":")[-1]: (value[0], value[4]) for name, value in case["perfvalues"].items()}
            self.assertEqual(found, expected)
        self.another_loss_is_found(cases[2]["outputdir"])

    def another_loss_is_found(self, outputdir):
        kept = shutil.copytree(outputdir, self.folder / "kept")
        path = kept / "processes/records.jsonl"
        record = json.loads(path.read_text())
        record["losses"][-1] += 1e-6
        path.write_text(json.dumps(record) + "\n")
        program = self.folder / "altered"
        program.write_text(ANOTHER_LOSS.format(kept=shlex.quote(str(kept))))
        program.chmod(0o755)
        done, cases = self.check("--setvar", f"FrugalMeasure.program={program}", "--name", "%ranks=2")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual([case["result"] for case in cases.values()], ["fail"])
        self.assertIn("losses differ from those of threads", cases[2]["fail_reason"])
