"""Operations beside a copy: which records are of the same rounds, and what the page says of the results."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import memory_bound_rounds
from sources import SOURCE


def record(by, rounds, seconds, work=6e9, status="ok", artifact="bench/memory-bound", **options):
    return {"artifact": artifact, "status": status, "rounds": rounds,
            "options": {"type": "f32", "operation": "copy/parts", "by": by} | options,
            "metrics": {"time": {"samples": seconds}, "work": {"samples": [work]}}}


class Rounds(unittest.TestCase):
    def rounds(self, *records):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "records.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in records))
            return memory_bound_rounds.rounds(path)

    def test_are_those_in_which_both_took_turns(self):
        cases = self.rounds(record("frugal", "1", [1, 2]), record("copy", "1", [2, 1], work=12e9),
                            record("copy", "2", [1]), record("frugal", "3", [1]), record("frugal", "2", [1]),
                            record("copy", "3", [1], status="interrupted"), record("copy", "3", [1], artifact="bench/gemm"))
        self.assertEqual(cases, {"copy/parts/f32": [(6, 1), (12, 0.25), (6, 1)]})

    def test_each_width_of_rows_is_a_case(self):
        cases = self.rounds(*(record(by, width, [1], width=width) for width in ("768", "1600") for by in ("frugal", "copy")))
        self.assertEqual(cases, {"copy/parts/768/f32": [(6, 1)], "copy/parts/1600/f32": [(6, 1)]})

    def test_spans_are_of_the_tenth_to_the_ninetieth_percentile(self):
        """Of 9 rates from 1 and 20 from 11, of which the tenths lie between the second and third."""
        cases = {"a": [(copy, copy**2 / 100) for copy in range(1, 10)], "b": [(copy, 2) for copy in range(11, 31)],
                 "c": [(40, 3)] * 4, "d": [(10, memory_bound_rounds.TARGET)] * 5}
        self.assertEqual(memory_bound_rounds.rates({name: cases[name] for name in "ab"}, 10), {
            "slow": "1 to 9 GB/s, 31 % of rounds", "fast": "12 to 29 GB/s, 69 % of rounds"})
        table = memory_bound_rounds.medians(cases, 10)
        self.assertEqual(table, {"a": {"slow": 0.25, "fast": None}, "b": {"slow": None, "fast": 2}, "c": {"slow": None, "fast": None},
                                 "d": {"slow": None, "fast": 0.8}})
        self.assertEqual([memory_bound_rounds.missed(table, state) for state in ("slow", "fast")],
                         [({"a": 0.25}, ["a"]), ({"b": 2, "d": 0.8}, [])])

    def test_of_one_side_alone_are_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            self.rounds(record("frugal", "1", [1]))
        self.assertIn("no operation beside a copy; give the records.jsonl", said.getvalue())

    def test_of_the_results_are_what_the_page_says(self):
        cases = memory_bound_rounds.rounds(SOURCE / "results/amd-epyc-2-cores/bench-memory-bound.jsonl")
        self.assertEqual({len(of) for of in cases.values()}, {120})  # 12 runs
        table = memory_bound_rounds.medians(cases, 55)
        page = (SOURCE / "docs/performance.md").read_text(encoding="utf-8")
        for state in ("slow", "fast"):
            known, below = memory_bound_rounds.missed(table, state)
            self.assertIn(f"{len(known) - len(below)} of {len(known)} rows", page)
