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


def turn(side, number, seconds=None, **more):
    row = {"on": "cpu", "model": "a/b.json", "type": "f32", "attention": "fused", "dropout": 0.0, "micro_batch": 4}
    of_side = {"frugal": {"resident_bytes": 700, "ledger_bytes": 500, "flops": 60, "peak_flops": 20 + number,
                          "bytes": 8}}
    return json.dumps({"schema": compare_steps.SCHEMA, **row, "round": number, "side": side, "seconds": seconds,
                       **of_side.get(side, {"peak_bytes": 1000}), **more})


MACHINE = json.dumps({"schema": compare_steps.SCHEMA, "side": "machine", "program_bytes": 100, "copy_rate": 4})


class Reading(unittest.TestCase):
    def test_ratios_of_whole_rounds(self):
        lines = [MACHINE]
        for number, (ours, eager, compiled) in enumerate([(2, 8, 4), (2, 8, 2), (2, 8, 3)]):
            lines += [turn("frugal", number, [ours] * 2), turn("eager", number, [eager] * 2),
                      turn("compiled", number, [compiled] * 2)]
        lines += [turn("frugal", 3, [1000]), '{"schema": "frugal.st']  # stopped in the fourth round
        (result,) = compare_steps.read(lines)
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
            return {"operation": "gemm f32", "product": product, "count": count, "flops": flops, "seconds": seconds}
        ours = [operation([1, 2, 3, 4], 2, 48, [3, 3]), operation([1, 9, 9, 9], 1, 1458, [1, 1]),
                operation(None, 1, 40, [5]), operation(None, 4, 0, [2])]
        theirs = [{"operation": "gemm f32", "product": product, "seconds": seconds}
                  for product, seconds in (([1, 2, 3, 4], [2, 2, 1]), ([1, 9, 9, 9], [4, 4, 4]))]
        lines = []
        for number in range(2):  # what takes longest is first, and that changes
            lines += [turn("frugal", number, [20], peak_flops=20),
                      turn("operations", number, operations=ours[::-1] if number else ours),
                      turn("eager", number, [14]), turn("compiled", number, [10]),
                      turn("products", number, products=theirs)]
        (result,) = compare_steps.read([MACHINE, *lines])
        self.assertEqual(result["least"]["products"], 2 * 1 + 1 + 2)
        self.assertEqual(result["products"]["usual"], 2 * 2 + 1 + 2)
        self.assertEqual(result["products"]["over"]["eager"], {"value": 0.5, "interval": [0.5, 0.5]})
        self.assertEqual(result["products"]["over"]["compiled"]["value"], 0.7)
        self.assertEqual(result["products"]["share"], 12 / 20)
        (result,) = compare_steps.read([MACHINE, *lines[:-1]])  # of one round they are not known
        self.assertNotIn("products", result)

    def test_memory_is_no_less_than_the_ledgers(self):
        lines = [MACHINE, turn("frugal", 0, [1], ledger_bytes=650), turn("eager", 0, [1]), turn("compiled", 0, [1])]
        (result,) = compare_steps.read(lines)
        self.assertEqual(result["memory_over"], {"eager": 0.65, "compiled": 0.65})

    def test_each_row_has_the_machine_before_it(self):
        """Two runs in one file: a copy moves 4 bytes a second in the first, and 8 in the second."""
        other = json.dumps(json.loads(MACHINE) | {"copy_rate": 8})
        of_row = [[turn(side, 0, [1], flags=flags) for side in ("frugal", "eager", "compiled")] for flags in ("", "-x")]
        first, second = compare_steps.read([MACHINE, *of_row[0], other, *of_row[1]])
        self.assertEqual((first["least"]["bytes"], second["least"]["bytes"]), (2, 1))

    def test_rounds_are_drawn_and_not_samples(self):
        ours, theirs = [[1.0] * 9, [3.0] * 9], [[1.0] * 9, [1.0] * 9]
        self.assertEqual(compare_steps.ratio(ours, theirs), {"value": 2.0, "interval": [1.0, 3.0]})

    def test_nothing_before_a_round_is_whole(self):
        self.assertEqual(compare_steps.read([MACHINE, turn("frugal", 0, [1]), turn("eager", 0, [1])]), [])

    def test_losses(self):
        for theirs, same in ((2.0, True), (2.00001, True), (2.0001, False), (float("nan"), False)):
            lines = [turn(side, 0, [1]) for side in ("frugal", "eager", "compiled")]
            (result,) = compare_steps.read([*lines, turn("losses", 0, frugal=2.0, eager=2.0, compiled=theirs)])
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
        compare_steps.machine_of = lambda *_: json.loads(MACHINE)

    def run_beside(self, *words, failing="nobody", wrong=1.0):
        compare_steps.OPPONENT = self.folder / "opponent.py"
        compare_steps.OPPONENT.write_text(f"FAILING, WRONG = {failing!r}, {wrong!r}\n" + OPPONENT)
        arguments = compare_steps.parse([os.environ["FRUGAL"], "--on", "cpu", "--model", "gpt-tiny", "--attention",
                                         "fused", "--threads", "1", "--rounds", "2", "--micro-batch", "2", *words])
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = compare_steps.run(arguments)
        return status, [json.loads(line) for line in out.getvalue().splitlines()], errors.getvalue()

    def test_every_row_has_its_turns(self):
        compare_steps.machine_of = self.machine_of
        status, lines, said = self.run_beside("--type", "f32")
        self.assertEqual({line.get("model", "gpt-tiny") for line in lines}, {"gpt-tiny"})
        self.assertEqual(compare_steps.recorded({"model": "/of/a/machine/m.json"}), {"model": "m.json"})
        self.assertEqual(status, 0, said)
        sides = [(line.get("dropout"), line.get("side")) for line in lines]
        plain, dropped = ([(p, side) for side in ("frugal", "operations", "eager", "compiled", "products")]
                          for p in (0, 0.1))
        self.assertEqual(sides, [(None, "machine"), *plain[:2], (0, "losses"), *plain[2:], *plain, (0, None),
                                 *dropped, *dropped, (0.1, None)])
        results = [line for line in lines if line["schema"] == compare_steps.SUMMARY]
        self.assertEqual(compare_steps.read(json.dumps(line) for line in lines), results)
        for result in results:
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

    def test_more_flags_are_rows_of_their_own(self):
        status, lines, said = self.run_beside("--type", "f32", "--dropout", "0", "--flags=", "--flags=--mlp-chunks 4")
        self.assertEqual(status, 0, said)
        plain, in_parts = (line for line in lines if line["schema"] == compare_steps.SUMMARY)
        self.assertEqual([plain["flags"], in_parts["flags"]], ["", "--mlp-chunks 4"])
        self.assertLess(in_parts["memory"]["ledger"], plain["memory"]["ledger"])
        self.assertIn("gpt-tiny --mlp-chunks 4 f32", said)

    def test_other_losses_fail(self):
        status, lines, said = self.run_beside("--type", "f32", "--dropout", "0", wrong=1.01)
        self.assertEqual(status, 1)
        self.assertFalse(lines[-1]["same_loss"])
        self.assertIn("LOSSES DIFFER", said)

    def test_what_was_measured_stays(self):
        status, lines, said = self.run_beside("--type", "bf16", "--dropout", "0", failing="compiled")
        self.assertEqual(status, 1)
        self.assertEqual([line["side"] for line in lines], ["machine", "frugal", "operations"])
        self.assertIn("no compiled today", said)

    def test_without_a_gpu_frugal_says_so(self):
        arguments = compare_steps.parse([os.environ["FRUGAL"], "--on", "cuda", "--model", "no-such-model"])
        errors = io.StringIO()
        with redirect_stderr(errors):
            self.assertEqual(compare_steps.run(arguments), 1)
        self.assertIn("no-such-model", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
