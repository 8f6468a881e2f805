"""`frugal compare`, on records that frugal made."""

import json
import xml.etree.ElementTree as ElementTree

from program import FRUGAL, SOURCE, Cli

LAYERS = ["measure", "--model", "22B", "--layers", "1", "--type", "bf16", "--tensor-parallel", "8"]


class Compare(Cli):
    def setUp(self):
        super().setUp()
        for recompute in ("none", "selective"):
            self.run_frugal(*LAYERS, "--recompute", recompute, "--out", recompute)

    def quantities(self, *arguments, status=0):
        report = json.loads(self.run_frugal("compare", *arguments, "--format", "json", status=status).stdout)
        self.assertEqual(report["schema"], "frugal.comparison/1")
        return {q["quantity"]: q for q in report["quantities"]}

    def refused(self, *arguments, says):
        done = self.run_frugal("compare", *arguments, status=2)
        self.assertEqual(done.stdout, "")
        (line,) = done.stderr.splitlines()
        self.assertIn(says, line)

    def test_techniques_are_compared_where_the_comparison_is_about_them(self):
        self.refused("none", "selective", says="recompute is none in the base and selective in the candidate")
        found = self.quantities("none", "selective", "--across", "recompute")
        (none,), (selective,) = self.records("none"), self.records("selective")
        for name, record in (("base", none), ("candidate", selective)):
            self.assertEqual(found["peak memory"][name], record["memory"]["peak_total"])
            self.assertEqual(found["step_time"][name], record["metrics"]["step_time"]["median"])
        self.assertEqual(found["peak memory"]["change"], "less")
        self.assertEqual(found["step_time"]["change"], "slower")
        self.assertIsNone(found["step_time"]["p"])
        self.assertNotIn("model FLOPs", found)  # the same

    def test_a_change_that_was_named_is_a_failure(self):
        compare = ["compare", "none", "selective", "--across", "recompute", "--junit", "checks.xml"]
        self.run_frugal(*compare, "--fail-on", "faster,more", status=1)  # more FLOPs
        self.refused(*compare[1:], says="checks.xml exists")
        self.run_frugal(*compare, "--fail-on", "slower", "--force", status=1)
        suite = ElementTree.parse(self.folder / "checks.xml").find("testsuite")
        failed = [case.get("name") for case in suite if case.find("failure") is not None]
        self.assertEqual(failed, ["step_time"])
        self.run_frugal("compare", "none", "selective", "--across", "recompute", "--fail-on", "faster")

    def test_processes_run_by_turns(self):
        train = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--steps", "2"]
        for side in ("a", "b"):
            self.run_frugal(*train, "--out", side)
        found = self.quantities("a", "b")
        self.assertEqual(found["step_time"]["change"], "too few samples")
        self.assertEqual(found["losses"]["change"], "same")
        found = self.quantities("a", "b", "--repeat", "5")
        self.assertEqual([len(self.records(side)) for side in "ab"], [6, 6])
        self.assertTrue(found["step_time"]["by_turns"])
        self.assertEqual(found["step_time"]["base_processes"], 6)
        low, high = found["step_time"]["interval"]["low"], found["step_time"]["interval"]["high"]
        self.assertTrue(low <= found["step_time"]["ratio"] <= high)
        self.assertEqual(found["losses"]["change"], "same")

    def test_another_build_has_to_be_named(self):
        (record,) = self.records("none")
        record["program"] = "0123456789abcdef"
        (self.folder / "old").mkdir()
        (self.folder / "old/records.jsonl").write_text(json.dumps(record) + "\n")
        self.refused("old", "none", "--repeat", "1", says="name it with --base-program FILE")
        self.refused("old", "none", "--repeat", "1", "--base-program", "nowhere", says="nowhere is no file")
        self.refused("old", "none", "--base-program", FRUGAL, says="--repeat")

    def test_what_cannot_be_compared_is_said_in_a_line(self):
        self.refused("none", "none", says="the same records")
        file = str(self.folder / "none/records.jsonl")
        self.refused(file, "selective", "--across", "recompute", "--repeat", "1", says="it adds records to folders")
        self.assertEqual(self.quantities(file, file.replace("none", "selective"), "--across", "recompute"),
                         self.quantities("none", "selective", "--across", "recompute"))
        self.refused("none", "nowhere", says="nowhere: there is no such folder or file")
        (self.folder / "empty").mkdir()
        self.refused("none", "empty", says="empty: there is no records.jsonl in it")
        self.refused("none", "selective", "--across", "recomput", says="did you mean recompute")
        self.refused("none", "selective", "--fail-on", "slow", says="must be one of slower, faster")

    def test_the_page_names_every_key_and_change(self):
        page = (SOURCE / "docs/compare.md").read_text()
        report = json.loads(self.run_frugal("compare", "none", "selective", "--across", "recompute", "--format",
                                            "json").stdout)
        for key in [*report, *report["quantities"][0], "too few samples", "ambiguous", "different"]:
            self.assertIn(f"`{key}`", page)
