"""What bench/step_results.py says of records of training steps, and bench/step_records.py of what both sides print."""

import math
import pathlib
import tempfile
import unittest

from sources import scripts_of

scripts_of("bench")
import compare_steps  # noqa: E402  (the path comes first)
import step_records  # noqa: E402
import step_results  # noqa: E402

ABOUT = {"source": "measured", "on": "cpu", "device": "a processor", "environment": {}}
STEP = {"step_time": "s", "resident_memory": "bytes", "ledger_memory": "bytes", "work": "FLOP", "product_rate": "FLOP/s",
        "least_bytes": "bytes", "peak_memory": "bytes"}


def machine(program=100, copied=2):
    peak = ABOUT | {"threads": 1, "copy": {"bytes": copied, "seconds": [0.5, 1, 0.5]}, "gemm": []}
    return step_records.of_machine(program, peak, "frugal peak")


def row(frugal, eager, compiled, steps=2, **more):
    """The records of a row: metrics of its sides. frugal's step has 60 FLOPs and moves 8 bytes at least."""
    options = {"model": "a/b.json", "type": "f32", "attention": "fused", "dropout": 0.0, "micro_batch": 4, "flags": ""}
    measured = step_records.Measured(options | more, {"steps": steps}, rounds="a" * 16)
    measured.begin(ABOUT | {"configuration": None, "program": "", "command": ""})
    ours = {"resident_memory": [700], "ledger_memory": [500], "work": [60], "product_rate": [21, 23], "least_bytes": [8]}
    theirs = {"peak_memory": [1000]}
    for side, metrics in (("frugal", ours | frugal), ("eager", theirs | eager), ("compiled", theirs | compiled)):
        for name, values in metrics.items():
            if values:
                step_records.add(measured.record(by=side), name, STEP[name], *values)
    return measured


def records(*measured):
    """Records as they are read again, with a line that was cut off."""
    flat = [record for each in measured for record in (each if isinstance(each, list) else each.records.values())]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file"
        path.write_text("".join(map(step_records.line, flat)) + '{"artifact": "bench/st', encoding="utf-8")
        return step_results.read(path)


def times(*seconds):
    return {"step_time": list(seconds)}


class Reading(unittest.TestCase):
    def test_ratios_of_whole_rounds(self):
        """Stopped in the fourth round."""
        (result,) = records(machine(), row(times(*[2] * 6, 1000, 1000), times(*[8] * 6), times(4, 4, 2, 2, 3, 3, 9)))
        self.assertEqual(result["rounds"], 3)
        self.assertEqual(result["time_over"]["eager"], {"value": 0.25, "interval": [0.25, 0.25]})
        compiled = result["time_over"]["compiled"]
        self.assertAlmostEqual(compiled["value"], 2 / 3)
        self.assertEqual(compiled["interval"], [0.5, 1.0])
        self.assertEqual(result["memory_over"], {"eager": 0.6, "compiled": 0.6})
        self.assertEqual(result["least"], {"gemm_rate": 23, "flops": 60 / 23, "bytes": 2})

    def test_the_steps_own_products(self):
        """Two products of 3 s or 2, once 1; one of 1 s or 4; 40 FLOPs of attention at a rate of 20; the rest does not
        count."""
        def operation(product, count, flops, seconds):
            return {"operation": "gemm f32", "product": product, "bytes": flops, "count": count, "flops": flops, "seconds": seconds}
        for steps in (1, 3):  # of a turn; the last of several has a sample that is out of line
            def turn(seconds, count=1, steps=steps):
                return [seconds] * (count * steps - (steps > 1)) + [99] * (steps > 1)
            ours = [operation([1, 2, 3, 4], 2, 48, turn(3, 2)), operation([1, 9, 9, 9], 1, 1458, turn(1)),
                    operation(None, 1, 40, turn(5)), operation(None, 4, 0, turn(2, 4))]
            theirs = [{"operation": "gemm f32", "product": [1, 2, 3, 4], "seconds": turn(2)},
                      {"operation": "gemm f32", "product": [1, 9, 9, 9], "seconds": turn(4)}]
            measured = row(times(*turn(20) * 3) | {"product_rate": [20]}, times(*turn(14) * 3), times(*turn(10) * 3), steps=steps)
            for number in range(3):  # what takes longest is first, and that changes
                measured.operations(ours[::-1] if number else ours)
                measured.products(theirs if number < 2 else [theirs[0] | {"seconds": turn(1)}, theirs[1]])
            (result,) = records(machine(), measured)
            self.assertEqual(result["least"]["products"], 2 * 1 + 1 + 2)
            self.assertEqual(result["products"]["usual"], 2 * 2 + 1 + 2)
            self.assertEqual(result["products"]["over"]["eager"]["value"], 0.5)
            self.assertEqual(result["products"]["over"]["compiled"], {"value": 0.7, "interval": [0.5, 0.7]})
            self.assertEqual(result["products"]["share"], 12 / 20)
        for each in measured.records.values():
            if each["options"]["by"] == "PyTorch":
                each["metrics"]["time"]["samples"].pop()
        (result,) = records(machine(), measured)  # of one round they are not known
        self.assertNotIn("products", result)

    def test_memory_is_no_less_than_the_ledgers(self):
        (result,) = records(machine(), row(times(1, 1) | {"ledger_memory": [650]}, times(1, 1), times(1, 1)))
        self.assertEqual(result["memory_over"], {"eager": 0.65, "compiled": 0.65})

    def test_memory_is_the_most_that_was_resident_over_the_usual_peak(self):
        ours, theirs = {"resident_memory": [400, 850, 500]}, {"peak_memory": [1000, 5000, 1000]}
        (result,) = records(machine(), row(times(1, 1) | ours, times(1, 1) | theirs, times(1, 1)))
        self.assertEqual(result["memory"], {"eager": 1000, "compiled": 1000, "ledger": 500, "frugal": 750})

    def test_each_row_has_the_machine_before_it(self):
        """Two runs in one file: a copy moves 4 bytes a second in the first, and 16 in the second."""
        rows = [row(times(1, 1), times(1, 1), times(1, 1), flags=flags) for flags in ("", "-x")]
        first, second = records(machine(), rows[0], machine(copied=8), rows[1])
        self.assertEqual((first["least"]["bytes"], second["least"]["bytes"]), (2, 0.5))

    def test_of_a_row_that_was_measured_again_the_last_counts(self):
        """Of those that have a whole round."""
        again, failed = row(times(5, 5), times(1, 1), times(1, 1)), row(times(1, 1), {}, {})
        for measured, rounds in ((again, "b"), (failed, "c")):
            for record in measured.records.values():
                record["rounds"] = 16 * rounds
        (result,) = records(row(times(1, 1, 1, 1), times(1, 1, 1, 1), times(1, 1, 1, 1)), again, failed)
        self.assertEqual((result["rounds"], result["medians"]["frugal"]), (1, 5))

    def test_rounds_are_drawn_and_not_samples(self):
        ours, theirs = [[1.0] * 9, [3.0] * 9], [[1.0] * 9, [1.0] * 9]
        self.assertEqual(step_results.ratio(ours, theirs), {"value": 2.0, "interval": [1.0, 3.0]})
        # Of 17 draws of 1 to 17 the median is at most 4 in 0.8 %, and at most 5 in 3.6 %: a binomial distribution's.
        at_most = [sum(math.comb(17, i) * (k / 17) ** i * (1 - k / 17) ** (17 - i) for i in range(9, 18)) for k in (4, 5)]
        self.assertTrue(at_most[0] < 0.02 and 0.03 < at_most[1] < 0.05)
        self.assertEqual(step_results.ratio([[float(i)] for i in range(1, 18)], [[1.0]] * 17), {"value": 9.0, "interval": [5.0, 13.0]})

    def test_a_side_without_a_step_is_no_rival_where_it_failed(self):
        measured = row(times(2, 2), times(8, 8), {"step_time": [], "peak_memory": []})
        measured.failed("compiled", "cannot")
        (result,) = records(machine(), measured)
        self.assertEqual((list(result["time_over"]), result["memory_over"]), (["eager"], {"eager": 0.6}))

    def test_libraries_of_two_versions_are_named(self):
        """PyTorch says 91900 of 9.19.0."""
        for ours, theirs, named in (("9.19.0", 91900, None), ("9.14.0", 91900, {"frugal": "9.14.0", "eager": "9.19.0"}),
                                    (None, 91900, None)):
            measured = row(times(1, 1), times(1, 1), times(1, 1))
            measured.record(by="frugal")["environment"] = {"libraries": {"cuDNN": ours} if ours else {}}
            measured.pytorch("eager", [], 1000, cudnn=theirs)
            (result,) = records(machine(), measured)
            self.assertEqual(result.get("two_cudnns"), named)

    def test_rows_against_others_are_rows_of_their_own(self):
        rows = [row(times(1, 1), times(2, 2), times(4, 4), **more) for more in
                ({}, {"weights": "bf16"}, {"turns": "sustained"}, {"against": "transformers"})]
        found = records(machine(), *rows)
        self.assertEqual(len(found), 4)
        self.assertEqual([sorted({"weights", "turns", "against"} & set(result)) for result in found],
                         [[], ["weights"], ["turns"], ["against"]])

    def test_nothing_before_a_round_is_whole(self):
        self.assertEqual(records(machine(), row(times(1, 1), times(1, 1), {"step_time": [], "peak_memory": []})), [])

    def test_records_have_what_both_sides_print(self):
        """frugal's state is 700 bytes; a step moves at least its weights three times and all else twice."""
        measured = step_records.Measured({"model": "m", "type": "f32", "attention": "fused", "dropout": 0.0, "micro_batch": 4, "flags": ""},
                                         {"steps": 3}, rounds="a" * 16)
        peak = {"parameter": 100, "gradient": 200, "optimizer": 400, "activation": 1000, "communication": 5000}
        said = ABOUT | {"configuration": None, "program": "", "command": "", "metrics": {"step_time": {"samples": [9, 2, 4]}},
                        "memory": {"peak": peak, "peak_total": 1500}, "flops": {"hardware": {"value": 60}, "model": {"value": 50}},
                        "utilization": {"peak_flops": {"measured": 23, "data_sheet": 29}}}
        for _ in range(2):
            measured.frugal(said, 700)
        measured.pytorch("eager", [5, 6, 7], 1000, torch="2")
        measured.operations([{"operation": "gelu", "product": None, "count": 2, "flops": 48, "bytes": 31.0, "seconds": [3, 1, 2]}])
        metrics = {case: {name: (metric["unit"], metric["samples"], metric["median"]) for name, metric in record["metrics"].items()}
                   for case, record in measured.records.items()}
        self.assertEqual(metrics["m/f32/fused/0/4/frugal"], {
            "step_time": ("s", [9, 2, 4] * 2, 4), "resident_memory": ("bytes", [700, 700], 700), "product_rate": ("FLOP/s", [23, 23], 23),
            "ledger_memory": ("bytes", [1500], 1500), "state_memory": ("bytes", [700], 700), "work": ("FLOP", [60], 60),
            "least_bytes": ("bytes", [3 * 100 + 2 * (200 + 400 + 1000)], 3500)})
        self.assertEqual(metrics["m/f32/fused/0/4/eager"], {"step_time": ("s", [5, 6, 7], 6), "peak_memory": ("bytes", [1000], 1000)})
        self.assertEqual(metrics["m/f32/fused/0/4/gelu/31 bytes/frugal"], {"time": ("s", [3, 1, 2], 2), "count": ("1", [2], 2),
                                                                         "work": ("FLOP", [48], 48), "bytes": ("bytes", [31.0], 31.0)})
        peak = ABOUT | {"threads": 1, "copy": {"bytes": 8, "seconds": [1]},
                        "gemm": [{"type": "bf16", "m": 2, "n": 3, "k": 5, "seconds": [7, 9, 8]}]}
        program, copy, gemm = step_records.of_machine(41, peak, "frugal peak")
        self.assertEqual(gemm["case"], "machine/gemm/bf16/2x3x5")
        self.assertEqual([record["metrics"][name]["median"] for record, name in (
            (program, "resident_memory"), (copy, "work"), (gemm, "work"), (gemm, "time"))], [41, 8, 60, 8])

    def test_a_row_in_words(self):
        (result,) = records(machine(), row(times(2, 2, 3, 3), times(8, 8, 8, 8), times(4, 4, 4, 4), flags="--x 1"))
        self.assertEqual(compare_steps.describe(result),
                         "b --x 1 f32 fused dropout 0 batch 4: 0.312 [0.250, 0.375] of eager's time, "
                         "0.625 [0.500, 0.750] of compiled's time, 0.60 of eager's memory, 0.60 of compiled's memory")

    def test_losses(self):
        near = [(kind, 2 + sign * 2 * allowed * factor, factor < 1) for kind, allowed in (("f32", 1e-5), ("bf16", 1e-4))
                for sign in (-1, 1) for factor in (0.9, 1.1)]
        for kind, theirs, same in (*near, ("f32", 2.0, True), ("f32", float("nan"), False)):
            measured = row(times(1, 1), times(1, 1), times(1, 1), type=kind)
            for side, loss in (("frugal", 2.0), ("eager", 2.0), ("compiled", theirs)):
                measured.record(by=side)["losses"] = [loss]
            (result,) = records(measured)
            self.assertEqual(result["same_loss"], same)
            self.assertEqual("LOSSES DIFFER" in compare_steps.describe(result), not same)
