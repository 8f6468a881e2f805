"""The tables of docs/modern-hardware.md are those of results/virtual/modern-hardware.jsonl."""

import unittest

import modern_hardware_cases
import modern_hardware_tables
from sources import SOURCE

RESULTS = modern_hardware_cases.read(SOURCE / "results" / "virtual")


class ModernHardware(unittest.TestCase):
    def test_the_pages_tables_are_the_results(self):
        page = (SOURCE / "docs" / "modern-hardware.md").read_text()
        self.assertEqual(modern_hardware_tables.filled(page, RESULTS), page)

    def test_a_mark_that_is_missing_is_said(self):
        with self.assertRaisesRegex(SystemExit, "<!-- table machines --> is there 0 times"):
            modern_hardware_tables.filled("", RESULTS)

    def test_what_does_not_fit_says_what_it_needs(self):
        one = {"status": "oom", "peak_bytes": 90 * 2**30, "gpu_hours_per_billion_tokens": 1, "mfu": 0.5}
        self.assertEqual(modern_hardware_tables.cost(one), "needs 90 GiB")
        self.assertEqual(modern_hardware_tables.cost({**one, "status": "ok"}), "1.0 (50.0 %)")
