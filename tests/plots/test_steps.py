"""The table of training steps beside PyTorch's is that of the results, and says what misses a target."""

import unittest

import steps_table
from modern_hardware_tables import with_tables
from sources import SOURCE

RESULTS = {"steps": SOURCE / "results/amd-epyc-2-cores/bench-steps.jsonl",
           "steps-avx2": SOURCE / "results/amd-epyc-avx2-2-cores/bench-steps-products.jsonl"}


def result(eager, compiled, least, **more):
    """frugal's step takes a second."""
    over = {"eager": 1 / eager, "compiled": 1 / compiled}
    return {"model": "a/small.json", "type": "f32", "attention": "fused", "dropout": 0.0, "micro_batch": 4,
            "medians": {"frugal": 1.0, "eager": eager, "compiled": compiled},
            "time_over": {side: {"value": x, "interval": [x - 0.01, x + 0.01]} for side, x in over.items()},
            "least": {"flops": least, "bytes": 0.02}, "memory": {"frugal": 6e7, "eager": 1e8, "compiled": 5e7},
            "memory_over": {"eager": 0.6, "compiled": 1.2}, "flags": "", **more}


class Table(unittest.TestCase):
    def test_says_what_misses_and_what_forbids(self):
        good, slow, forbidden = result(4.0, 2.0, 0.9), result(1.6, 1.25, 0.5), result(1.25, 1.25, 0.9)
        rows = steps_table.steps([good, slow, forbidden]).splitlines()[2:]
        self.assertIn("| 0.25 [0.24, 0.26] | 0.50 [0.49, 0.51] | 900 | 0.90 | 20 |", rows[0])
        self.assertIn("| **0.62 [0.61, 0.64]** | **0.80 [0.79, 0.81]** |", rows[1])
        self.assertIn("| **0.80 [0.79, 0.81]**, bound 0.72 | **0.80 [0.79, 0.81]**, bound 0.72 |", rows[2])
        said = steps_table.said([good, slow, forbidden])
        self.assertIn("1 of 3 rows take at most 0.5 of eager PyTorch's time; of the other 2", said)
        self.assertIn("more than that in 1.", said)
        self.assertIn("over eager PyTorch's: 0.60 to 0.60, median 0.60; 3 of 3 rows at most 0.6", said)

    def test_products_of_the_steps_own_shapes(self):
        """At their fastest they forbid the target of the first row; as they usually are that of both."""
        rows = [result(1.25, 1.25, 0.5), result(1.25, 1.25, 0.5)]
        for row, fastest in zip(rows, (0.7, 0.6)):
            row["least"]["products"] = fastest
            row["products"] = {"usual": 0.8, "share": 0.97, "over": {
                side: {"value": 0.64, "interval": [0.6, 0.69]} for side in ("eager", "compiled")}}
            row["memory"]["state"] = 3e7
        said, (first, second) = steps_table.said(rows), steps_table.steps(rows).splitlines()[2:]
        over = "**0.80 [0.79, 0.81]**"
        self.assertIn(f"| {over}, bound 0.56, usually 0.64 [0.60, 0.69] | {over} | 700 | 800 | 0.97 | 20 |", first)
        self.assertIn(f"| {over}, usually 0.64 [0.60, 0.69] | {over} | 600 | 800 | 0.97 | 20 |", second)
        self.assertIn("each at its fastest, would take more than that in 1, and as they usually are in 2.", said)
        self.assertIn("each at its fastest, would take more than that in 0, and as they usually are in 0.", said)
        self.assertIn("state alone are 0.60 to 0.60 of compiled PyTorch's memory.", said)

    def test_the_pages_tables_are_the_results(self):
        page = (SOURCE / "docs/performance.md").read_text(encoding="utf-8")
        for name, path in RESULTS.items():
            self.assertEqual(with_tables(page, {name: steps_table.filling(steps_table.read(path))}), page)

    def test_more_flags_are_in_the_name(self):
        self.assertEqual(steps_table.name(result(4.0, 2.0, 0.9, flags="--mlp-chunks 4")),
                         "small, f32, fused, --mlp-chunks 4")
