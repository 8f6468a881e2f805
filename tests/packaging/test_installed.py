"""What `cmake --install` gives, moved to another folder than it was installed into. CTest sets FRUGAL_BUILD_DIR."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["FRUGAL_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
# What tests/consumer/main.cpp trains.
SAME_RUN = ("measure", "--model", "22B", "--layers", "4", "--type", "bf16", "--tensor-parallel", "8",
            "--sequence-parallel", "--recompute", "selective", "--format", "json")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.folder / "first"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()

    def run_there(self, *command, status=0):
        done = subprocess.run(command, cwd=self.elsewhere, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def frugal(self, *arguments):
        return self.run_there(self.prefix / "bin/frugal", *arguments).stdout


class Program(Installed):
    def test_needs_nothing_of_where_it_was_built(self):
        self.assertIn("a100-selene", self.frugal(*SAME_RUN))
        artifacts = json.loads(self.frugal("list", "--format", "json"))["artifacts"]
        self.assertGreater(len(artifacts), 40)

    def test_nothing_says_where_it_was_built(self):
        for path in self.prefix.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                for place in (SOURCE, self.folder / "first"):
                    self.assertNotIn(str(place).encode(), content, path)

    def test_a_machine_that_is_installed_is_the_one_within(self):
        machine = self.prefix / "share/frugal/hardware/a100-selene.json"
        peaks = [json.loads(self.frugal(*SAME_RUN, "--on", f"virtual:{name}", "--out", out))["memory"]["peak_total"]
                 for name, out in (("a100-selene", "one"), (machine, "two"))]
        self.assertEqual(peaks[0], peaks[1])

    def test_shells_read_the_completions(self):
        for shell, file in (("bash", "share/bash-completion/completions/frugal"),
                            ("zsh", "share/zsh/site-functions/_frugal"),
                            ("fish", "share/fish/vendor_completions.d/frugal.fish")):
            self.assertEqual((self.prefix / file).read_text(), self.frugal("completion", shell))
            if shutil.which(shell):
                self.run_there(shell, "-n", self.prefix / file)

    def test_formatters_read_the_man_page(self):
        page = self.prefix / "share/man/man1/frugal.1"
        self.assertEqual(page.read_text(), self.frugal("docs", "--man"))
        if shutil.which("mandoc"):
            self.assertEqual(self.run_there("mandoc", "-T", "lint", "-W", "warning", page).stdout, "")
        if shutil.which("man"):
            environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"}
            done = subprocess.run(["man", "--warnings", "-l", page], env=environment, capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stderr, "")
            # What a page and docs/cli.md are made of is the same: each flag of one stands in the other.
            self.assertIn("--recompute none|selective|full|stage", done.stdout)
            self.assertIn("frugal 1.", done.stdout.splitlines()[-1])


class Libraries(Installed):
    def configure(self, source, status=0):
        return self.run_there("cmake", "-S", source, "-B", source.name, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                              f"-DCMAKE_PREFIX_PATH={self.prefix}", status=status)

    def test_a_project_that_finds_them_trains(self):
        self.configure(SOURCE / "tests/consumer")
        self.run_there("cmake", "--build", "consumer")
        peak = json.loads(self.frugal(*SAME_RUN))["memory"]["peak_total"]
        self.assertEqual(self.run_there("consumer/consumer").stdout, f"{peak}\n")
        # Every header that is installed finds what it includes.
        self.run_there("cmake", "--build", "consumer", "--target", "headers")

    def test_another_major_version_is_refused(self):
        wants = self.folder / "wants"
        wants.mkdir()
        (wants / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.24)\nproject(wants LANGUAGES CXX)\nfind_package(frugal 2.0 REQUIRED)\n")
        self.assertIn("version: 1.", self.configure(wants, status=1).stderr)
