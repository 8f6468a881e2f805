"""Artifacts that are whole training runs, where running out of memory is a result."""

import json

from program import Cli


class Pipelines(Cli):
    def test_out_of_memory_is_a_result_of_these(self):
        done = self.run_frugal("reproduce", "pipedream2bw2021/figure7", "--on", "virtual", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = {(c["row"], c["column"]): c for c in json.loads(done.stdout)["cells"]}
        gpipe = cells["GPipe", "batch 256"]
        self.assertEqual((gpipe["status"], gpipe["value"], gpipe["paper_oom"]), ("oom", None, True))
        self.assertIn("did not fit", gpipe["reason"])
        flush = cells["PipeDream-Flush", "batch 256"]
        self.assertEqual((flush["status"], flush["paper_oom"]), ("ok", False))

    def test_the_papers_own_machine_only(self):
        self.rejected("reproduce", "pipedream2bw2021/figure7", "--on", "cpu", says=["figure7", "nothing to run there"])

    def test_clipping_without_a_flush_is_pointed_out(self):
        run = ["measure", "--model", "gpt-tiny", "--layers", "2", "--on", "virtual", "--pipeline-parallel", "2",
               "--microbatches", "2", "--schedule"]
        self.assertIn("--clip 0 lets 2bw go without", self.run_frugal(*run, "2bw").stderr)
        for quiet in (["2bw", "--clip", "0"], ["1f1b"]):
            self.assertNotIn("clip", self.run_frugal(*run, *quiet).stderr)

    def test_lone_stages_of_a_virtual_machine(self):
        """Are those of the whole pipeline, and take together what it takes."""
        run = ["measure", "--on", "virtual:h100-dgx", "--model", "175B", "--layers", "24", "--type", "bf16",
               "--tensor-parallel", "8", "--pipeline-parallel", "4", "--microbatches", "8", "--steps", "3"]
        self.run_frugal(*run, "--out", "whole")
        self.run_frugal(*run, "--lone-rank", "h100-dgx", "--out", "lone")
        (whole,), (lone,) = self.records("whole"), self.records("lone")
        self.assertEqual((lone["source"], lone["communication"]["machine"]), ("virtual", "h100-dgx"))
        self.assertEqual(lone["lone_stages"], {"stages": [0, 1, 3], "parts": {
            "computation_time": "virtual", "communication_time": "modelled", "bubble_time": "walked"}})
        self.assertEqual(lone["memory"]["stages"], [whole["memory"]["stages"][stage] for stage in (0, 1, 3)])
        self.assertEqual(lone["flops"], whole["flops"])
        times = [record["metrics"]["step_time"]["median"] for record in (lone, whole)]
        self.assertAlmostEqual(times[0] / times[1], 1, delta=0.001)
        self.run_frugal("rerun", "lone/records.jsonl", "--out", "anew")
        (again,) = self.records("anew")
        self.assertEqual((again["metrics"], again["fingerprint"]), (lone["metrics"], lone["fingerprint"]))
