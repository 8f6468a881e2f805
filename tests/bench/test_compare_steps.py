"""bench/compare_steps.py with an opponent whose times and memory are made up: PyTorch is not needed. CTest
sets FRUGAL (the program) and FRUGAL_SOURCE_DIR."""

import io
import json
import math
import os
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from sources import InFolder, scripts_of

scripts_of("bench")
import compare_steps  # noqa: E402  (the path comes first)
import step_results  # noqa: E402
from test_step_results import machine, row  # noqa: E402

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
    if kind in CANNOT:
        print(json.dumps({"failed": "no graph of this", "torch": "3"}), flush=True)
        continue
    begin = {"eager": 200.0}.get(kind, 100.0)
    answer = {"seconds": [begin + RISING * step for step in range(int(count))], "peak_bytes": 1e12}
    if count == "0":
        answer = {"loss": loss() * (WRONG if kind == "compiled" else 1)}
    print(json.dumps(answer), flush=True)
"""


class Running(InFolder):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, compare_steps, "OPPONENT", compare_steps.OPPONENT)
        # Rates of products and copies take seconds: once is enough.
        self.machine_of = compare_steps.machine_of
        self.addCleanup(setattr, compare_steps, "machine_of", self.machine_of)
        compare_steps.machine_of = lambda *_: machine()

    def run_beside(self, *words, failing="nobody", wrong=1.0, out=None, cannot=(), rising=0):
        compare_steps.OPPONENT = self.folder / "opponent.py"
        settings = f"FAILING, WRONG, CANNOT, RISING = {failing!r}, {wrong!r}, {cannot!r}, {rising!r}\n"
        compare_steps.OPPONENT.write_text(settings + OPPONENT)
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

    def turns_of(self, *words, **options):
        """Which side took each turn, of frugal's those of its steps."""
        take, steps, turns = compare_steps.PyTorch.take, compare_steps.frugal_steps, []

        def noted_take(pytorch, side, count):
            turns.append((side, count))
            return take(pytorch, side, count)

        def noted_steps(program, row, threads, count, *more):
            turns.append(("frugal", count))
            return steps(program, row, threads, count, *more)
        for owner, name, noted, before in ((compare_steps.PyTorch, "take", noted_take, take),
                                           (compare_steps, "frugal_steps", noted_steps, steps)):
            self.addCleanup(setattr, owner, name, before)
            setattr(owner, name, noted)
        return self.run_beside("--type", "f32", "--dropout", "0.1", *words, **options), turns

    def test_turns_are_in_an_order_that_is_drawn(self):
        """Behind the first round, which frugal begins: it says what PyTorch is asked for."""
        for seed in ("a", "b"):
            (status, lines, said), turns = self.turns_of("--rounds", "4", "--seed", seed)
            self.assertEqual(status, 0, said)
            self.assertIn(f"--seed {seed}", said)
            sides = [side for side, count in turns if side != "products" and count]
            rounds = [sides[i:i + 3] for i in range(0, len(sides), 3)]
            self.assertEqual(rounds[0], ["frugal", "eager", "compiled"])
            self.assertEqual(len(rounds), 4)
            for each in rounds:
                self.assertEqual(set(each), {"frugal", "eager", "compiled"})
            self.assertEqual(rounds[1:], [compare_steps.drawn_order(["frugal", "eager", "compiled"], seed, number)
                                          for number in (1, 2, 3)])
            self.assertEqual({line["options"]["seed"] for line in lines if "model" in line["options"]}, {seed})
        orders = {tuple(compare_steps.drawn_order("xyz", "a", number)) for number in range(60)}
        self.assertEqual(len(orders), 6)

    def test_sustained_turns_leave_their_beginning_out(self):
        """Steps of 200 s, 201, …: one of them is longer than what is left out, and than what counts."""
        (status, lines, said), turns = self.turns_of("--sustained", "0.05", "--left-out", "0.02", rising=1)
        self.assertEqual(status, 0, said)
        short, sustained = step_results.results(lines)
        self.assertEqual([short.get("turns"), sustained["turns"]], [None, "sustained"])
        self.assertEqual(short["medians"]["eager"], 200.5)
        sides = {line["options"]["by"]: line for line in lines
                 if line["options"].get("turns") == "sustained" and "operation" not in line["options"]}
        self.assertEqual(sides["eager"]["metrics"]["step_time"]["samples"], [201, 201])
        self.assertEqual(sides["eager"]["options"]["steps"], "1")
        counted = int(sides["frugal"]["options"]["steps"])
        self.assertEqual(len(sides["frugal"]["metrics"]["step_time"]["samples"]), 2 * counted)
        step = short["medians"]["frugal"]
        self.assertEqual(counted, math.ceil(0.03 / step))
        self.assertEqual([count for side, count in turns if side == "frugal"][-2:], 2 * [math.ceil(0.02 / step) + counted])
        self.assertIn("gpt-tiny sustained", said)

    def test_a_side_that_cannot_leaves_the_others(self):
        words = [word for mode in ("eager", "reduce-overhead") for word in ("--mode", mode)]
        (status, lines, said), _ = self.turns_of(*words, "--sustained", "0.05", "--left-out", "0.02",
                                                 cannot=("reduce-overhead",))
        self.assertEqual(status, 0, said)
        self.assertIn("reduce-overhead: no graph of this", said)
        for result in step_results.results(lines):
            self.assertEqual((list(result["time_over"]), result["rounds"]), (["eager"], 2))
        failed = {line["options"]["by"]: line["reason"] for line in lines if line["status"] == "failed"}
        self.assertEqual(failed, {"reduce-overhead": "no graph of this"})

    def test_bad_arguments(self):
        for words, says in ((["--mode", "fast"], "--mode fast: there are eager, compiled, reduce-overhead, max-autotune"),
                            (["--against", "transformers", "--mode", "max-autotune"], "checkpointed"),
                            (["--sustained", "0.5"], "nothing is left of it without --left-out 0.5"),
                            (["--weights", "bf16", "--type", "f32"], "--weights bf16 is of steps in bf16"),
                            (["--weights", "bf16", "--on", "cpu"], "give --type bf16 alone")):
            errors = io.StringIO()
            with redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
                compare_steps.parse(["frugal", "--model", "m", *words])
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(says, errors.getvalue())

    def test_a_record_names_the_command(self):
        """Without what is as usual."""
        row = {"on": "cuda", "model": "m", "dropout": 0.0, "weights": "bf16", "against": "", "turns": "", "modes": "eager,compiled"}
        self.assertEqual(compare_steps.command_of(row | {"left_out": 0.5}),
                         "bench/compare_steps.py frugal --on=cuda --model=m --dropout=0.0 --weights=bf16 --left-out=0.5 "
                         "--mode=eager --mode=compiled")

    def test_pytorchs_cudnn_is_found_first(self):
        library = self.folder / "nvidia/cudnn/lib/libcudnn.so.9"
        library.parent.mkdir(parents=True)
        library.touch()
        spec = mock.Mock(submodule_search_locations=[str(self.folder / "nvidia")])
        for before, after in (({}, str(library.parent)), ({"LD_LIBRARY_PATH": "/a"}, f"{library.parent}:/a")):
            with mock.patch("importlib.util.find_spec", return_value=spec), mock.patch.dict(os.environ, before, clear=True):
                self.assertTrue(compare_steps.use_pytorchs_cudnn())
                self.assertEqual(os.environ["LD_LIBRARY_PATH"], after)
        with mock.patch("importlib.util.find_spec", return_value=None):
            self.assertFalse(compare_steps.use_pytorchs_cudnn())

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
