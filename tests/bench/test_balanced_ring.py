"""bench/balanced_ring.py: what it makes of what a program says, and the table of it."""

import json
import subprocess
import sys

from sources import SOURCE, InFolder

SCRIPT, TABLES = SOURCE / "bench/balanced_ring.py", SOURCE / "plots/paper_tables.py"
#: Half of a step's operations are attention; a step of zigzag takes 2 s and of ring 2.5 s.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
def operation(name, *seconds):
    return {"operation": name, "seconds": seconds}
if sys.argv[1] == "operations":
    print(json.dumps({"stages": [{"operations": [operation("fused-attention f32 causal", 1, 1), operation("gemm f32", 3),
                                                 operation("merge-attention f32", 1)]}]}))
elif sys.argv[1] == "measure":
    context = sys.argv[sys.argv.index("--context") + 1]
    record = {"command": " ".join(sys.argv[1:]), "device": "made up", "program": "1", "memory": {"peak_total": 8},
              "metrics": {"step_time": {"samples": [2.5 if context == "ring" else 2.0]}}}
    folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    folder.mkdir()
    (folder / "records.jsonl").write_text(json.dumps(record) + "\\n")
    print(json.dumps(record))
else:
    assert "zigzag" in sys.argv[2] and "ring" in sys.argv[3] and sys.argv[sys.argv.index("--repeat") + 1] == "5", sys.argv
    print(json.dumps({"quantities": [
        {"quantity": "peak memory"},
        {"quantity": "step_time", "base": 2.0, "candidate": 2.5, "ratio": 1.25, "interval": {"low": 1.2, "high": 1.3}, "p": 0.03,
         "change": "slower", "by_turns": True, "base_processes": 6}]}))
"""


class BalancedRing(InFolder):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "frugal"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_script(self, *arguments, status=0):
        done = subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def page(self):
        page = self.folder / "page.md"
        page.write_text("a\n<!-- balanced-ring: out.json -->\n<!-- end -->\nb\n")
        subprocess.run([sys.executable, "-B", TABLES, self.folder, page], check=True)
        return page.read_text()

    def test_the_ratio_stands_beside_what_the_share_of_attention_says(self):
        self.assertIn("No run has been stored yet.", self.page())
        out = self.folder / "out.json"
        arguments = (out, "--program", self.program, "--turns", "6", "--tokens", "1024,2048")
        self.run_script(*arguments)
        cases = json.loads(out.read_text())["cases"]
        self.assertEqual([case["tokens"] for case in cases], [1024, 2048])
        self.assertEqual([cases[0][key] for key in ("attention_share", "predicted_ratio", "bound")], [0.5, 1.25, 1.5])
        self.assertEqual(cases[0]["step_seconds"], {"zigzag": [[2.0]], "ring": [[2.5]]})
        self.assertIn("| 1024 | 2.500 | 2.000 | 1.250 | 1.200 to 1.300 | 1.250 | 50 % | 6 |", self.page())
        self.assertIn("exists; remove it", self.run_script(*arguments, status=2))

    def test_one_turn_is_no_comparison(self):
        self.assertIn("--turns is 1; it must be at least 2",
                      self.run_script(self.folder / "out.json", "--program", self.program, "--turns", "1", status=2))
