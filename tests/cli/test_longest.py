"""frugal longest, and the flags that trade memory for something else."""

import csv
import io
import json
import re

from program import SOURCE, Cli

SMALL = ["longest", "--model", "llama-tiny", "--recompute", "full"]


class Longest(Cli):
    def longest(self, *arguments, status=0):
        return json.loads(self.run_frugal(*SMALL, *arguments, "--format", "json", status=status).stdout)

    def test_virtual(self):
        found = self.longest("--on", "virtual:a100-selene", "--memory", "64MiB")
        self.assertEqual(found["schema"], "frugal.longest/1")
        self.assertEqual(found["memory"], 64 << 20)
        self.assertEqual(found["peak"], sum(found["at_peak"].values()))
        self.assertLessEqual(found["peak"], found["memory"])
        self.assertGreaterEqual(found["longer_lengths_refused"], 512)
        self.assertEqual(found["configuration"]["model"]["sequence_length"], found["longest_sequence"])
        self.assertIsNone(found["confirmed"])

    def test_the_next_length_needs_more_than_there_is(self):
        """Also of a program whose state and allocator settle behind the first step."""
        for program in ("frugal", "hugging-face-2024+mini-s"):
            done = self.run_frugal("longest", "--model", "llama3-8b", "--on", "virtual:a100-80gb", "--precision", "pure",
                                   "--recompute", "full", "--head-chunks", "paper", "--mlp-chunks", "paper",
                                   "--step-in-backward", "--program", program)
            said = done.stdout.split("does not fit")[1]
            needed, there = map(float, re.search(r"needs ([0-9.]+) GiB of ([0-9.]+) GiB", said).groups())
            taken = re.search(r"its allocator takes ([0-9.]+) GiB", said)
            self.assertGreater(max(needed, float(taken[1]) if taken else 0), there, program)

    def test_memory_is_saved_by_what_saves_memory(self):
        def tokens(*arguments):
            return self.longest("--on", "virtual", "--memory", "64MiB", "--vocabulary", "4096", "--layers", "16",
                                *arguments)["longest_sequence"]

        plain = tokens()
        logits = tokens("--head-chunks", "64")
        parts = tokens("--head-chunks", "64", "--mlp-chunks", "8")
        self.assertGreater(logits, plain)
        self.assertGreater(tokens("--head-tiles", "8"), plain)
        self.assertGreater(parts, logits)
        self.assertGreater(tokens("--head-chunks", "64", "--mlp-chunks", "8", "--offload"), parts)

    def test_hosts_memory_bounds_what_is_offloaded(self):
        machine = json.loads((SOURCE / "hardware/a100-selene.json").read_text())
        machine["network"]["host_memory"]["value"] = 4 << 20
        file = self.folder / "small-host.json"
        file.write_text(json.dumps(machine))
        offloaded = ("--memory", "64MiB", "--head-chunks", "64", "--mlp-chunks", "8", "--offload")
        free = self.longest("--on", "virtual", *offloaded)
        found = self.longest("--on", f"virtual:{file}", *offloaded)
        self.assertGreater(free["host_peak"], 4 << 20)
        self.assertLess(found["longest_sequence"], free["longest_sequence"])
        self.assertLessEqual(found["host_peak"], 4 << 20)
        self.assertIn("'s host: ", found["refused_because"])
        self.assertNotIn("'s host: ", free["refused_because"])

    def test_units_of_memory(self):
        for size, memory in (("8MiB", 8 << 20), ("8mib", 8 << 20), ("8MB", 8_000_000), ("8000kB", 8_000_000), ("0.008gb", 8_000_000),
                             ("8388609B", (8 << 20) + 1)):
            found = self.longest("--on", "virtual", "--memory", size)
            self.assertEqual(found["memory"], memory)
            again = self.run_frugal(*found["command"].split()[1:], "--format", "json").stdout
            self.assertEqual(json.loads(again), found)

    def test_cpu_confirms(self):
        found = self.longest("--on", "cpu", "--memory", "4MiB", "--threads", "1", "--mlp-chunks", "3",
                             "--head-chunks", "4", "--step-in-backward", "--offload", "--offload-optimizer")
        self.assertTrue(found["confirmed"])
        self.assertEqual([run["fits"] for run in found["run"]], [True, False])
        self.assertEqual(found["run"][0]["peak"], found["peak"])
        self.assertGreater(found["host_peak"], 0)

    def test_formats(self):
        asked = [*SMALL, "--on", "virtual", "--memory", "8MiB", "--format"]
        text = self.run_frugal(*asked, "table").stdout
        rows = list(csv.reader(io.StringIO(self.run_frugal(*asked, "csv").stdout)))
        self.assertEqual(rows[0], ["quantity", "value", "unit"])
        values = {row[0]: row[1] for row in rows}
        self.assertIn(values["longest sequence"], text)
        self.assertEqual(values["host memory of a rank"], "0")
        self.assertIn(f"| longest sequence | {values['longest sequence']} |", self.run_frugal(*asked, "markdown").stdout)

    def test_small_sizes_are_seen(self):
        rows = csv.DictReader(io.StringIO(self.run_frugal(*SMALL, "--on", "virtual", "--memory", "8MiB", "--format",
                                                          "csv").stdout))
        sizes = {row["quantity"]: (row["value"], row["unit"]) for row in rows}
        self.assertEqual(sizes["memory"], ("8", "MiB of each rank"))
        found = self.longest("--on", "virtual", "--memory", "8MiB")
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
        for kind, size in found["at_peak"].items():
            if size > 0:
                value, unit = sizes[f"{kind} at the peak"]
                self.assertAlmostEqual(float(value) * units[unit] / size, 1, delta=5e-5, msg=kind)

    def test_its_command_finds_it_again(self):
        found = self.longest("--on", "virtual", "--memory", "8MiB", "--type", "bf16", "--precision", "pure")
        command = found["command"].split()[1:]
        self.assertEqual(json.loads(self.run_frugal(*command, "--format", "json").stdout), found)

    def test_nothing_fits(self):
        done = self.run_frugal(*SMALL, "--on", "virtual", "--memory", "1KiB", status=3)
        self.assertRegex(done.stderr, r"needs [0-9.]+ MiB of 1024 B|needs [0-9.]+ MiB of 1 KiB")
        self.assertIn("did not fit", done.stderr)

    def test_the_next_length_says_what_it_needs(self):
        found = self.longest("--on", "virtual", "--memory", "8MiB")
        run = ["measure", *SMALL[1:], "--on", "virtual", "--format", "json", "--sequence",
               str(found["longest_sequence"] + found["granularity"])]
        peak = json.loads(self.run_frugal(*run).stdout)["memory"]["peak_total"]
        self.assertGreater(peak, 8 << 20)
        self.assertIn(f"needs {peak / 2**20:.5g} MiB of 8 MiB on each rank", found["refused_because"])

    def test_bad_input(self):
        def rejected(*arguments, says):
            self.rejected(*SMALL, *arguments, says=says)

        forms = ["80GiB", "80GB", "KiB, MiB, GiB, TiB, kB, MB, GB or TB"]
        for size in ("80", "2 GB", "80G", "0.5", "0.5B", "GiB", "-1GiB", "1e3GiB", ""):
            rejected("--memory", size, says=[f'--memory is "{size}"', *forms])
        rejected("--on", "cpu", "--memory", "100TiB", says=["--memory is 100 TiB", "cpu can give", "--on virtual"])
        rejected("--memory", "0GiB", says=["--memory", *forms])
        for flag in ("--sequence", "--steps", "--warm-up", "--text", "--schedule-file", "--lone-rank"):
            rejected(flag, "2", says=[f'there is no "{flag}" in frugal longest'])
        rejected("--set", "steps=2", says=["steps is no setting of frugal longest"])
        rejected("--mlp-chunks", "0", says=["--mlp-chunks", "paper"])
        rejected("--mlp-chunks", "99999999999", says=["--mlp-chunks", "to 16777216, or paper"])
        rejected("--head-chunks", "x", says=["--head-chunks", "paper"])
        rejected("--step-in-backward", "--clip", "1", says=["--clip is 1", "--step-in-backward"])
        self.rejected("longest", "--model", "llama-tiny", "--offload", says=["offload", "recompute=full"])


class MeasureFlags(Cli):
    EVERYTHING = ["measure", "--model", "llama-tiny", "--type", "bf16", "--precision", "pure", "--recompute", "full",
                  "--mlp-chunks", "3", "--head-chunks", "paper", "--head-tiles", "2", "--step-in-backward", "--offload",
                  "--offload-optimizer", "--format", "json"]

    def test_all_of_them(self):
        for on in (["cpu", "--threads", "1"], ["virtual"]):
            record = json.loads(self.run_frugal(*self.EVERYTHING, "--on", *on).stdout)
            configuration = record["configuration"]
            self.assertEqual(configuration["attention"], "fused")
            self.assertEqual(configuration["mlp_chunks"], 3)
            self.assertEqual(configuration["head_chunks"], 0)
            self.assertEqual(configuration["head_tiles"], 2)
            self.assertEqual(configuration["precision"], "pure")
            for key in ("step_in_backward", "offload", "offload_optimizer"):
                self.assertTrue(configuration[key], key)
            self.assertEqual(record["options"]["clip"], "0")
            self.assertGreater(record["memory"]["host_peak"], 0)
            for flag in ("--mlp-chunks 3", "--head-chunks paper", "--step-in-backward", "--precision pure"):
                self.assertIn(flag, record["command"])
        self.records()

    def test_gpt_keeps_separate_attention(self):
        record = json.loads(self.run_frugal("measure", "--model", "gpt-tiny", "--on", "virtual", "--format", "json").stdout)
        self.assertEqual(record["configuration"]["attention"], "separate")
        self.assertEqual(record["options"]["clip"], "1")
