"""What happens to records.jsonl, and to stdout, when they are not as they should be."""

import fcntl
import json
import subprocess

from program import FRUGAL, SOURCE, TINY, Cli


class Records(Cli):
    ARGUMENTS = ["reproduce", "korthikanti2022/table2", "--on", "virtual"]

    def test_a_truncated_line_is_tolerated_and_run_again(self):
        self.run_frugal(*self.ARGUMENTS)
        count = len(self.records())
        path = self.folder / "out/records.jsonl"
        path.write_text(path.read_text()[:-100])
        self.assertIn("cut off", self.run_frugal(*self.ARGUMENTS).stderr)
        self.assertEqual([r["status"] for r in self.records()], ["ok"] * count)
        self.assertNotIn("cut off", self.run_frugal(*self.ARGUMENTS).stderr)
        self.assertEqual(len(self.records()), count)

    def test_a_corrupt_file_is_an_error_with_its_line(self):
        self.run_frugal(*self.ARGUMENTS)
        path = self.folder / "out/records.jsonl"
        good = path.read_text()
        for content, line in ((good[:50] + "\n" + good, 1), (good + "garbage\n", good.count("\n") + 1)):
            path.write_text(content)
            for command in (self.ARGUMENTS, ["report", "out"]):
                said = self.run_frugal(*command, status=2).stderr.splitlines()
                self.assertEqual(len(said), 1, said)
                self.assertIn(f"records.jsonl: line {line}", said[0])
            self.assertEqual(path.read_text(), content)
        path.unlink()
        path.mkdir()
        for command in (self.ARGUMENTS, ["report", "out"]):
            self.assertIn("not a file", self.run_frugal(*command, status=2).stderr)

    def test_what_a_killed_run_recorded_is_a_reproduction(self):
        whole = json.loads(self.run_frugal("reproduce", "korthikanti2022/table4", "--on", "virtual", "--format",
                                           "json").stdout)
        self.assertEqual(json.loads(self.run_frugal("report", "out", "--format", "json").stdout), whole)
        path = self.folder / "out/records.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:len(lines) // 2]) + lines[-1][:500])
        done = self.run_frugal("report", "out", "--format", "json")
        self.assertIn("cut off", done.stderr)
        cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["value"] is not None]
        self.assertTrue(0 < len(cells) < len([cell for cell in whole["cells"] if cell["value"] is not None]))
        for cell in cells:
            self.assertIn(cell, whole["cells"])
        self.assertEqual([file.name for file in path.parent.iterdir()], ["records.jsonl"])

    def test_one_run_writes_a_folder(self):
        (self.folder / "out").mkdir()
        with open(self.folder / "out/records.jsonl", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for command in (self.ARGUMENTS, TINY):
                said = self.run_frugal(*command, status=2).stderr.splitlines()
                self.assertEqual(len(said), 1, said)
                self.assertIn("another run of frugal", said[0])
        self.run_frugal(*self.ARGUMENTS)

    def test_a_machine_with_other_values_has_another_name_and_is_run(self):
        machine = json.loads((SOURCE / "hardware/a100-selene.json").read_text())
        on = []
        for peak in (None, 1e14, 2e14):
            if peak:
                machine["device"]["flops_bf16"]["value"] = peak
            (self.folder / "machine.json").write_text(json.dumps(machine))
            self.run_frugal("measure", "--model", "gpt-tiny", "--hardware", "machine.json")
            on.append(self.records()[-1]["on"])
        self.assertEqual(len(self.records()), 3)
        self.assertEqual(on[0], "virtual:a100-selene")
        self.assertEqual([r["command"] for r in self.records()],
                         ["frugal measure --model gpt-tiny --on virtual:a100-selene --type bf16",
                          *["frugal rerun records.jsonl#gpt-tiny"] * 2])
        self.assertEqual(len(set(on)), 3)

    def test_stdout_that_cannot_be_written(self):
        commands = [["--help"], ["--version"], ["list"], ["list", "--format", "json"], ["docs"], ["completion", "zsh"],
                    ["measure", "--model", "gpt-tiny"], ["reproduce", "korthikanti2022/table2", "--on", "virtual"],
                    ["report", "out"]]
        for command in commands:
            with open("/dev/full", "w") as full:
                done = subprocess.run([FRUGAL, *command], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
            said = [line for line in done.stderr.splitlines() if line.startswith("frugal: ")]
            self.assertEqual((done.returncode, said), (2, ["frugal: stdout cannot be written; what was recorded is "
                                                           "kept"]), command)
