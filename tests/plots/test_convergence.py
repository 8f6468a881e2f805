"""What is said of runs of bench/convergence.sh: by pairs of the same seed, the last of each case."""

import json
import math
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "plots"))

import convergence  # noqa: E402  (the path comes first)


MODEL = {"name": "m", "layers": 2, "hidden_size": 8, "sequence_length": 4, "objective": "next-token"}


def run(schedule, seed, loss, status="ok", **options):
    return {"status": status, "configuration": {"model": MODEL, "schedule": schedule, "seed": seed},
            "options": {"last_words": "9", "learning_rate": "0.5", "steps": "2", **options}, "held_out": [{"step": 1, "loss": 9}, {"step": 2, "loss": loss}]}


class Convergence(unittest.TestCase):
    def of(self, *records):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
            ((case, ways),) = convergence.runs_of(folder).items()
        self.assertEqual(case, ("GPT, 2 layers, h 8, s 4", 2, 0.5))
        return ways

    def difference(self, ways, way):
        return convergence.difference(ways, way, convergence.JUDGED["held-out loss, nats"])

    def test_seeds_are_compared_with_themselves(self):
        ways = self.of(run("1f1b", 1, 1.0), run("1f1b", 2, 2.0), run("1f1b", 3, 4.0), run("1f1b", 4, 100.0),
                       run("2bw", 3, 4.3), run("2bw", 9, 0.0), run("2bw", 1, 1.1), run("2bw", 2, 2.2),
                       run("2bw", 1, 1.5, weight_prediction="1"), run("2bw", 2, 0, status="interrupted"))
        self.assertEqual({way: sorted(seeds) for way, seeds in ways.items()},
                         {"flush": [1, 2, 3, 4], "2bw": [1, 2, 3, 9], "predicted": [1]})
        mean, half = self.difference(ways, "2bw")
        self.assertAlmostEqual(mean, 0.2)
        self.assertAlmostEqual(half, 4.303 * 0.1 / math.sqrt(3))  # Student's t with two degrees of freedom
        self.assertEqual(self.difference(ways, "predicted"), (0.5, None))

    def test_a_case_that_was_run_again_counts_once(self):
        ways = self.of(run("1f1b", 1, 1.0), run("2bw", 1, 3.0), run("2bw", 1, 2.0))
        self.assertEqual(self.difference(ways, "2bw"), (1.0, None))


if __name__ == "__main__":
    unittest.main()
