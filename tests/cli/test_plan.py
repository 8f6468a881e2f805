"""frugal plan, and that the command it prints does what it says."""

import json
import shlex

from program import Cli

ASKED = ["plan", "--model", "gpt-3m", "--hardware", "v100-p3-16xlarge", "--devices", "4", "--batch", "32"]
GIB = 1 << 30


class Plan(Cli):
    def plan(self, *arguments):
        return json.loads(self.run_frugal(*ASKED, *arguments, "--format", "json").stdout)

    def test_its_command_takes_what_it_predicts(self):
        """The best of those with a pipeline, whatever the machine prefers for so small a model."""
        plan = self.plan("--schedule", "2bw", "--execute", "1", "--memory", "0.038GiB")
        best = plan["fitting"][0]
        self.assertGreater(best["config"]["pipeline_parallel_size"], 1)
        command = shlex.split(plan["command"])
        self.assertEqual(command[0], "frugal")
        record = json.loads(self.run_frugal(*command[1:], "--format", "json").stdout)
        config = record["configuration"]
        for key in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "microbatch_size", "microbatches",
                    "recompute", "schedule", "type"):
            self.assertEqual(config[key], best["config"][key], key)
        samples = record["metrics"]["step_time"]["samples"]
        self.assertAlmostEqual((samples[1] + samples[2]) / 2, best["executed"]["seconds"], delta=1e-9)
        self.assertAlmostEqual(best["seconds"] / best["executed"]["seconds"], 1, delta=0.05)
        # But for 8 bytes of each batch that is trained in one go.
        peaks = [stage["peak"] - 8 * 4 for stage in record["memory"]["stages"]]
        self.assertEqual(peaks, best["memory_per_stage"])

    def test_devices_are_used_and_memory_is_kept(self):
        plan = self.plan("--memory", "0.04GiB")
        self.assertTrue(plan["fitting"] and plan["too_large"])
        for group in ("fitting", "too_large"):
            for candidate in plan[group]:
                c = candidate["config"]
                self.assertEqual(c["data_parallel_size"] * c["pipeline_parallel_size"], 4)
                self.assertEqual(c["microbatch_size"] * c["microbatches"] * c["data_parallel_size"], 32)
                missing = max(candidate["memory_per_stage"]) - round(0.04 * GIB)
                self.assertEqual(candidate["missing_memory"], max(missing, 0))
                self.assertEqual(candidate["missing_memory"] == 0, group == "fitting")
                self.assertAlmostEqual(sum(candidate["seconds_by_part"].values()), candidate["seconds"])
                hours = 4 * candidate["seconds"] / (32 * c["model"]["sequence_length"]) * 1e9 / 3600
                self.assertAlmostEqual(candidate["device_hours_per_billion_tokens"] / hours, 1, delta=1e-9)
                self.assertTrue(0 < candidate["mfu"] < 1)

    def test_everything_is_searched_and_settled(self):
        """Its command trains the first of what was executed, and these are in the order of their times."""
        asked = ["plan", "--model", "llama-tiny", "--layers", "5", "--hardware", "h100-dgx", "--devices", "4",
                 "--batch", "16", "--search-all", "--within", "1000", "--execute", "4", "--format", "json"]
        plan = json.loads(self.run_frugal(*asked).stdout)
        self.assertEqual(plan["schedule"], "searched")
        configs = [candidate["config"] for candidate in plan["fitting"]]
        for key, least in (("schedule", 6), ("shard", 3), ("recompute_modules", 3), ("stage_layers", 3), ("context_parallel_size", 3),
                           ("context", 2)):
            self.assertGreaterEqual(len({str(config.get(key)) for config in configs}), least, key)
        seconds = [candidate["executed"]["seconds"] for candidate in plan["fitting"][:4]]
        self.assertEqual(seconds, sorted(seconds))
        record = json.loads(self.run_frugal(*shlex.split(plan["command"])[1:], "--format", "json").stdout)
        for key, value in plan["fitting"][0]["config"].items():
            self.assertEqual(record["configuration"][key], value, key)
        # But for 8 bytes of each batch that is trained in one go. Between steps of so small a model the host is late,
        # unless they are trained in one go.
        executed = plan["fitting"][0]["executed"]["memory_per_stage"]
        self.assertEqual(record["memory"]["peak_total"], max(executed) - 8 * 3)

    def test_what_is_given_holds_for_all(self):
        """And the command trains it: what it takes is what was planned, on the device and on its host."""
        given = {"offload_modules": "residual+norm", "head_chunks": 4, "mlp_chunks": 2, "precision": "pure"}
        flags = ["--offload-modules", "residual+norm", "--head-chunks", "4", "--mlp-chunks", "2", "--precision", "pure"]
        asked = ["plan", "--model", "llama-3m", "--hardware", "h100-dgx", "--devices", "2", "--batch", "8", "--schedule", "1f1b",
                 "--recompute", "none", *flags, "--execute", "3", "--format", "json"]
        plan = json.loads(self.run_frugal(*asked).stdout)
        for candidate in plan["fitting"]:
            for key, value in given.items():
                self.assertEqual(candidate["config"][key], value, key)
            self.assertGreater(min(candidate["host_memory_per_stage"]), 0)
        best = plan["fitting"][0]
        self.assertEqual(best["executed"]["host_memory_per_stage"], best["host_memory_per_stage"])
        record = json.loads(self.run_frugal(*shlex.split(plan["command"])[1:], "--format", "json").stdout)
        for key, value in best["config"].items():
            self.assertEqual(record["configuration"][key], value, key)

    def test_a_given_set_goes_with_all_that_is_searched(self):
        asked = ["plan", "--model", "llama-3m", "--hardware", "h100-dgx", "--devices", "2", "--batch", "8", "--format", "json"]
        for flags in (["--search-all"], ["--recompute-modules", "searched"], ["--recompute-layers", "searched"]):
            plan = json.loads(self.run_frugal(*asked, *flags, "--offload-modules", "residual").stdout)
            self.assertTrue(all(c["config"]["offload_modules"] == "residual" for c in plan["fitting"]))

    def test_offloaded_modules_are_named(self):
        asked = ["plan", "--model", "llama-3m", "--hardware", "h100-dgx", "--devices", "2", "--batch", "8"]
        for modules, said in (("scores", "--offload-modules is \"scores\""), ("input", "choose recompute full")):
            run = self.run_frugal(*asked, "--offload-modules", modules, "--recompute", "none", status=2)
            self.assertIn(said, run.stderr)

    def test_attention_is_what_measure_takes(self):
        """Also for models that have no other than fused."""
        for model, attention in (("gemma2-tiny", "fused"), ("llama-tiny", "fused"), ("gpt-tiny", "separate")):
            asked = ["plan", "--model", model, "--hardware", "a100-80gb", "--devices", "1", "--batch", "2"]
            plan = json.loads(self.run_frugal(*asked, "--format", "json").stdout)
            self.assertEqual(plan["fitting"][0]["config"]["attention"], attention)
            self.assertIn(f"--attention {attention}", plan["command"])
            self.run_frugal("measure", "--model", model, "--on", "virtual", "--out", model)
            self.assertEqual(self.records(model)[0]["configuration"]["attention"], attention)

    def test_messages_may_hold_up_any_schedule(self):
        """Of two stages at least, which wait for them."""
        for schedule in ("zb-h1", "interleaved"):
            seconds = {}
            for program in ("frugal", "blocking-messages"):
                plan = json.loads(self.run_frugal("plan", "--model", "gpt-3m", "--hardware", "a100-selene", "--devices", "2",
                                                  "--batch", "8", "--schedule", schedule, "--program", program,
                                                  "--within", "100", "--format", "json").stdout)
                seconds[program] = min(c["seconds"] for c in plan["fitting"] if c["config"]["pipeline_parallel_size"] == 2)
            self.assertGreater(seconds["blocking-messages"], seconds["frugal"], schedule)

    def test_table(self):
        text = self.run_frugal(*ASKED, "--rows", "3").stdout
        self.assertIn("gpt-3m on 4 devices of v100-p3-16xlarge, batch 32, schedule 2bw", text)
        self.assertIn("\nwhy: w ", text)
        self.assertIn("\nrun: frugal measure --model gpt-3m --on virtual --hardware v100-p3-16xlarge ", text)

    def test_ranks_that_share_a_sequence_are_shown(self):
        """Searched or given; with rings of one kind or both ways."""
        asked = ["plan", "--model", "llama-tiny", "--hardware", "h100-dgx", "--devices", "4", "--batch", "8"]
        given = self.run_frugal(*asked, "--context-parallel", "2", "--context", "ring").stdout
        self.assertIn(" 2 ring ", given)
        self.assertIn(" --context-parallel 2 --context ring", given)
        plan = json.loads(self.run_frugal(*asked, "--context-parallel", "searched", "--context", "zigzag", "--within", "100",
                                          "--format", "json").stdout)
        shared = {(c["config"].get("context_parallel_size", 1), c["config"].get("context")) for c in plan["fitting"]}
        self.assertEqual({kind for ranks, kind in shared if ranks > 1}, {"zigzag"})
        self.assertGreaterEqual(len(shared), 3)

    def test_bad_input(self):
        def rejected(*arguments, says):
            self.rejected("plan", "--model", "gpt-3m", "--hardware", "a100-selene", *arguments, says=says)

        self.rejected("plan", says=["--model is missing"])
        self.rejected("plan", "--model", "gpt-3m", says=["--hardware is missing", "v100-p3-16xlarge"])
        rejected("--devices", "4", says=["--batch is missing"])
        rejected("--batch", "4", says=["--devices is missing"])
        rejected("--batch", "12", "--devices", "8", says=["--batch is 12", "multiple of 8, such as 8"])
        rejected("--batch", "8", "--devices", "8", "--tensor-parallel", "3", says=["--devices is 8", "(3)"])
        rejected("--batch", "8", "--devices", "8", "--tensor-parallel", "all", says=["\"all\"", "searched"])
        rejected("--batch", "16385", "--devices", "16385", says=["--devices", "16384"])
        rejected("--batch", "8", "--devices", "8", "--schedule", "pipedream", says=["--schedule", "2bw"])
        rejected("--batch", "8", "--devices", "8", "--recompute-modules", "norms", says=["\"norms\"", "norm", "searched"])
        rejected("--batch", "8", "--devices", "8", "--context", "ring", says=["--context-parallel", "searched"])
        rejected("--batch", "8", "--devices", "8", "--context-parallel", "3", says=["--context-parallel (3)"])
        rejected("--batch", "8", "--devices", "8", "--context-parallel", "2", says=["attention is separate"])
        rejected("--batch", "8", "--devices", "8", "--within", "0.5", says=["--within", "at least 1"])
        rejected("--batch", "8", "--devices", "8", "--validate-steps", "after", says=["--validate-steps", "searched"])
        rejected("--batch", "8", "--devices", "8", "--shard", "all", says=["--shard", "optimizer"])
        rejected("--batch", "8", "--devices", "8", "--memory", "0.01GiB",
                 says=["none of", "10.24 MiB", "the closest (w ", "misses by", "on stage", "--devices"])
