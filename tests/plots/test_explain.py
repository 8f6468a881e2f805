"""What is drawn of what frugal explain says."""

import json
import pathlib
import tempfile
import unittest

import attribution


def cell(frugal, paper, *added):
    terms = [{"behaviour": f"b{i}", "status": "documented", "added": a} for i, a in enumerate(added)]
    return {"artifact": "p/table1", "row": "r", "column": "c", "unit": "GiB", "frugal": frugal, "paper": paper,
            "program": frugal + sum(added), "terms": terms}


class Explain(unittest.TestCase):
    def test_bars_lead_from_frugal_to_the_paper(self):
        bars = attribution.steps_of(cell(10.0, 16.0, 4.0, 0.0, -1.0))
        self.assertEqual([bar[:3] for bar in bars],
                         [("frugal", 0, 10), ("b0", 10, 14), ("b2", 14, 13), ("the paper's program", 0, 13),
                          ("not explained", 13, 16), ("the paper", 0, 16)])

    def test_small_terms_are_one_bar(self):
        """Of less than a thousandth of the largest number, whichever that is and whatever its sign."""
        for sign in (1, -1):
            for paper in (11.0, 20.0):
                least = paper / 1000
                small = [0.3 * least, 0.9 * least]
                bars = attribution.steps_of(cell(*(sign * x for x in (10.0, paper, small[0], 1.0, small[1], 1.1 * least))))
                self.assertEqual([bar[0] for bar in bars[1:4]], ["b1", "b3", "smaller ones"])
                begin, end = bars[3][1:3]
                self.assertAlmostEqual(begin, sign * (11.0 + 1.1 * least))
                self.assertAlmostEqual(end - begin, sign * sum(small))
        self.assertEqual([bar[3] for bar in bars], ["frugal", *["documented"] * 3, "program", "left", "paper"])
        self.assertNotIn("smaller ones", [bar[0] for bar in attribution.steps_of(cell(10.0, 11.0, 1.0, 0.0005, 0.0005))])

    def test_terms_that_do_not_add_up_are_refused(self):
        wrong = {**cell(10.0, 16.0, 4.0), "program": 15.0}
        with self.assertRaisesRegex(SystemExit, "add up to 14"):
            attribution.steps_of(wrong)

    def test_what_is_drawn_has_a_number_of_the_paper_and_a_behaviour_that_changes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "explain.json"
            cells = [cell(10.0, 16.0, 4.0), cell(10.0, None, 4.0), cell(10.0, 16.0, 0.0)]
            path.write_text(json.dumps({"schema": "frugal.attribution/1", "cells": cells}))
            self.assertEqual(attribution.read(path), cells[:1])
            path.write_text(json.dumps({"schema": "frugal.attribution/1", "cells": cells[1:]}))
            with self.assertRaisesRegex(SystemExit, "name another artifact"):
                attribution.read(path)
            path.write_text('{"schema": "another"}')
            with self.assertRaisesRegex(SystemExit, "another"):
                attribution.read(path)
