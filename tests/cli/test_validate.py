"""`frugal validate`: what it prints and writes, and that it finds what is put into the machine. FRUGAL_FAULTY is the
program with a fault in it (tests/faulty). That a sound machine passes, and that a drift is found, takes minutes and is
bench/validate_trials.py's; how samples are judged is tests/harness/validate's."""

import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree

import jsonschema

from program import SOURCE, Cli

FAULTY = os.environ.get("FRUGAL_FAULTY", "")
EMULATED = os.environ.get("FRUGAL_EMULATED", "")
FAULTY_EMULATED = os.environ.get("FRUGAL_FAULTY_EMULATED", "")
SCHEMA = json.loads((SOURCE / "docs/validation.schema.json").read_text(encoding="utf-8"))
RIGHT = ["validate", "--quick", "--threads", "1", "--group", "operations", "--group", "products"]


class Validate(Cli):
    def validation(self, *arguments, status=0):
        said = json.loads(self.run_frugal(*arguments, "--format", "json", status=status).stdout)
        jsonschema.validate(said, SCHEMA)
        return said

    def test_a_right_machine_passes_and_every_operation_was_looked_at(self):
        said = self.validation(*RIGHT, "--junit", "checks.xml")
        self.assertEqual((said["verdict"], said["failed"]), ("pass", 0))
        self.assertEqual(said["series"], {})
        names = {check["name"] for check in said["checks"] if check["group"] == "operations"}
        for name in ("gemm", "layer-norm", "softmax-backward", "adam", "fused-attention", "cross-entropy"):
            self.assertIn(name, names)
        suite = xml.etree.ElementTree.parse(self.folder / "checks.xml").getroot().find("testsuite")
        self.assertEqual(int(suite.get("tests")), len(said["checks"]))
        self.assertEqual(suite.get("failures"), "0")
        # Ranks are kernel threads, of which there is one.
        skipped = [check for check in said["checks"] if check["outcome"] == "skipped"]
        self.assertEqual([check["reason"] for check in skipped], ["there is one kernel thread"])

    def test_one_page_with_the_verdict_first(self):
        page = self.run_frugal(*RIGHT).stdout.splitlines()
        self.assertRegex(page[0], r"^PASS: all \d+ checks that could be made passed; 1 could not be judged$")
        self.assertLess(len(page), 60)
        markdown = self.run_frugal(*RIGHT, "--format", "markdown").stdout
        self.assertIn("| operations | gemm | passed |", re.sub(" +", " ", markdown))

    def test_what_is_timed_is_seen_and_kept_as_a_reference(self):
        arguments = ["validate", "--quick", "--threads", "1", "--seconds", "1", "--group", "peaks"]
        # Nobody knows how fast it should be.
        said = self.validation(*arguments, "--write-reference", "mine.json", status=1)
        self.assertEqual(said["verdict"], "undecided")
        self.assertRegex(said["text"], r"^UNDECIDED: none of \d+ checks could be judged$")
        self.assertTrue(said["series"])
        for series in said["series"].values():
            self.assertGreaterEqual(len(series["fastest"]), 10)
        self.assertEqual((said["series"]["memory/copy"]["work"], said["series"]["flops_f32"]["work"]), (6 << 20, 2 * 512**3))
        self.assertLess(said["series"]["operation_time"]["value"], 1e-6)
        self.assertEqual({check["outcome"] for check in said["checks"]}, {"skipped"})
        reference = json.loads((self.folder / "mine.json").read_text())
        self.assertEqual(reference["values"]["memory/copy"]["value"], said["series"]["memory/copy"]["value"])
        self.assertIn("--force", self.run_frugal(*arguments, "--write-reference", "mine.json", status=2).stderr)
        # A machine that is a thousand times as fast is one that this is slower than.
        for value in reference["values"].values():
            value["value"] *= 1000
        (self.folder / "faster.json").write_text(json.dumps(reference))
        slow = self.validation(*arguments, "--reference", "faster.json", status=1)
        self.assertEqual(slow["verdict"], "fail")
        check = next(check for check in slow["checks"] if check["name"] == "memory/copy")
        self.assertEqual((check["outcome"], check["number"]["source"]), ("failed", "the reference faster.json"))
        self.assertRegex(check["reason"], "0 % of the speed of the reference faster.json")

    def test_what_is_wrong_with_the_command(self):
        for arguments, says in ((["--group", "operation"], ["--group", "did you mean operations?"]),
                                (["--on", "virtual"], ["--on is virtual", "cpu or cuda"]),
                                (["--reference", "nowhere.json"], ["nowhere.json"]),
                                (["--force"], ["--force", "--junit FILE"]),
                                (["--seconds", "0"], ["--seconds"]),
                                (["--junit", "no/where.xml"], ["--junit"])):
            self.rejected("validate", *arguments, says=says)
        other = self.given(json.dumps({"schema": "frugal.validation-reference/1", "on": "cpu", "device": "another",
                                       "values": {}, "provenance": {}}), "other.json")
        self.rejected("validate", "--reference", other, says=["other.json", "another", "--write-reference"])


@unittest.skipUnless(FAULTY, "there is no program with a fault in it")
class ValidateFaults(Cli):
    def faulty(self, fault, *arguments):
        done = subprocess.run([FAULTY, "validate", "--quick", "--format", "json", *arguments], cwd=self.folder,
                              capture_output=True, text=True, check=False, env={**os.environ, "FRUGAL_FAULT": fault})
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)
        said = json.loads(done.stdout)
        jsonschema.validate(said, SCHEMA)
        return done.returncode, said

    def failed(self, said):
        return {f"{check['group']} {check['name']}": check for check in said["checks"] if check["outcome"] == "failed"}

    def found(self, name, fault, *arguments):
        """What failed, among which is this check; where others kept the machine busy it may be that nothing can be
        said."""
        status, said = self.faulty(fault, *arguments)
        check = next(c for c in said["checks"] if f"{c['group']} {c['name']}" == name)
        if check["outcome"] == "skipped" and "left alone" in check["reason"]:
            self.skipTest(check["reason"])
        self.assertEqual((status, said["verdict"]), (1, "fail"), check)
        self.assertIn(name, self.failed(said), check)
        return self.failed(said)

    def test_one_wrong_element_ends_it_before_anything_is_timed(self):
        for operation in ("gelu", "softmax-backward", "adam", "cross-entropy"):
            status, said = self.faulty(f"element {operation} 0", "--threads", "1")
            self.assertEqual((status, said["verdict"], said["series"]), (6, "wrong", {}))
            self.assertRegex(said["text"], "^WRONG: .*nothing was timed")
            self.assertRegex(self.failed(said)[f"operations {operation}"]["reason"],
                             r"differ; the worst is \[\d+\]: ")

    def test_a_slow_rank_is_named(self):
        failed = self.found("ranks rank/1", "slow any 1", "--threads", "2", "--group", "ranks", "--seconds", "8")
        self.assertEqual(list(failed), ["ranks rank/1"])
        self.assertRegex(failed["ranks rank/1"]["reason"], r"^rank 1 takes \d\d % longer")

    def test_copies_at_half_their_rate_are_below_what_else_moves_memory(self):
        self.found("rooflines memory/copy", "half convert 0", "--group", "rooflines", "--seconds", "6")

    def test_memory_at_half_its_bandwidth_is_below_the_reference(self):
        arguments = ["--group", "rooflines", "--group", "peaks", "--seconds", "6"]
        self.run_frugal("validate", "--quick", *arguments, "--write-reference", "mine.json")
        self.found("peaks memory/copy", "half memory 0", *arguments, "--reference", "mine.json")


@unittest.skipUnless(EMULATED, "there is no emulated GPU")
class ValidateGpus(Cli):
    def on_gpus(self, program, *arguments, status=0, fault=""):
        variables = {**os.environ, "FRUGAL_EMULATED_GPUS": "2", "FRUGAL_CACHE": "", "FRUGAL_FAULT": fault}
        done = subprocess.run([program, "validate", "--quick", "--on", "cuda", "--format", "json", *arguments],
                              cwd=self.folder, capture_output=True, text=True, check=False, env=variables)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout[:2000])
        said = json.loads(done.stdout)
        jsonschema.validate(said, SCHEMA)
        return said

    def test_the_driver_is_asked_before_and_after(self):
        said = self.on_gpus(EMULATED, "--group", "gpus")
        self.assertEqual({check["outcome"] for check in said["checks"]}, {"passed"})
        names = [check["name"] for check in said["checks"]]
        self.assertEqual(names[:6], [f"gpu 0/{what}" for what in ("throttling", "power cap", "memory errors", "mig",
                                                                 "pcie", "nvlink")])
        self.assertEqual(len(names), 12)
        state = said["environment"]["gpu_state"]
        self.assertEqual(state["peers"], [{"gpus": [0, 1], "path": "nvlink"}])
        self.assertEqual(len(state["end"]), 2)

    def test_one_wrong_element_of_a_gpu(self):
        said = self.on_gpus(FAULTY_EMULATED, "--group", "operations", status=6, fault="element softmax 1")
        self.assertEqual([check["name"] for check in said["checks"] if check["outcome"] == "failed"],
                         ["gpu 1/softmax"])
