"""What docs/artifact-evaluation.md is made of is whole, and the container file is what scripts/try-in-root.py understands."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
RESULTS = SOURCE / "results/amd-epyc-2-cores"
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "plots")]
import containerfile  # pylint: disable=wrong-import-position
import evaluation_tables  # pylint: disable=wrong-import-position


class Evaluation(unittest.TestCase):
    def setUp(self):
        listed = subprocess.run([os.environ["FRUGAL"], "list", "--format", "json"], capture_output=True, check=True)
        self.artifacts = [artifact["id"] for artifact in json.loads(listed.stdout)["artifacts"]]

    def test_every_artifact_shows_one_contribution(self):
        shown = []
        for paper in dict.fromkeys(artifact.split("/")[0] for artifact in self.artifacts):
            document = json.loads((SOURCE / "experiments" / paper / "paper.json").read_text())
            for contribution in document["contributions"]:
                shown += [f"{paper}/{name}" for name in contribution["artifacts"]]
        self.assertEqual(sorted(shown), sorted(self.artifacts))

    def test_every_artifact_has_a_cost(self):
        runs = json.loads((RESULTS / "artifact-costs.json").read_text())["runs"]
        self.assertEqual(sorted(run["id"] for run in runs if run["on"] == "virtual"), sorted(self.artifacts))
        self.assertEqual({run["status"] for run in runs}, {0})

    def test_setting_up_was_measured(self):
        steps = json.loads((RESULTS / "fresh-debian.json").read_text())["steps"]
        measured = {step["what"] for step in steps if step["status"] == 0}
        self.assertLessEqual({"install", "build"}, measured & evaluation_tables.PHASES.keys())

    def test_the_readme_says_what_it_took(self):
        """Minutes, disk and memory, each rounded to its last digit."""
        steps = {step["what"]: step for step in json.loads((RESULTS / "fresh-debian.json").read_text())["steps"]}
        runs = json.loads((RESULTS / "artifact-costs.json").read_text())["runs"]
        minutes = [(steps["install"]["seconds"] + steps["build"]["seconds"]) / 60, steps["all"]["seconds"] / 60,
                   sum(run["seconds"] for run in runs if run["on"] == "cpu") / 60]
        disk = sum(step["disk_bytes"] for step in steps.values()) / 2**30
        memory = max(one["largest_process_bytes"] for one in [*steps.values(), *runs]) / 2**30
        text = " ".join((SOURCE / "README.md").read_text().split())
        self.assertIn("On two cores of an AMD EPYC, to install and build took {:.0f} minutes, all artifacts on virtual machines with their "
                      "figures {:.0f} minutes, and the artifacts that also run on the processor {:.0f} minutes more. It needs {:.1f} GiB of "
                      "disk and {:.1f} GiB of memory".format(*minutes, disk, memory), text)

    def test_every_artifact_has_an_expected_result(self):
        for artifact in self.artifacts:
            results = json.loads((SOURCE / f"results/virtual/{artifact.split('/')[0]}.json").read_text())
            self.assertRegex(evaluation_tables.expected(results, artifact), r"^(cells|claims): \d+ ", artifact)

    def test_verdicts_are_counted_as_reports_count_them(self):
        cell = {"artifact": "p/t", "row": "r", "column": "c", "verdict": "not reproduced", "program": ""}
        cells = [cell, {**cell, "verdict": "reproduced", "program": "papers"}, {**cell, "column": "d"},
                 {**cell, "column": "e", "verdict": None}]
        self.assertEqual(evaluation_tables.expected({"cells": cells}, "p/t"), "cells: 1 reproduced, 1 not reproduced")


class Container(unittest.TestCase):
    def test_its_stages(self):
        stages = {stage.name: stage for stage in containerfile.read(SOURCE / "packaging/Containerfile", {"DEBIAN": "here"})}
        self.assertEqual(list(stages), ["dated", "built", "checked", "last"])
        self.assertEqual(stages["dated"].steps[0].variables["DEBIAN"], "here")
        self.assertEqual(stages["checked"].steps[0].text, "./reproduce.sh --quick")
        self.assertEqual(stages["checked"].steps[0].folder, "/frugal")
        self.assertEqual((stages["last"].user, stages["last"].entry), ("frugal", ["frugal"]))
        self.assertEqual([step.source for step in stages["last"].steps if step.kind == "COPY"], ["built"])

    def test_another_instruction(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "Containerfile")
            file.write_text("FROM debian\nHEALTHCHECK NONE\n")
            with self.assertRaisesRegex(ValueError, "HEALTHCHECK is not understood"):
                containerfile.read(file, {})


class WithoutRoot(unittest.TestCase):
    """scripts/install.sh of a user who may not install."""

    def install(self, wanted, *arguments):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        place = pathlib.Path(folder.name)
        place.chmod(0o755)
        (place / "scripts").mkdir()
        (place / "scripts/install.sh").write_bytes((SOURCE / "scripts/install.sh").read_bytes())
        (place / "packages.txt").write_text(wanted)
        # Without sudo, wherever that is; what else the script calls is here.
        (place / "bin").mkdir()
        for name in ("apt-get", "bash", "dirname", "dpkg-query", "realpath", "sed"):
            (place / "bin" / name).symlink_to(shutil.which(name))
        as_nobody = [shutil.which("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        return subprocess.run([*as_nobody, "/bin/bash", place / "scripts/install.sh", *arguments], text=True,
                              env={"PATH": str(place / "bin")}, capture_output=True, check=False)

    def test_what_is_missing_is_named_and_nothing_else(self):
        done = self.install("bash\nno-such-package  # of Debian\nnor-this\n# Checks only\nnor-that\n")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("2 packages are missing", done.stderr)
        self.assertIn("apt-get install no-such-package nor-this;", done.stderr)
        self.assertIn("scripts/install.sh --into FOLDER", done.stderr)

    def test_where_nothing_is_missing_it_says_nothing(self):
        done = self.install("bash\ncoreutils\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_into_which_folder_has_to_be_said(self):
        done = self.install("no-such-package\n", "--into")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--into needs a folder", done.stderr)
