"""What is said of runs of bench/convergence.sh: by pairs of the same seed, the last of each case."""

import contextlib
import io
import json
import math
import pathlib
import tempfile
import unittest

import convergence


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

    def test_students_quantiles_hold_95_percent(self):
        """The density of t with n degrees of freedom, summed up between them by Simpson's rule."""
        self.assertEqual(list(convergence.STUDENT), list(range(1, 10)))
        self.assertEqual(convergence.interval([1.0, 2.0, 6.0])[0], 3.0)
        self.assertAlmostEqual(convergence.interval([1.0, 2.0] * 8)[1], 2.262 / math.sqrt(4 * 15))  # more than there are: the last
        self.assertEqual(convergence.smoothed([1, 2, 6, 8, 9, 4, 5], 3), [(3, 3.0), (6, 7.0)])
        for n, t in convergence.STUDENT.items():
            scale = math.gamma((n + 1) / 2) / math.sqrt(n * math.pi) / math.gamma(n / 2)
            density = [scale * (1 + (t * i / 1000) ** 2 / n) ** (-(n + 1) / 2) for i in range(1001)]
            inside = 2 * t / 3000 * (density[0] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2]) + density[-1])
            self.assertAlmostEqual(inside, 0.95, delta=3e-5, msg=str(n))

    def test_what_is_printed(self):
        ways = {way: {seed: {"held_out": [{"loss": 9}, {"loss": loss}], "metrics": {
            "last_word_accuracy": {"median": told}, "last_word_letter_accuracy": {"median": told + 0.25}}} for seed, loss, told in runs}
            for way, runs in (("flush", [(1, 2.0, 0.5), (2, 3.0, 0.5)]), ("2bw", [(1, 2.25, 0.25), (2, 3.75, 0.75)]))}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            convergence.print_comparison("case", ways)
        half = 12.706 / math.sqrt(2)  # of two values that are sqrt(2) apart in their deviation: |a - b| / sqrt(2)
        of = [f"{half * apart / math.sqrt(2):.4f}" for apart in (1, 1.5, 0.5)]
        self.assertEqual(out.getvalue().splitlines()[:4], [
            f"case: held-out loss, nats, with a flush (1F1B): 2.5000 ± {of[0]} (2 seeds)",
            f"case: held-out loss, nats, 2BW: 3.0000 ± {of[1]}; less that with a flush +0.5000 ± {of[2]} (2 seeds)",
            "case: last words told, %, with a flush (1F1B): 50.0000 ± 0.0000 (2 seeds)",
            f"case: last words told, %, 2BW: 50.0000 ± {half * 50 / math.sqrt(2):.4f}; less that with a flush +0.0000 ± "
            f"{half * 50 / math.sqrt(2):.4f} (2 seeds)"])
        self.assertIn("their letters told, %, 2BW: 75.0000", out.getvalue())
