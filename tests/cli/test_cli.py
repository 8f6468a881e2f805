"""The built program as its users run it. CTest sets FRUGAL (the program) and FRUGAL_SOURCE_DIR."""

import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema

FRUGAL = os.environ["FRUGAL"]
SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
SCHEMA = json.loads((SOURCE / "docs/record.schema.json").read_text())
TINY = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1"]


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_frugal(self, *arguments, status=0):
        done = subprocess.run([FRUGAL, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def records(self, folder="out"):
        lines = (self.folder / folder / "records.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            jsonschema.validate(record, SCHEMA)
        return records


class BadInput(Cli):
    def rejected(self, *arguments, says):
        """Status 2, one line that says what, and nothing written."""
        done = self.run_frugal(*arguments, status=2)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("frugal: "), lines[0])
        for part in says:
            self.assertIn(part, lines[0])
        self.assertEqual(done.stdout, "")
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name != "given"], [])

    def given(self, text):
        (self.folder / "given").mkdir(exist_ok=True)
        path = self.folder / "given/model.json"
        path.write_text(text)
        return str(path)

    def test_commands(self):
        self.rejected(says=["subcommand", "--help"])
        self.rejected("reprodce", says=["reprodce", "reproduce"])
        self.rejected("reproduce", says=["ARTIFACT"])
        self.rejected("completion", "csh", says=["csh", "bash, zsh or fish"])

    def test_artifacts(self):
        self.rejected("reproduce", "korthikanti2022/tabel2", says=["tabel2", "korthikanti2022/table2", "frugal list"])
        self.rejected("reproduce", "nothing-*", says=["nothing-*"])
        self.rejected("list", "korthikanti", says=["korthikanti2022"])

    def test_flags(self):
        artifact = ["reproduce", "korthikanti2022/table2"]
        self.rejected(*artifact, "--formt", "json", says=["--formt", "did you mean --format"])
        self.rejected(*artifact, "--format", "xml", says=["--format", "xml", "table, json, csv, markdown"])
        self.rejected(*artifact, "--on", "cuda", says=["no CUDA device in this build"])
        self.rejected(*artifact, "--on", "tpu", says=["--on", "tpu", "virtual, cpu"])
        self.rejected(*artifact, "--scale", "4", says=["--scale", "1/4"])
        self.rejected(*artifact, "--scale", "1/0", says=["--scale", "1/0"])
        self.rejected(*artifact, "--scale", "1/7", says=["divisible", "7"])
        self.rejected(*artifact, "--samples", "9", says=["--samples", "9", "10"])
        self.rejected(*artifact, "--threads", "0", says=["--threads", "from 1"])
        self.rejected(*artifact, "--threads", "two", says=["--threads", "two"])
        self.rejected(*artifact, "--budget", "-1", says=["--budget", "-1", "at least 0"])
        self.rejected(*artifact, "--out", says=["--out"])

    def test_measure(self):
        self.rejected("measure", says=["--model is missing"])
        self.rejected("measure", "--model", "22b", says=["22b", "22B"])
        self.rejected(*TINY, "--tensor-parallel", "3", says=["heads (4)", "tensor-parallel size (3)"])
        self.rejected(*TINY, "--dropout", "1", says=["--dropout", "below 1"])
        self.rejected(*TINY, "--steps", "0", says=["--steps", "from 1"])
        self.rejected(*TINY, "--layers", "99999999999999999999", says=["--layers"])
        self.rejected(*TINY, "--recompute", "some", says=["none, selective, full"])
        self.rejected(*TINY, "--text", "absent.txt", says=["absent.txt"])
        self.rejected(*TINY[:3], "--on", "virtual:a100", says=["a100", "a100-selene"])
        self.rejected(*TINY[:3], "--on", "gpu", says=["--on", "cpu, virtual"])
        self.rejected(*TINY[:3], "--on", "virtual", "--save-tensors", "x", says=["--save-tensors", "--on cpu"])

    def test_model_files(self):
        self.rejected("measure", "--model", "absent.json", says=["absent.json"])
        self.rejected("measure", "--model", self.given('{"layers": 2,'), says=["model.json:1:14", "truncated"])
        self.rejected("measure", "--model", self.given('{"layers": "two"}'), says=["model.json", "layers", "two"])
        self.rejected("measure", "--model", self.given('{"layer": 2}'), says=["model.json", "layer", "layers"])

    def test_outputs(self):
        (self.folder / "given").write_text("a file, not a folder")
        self.rejected("reproduce", "korthikanti2022/table2", "--out", "given/out", says=["--out", "given/out"])
        self.rejected("report", "absent", says=["absent", "records.jsonl"])


class Reproduce(Cli):
    ARGUMENTS = ["reproduce", "korthikanti2022/table2", "--on", "virtual"]

    def test_json(self):
        result = json.loads(self.run_frugal(*self.ARGUMENTS, "--format", "json").stdout)
        self.assertEqual(result["schema"], "frugal.reproduction/1")
        cell_keys = {"artifact", "row", "column", "unit", "paper", "read", "value", "source", "on", "scale",
                     "error_percent", "status", "reason"}
        claim_keys = {"id", "statement", "paper", "value", "tolerance", "source", "on", "verdict"}
        self.assertTrue(result["cells"] and result["claims"])
        for cell in result["cells"]:
            self.assertLessEqual(cell_keys, cell.keys())
            self.assertEqual((cell["source"], cell["on"]), ("virtual", "virtual:a100-selene"))
        for claim in result["claims"]:
            self.assertLessEqual(claim_keys, claim.keys())
            self.assertIn(claim["verdict"], ["reproduced", "not reproduced", "not measurable here"])

    def test_records_are_valid_and_resumed(self):
        first = self.run_frugal(*self.ARGUMENTS)
        records = self.records()
        self.assertEqual({r["status"] for r in records}, {"ok"})
        again = self.run_frugal(*self.ARGUMENTS)
        self.assertEqual(again.stdout, first.stdout)
        self.assertEqual(self.records(), records)

    def test_force_keeps_the_old_records(self):
        self.run_frugal(*self.ARGUMENTS)
        before = (self.folder / "out/records.jsonl").read_text()
        self.run_frugal(*self.ARGUMENTS, "--force")
        self.assertEqual((self.folder / "out/records.1.jsonl").read_text(), before)
        self.assertNotEqual((self.folder / "out/records.jsonl").read_text(), before)

    def test_a_truncated_line_is_tolerated_and_run_again(self):
        self.run_frugal(*self.ARGUMENTS)
        count = len(self.records())
        path = self.folder / "out/records.jsonl"
        path.write_text(path.read_text()[:-100])
        self.assertIn("cut off", self.run_frugal(*self.ARGUMENTS).stderr)
        lines = path.read_text().splitlines()
        self.assertEqual(len(lines), count + 1)
        self.assertRaises(json.JSONDecodeError, json.loads, lines[count - 1])
        self.assertEqual(json.loads(lines[-1])["status"], "ok")
        self.run_frugal(*self.ARGUMENTS)
        self.assertEqual(len(path.read_text().splitlines()), count + 1)

    def test_a_failed_claim_is_a_status_only_with_check(self):
        arguments = ["reproduce", "korthikanti2022/table4", "--on", "virtual", "--scale", "1/32", "--format", "json"]
        claims = json.loads(self.run_frugal(*arguments).stdout)["claims"]
        self.assertIn("not reproduced", [claim["verdict"] for claim in claims])
        self.run_frugal(*arguments, "--check", status=1)

    def test_csv_and_markdown(self):
        cells = json.loads(self.run_frugal(*self.ARGUMENTS, "--format", "json").stdout)["cells"]
        rows = list(csv.DictReader(io.StringIO(self.run_frugal(*self.ARGUMENTS, "--format", "csv").stdout)))
        self.assertEqual(len(rows), len(cells))
        for row, cell in zip(rows, cells):
            self.assertEqual((row["row"], row["column"], float(row["value"])),
                             (cell["row"], cell["column"], cell["value"]))
        self.assertIn("|---|", self.run_frugal(*self.ARGUMENTS, "--format", "markdown").stdout)

    def test_a_record_names_no_path_and_no_host(self):
        self.run_frugal(*self.ARGUMENTS, "--out", str(self.folder / "elsewhere"))
        for record in self.records("elsewhere"):
            text = json.dumps(record)
            self.assertNotIn(str(self.folder), text)
            self.assertNotIn(str(SOURCE), text)
            self.assertNotIn(json.dumps(os.uname().nodename), text)


class Measure(Cli):
    def test_losses_and_schema(self):
        shown = json.loads(self.run_frugal(*TINY, "--steps", "4", "--format", "json").stdout)
        (record,) = self.records()
        self.assertEqual(shown, record)
        self.assertEqual(len(record["losses"]), 4)
        self.assertEqual(len(record["metrics"]["step_time"]["samples"]), 3)
        self.assertGreater(record["utilization"]["mfu"]["measured"]["value"], 0)
        self.assertIsNone(record["utilization"]["mfu"]["data_sheet"]["value"])
        self.assertIn("--hardware", record["utilization"]["mfu"]["data_sheet"]["reason"])

    def test_parallel_equals_serial(self):
        losses = []
        for t, out in (("1", "a"), ("2", "b")):
            self.run_frugal(*TINY, "--steps", "3", "--tensor-parallel", t, "--out", out)
            losses.append(self.records(out)[0]["losses"])
        for serial, parallel in zip(*losses):
            self.assertAlmostEqual(serial, parallel, places=4)

    def test_text_is_learned_and_evaluated(self):
        (self.folder / "text").write_text("to be or not to be, that is the question. " * 200)
        self.run_frugal(*TINY, "--steps", "40", "--micro-batch", "4", "--learning-rate", "0.01", "--text", "text",
                        "--eval-every", "20")
        (record,) = self.records()
        self.assertLess(record["losses"][-1], record["losses"][0] - 1)
        self.assertEqual([point["step"] for point in record["held_out"]], [20, 40])
        self.assertIn("--text text", record["command"])

    def test_out_of_memory(self):
        done = self.run_frugal("measure", "--model", "1T", "--on", "virtual", "--type", "bf16", "--tensor-parallel", "8",
                               status=3)
        self.assertIn("missing of a capacity", done.stderr)
        (record,) = self.records()
        self.assertEqual(record["status"], "oom")

    def test_virtual(self):
        self.run_frugal("measure", "--model", "22B", "--type", "bf16", "--tensor-parallel", "8", "--recompute", "selective")
        (record,) = self.records()
        self.assertEqual((record["source"], record["losses"]), ("virtual", []))
        self.assertEqual(record["flops"]["hardware_as_printed"]["formula"], "korthikanti2022/eq8")

    def test_saved_tensors_are_not_overwritten(self):
        self.run_frugal(*TINY, "--dropout", "0", "--save-tensors", "tensors")
        size = (self.folder / "tensors").stat().st_size
        self.assertGreater(size, 100000)
        self.assertIn("exists already", self.run_frugal(*TINY, "--save-tensors", "tensors", status=2).stderr)

    def test_model_file_and_scale(self):
        model = {"layers": 2, "hidden_size": 128, "attention_heads": 4, "sequence_length": 64, "vocabulary_size": 512}
        (self.folder / "own.json").write_text(json.dumps(model))
        self.run_frugal("measure", "--model", "own.json", "--scale", "1/2")
        configuration = self.records()[0]["configuration"]["model"]
        self.assertEqual((configuration["hidden_size"], configuration["name"]), (64, "own"))
        self.assertEqual(self.records()[0]["scale"], "1/2")


class Interrupt(Cli):
    def interrupt(self, arguments, number, lines):
        """Signals the program once it has said `lines` lines of progress."""
        with subprocess.Popen([FRUGAL, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as program:
            said = [program.stderr.readline() for _ in range(lines)]
            program.send_signal(number)
            rest = program.communicate(timeout=120)[1]
            self.assertEqual(program.returncode, 130, "".join(said) + rest)
            self.assertIn("frugal: interrupted", rest)

    def test_measure(self):
        arguments = [*TINY, "--steps", "1000000"]
        self.interrupt(arguments, signal.SIGINT, 3)
        (record,) = self.records()
        self.assertEqual(record["status"], "interrupted")
        self.interrupt(arguments, signal.SIGTERM, 3)  # it is not final: the same command runs it again
        self.assertEqual([r["status"] for r in self.records()], ["interrupted"] * 2)

    def test_reproduce_keeps_what_is_finished_and_resumes(self):
        arguments = ["reproduce", "korthikanti2022/table2", "--on", "cpu", "--scale", "1/32", "--threads", "1"]
        self.interrupt(arguments, signal.SIGINT, 2)
        before = self.records()
        self.assertEqual(before[-1]["status"], "interrupted")
        kept = [r["case"] for r in before if r["status"] == "ok"]
        self.assertGreaterEqual(len(kept), 2)
        self.run_frugal(*arguments)
        after = self.records()
        self.assertEqual(after[:len(before)], before)
        cases = [r["case"] for r in after if r["status"] == "ok"]
        self.assertEqual(len(cases), len(set(cases)), "no finished case ran again")
        self.assertIn(before[-1]["case"], cases)


class Report(Cli):
    def test_html_and_markdown(self):
        self.run_frugal("reproduce", "korthikanti2022/table4", "--on", "virtual")
        self.run_frugal(*TINY)
        (self.folder / "out/figures").mkdir()
        (self.folder / "out/figures/one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
        self.run_frugal("report", "out")
        html = (self.folder / "out/report.html").read_text()
        markdown = (self.folder / "out/report.md").read_text()
        for text in (html, markdown):
            self.assertIn("korthikanti2022/table4", text)
            self.assertIn("gpt-tiny", text)
            self.assertIn("one.svg", text)
        self.assertIn("data:image/svg+xml;base64,", html)
        self.assertNotIn("http", html.replace("http://www.w3.org", ""))
        done = self.run_frugal("report", "out", status=2)
        self.assertIn("--force", done.stderr)
        self.run_frugal("report", "out", "--force")


class Documentation(Cli):
    def commands(self):
        return {"list": [], "reproduce": [], "measure": [], "peak": [], "report": [], "completion": []}

    def flags(self, command):
        text = self.run_frugal(command, "--help").stdout
        return {word.rstrip(",") for word in text.replace(",", " ").split() if word.startswith("--") and len(word) > 2}

    def test_cli_md_is_what_the_program_says(self):
        self.assertEqual((SOURCE / "docs/cli.md").read_text(), self.run_frugal("docs").stdout,
                         "write it anew: frugal docs > docs/cli.md")

    def test_completion_knows_every_flag(self):
        for shell, prefix in (("bash", "--"), ("zsh", "--"), ("fish", "-l ")):
            script = self.run_frugal("completion", shell).stdout
            for command in self.commands():
                self.assertIn(command, script)
                for flag in self.flags(command):
                    self.assertIn(prefix + flag[2:], script, (shell, command))
            self.assertIn("korthikanti2022/table2", script)

    def test_bash_completes(self):
        script = self.run_frugal("completion", "bash").stdout
        asked = 'COMP_WORDS=(frugal measure --recompute ""); COMP_CWORD=3; _frugal; echo "${COMPREPLY[*]}"'
        done = subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["none", "selective", "full"])

    def test_list_and_peak(self):
        artifacts = json.loads(self.run_frugal("list", "--format", "json").stdout)["artifacts"]
        self.assertIn("korthikanti2022/table2", [a["id"] for a in artifacts])
        peak = json.loads(self.run_frugal("peak", "--threads", "1", "--format", "json").stdout)
        self.assertTrue(all(g["flops_per_second"] > 0 for g in peak["gemm"]))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
