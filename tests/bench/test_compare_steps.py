"""bench/compare_steps.py with an opponent whose times and memory are made up: PyTorch is not needed. CTest
sets FRUGAL (the program) and FRUGAL_SOURCE_DIR."""

import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "bench"))

import compare_steps  # noqa: E402  (the path comes first)
import step_records  # noqa: E402
import step_results  # noqa: E402

# Steps of 100 and 200 s, which a step of a tiny model never takes; the loss is that of the file, or a wrong one.
OPPONENT = """
import json, pathlib, sys
task = json.loads(sys.stdin.readline())
print(json.dumps(task), file=sys.stderr)
assert task["configuration"]["model"]["hidden_size"] == 64, task
def loss():
    data = pathlib.Path(task["tensors"]).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    first, end = json.loads(data[8:begin])["loss"]["data_offsets"]
    import struct
    return struct.unpack("<f", data[begin + first:begin + end])[0]
for line in sys.stdin:
    kind, count = line.split()
    if kind == FAILING:
        sys.exit("no " + kind + " today")
    if kind == "products":
        assert len(task["products"]) > 10, task
        print(json.dumps({"products": [each | {"seconds": [50.0] * int(count)} for each in task["products"]]}), flush=True)
        continue
    answer = {"seconds": [{"eager": 200.0, "compiled": 100.0}.get(kind)] * int(count), "peak_bytes": 1e12}
    if count == "0":
        answer = {"loss": loss() * (WRONG if kind == "compiled" else 1)}
    print(json.dumps(answer), flush=True)
"""


ABOUT = {"source": "measured", "on": "cpu", "device": "a processor", "environment": {}}
STEP = {"step_time": "s", "resident_memory": "bytes", "ledger_memory": "bytes", "work": "FLOP", "product_rate": "FLOP/s",
        "least_bytes": "bytes", "peak_memory": "bytes"}


def machine(program=100, copied=4):
    peak = ABOUT | {"threads": 1, "copy": {"bytes": copied, "seconds": [1, 2, 1]}, "gemm": []}
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
    """As they are read again, with a line that was cut off."""
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
            return {"operation": "gemm f32", "product": product, "bytes": flops, "count": count, "flops": flops,
                    "seconds": seconds}
        ours = [operation([1, 2, 3, 4], 2, 48, [3, 3]), operation([1, 9, 9, 9], 1, 1458, [1]),
                operation(None, 1, 40, [5]), operation(None, 4, 0, [2] * 4)]
        theirs = [{"operation": "gemm f32", "product": [1, 2, 3, 4], "seconds": [2]},
                  {"operation": "gemm f32", "product": [1, 9, 9, 9], "seconds": [4]}]
        measured = row(times(20, 20, 20) | {"product_rate": [20]}, times(14, 14, 14), times(10, 10, 10), steps=1)
        for number in range(3):  # what takes longest is first, and that changes
            measured.operations(ours[::-1] if number else ours)
            measured.products(theirs if number < 2 else [theirs[0] | {"seconds": [1]}, theirs[1]])
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

    def test_each_row_has_the_machine_before_it(self):
        """Two runs in one file: a copy moves 4 bytes a second in the first, and 8 in the second."""
        rows = [row(times(1, 1), times(1, 1), times(1, 1), flags=flags) for flags in ("", "-x")]
        first, second = records(machine(), rows[0], machine(copied=8), rows[1])
        self.assertEqual((first["least"]["bytes"], second["least"]["bytes"]), (2, 1))

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

    def test_nothing_before_a_round_is_whole(self):
        self.assertEqual(records(machine(), row(times(1, 1), times(1, 1), {"step_time": [], "peak_memory": []})), [])

    def test_losses(self):
        for theirs, same in ((2.0, True), (2.00001, True), (2.0001, False), (float("nan"), False)):
            measured = row(times(1, 1), times(1, 1), times(1, 1))
            for side, loss in (("frugal", 2.0), ("eager", 2.0), ("compiled", theirs)):
                measured.record(by=side)["losses"] = [loss]
            (result,) = records(measured)
            self.assertEqual(result["same_loss"], same)
            self.assertEqual("LOSSES DIFFER" in compare_steps.describe(result), not same)


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(setattr, compare_steps, "OPPONENT", compare_steps.OPPONENT)
        # Rates of products and copies take seconds: once is enough.
        self.machine_of = compare_steps.machine_of
        self.addCleanup(setattr, compare_steps, "machine_of", self.machine_of)
        compare_steps.machine_of = lambda *_: machine()

    def run_beside(self, *words, failing="nobody", wrong=1.0, out=None):
        compare_steps.OPPONENT = self.folder / "opponent.py"
        compare_steps.OPPONENT.write_text(f"FAILING, WRONG = {failing!r}, {wrong!r}\n" + OPPONENT)
        arguments = compare_steps.parse([os.environ["FRUGAL"], "--on", "cpu", "--model", "gpt-tiny", "--attention",
                                         "fused", "--threads", "1", "--rounds", "2", "--micro-batch", "2", *words])
        out, errors = out or io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = compare_steps.run(arguments)
        return status, [json.loads(line) for line in out.getvalue().splitlines()], errors.getvalue()

    def test_every_row_has_its_records(self):
        compare_steps.machine_of = self.machine_of
        status, lines, said = self.run_beside("--type", "f32")
        self.assertEqual(status, 0, said)
        self.assertEqual({line["options"].get("model", "gpt-tiny") for line in lines}, {"gpt-tiny"})
        self.assertEqual({line["status"] for line in lines}, {"ok"})
        self.assertEqual([line["case"] for line in lines[:2]], ["machine/program", "machine/copy"])
        sides = [f"{p}/2/{side}" for p in ("0", "0.1") for side in ("frugal", "eager", "compiled")]
        self.assertEqual([line["case"] for line in lines if {"model", "operation"} & {*line["options"]} == {"model"}],
                         [f"gpt-tiny/f32/fused/{side}" for side in sides])
        self.assertEqual(len({line["case"] for line in lines}), len(lines))
        self.assertEqual(len({line["rounds"] for line in lines}), 3)  # the machine has none
        results = step_results.results(lines)
        for result in results:
            self.assertEqual(result["rounds"], 2)
            self.assertLess(0, result["least"]["products"])
            self.assertLessEqual(result["least"]["products"], result["products"]["usual"])
            over = result["products"]["over"]
            self.assertAlmostEqual(over["compiled"]["value"], 2 * over["eager"]["value"])
            self.assertLess(0, result["products"]["share"])
            self.assertLess(result["products"]["share"], 1)
            self.assertAlmostEqual(result["time_over"]["eager"]["value"], result["medians"]["frugal"] / 200)
            self.assertLess(result["time_over"]["compiled"]["value"], 0.1)
            self.assertEqual(result["medians"]["compiled"], 100)
            self.assertGreater(result["memory"]["ledger"], 1e5)
        self.assertTrue(results[0]["same_loss"])

    def test_no_result_names_a_folder(self):
        self.assertIn("m.json/", next(iter(row({}, {}, {}, model="/of/a/machine/m.json").records)))
        self.assertNotIn("machine/m", str(row({}, {}, {}, model="/of/a/machine/m.json").records))

    def test_more_flags_are_rows_of_their_own(self):
        status, lines, said = self.run_beside("--type", "f32", "--dropout", "0", "--flags=", "--flags=--mlp-chunks 4")
        self.assertEqual(status, 0, said)
        plain, in_parts = step_results.results(lines)
        self.assertEqual([plain["flags"], in_parts["flags"]], ["", "--mlp-chunks 4"])
        self.assertLess(in_parts["memory"]["ledger"], plain["memory"]["ledger"])
        self.assertIn("gpt-tiny --mlp-chunks 4 f32", said)

    def test_other_losses_fail(self):
        status, lines, said = self.run_beside("--type", "f32", "--dropout", "0", wrong=1.01)
        self.assertEqual(status, 1)
        self.assertFalse(step_results.results(lines)[0]["same_loss"])
        self.assertIn("LOSSES DIFFER", said)

    def measured(self, lines):
        """The sides that have samples, those of the machine and of operations left out."""
        return [line["options"]["by"] for line in lines if "by" in line["options"] and line["metrics"]
                and "operation" not in line["options"]]

    def test_what_was_measured_stays(self):
        status, lines, said = self.run_beside("--type", "bf16", "--dropout", "0", failing="compiled")
        self.assertEqual(status, 1)
        self.assertEqual(self.measured(lines), ["frugal"])
        self.assertTrue(any("operation" in line["options"] for line in lines))
        row_status = {(line["status"], line["reason"]) for line in lines if "model" in line["options"]}
        ((ended, why),) = row_status
        self.assertEqual(ended, "failed")
        self.assertIn("no compiled today", why)
        self.assertIn("no compiled today", said)

    def test_what_was_measured_stays_when_it_is_stopped(self):
        take, taken = compare_steps.PyTorch.take, []

        def stopped_in_the_second_round(pytorch, side, count):
            taken.append(side)
            if taken.count("compiled") == 2:
                raise KeyboardInterrupt
            return take(pytorch, side, count)
        self.addCleanup(setattr, compare_steps.PyTorch, "take", take)
        compare_steps.PyTorch.take = stopped_in_the_second_round
        out = io.StringIO()
        with self.assertRaises(KeyboardInterrupt), redirect_stdout(out):
            self.run_beside("--type", "f32", "--dropout", "0.1", out=out)
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual({line["status"] for line in lines if "model" in line["options"]}, {"interrupted"})
        self.assertEqual(self.measured(lines), ["frugal", "eager", "compiled"])
        (result,) = step_results.results(lines)
        self.assertEqual(result["rounds"], 1)

    def test_without_a_gpu_frugal_says_so(self):
        arguments = compare_steps.parse([os.environ["FRUGAL"], "--on", "cuda", "--model", "no-such-model"])
        errors = io.StringIO()
        with redirect_stderr(errors):
            self.assertEqual(compare_steps.run(arguments), 1)
        self.assertIn("no-such-model", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
