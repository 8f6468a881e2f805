"""What other programs do besides: --program, and frugal explain."""

import json

from program import Cli


MODEL = ("--model", "gpt-3m", "--layers", "2", "--sequence", "64", "--type", "bf16")


class Programs(Cli):
    def measure(self, program, on="virtual:a100-80gb", **options):
        return self.run_frugal("measure", *MODEL, "--on", on, "--program", program, "--format", "json", **options)

    def refused(self, program, *said, on="virtual:a100-80gb"):
        """One line that says all this, and nothing that is written."""
        done = self.measure(program, on=on, status=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for text in said:
            self.assertIn(text, done.stderr)

    def test_a_run_has_more_memory_and_says_whose_behaviour_it_had(self):
        own, as_program = (json.loads(self.measure(program).stdout) for program in
                           ("frugal", "float32-logits+log-probabilities+causal-masks"))
        self.assertNotIn("program", own["configuration"])
        self.assertEqual(as_program["configuration"]["program"], "float32-logits+log-probabilities+causal-masks")
        self.assertIn("--program", as_program["command"])
        self.assertGreater(as_program["memory"]["peak_total"], own["memory"]["peak_total"])

    def test_several_programs_are_compared_in_one_table(self):
        shown = self.run_frugal("measure", *MODEL, "--on", "virtual:a100-80gb", "--program", "frugal,causal-masks").stdout
        self.assertEqual([line.split()[0] for line in shown.splitlines() if "virtual" in line], ["frugal", "causal-masks"])

    def test_what_is_wrong_is_said_in_one_line(self):
        self.refused("float32-norm", 'called "float32-norm"', "did you mean float32-norms")
        self.refused("megatron-lm-2023", "did you mean megatron-lm-2022")
        self.refused("megatron-lm-2022", "which a virtual device alone can have",
                     "program=megatron-lm-2022:real", on="cpu")
        self.refused("float32-norms+", "nothing before or behind")
        self.refused("megatron-lm-2022:all", "memory, time, messages, real")

    def test_a_file_is_a_program_and_its_mistakes_are_named(self):
        good = {"schema": "frugal.program/2", "name": "mine", "description": "a test",
                "behaviours": [{"behaviour": "causal-masks", "status": "supposed", "evidence": "none, this is a test"}]}
        path = self.folder / "mine.json"
        path.write_text(json.dumps(good))
        record = json.loads(self.measure("./mine.json").stdout)
        self.assertEqual(record["configuration"]["program"], "causal-masks", "a record needs no file")
        for change, said in (({"behaviors": []}, "behaviors"), ({"schema": "frugal.program/1"}, "frugal.program/2"),
                             ({"behaviours": [{"behaviour": "causal-mask"}]}, "did you mean causal-masks"),
                             ({"behaviours": [{"behaviour": "causal-masks", "status": "known"}]},
                              "documented, counted or supposed"),
                             ({"behaviours": [{"behaviour": "causal-masks", "status": "counted", "evidence": ""}]},
                              "evidence is empty"),
                             ({"behaviours": good["behaviours"] * 2}, "a second time")):
            path.write_text(json.dumps({**good, **change}))
            self.refused("./mine.json", "mine.json", said)

    def test_memory_that_the_planner_does_not_predict_is_refused(self):
        done = self.run_frugal("plan", "--model", "gpt-355m", "--hardware", "v100-p3-16xlarge", "--devices", "8",
                               "--batch", "64", "--program", "pipedream-2bw-2021", status=2)
        self.assertIn("--program pipedream-2bw-2021:time:messages", done.stderr)

    def test_a_difference_is_a_sum(self):
        printed = json.loads(self.run_frugal("explain", "korthikanti2022/figure9", "--row", "deallocation",
                                             "--format", "json").stdout)
        self.assertEqual(printed["schema"], "frugal.attribution/1")
        self.assertEqual(len(printed["cells"]), 6)
        for cell in printed["cells"]:
            added = sum(term["added"] for term in cell["terms"])
            self.assertAlmostEqual(cell["frugal"] + added, cell["program"], delta=1e-9)
            self.assertAlmostEqual(cell["program"] + cell["unexplained"], cell["paper"], delta=1e-9)
            masks = next(term for term in cell["terms"] if term["behaviour"] == "causal-masks")
            self.assertEqual(masks["status"], "documented")
            self.assertAlmostEqual(masks["added"], masks["as_the_last"], delta=1e-9)

    def test_what_cannot_be_explained_is_said(self):
        for arguments, said in ((("korthikanti2022/table2",), "no program is known"),
                                (("korthikanti2022/figur9",), "korthikanti2022/figure9"),
                                (("korthikanti2022/figure9", "--row", "none"), "cells with a number of the paper's"),
                                (("korthikanti2022/figure9", "--program", "none"), 'is called "none"')):
            done = self.run_frugal("explain", *arguments, status=2)
            self.assertIn(said, done.stderr)
            self.assertNotIn(" up to ", done.stderr)  # before the program has run
        some = self.run_frugal("explain", "korthikanti2022/[tf]*[29]", "--row", "deallocation", "--column", "rank 1")
        self.assertIn("left out: korthikanti2022/table2: no program is known", some.stderr)
        self.assertIn("causal-masks", some.stdout)

    def test_columns_of_the_papers_program_and_of_frugal_stand_side_by_side(self):
        both, own, paper = (json.loads(self.run_frugal("reproduce", "korthikanti2022/appendixB", "--on", "virtual",
                                                       "--programs", programs, "--format", "json").stdout)["cells"]
                            for programs in ("both", "frugal", "paper"))
        self.assertEqual([cell["program"] for cell in both], ["megatron-lm-2022", ""])
        self.assertEqual([cell["program"] for cell in own], [""])
        self.assertEqual([cell["program"] for cell in paper], ["megatron-lm-2022"])
