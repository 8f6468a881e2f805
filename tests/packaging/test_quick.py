"""`./reproduce.sh --quick`: what it says of options, and scripts/quick_check.py, its end, of the program as it is and of
expectations and programs that are wrong."""

import json
import os
import subprocess
import unittest

from sources import SOURCE, InFolder

FRUGAL = os.environ["FRUGAL"]
# One of each paper, which take no time.
ARTIFACTS = ["korthikanti2022/table2", "pipedream2bw2021/figure2", "mst2024/figure3"]
# frugal, but that something of one training on the processor is another.
OTHERWISE = f"""#!/usr/bin/env python3
import json, subprocess, sys
done = subprocess.run(["{FRUGAL}", *sys.argv[1:]], stdout=subprocess.PIPE, check=True)
answer = json.loads(done.stdout)
if sys.argv[1] == "measure" and "cpu" in sys.argv:
    training = answer[4]
    %s
print(json.dumps(answer))
"""


class Options(unittest.TestCase):
    def test_what_is_beside_it_is_refused_before_anything_is_done(self):
        done = subprocess.run([SOURCE / "reproduce.sh", "--quick", "--on", "cpu"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr, "reproduce.sh: --quick has no options beside it, but there is '--on'\n")


class Compared(InFolder):
    def setUp(self):
        super().setUp()
        for paper in {artifact.split("/")[0] for artifact in ARTIFACTS}:
            (self.folder / f"{paper}.json").write_text((SOURCE / f"results/virtual/{paper}.json").read_text())

    def check(self, status, program=FRUGAL):
        """The last line of what it says."""
        done = subprocess.run([SOURCE / "scripts/quick_check.py", program, "--results", self.folder,
                               "--only", *ARTIFACTS], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout.splitlines()[-1]

    def expect_otherwise(self, paper, change):
        path = self.folder / f"{paper}.json"
        expected = json.loads(path.read_text())
        change(expected)
        path.write_text(json.dumps(expected))

    def test_the_program_as_it_is(self):
        said = self.check(0)
        self.assertTrue(said.startswith("OK: 3 artifacts"), said)

    def test_a_last_bit_that_is_another(self):
        def change(expected):
            cell = next(cell for cell in expected["cells"] if cell["artifact"] == "korthikanti2022/table2")
            cell["value"] += 1
        self.expect_otherwise("korthikanti2022", change)
        said = self.check(1)
        self.assertTrue(said.startswith("FAILED: korthikanti2022: 1 of "), said)
        self.assertIn("korthikanti2022/table2", said)

    def test_a_cell_and_a_claim_that_are_gone(self):
        def change(expected):
            expected["cells"].append({**expected["cells"][0], "artifact": "pipedream2bw2021/figure2", "row": "gone"})
            expected["claims"].append({**expected["claims"][0], "id": "figure2/gone"})
        self.expect_otherwise("pipedream2bw2021", change)
        said = self.check(1)
        self.assertTrue(said.startswith("FAILED: pipedream2bw2021: 2 of "), said)
        self.assertIn("is missing", said)

    def otherwise(self, change):
        program = self.folder / "otherwise"
        program.write_text(OTHERWISE % change)
        program.chmod(0o755)
        return self.check(1, program)

    def test_a_loss_that_is_another(self):
        said = self.otherwise('training["losses"][-1] *= 1 + 1e-9')
        self.assertTrue(said.startswith("FAILED: type f64, tensor parallel size 1, pipeline parallel size 2, "), said)
        self.assertIn("losses are 1.0e-09 off", said)

    def test_a_byte_that_virtual_runs_do_not_count(self):
        self.assertIn("bytes here and", self.otherwise('training["memory"]["peak_total"] += 1'))

    def test_a_program_that_does_not_run(self):
        self.assertTrue(self.check(1, self.folder / "absent").startswith("FAILED: "))
