"""bench/prediction_errors.py, and that the machines' files say what it counts."""

import itertools
import json
import unittest

from sources import SOURCE, scripts_of

scripts_of("bench")
import prediction_errors  # noqa: E402  (the path comes first)


class PredictionErrors(unittest.TestCase):
    def test_files_say_what_results_give(self):
        self.assertEqual(list(prediction_errors.differing(prediction_errors.all_errors())), [])

    def test_another_number_is_noticed(self):
        errors = prediction_errors.all_errors()
        errors["h100-dgx"]["pairs"]["nine_in_ten"] /= 2
        self.assertEqual(list(prediction_errors.differing(errors)), ["h100-dgx"])

    def test_what_both_are_off_by_is_no_error_of_their_ratio(self):
        errors = prediction_errors.errors_of([(1.2, "a"), (1.2, "a"), (1.32, "a"), (0.5, "b")])
        self.assertEqual(errors["steps"], {"count": 4, "median": 0.26, "largest": 0.5})
        self.assertEqual(errors["pairs"], {"count": 3, "median": 0.1, "nine_in_ten": 0.1})

    def test_measured_steps_are_those_of_the_records(self):
        """The seconds of one, from the records themselves."""
        def seconds(folder):
            lines = (SOURCE / "results" / folder / "records.jsonl").read_text().splitlines()
            for record in map(json.loads, lines):
                c = record["configuration"]
                if record["artifact"] == "measure" and c["model"]["name"] == "llama3-8b" and c["recompute"] == "full":
                    samples = sorted(record["metrics"]["step_time"]["samples"])
                    middle = len(samples) // 2
                    return samples[middle] if len(samples) % 2 else (samples[middle - 1] + samples[middle]) / 2
            return None

        ratio = seconds("nvidia-h100-80gb") / seconds("nvidia-h100-80gb/predicted")
        steps = list(prediction_errors.measured_steps("h100-dgx"))
        self.assertEqual(len([r for r, _ in steps if abs(r / ratio - 1) < 1e-12]), 1)
        alike = sum(a == b for (_, a), (_, b) in itertools.combinations(steps, 2))
        self.assertEqual(alike, prediction_errors.errors_of(steps)["pairs"]["count"])
