"""bench/gpu/profile_tables.py: times of a step by its operations, of documents that are made up."""

import pathlib
import tempfile
import unittest

from sources import scripts_of

scripts_of("bench/gpu")
import profile_tables  # noqa: E402  (the path comes first)


def operation(name, count, seconds, product=None, moved=3e6):
    return {"operation": name, "product": product, "count": count, "flops": 1, "bytes": moved, "seconds": seconds}


def document(gelu, gemm, step, *more, command="frugal operations --model m --layers 1"):
    """Two stages; a product of the second is that of the first once more."""
    stages = [[operation("gelu bf16", 2, gelu), operation("gemm bf16", 3, gemm, [1, 2, 4, 8])],
              [operation("gemm bf16", 1, gemm, [1, 2, 4, 8]), *more]]
    return {"command": command, "plain_step_seconds": step, "step_seconds": [99],
            "stages": [{"operations": operations} for operations in stages]}


class Tables(unittest.TestCase):
    def test_an_operation_takes_its_median_as_often_as_it_is_in_a_step(self):
        numbers = profile_tables.numbers_of([document([1, 3, 99], [4, 2, 3], [20, 40, 30])])
        self.assertEqual(numbers, {"profile of m of 1 layer: step": (30, "s"),
                                   "profile of m of 1 layer: operations together": (2 * 3 + 4 * 3, "s"),
                                   "profile of m of 1 layer, gelu bf16 3 MB": (6, "s"),
                                   "profile of m of 1 layer, gemm bf16 1 x 2 x 4 x 8": (12, "s")})
        again = profile_tables.numbers_of([document([1], [1], [9]), document([2], [1], [9])])
        self.assertEqual(again["profile of m of 1 layer, gelu bf16 3 MB"], (4, "s"))
        self.assertIn("profile of m: step", profile_tables.numbers_of([document([1], [1], [1], command="frugal --model m")]))

    def test_the_largest_difference_is_first_and_what_is_left_last(self):
        """In ms: 2 gelus of 3 or 4, 4 products of 5 or 2; and one operation that nobody predicted."""
        rows = profile_tables.rows_of(document([3e-3], [5e-3], [40e-3]),
                                      document([4e-3], [2e-3], [50e-3], operation("fill", 1, [7e-3], moved=5e8)))
        self.assertEqual(rows, [["gemm bf16 1 x 2 x 4 x 8", "4", "20.000", "8.000", "-12.000"],
                                ["fill 500 MB", "1", "0.000", "7.000", "+7.000"],
                                ["gelu bf16 3 MB", "2", "6.000", "8.000", "+2.000"],
                                ["operations together", "", "26.000", "23.000", "-3.000"],
                                ["beyond them", "", "14.000", "27.000", "+13.000"],
                                ["step", "", "40.000", "50.000", "+10.000"]])

    def test_a_line_that_a_kill_cut_off_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "profile.jsonl").write_text('{"command": "a"}\n{"command": "b', encoding="utf-8")
            self.assertEqual(profile_tables.read(folder), [{"command": "a"}])
            with self.assertRaises(SystemExit) as ended:
                profile_tables.read(pathlib.Path(folder) / "none")
        self.assertIn("the group profile", str(ended.exception))
