"""The files of results/ from real machines: one format, docs/record.schema.json."""

import json
import os
import pathlib
import unittest

import jsonschema

SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])


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

