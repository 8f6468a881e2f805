"""What does not fit: how much it needs, by kind, and what would fit in its place (frugal measure --fit)."""

import json

from program import Cli

BF16 = ["--type", "bf16"]
# Models, ways to divide, recompute and offload, and machines: none of these fits.
TOO_LARGE = [
    ["--model", "qwen2-7b", "--on", "virtual:h100-dgx", "--sequence", "32768", "--recompute", "selective"],
    ["--model", "llama3-8b", "--on", "virtual:a100-80gb", "--offload-optimizer", "--sequence", "16384"],
    ["--model", "llama2-7b", "--on", "virtual:a100-selene", "--data-parallel", "8", "--sequence", "4096"],
    ["--model", "llama2-7b", "--on", "virtual:h100-dgx", "--data-parallel", "4", "--shard", "optimizer", "--micro-batch", "8"],
    ["--model", "llama2-7b", "--on", "virtual:v100-p3-16xlarge", "--tensor-parallel", "8", "--micro-batch", "4"],
    ["--model", "llama3-8b", "--on", "virtual:h200-hgx", "--context-parallel", "2", "--sequence", "65536"],
    ["--model", "llama3-8b", "--on", "virtual:a100-selene", "--context-parallel", "8", "--context", "ring", "--shard",
     "gradients", "--sequence", "262144"],
    ["--model", "llama3-8b", "--on", "virtual:a100-selene", "--pipeline-parallel", "4", "--microbatches", "8",
     "--micro-batch", "4"],
    ["--model", "llama3-8b", "--on", "virtual:b200-dgx", "--recompute", "full", "--sequence", "131072"],
    ["--model", "22B", "--on", "virtual:a100-selene", "--tensor-parallel", "8", "--micro-batch", "16"],
    ["--model", "22B", "--on", "virtual:a100-selene", "--tensor-parallel", "4", "--data-parallel", "8"],
    ["--model", "22B", "--on", "virtual:h100-dgx", "--tensor-parallel", "8", "--data-parallel", "2", "--shard",
     "optimizer", "--micro-batch", "32", "--recompute", "selective"],
    ["--model", "22B", "--on", "virtual:a100-selene", "--pipeline-parallel", "4", "--schedule", "gpipe",
     "--microbatches", "16", "--tensor-parallel", "2"],
    ["--model", "gpt-3.8b", "--on", "virtual:v100-p3-16xlarge", "--data-parallel", "8", "--shard", "gradients"],
    ["--model", "gpt-3.8b", "--on", "virtual:v100-p3-16xlarge", "--pipeline-parallel", "8", "--schedule", "2bw",
     "--clip", "0", "--microbatches", "8", "--micro-batch", "8"],
    ["--model", "gpt-2.2b", "--on", "virtual:v100-p3-16xlarge", "--pipeline-parallel", "4", "--microbatches", "8",
     "--micro-batch", "8", "--schedule", "zb-h1"],
    ["--model", "gpt2-1.5b", "--on", "virtual:a100-80gb", "--micro-batch", "16"],
    ["--model", "gpt2-1.5b", "--on", "virtual:v100-p3-16xlarge", "--clip", "0"],
    ["--model", "gpt2-1.5b", "--on", "virtual:h200-hgx", "--micro-batch", "512", "--recompute", "full", "--offload"],
    ["--model", "175B", "--on", "virtual:a100-selene", "--tensor-parallel", "8", "--pipeline-parallel", "8",
     "--microbatches", "8", "--micro-batch", "4", "--sequence-parallel"],
]
# Nothing that trains the same makes these fit: weights alone are too many, on the device or on its host.
HOPELESS = [
    ["--model", "1T", "--on", "virtual:a100-selene", "--tensor-parallel", "8"],
    ["--model", "22B", "--on", "virtual:v100-p3-16xlarge"],
    ["--model", "175B", "--on", "virtual:b200-dgx", "--data-parallel", "2"],
]


def in_words(size):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.5g} {unit}"
        size /= 1024
    raise AssertionError


class Fit(Cli):
    def measured(self, run, *more, status=0):
        done = self.run_frugal("measure", *run, *BF16, *more, "--format", "json", status=status)
        return json.loads(done.stdout), done.stderr

    def on_a_large_machine(self, run):
        """The same on a machine that differs by its memory alone, of which it has 2^50 bytes, and its hosts 2^52."""
        name = run[run.index("--on") + 1].removeprefix("virtual:")
        source = "as much as it takes"
        machine = {"schema": "frugal.machine/1", "name": "large", "description": source, "base": name,
                   "device": {"memory_capacity": {"value": 2**50, "unit": "B", "source": source}},
                   "network": {"host_memory": {"value": 2**52, "unit": "B", "source": source}}}
        file = self.given(json.dumps(machine), "large.json")
        return [f"virtual:{file}" if word == f"virtual:{name}" else word for word in run]

    def test_the_need_is_what_an_unlimited_machine_executes(self):
        for number, run in enumerate([*TOO_LARGE, *HOPELESS]):
            with self.subTest(run=" ".join(run)):
                record, said = self.measured(run, "--out", f"small-{number}", status=3)
                needed = record["needed"]
                large, _ = self.measured(self.on_a_large_machine(run), "--out", f"large-{number}")
                self.assertEqual(needed["memory"], large["memory"])
                peaks = [stage["peak"] for stage in needed["memory"]["stages"]]
                self.assertEqual(max(peaks), needed["memory"]["peak_total"])
                fullest = needed["memory"]["stages"][peaks.index(max(peaks))]
                self.assertEqual(sum(fullest["at_peak"].values()), max(peaks))
                self.assertTrue(max(peaks) > needed["capacity"] or
                                needed["memory"]["host_peak"] > needed["host_capacity"])
                text = f"needs {in_words(max(peaks))} of {in_words(needed['capacity'])} on each rank"
                self.assertIn(text, said)
                for kind, size in fullest["at_peak"].items():
                    if size > 0:
                        self.assertIn(f"{kind} {in_words(size)}", said)
                if len(peaks) > 1:
                    self.assertIn(f"of stage {peaks.index(max(peaks))} (of 0 to {len(peaks) - 1})", said)

    def test_something_is_found_for_each(self):
        for number, run in enumerate(TOO_LARGE):
            with self.subTest(run=" ".join(run)):
                (asked, *found), _ = self.measured(run, "--fit", "--out", f"fit-{number}")
                self.assertEqual(asked["status"], "oom")
                self.assertTrue(found)
                self.trains_the_same(asked, found)
                times = [record["metrics"]["step_time"]["median"] for record in found]
                self.assertEqual(times, sorted(times))
                for record in found:
                    self.assertEqual(record["status"], "ok", record["reason"])
                    self.assertLessEqual(record["memory"]["peak_total"], asked["needed"]["capacity"])
                    self.assertLessEqual(record["memory"]["host_peak"], asked["needed"]["host_capacity"])

    def trains_the_same(self, asked, found):
        """All but what was divided, kept or ordered otherwise."""
        may_change = {"microbatch_size", "microbatches", "schedule", "sequence_parallel", "shard", "recompute",
                      "recompute_modules", "recompute_layers", "recompute_group", "head_chunks", "mlp_chunks", "offload",
                      "offload_modules", "offload_layers", "offload_optimizer", "step_in_backward"}
        before = asked["configuration"]
        for record in found:
            after = record["configuration"]
            self.assertEqual({key for key in before if before[key] != after[key]} - may_change, set())
            self.assertEqual(after["microbatch_size"] * after["microbatches"],
                             before["microbatch_size"] * before["microbatches"])
            self.assertEqual(record["options"], asked["options"])
            if before["schedule"] != after["schedule"]:
                self.assertEqual((before["schedule"], after["schedule"]), ("gpipe", "1f1b"))

    def test_where_nothing_fits_it_says_so(self):
        for number, run in enumerate(HOPELESS):
            with self.subTest(run=" ".join(run)):
                record, said = self.measured(run, "--fit", "--out", f"none-{number}", status=3)
                self.assertEqual(record["status"], "oom")
                self.assertRegex(said, "none of [0-9]+ configurations that train the same fits; the closest, with .*"
                                       "offload_optimizer.*, needs [0-9.]+ [GT]iB of [0-9.]+ GiB on each rank")


    def test_every_command_says_what_is_needed(self):
        run = [*TOO_LARGE[0], *BF16]
        peak = self.measured(TOO_LARGE[0], status=3)[0]["needed"]["memory"]["peak_total"] / 2**30
        for command in (["trace", "--out-file", "trace.json"], ["operations"]):
            said = self.run_frugal(*command[:1], *run, *command[1:], status=3).stderr
            self.assertIn(f"needs {peak:.5g} GiB of 78.15 GiB on each rank (activation ", said)
        lean = self.run_frugal("recompute", *TOO_LARGE[1][:4], *BF16, "--memory", "1GiB", status=3).stderr
        self.assertRegex(lean, "no recomputation fits: with full a step needs [0-9.]+ GiB of 1 GiB on each rank")

    def test_what_is_wrong(self):
        run = ["measure", "--model", "gpt-tiny", "--fit"]
        self.rejected(*run, "--on", "cpu", says=["--fit", "--on is cpu", "virtual:MACHINE"])
        self.rejected(*run, "--on", "virtual", "--recompute", "none,full", says=["--fit", "of one configuration"])
        fits = self.run_frugal(*run, "--on", "virtual")
        self.assertIn("it fits as it is", fits.stderr)
