"""The files of results/ from real machines: one format, docs/record.schema.json."""

import json
import unittest

import jsonschema

from sources import SOURCE


class Results(unittest.TestCase):
    def test_every_line_is_a_record(self):
        schema = jsonschema.Draft7Validator(json.loads((SOURCE / "docs/record.schema.json").read_text()))
        files = [path for path in sorted((SOURCE / "results").glob("*/**/*.jsonl")) if "virtual" not in path.parts]
        self.assertGreater(len(files), 5)
        for path in files:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                wrong = jsonschema.exceptions.best_match(schema.iter_errors(json.loads(line)))
                self.assertIsNone(wrong, f"{path}:{number}: {wrong and wrong.message}")

    def test_intervals_are_those_of_the_samples(self):
        """A conversion that loses samples, or invents an interval, is found."""
        for path in (SOURCE / "results").glob("*/bench*.jsonl"):
            for record in map(json.loads, path.read_text().splitlines()):
                for name, metric in record["metrics"].items():
                    low, high = min(metric["samples"]), max(metric["samples"])
                    self.assertTrue(low <= metric["median"] <= high, f"{path} {record['case']} {name}")
                    if metric["interval"]:
                        self.assertGreaterEqual(len(metric["samples"]), 6)
                        self.assertTrue(low <= metric["interval"]["low"] <= metric["median"]
                                        <= metric["interval"]["high"] <= high, f"{path} {record['case']} {name}")

    def test_readme_says_what_the_two_commands_take(self):
        costs = SOURCE / "results/amd-epyc-2-cores"
        fresh = {step["what"]: step for step in json.loads((costs / "fresh-debian.json").read_text())["steps"]}
        runs = json.loads((costs / "artifact-costs.json").read_text())["runs"]
        minutes = [fresh["install"]["seconds"] + fresh["build"]["seconds"], fresh["all"]["seconds"],
                   sum(run["seconds"] for run in runs if run["on"] == "cpu")]
        disk = sum(step["disk_bytes"] for step in fresh.values()) / 2**30
        memory = max(one["largest_process_bytes"] for one in (*fresh.values(), *runs)) / 2**30
        build, virtual, cpu = (round(seconds / 60) for seconds in minutes)
        self.assertIn(f"to install and build took {build} minutes, all artifacts on virtual machines with their figures "
                      f"{virtual} minutes, and the artifacts that also run on the processor {cpu} minutes more. It needs "
                      f"{disk:.1f} GiB of disk and {memory:.1f} GiB of memory",
                      " ".join((SOURCE / "README.md").read_text().split()))
