"""bench/validate_trials.py: what it makes of results, with programs that are made up."""

import json
import subprocess
import sys

from sources import SOURCE, InFolder

SCRIPT, TABLES = SOURCE / "bench/validate_trials.py", SOURCE / "plots/paper_tables.py"
#: Says that the machine is right, or what FRUGAL_FAULT is, and writes a reference.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
fault = os.environ.get("FRUGAL_FAULT", "")
if "--write-reference" in sys.argv:
    open(sys.argv[sys.argv.index("--write-reference") + 1], "w").write('{"values": {}}')
    sys.exit(0)
json.load(open(sys.argv[sys.argv.index("--reference") + 1]))
failed = {"slow any 1": ("ranks", "rank/1")}.get(fault)
checks = [{"group": failed[0], "name": failed[1], "outcome": "failed", "reason": "slow"}] if failed else []
print(json.dumps({"verdict": "fail" if failed else "pass", "text": "said", "checks": checks, "skipped": 1, "series": {},
                  "seconds": 50.4, "others": {"processes": 0.25, "steal": 0.125}, "started": "now"}))
sys.exit(1 if failed else 0)
"""


class ValidateTrials(InFolder):
    def setUp(self):
        super().setUp()
        (self.folder / "tests").mkdir()
        for name in ("frugal", "tests/frugal_faulty"):
            path = self.folder / name
            path.write_text(PROGRAM)
            path.chmod(0o755)

    def run_script(self, *arguments, status=0):
        done = subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_runs_are_kept_and_the_table_says_what_was_found(self):
        results = self.folder / "trials.json"
        arguments = ("--build", self.folder, "--runs", "3", "--fault-runs", "2", results)
        self.run_script(*arguments)
        kept = json.loads(results.read_text())
        self.assertEqual([run["status"] for run in kept["trials"]["none"]["runs"]], [0, 0, 0])
        self.assertEqual(kept["reference"], {"values": {}})
        self.assertEqual(self.run_script(*arguments), "")  # there is nothing left to run
        slow_rank = kept["trials"]["rank 1 slower by 20 %"]
        self.assertEqual((slow_rank["check"], [run["failed"] for run in slow_rank["runs"]]),
                         ("ranks rank/1", [["ranks rank/1"]] * 2))
        page = self.folder / "page.md"
        page.write_text("a\n<!-- validate-trials: trials.json -->\n<!-- end -->\nb\n")
        subprocess.run([sys.executable, "-B", TABLES, self.folder, page], check=True)
        text = page.read_text()
        self.assertIn("| none | all | 3 of 3 pass | 1 to 1 | 50 to 50 | 38 to 38 % |", text)
        self.assertIn("| rank 1 slower by 20 % | ranks rank/1 | 2 of 2 found | 1 to 1 | 50 to 50 | 38 to 38 % |", text)
        # The made-up program does not find it.
        self.assertIn("| memory at half its bandwidth | peaks memory/copy | 0 of 2 found |", text)

    def test_what_is_wrong_is_said(self):
        self.assertIn("--only is 'absent'", self.run_script("--build", self.folder, "--only", "absent",
                                                          self.folder / "r.json", status=2))
        (self.folder / "frugal").unlink()
        self.assertIn("build the targets", self.run_script("--build", self.folder, self.folder / "r.json", status=2))
