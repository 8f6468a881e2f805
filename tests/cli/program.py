"""The built program as its users run it. CTest sets FRUGAL (the program) and FRUGAL_SOURCE_DIR."""

import glob
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import again
import jsonschema

FRUGAL = os.environ["FRUGAL"]
SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
SCHEMA = json.loads((SOURCE / "docs/record.schema.json").read_text())
GPU = bool(glob.glob("/dev/nvidia[0-9]*"))
TINY = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1"]


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(again.check, self)

    def run_frugal(self, *arguments, status=0, variables=None):
        done = subprocess.run([FRUGAL, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **(variables or {})})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def imported(self, *arguments, status=0):
        return json.loads(self.run_frugal("import", "--format", "json", *arguments, status=status).stdout)

    def records(self, folder="out"):
        lines = (self.folder / folder / "records.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            jsonschema.validate(record, SCHEMA)
        return records

    def given(self, text, name="mine.txt"):
        """A file of the user's, in a folder that rejected() allows."""
        (self.folder / "given").mkdir(exist_ok=True)
        path = self.folder / "given" / name
        path.write_text(text)
        return str(path)

    def rejected(self, *arguments, says, variables=None):
        """Status 2, one line that says what, and nothing written."""
        done = self.run_frugal(*arguments, status=2, variables=variables)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("frugal: "), lines[0])
        for part in says:
            self.assertIn(part, lines[0])
        self.assertEqual(done.stdout, "")
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name != "given"], [])
        return lines[0]

    def interrupt(self, arguments, number, lines):
        """Signals the program once it has said `lines` lines of progress."""
        with subprocess.Popen([FRUGAL, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as program:
            said = [program.stderr.readline() for _ in range(lines)]
            program.send_signal(number)
            rest = program.communicate(timeout=120)[1]
            self.assertEqual(program.returncode, 130, "".join(said) + rest)
            self.assertIn("frugal: interrupted", rest)
            return rest
