"""bench/gpu/torch_products.py: turns of frugal and of PyTorch, and what the records of both say together. CTest sets FRUGAL
(the program) and FRUGAL_SOURCE_DIR. Only what PyTorch itself computes needs it."""

import contextlib
import importlib.util
import io
import json
import os
import random
import sys
import unittest
from unittest import mock

from sources import scripts_of

scripts_of("bench/gpu")
import torch_products  # noqa: E402  (the path comes first)

CASE = "bf16/gpt2-124m/qkv/*"
QKV = "bf16/gpt2-124m/qkv/16384x768x2304"
KINDS = ["forward", "input-gradient", "weight-gradient", "first-weight-gradient"]


def arguments(*words):
    return torch_products.parse([os.environ["FRUGAL"], "--on", "virtual:h100-dgx", "--case", CASE, *words])


class Opponent:
    """Takes twice and then three times as long as frugal on the virtual machine."""

    def __init__(self, turns):
        self.turns, self.number = turns, 0

    def versions(self):
        return {"torch": "3"}

    def turn(self, products, samples):
        self.turns.append("torch")
        self.number += 1
        return {product: ([(self.number + 1) * FRUGAL_SECONDS] * samples, "mm") for product in products}


FRUGAL_SECONDS = 1e-3


def frugal_record(product):
    return {"source": "measured", "on": "cuda", "device": "", "environment": {}, "program": "p",
            "metrics": {"time": {"samples": [FRUGAL_SECONDS, 9, FRUGAL_SECONDS]}}, "options": {"product": product}}


def measured(of, torch):
    records = torch_products.Records(of)
    torch_products.measure(of, torch, records)
    return list(records.of.values())


class Records(unittest.TestCase):
    def test_a_prediction_is_that_both_take_as_long(self):
        records = measured(arguments("--rounds", "1"), None)
        self.assertEqual([record["options"]["product"] for record in records if record["options"]["by"] == "frugal"],
                         [f"{QKV}/{kind}" for kind in KINDS])
        for record in records:
            self.assertEqual(record["metrics"]["work"]["median"], 2 * 16384 * 768 * 2304)
        numbers = torch_products.numbers_of(records)
        for kind in KINDS:
            self.assertEqual(numbers[f"product {QKV}/{kind}: times as fast as torch.mm"], (1, "1"))
            seconds, unit = numbers[f"product {QKV}/{kind}: frugal"]
            self.assertEqual(unit, "s")
            # At most what the data sheet says, and not a tenth of it.
            self.assertTrue(2 * 16384 * 768 * 2304 / 989.4e12 < seconds < 20 * 16384 * 768 * 2304 / 989.4e12, seconds)

    def test_turns_are_drawn_behind_the_first_round(self):
        """A turn's median counts, and the ratio is that of the median of all turns."""
        for seed in ("a", "b", "c"):
            turns, product = [], f"{QKV}/forward"

            def frugal_turn(_, turns=turns, product=product):
                turns.append("frugal")
                return {product: frugal_record(product)}
            with mock.patch.object(torch_products, "frugal_turn", frugal_turn):
                records = measured(arguments("--rounds", "2", "--seed", seed), Opponent(turns))
            self.assertEqual(turns[:2], ["frugal", "torch"])
            self.assertEqual(turns[2:], random.Random(f"{seed} 1").sample(torch_products.SIDES, 2))
            ours, theirs = records
            self.assertEqual(ours["metrics"]["time"]["samples"], [FRUGAL_SECONDS] * 2)
            self.assertEqual(theirs["metrics"]["time"]["samples"], [2 * FRUGAL_SECONDS, 3 * FRUGAL_SECONDS])
            self.assertEqual((theirs["options"]["call"], theirs["options"]["torch"], theirs["options"]["seed"]), ("mm", "3", seed))
            number, _ = torch_products.numbers_of(records)[f"product {product}: times as fast as torch.mm"]
            self.assertAlmostEqual(number, 1 / torch_products.step_results.ratio([[1], [1]], [[2], [3]])["value"])

    def test_what_was_measured_is_written_when_it_is_stopped(self):
        """In PyTorch's second turn: of the first round there is a ratio."""
        class Stopped(Opponent):
            def turn(self, products, samples):
                if self.number == 1:
                    raise KeyboardInterrupt
                return super().turn(products, samples)
        out, product = io.StringIO(), f"{QKV}/forward"
        with mock.patch.object(torch_products, "frugal_turn", lambda _: {product: frugal_record(product)}), \
                mock.patch.object(torch_products, "Torch", lambda _: Stopped([])), \
                mock.patch.object(sys, "argv", ["torch_products.py", "frugal", "--seed", "a"]), \
                contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(out), self.assertRaises(SystemExit):
            torch_products.main()
        self.assertIn("--seed a", said.getvalue())
        records = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual({record["options"]["by"] for record in records}, {"frugal", "torch"})
        self.assertEqual(torch_products.numbers_of(records)[f"product {product}: times as fast as torch.mm"], (2, "1"))

    def test_what_frugal_says_is_said(self):
        said = io.StringIO()
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(said):
            torch_products.frugal_turn(arguments("--case", "none/of/these"))
        self.assertIn("no case of gemm matches", str(ended.exception))


@unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
class WithPyTorch(unittest.TestCase):
    def test_products_are_those_of_a_linear_layer(self):
        """y [t, o] = x [t, i] Wᵀ; operands are drawn in this order: x, W, dy and what is added to."""
        torch = torch_products.Torch("cpu")
        for kind in ("f32", "bf16"):
            for name in KINDS:
                torch.torch.manual_seed(3)
                function, called = torch.call(f"{kind}/m/w/6x5x4/{name}")
                torch.torch.manual_seed(3)
                dtype = {"f32": torch.torch.float32, "bf16": torch.torch.bfloat16}[kind]
                x, w, dy = (torch.torch.randn(shape, dtype=dtype).double() for shape in ((6, 5), (4, 5), (6, 4)))
                into = torch.torch.randn((4, 5), dtype=torch.torch.float32).double()
                right = {"forward": x @ w.T, "input-gradient": dy @ w, "first-weight-gradient": dy.T @ x,
                         "weight-gradient": into + dy.T @ x}[name]
                torch.torch.manual_seed(3)
                result = torch.call(f"{kind}/m/w/6x5x4/{name}")[0]() if "add_" not in called else None
                if result is not None:
                    self.assertEqual(tuple(result.shape), tuple(right.shape))
                    self.assertLess((result.double() - right).abs().max().item(), 0.05 if kind == "bf16" else 1e-5)
                self.assertGreater(torch.seconds(function, 2), 0)
