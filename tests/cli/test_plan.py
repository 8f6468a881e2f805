"""frugal plan, and that the command it prints does what it says."""

import json
import os
import pty
import shlex
import subprocess

from program import FRUGAL, SOURCE, Cli

ASKED = ["plan", "--model", "gpt-3m", "--hardware", "v100-p3-16xlarge", "--devices", "4", "--batch", "32"]
GIB = 1 << 30
#: What Algorithm 1 of pipedream2bw2021 does not search.
PAPERS = {"--tensor-parallel": "1", "--context-parallel": "1", "--recompute-modules": "core-attention", "--recompute-layers": "all",
          "--offload-modules": "none", "--validate-steps": "before", "--shard": "none", "--stage-layers": "equal"}
#: A Llama whose layers and devices leave room for everything that is searched.
LLAMA = ["plan", "--model", "llama-tiny", "--layers", "8", "--hardware", "h100-dgx"]


def papers(without=()):
    return [word for flag, value in PAPERS.items() if flag not in without for word in (flag, value)]


class Plan(Cli):
    def plan(self, *arguments):
        return json.loads(self.run_frugal(*ASKED, *arguments, "--format", "json").stdout)

    def test_its_command_takes_what_it_predicts(self):
        """The best of those with a pipeline, whatever the machine prefers for so small a model."""
        plan = self.plan("--schedule", "2bw", *papers(), "--execute", "1", "--memory", "0.038GiB")
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
        plan = self.plan("--schedule", "2bw", *papers(), "--memory", "0.04GiB", "--within", "1.5")
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
                 "--batch", "16", "--within", "1000", "--execute", "4", "--format", "json"]
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
                 "--recompute", "none", *papers(without=["--offload-modules"]), *flags, "--execute", "3", "--format", "json"]
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
        for searched in (PAPERS, ["--recompute-modules"], ["--recompute-layers"]):
            flags = papers(without=["--offload-modules", *searched])
            plan = json.loads(self.run_frugal(*asked, *flags, "--offload-modules", "residual").stdout)
            self.assertTrue(all(c["config"]["offload_modules"] == "residual" for c in plan["fitting"]))

    def test_offloaded_modules_are_named(self):
        asked = ["plan", "--model", "llama-3m", "--hardware", "h100-dgx", "--devices", "2", "--batch", "8"]
        for modules, said in (("scores", "--offload-modules is \"scores\""), ("input", "choose recompute=full")):
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
                                                  "--batch", "8", "--schedule", schedule, *papers(), "--program", program,
                                                  "--within", "100", "--format", "json").stdout)
                seconds[program] = min(c["seconds"] for c in plan["fitting"] if c["config"]["pipeline_parallel_size"] == 2)
            self.assertGreater(seconds["blocking-messages"], seconds["frugal"], schedule)

    def test_defaults_answer_the_question_asked(self):
        """All that trains the same is searched, and nothing else; what it recommends is trained as usual."""
        asked = [*LLAMA, "--devices", "8", "--batch", "32", "--format", "json"]
        plan = json.loads(self.run_frugal(*asked, "--within", "1000").stdout)
        configs = [candidate["config"] for candidate in plan["fitting"]]
        schedules = {config["schedule"] for config in configs}
        self.assertFalse(schedules & {"2bw", "pipedream"})
        self.assertLessEqual({"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe-v"}, schedules)
        for key in ("tensor_parallel_size", "context_parallel_size", "data_parallel_size", "shard", "recompute_modules"):
            self.assertGreater(len({config.get(key) for config in configs}), 1, key)
        for config in configs:
            self.assertEqual(config.get("sequence_parallel", False), config["tensor_parallel_size"] > 1)
        brief = json.loads(self.run_frugal(*asked).stdout)
        self.assertNotIn("--clip 0", brief["command"])
        if brief["fitting"][0]["config"]["tensor_parallel_size"] == 1:
            self.assertNotIn("--sequence-parallel", brief["command"])
        named = json.loads(self.run_frugal(*asked, "--schedule", "2bw", "--within", "1000").stdout)
        self.assertIn("2bw", {candidate["config"]["schedule"] for candidate in named["fitting"]})

    def test_what_is_left_out_is_no_first_choice(self):
        """The same first choices as where everything is kept, on as much memory as there is, and on little."""
        for model, devices, batch, memory in (("llama-tiny", 8, 32, None), ("llama-3m", 4, 16, 0.03), ("llama-3m", 8, 16, 0.02),
                                              ("gpt-3m", 8, 32, 0.02)):
            asked = ["plan", "--model", model, "--hardware", "h100-dgx", "--devices", str(devices), "--batch", str(batch),
                     "--format", "json", *(["--memory", f"{memory}GiB"] if memory else [])]
            brief = json.loads(self.run_frugal(*asked).stdout)
            full = json.loads(self.run_frugal(*asked, "--within", "1.5").stdout)
            self.assertEqual(brief["fitting"][0]["seconds"], full["fitting"][0]["seconds"], asked)
            self.assertEqual(brief["fitting"][0]["name"], full["fitting"][0]["name"], asked)
            self.assertEqual(json.loads(self.run_frugal(*asked).stdout), brief, "several threads, and the same plan")

    def test_table_says_how_sure_it_is(self):
        """Calibration, errors that the machine's file has, and which rows they leave undecided."""
        asked = [*LLAMA, "--devices", "8", "--batch", "32"]
        machine = json.loads((SOURCE / "hardware/h100-dgx.json").read_text())
        text = self.run_frugal(*asked).stdout
        self.assertIn(machine["calibration"], text)
        errors = machine["predictions"]
        self.assertIn(f"{errors['steps']['count']} steps of whole models were off by {100 * errors['steps']['median']:.2g} % (median)",
                      text)
        self.assertIn(errors["differ_in"], text)
        plan = json.loads(self.run_frugal(*asked, "--format", "json").stdout)
        self.assertEqual(plan["prediction_errors"], errors)
        seconds = [candidate["seconds"] for candidate in plan["fitting"]]
        alike = sum(s <= seconds[0] * (1 + errors["pairs"]["nine_in_ten"]) for s in seconds) - 1
        self.assertEqual(plan["like_the_first"], alike)
        self.assertEqual(sum(line.endswith("  ~") for line in text.splitlines()), min(alike, 4))
        for said in ("t: tensor-parallel ranks; w: replicas; d: pipeline stages; b: sequences of a microbatch", "\nwhy: ",
                     "\nrun: frugal measure --model llama-tiny "):
            self.assertIn(said, text)
        # Of another machine nothing is known, also where the rest of it is this one's.
        machine = {"schema": machine["schema"], "name": "mine", "base": "h100-dgx", "description": "another one"}
        asked[asked.index("h100-dgx")] = self.given(json.dumps(machine), "mine.json")
        mine = self.run_frugal(*asked).stdout
        self.assertIn("how far predictions are off is not known", mine)
        self.assertNotIn("like the first", mine)

    def test_host_memory_of_a_rank_and_a_node_is_shown(self):
        """Of what is offloaded: a rank's most, and the sum of those that share a node."""
        asked = ["plan", "--model", "llama-3m", "--hardware", "h100-dgx", "--devices", "16", "--batch", "32",
                 "--offload-modules", "residual+norm", "--recompute", "none", "--tensor-parallel", "1", "--context-parallel", "1"]
        text = self.run_frugal(*asked).stdout
        self.assertIn("host GiB of a rank  of a node, of 2048.00", text)
        pipelines = 0
        for candidate in json.loads(self.run_frugal(*asked, "--within", "3", "--format", "json").stdout)["fitting"]:
            stages, replicas = candidate["host_memory_per_stage"], candidate["config"]["data_parallel_size"]
            ranks = [stages[rank // replicas] for rank in range(16)]
            self.assertEqual(candidate["host_memory_per_node"], max(sum(ranks[:8]), sum(ranks[8:])))
            pipelines += len(set(stages)) > 1
        self.assertGreater(pipelines, 0)

    def test_rows_that_do_not_fit_nearly_do(self):
        tables = 0
        for memory in (0.02, 0.03, 0.04, 0.035, 0.05):
            text = self.run_frugal(*ASKED, *papers(), "--memory", f"{memory}GiB", "--rows", "20").stdout
            if "too large" not in text:
                continue
            tables += 1
            for row in text.split("too large:\n")[1].split("MFU: ")[0].strip().splitlines()[2:]:
                self.assertLessEqual(float(row.split()[-1]), 0.1 * memory + 0.005)
        self.assertGreaterEqual(tables, 2)

    def test_on_and_hardware_mean_the_same(self):
        commands = (["plan", "--model", "gpt-3m", "--devices", "4", "--batch", "32", "--rows", "1"],
                    ["predict", "korthikanti2022/table4"], ["calibrate"], ["peak"], ["bench", "recompute", "--list"],
                    ["measure", "--model", "gpt-tiny"])
        for command in commands:
            both = ["--hardware", "a100-selene", "--on", "virtual:h100-dgx"]
            self.rejected(*command, *both, says=["virtual:h100-dgx", "a100-selene", "two machines"])
        self.rejected(*ASKED, "--on", "cpu", says=["--on is cpu", "virtual:MACHINE"])
        self.rejected("bench", "plan", "--hardware", "a100-selene", "--on", "cpu", says=["a100-selene", "--on is cpu"])
        for command in commands:
            out = []
            for place in (["--hardware", "a100-selene"], ["--on", "virtual:a100-selene"],
                          ["--on", "virtual:a100-selene", "--hardware", "a100-selene"]):
                folder = ["--out", f"{command[0]}{len(out)}"] if command[0] in ("predict", "measure") else []
                out.append(self.run_frugal(*command, *place, *folder).stdout)
            self.assertEqual(out, out[:1] * 3, command)

    def test_it_says_how_far_it_is_on_a_terminal(self):
        """A bar, which is gone in the end; nothing of it on stdout."""
        reader, writer = pty.openpty()
        # Large enough to take longer than the bar's first tenth of a second.
        asked = ["plan", "--model", "llama3-8b", "--hardware", "h100-dgx", "--devices", "16", "--batch", "32"]
        done = subprocess.run([FRUGAL, *asked], stdout=subprocess.PIPE, stderr=writer, check=True)
        os.close(writer)
        drawn = os.read(reader, 1 << 16).decode()
        os.close(reader)
        self.assertRegex(drawn, r"\[=* *\] \d+/\d+ ways to divide the devices")
        self.assertTrue(drawn.endswith("\r\x1b[K"), drawn[-40:])
        self.assertNotIn(b"\x1b", done.stdout)

    def test_ranks_that_share_a_sequence_are_shown(self):
        """Searched or given; with rings of one kind or both ways."""
        asked = ["plan", "--model", "llama-tiny", "--hardware", "h100-dgx", "--devices", "4", "--batch", "8", "--schedule", "1f1b",
                 *papers(without=["--context-parallel"])]
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
        rejected("--batch", "12", "--devices", "8", "--tensor-parallel", "1", says=["--batch is 12", "multiple of 8, such as 8"])
        rejected("--batch", "8", "--devices", "8", "--tensor-parallel", "3", says=["--devices is 8", "(3)"])
        rejected("--batch", "8", "--devices", "8", "--tensor-parallel", "all", says=["\"all\"", "searched"])
        rejected("--batch", "16385", "--devices", "16385", says=["--devices", "16384"])
        rejected("--batch", "8", "--devices", "8", "--schedule", "pipedream", says=["--schedule", "2bw"])
        rejected("--batch", "8", "--devices", "8", "--recompute-modules", "norms", says=["\"norms\"", "norm", "searched"])
        rejected("--batch", "8", "--devices", "8", "--context", "ring", says=["--context is ring", "attention is separate", "leave it out"])
        rejected("--batch", "8", "--devices", "8", "--context", "ring", "--context-parallel", "1", says=["--context-parallel is 1"])
        rejected("--batch", "8", "--devices", "8", "--context-parallel", "3", says=["--context-parallel (3)"])
        rejected("--batch", "8", "--devices", "8", "--context-parallel", "2", says=["attention is separate"])
        rejected("--batch", "8", "--devices", "8", "--within", "0.5", says=["--within", "at least 1"])
        rejected("--batch", "8", "--devices", "8", "--validate-steps", "after", says=["--validate-steps", "searched"])
        rejected("--batch", "8", "--devices", "8", "--shard", "all", says=["--shard", "optimizer"])
        rejected("--batch", "8", "--devices", "8", "--search-all", says=["--search-all"])
        rejected("--batch", "8", "--devices", "8", *papers(), "--memory", "0.01GiB",
                 says=["none of", "10.24 MiB", "the closest (w ", "misses by", "on stage", "--devices"])
