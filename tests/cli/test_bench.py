"""frugal bench."""

import json
import re
import subprocess
import tempfile

from program import FRUGAL, SOURCE, Cli

ONE = ["bench", "gemm", "--case", "f32/projection/forward/*", "--samples", "10", "--budget", "0", "--threads", "1"]


class Bench(Cli):
    def test_bad_input(self):
        self.rejected("bench", "gem", says=["no benchmark \"gem\"", "did you mean gemm"])
        self.rejected("bench", "gemm", "attention", says=["gemm attention", "one benchmark at a time"])
        self.rejected("bench", "attention", "--on", "cuda", says=["--on cuda", "runs on cpu"])
        self.rejected("bench", "gemm", "--on", "tpu", says=["tpu"])
        self.rejected("bench", "gemm", "--case", "f64/*", says=["--case f64/*", "no case of gemm matches", "--list"])
        self.rejected("bench", "--case", "f32/*", says=["--case", "name one"])
        self.rejected("bench", "gemm", "--samples", "5", says=["--samples", "5", "10"])
        self.rejected("bench", "gemm", "--stop", "soon", says=["--stop", "soon", "samples"])
        self.rejected("bench", "gemm", "--stop", "decided", says=["--stop", "decided", "precision"])
        self.rejected("bench", "gemm", "--read", "x", says=["--read", "leave gemm out"])
        self.rejected("bench", "--read", "absent.json", says=["absent.json", "cannot be read"])
        self.rejected("bench", "--read", self.given("{}", "micro.json"), says=["micro.json", "context"])

    def test_lists(self):
        done = self.run_frugal("bench", "--format", "json")
        listed = json.loads(done.stdout)["benchmarks"]
        files = {path.stem.replace("_", "-") for path in (SOURCE / "bench").glob("*.cpp")}
        self.assertLessEqual({benchmark["name"] for benchmark in listed}, files | {"mini-sequence-memory"})
        for benchmark in listed:
            cases = json.loads(self.run_frugal("bench", benchmark["name"], "--list", "--format", "json").stdout)
            self.assertTrue(cases["cases"], benchmark)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_plans_are_as_the_page_has_them(self):
        # Elsewhere: what is here is run again, and configurations per second differ.
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([FRUGAL, "bench", "plan", "--case", "gpt2-124m/8/32/1f1b", "--format", "markdown"], cwd=folder,
                                  capture_output=True, text=True, check=True)
        self.assertIn(done.stdout.splitlines()[2], (SOURCE / "results/virtual/plan.md").read_text().splitlines())

    def test_collectives_of_a_virtual_node(self):
        """What crosses each link, and at which rate: higher for larger buffers, and never the link's own. An all-reduce
        takes at most as long as a reduce-scatter and an all-gather."""
        self.run_frugal("bench", "collectives", "--on", "virtual:h100-dgx", "--out", "out")
        rates, seconds = {}, {}
        for record in self.records():
            collective, size = record["case"].split("/")
            number, unit = re.fullmatch(r"(\d+)(.*)", size).groups()
            crosses = int(number) * {"KiB": 2**10, "MiB": 2**20}[unit] * 7 / 8 * (2 if collective == "all-reduce" else 1)
            self.assertEqual(record["metrics"]["work"]["median"], crosses)
            self.assertEqual(record["configuration"]["tensor_parallel_size"], 8)
            of_size = int(number) * {"KiB": 1, "MiB": 2**10}[unit]
            seconds.setdefault(of_size, {})[collective] = record["metrics"]["time"]["median"]
            rates.setdefault(of_size, {})[collective] = crosses / seconds[of_size][collective]
        link = json.loads((SOURCE / "hardware/h100-dgx.json").read_text())
        self.assertEqual([len(of_size) for of_size in rates.values()], [3] * 5)
        slowest = dict.fromkeys(rates[64], 0)
        for size, of_size in sorted(rates.items()):
            parts = [seconds[size][name] for name in ("reduce-scatter", "all-gather")]
            self.assertTrue(max(parts) < seconds[size]["all-reduce"] <= sum(parts), size)
            self.assertTrue(all(of_size[name] > slowest[name] for name in of_size), size)
            slowest = of_size
        self.assertLess(max(slowest.values()), link["network"]["link_bandwidth"]["value"])

    def test_records(self):
        done = self.run_frugal(*ONE)
        self.assertEqual(len(done.stdout.splitlines()), 4)
        frugal, directly = self.records()
        self.assertEqual((frugal["options"]["by"], directly["options"]["by"]), ("frugal", "oneDNN"))
        self.assertEqual(frugal["rounds"], directly["rounds"])
        self.assertEqual(frugal["metrics"]["work"]["median"], 2 * 2048 * 1024 * 1024)
        self.assertEqual(len(frugal["metrics"]["time"]["samples"]), 10)
        again = self.run_frugal(*ONE)
        self.assertIn("already recorded", again.stderr)
        self.assertEqual(again.stdout, done.stdout)
        self.assertEqual(len(self.records()), 2)
        self.run_frugal("report", "out", "--format", "json")
