"""bench/gpu/predict_pytorch.py: bytes, FLOPs and seconds of operations that are made up. PyTorch is not needed."""

import os
import sys
import unittest
from unittest import mock

from sources import scripts_of

scripts_of("bench/gpu", "bench")


class Tensor:
    """A tensor of a shape, in storage of its own."""

    def __init__(self, *shape):
        self.shape = shape

    def numel(self):
        product = 1
        for extent in self.shape:
            product *= extent
        return product


MODULES = ("torch", "torch.distributed", "torch.distributed.fsdp", "torch.distributed.fsdp._fully_shard", "torch.distributed.tensor",
           "torch.utils.checkpoint", "torch.nn", "torch.nn.functional", "torch._subclasses", "torch._subclasses.fake_tensor", "torch.utils",
           "torch.utils._python_dispatch", "torch.utils._pytree")
STUBS = {name: mock.MagicMock() for name in MODULES}
STUBS["torch"].nn.Module = object
STUBS["torch.utils._python_dispatch"].TorchDispatchMode = object
with mock.patch.dict(sys.modules, STUBS):
    import predict_pytorch
    import pytorch_compare
    import pytorch_fsdp
    from predict_pytorch import Operation

#: A product of two tensors, an activation of what it wrote, and a sum of that with a third; storages are letters.
OPERATIONS = [Operation("mm", {"a": 100, "b": 200}, {"c": 400}, 1000), Operation("gelu", {"c": 400}, {"d": 410}, 0),
              Operation("add", {"d": 410, "e": 30}, {"f": 430}, 0), Operation("mm", {"f": 430, "b": 200}, {"g": 50}, 700)]


class Predicted(unittest.TestCase):
    def test_flops_are_two_of_each_visible_pair(self):
        """Of products 2 m n k; of causal attention 2 products forward and 5 backward, of s (s + 1) / 2 pairs each."""
        a, b, bias = Tensor(3, 5), Tensor(5, 7), Tensor(7)
        self.assertEqual([predict_pytorch.flops_of("mm", [a, b]), predict_pytorch.flops_of("addmm", [bias, a, b]),
                          predict_pytorch.flops_of("bmm", [Tensor(2, 3, 5), Tensor(2, 5, 7)]), predict_pytorch.flops_of("gelu", [a])],
                         [2 * 3 * 5 * 7, 2 * 3 * 5 * 7, 2 * 2 * 3 * 5 * 7, 0])
        q, gradient = Tensor(2, 3, 11, 5), Tensor(1, 1, 13, 1)
        pairs = 2 * 3 * 11 * 12 // 2
        name = predict_pytorch.ATTENTION_FORWARD
        self.assertEqual([predict_pytorch.flops_of(name, [q, gradient]), predict_pytorch.flops_of(name + "_backward", [gradient, q])],
                         [2 * 2 * pairs * 5, 5 * 2 * pairs * 5])

    def test_eager_reads_and_writes_all(self):
        self.assertEqual(predict_pytorch.eager(OPERATIONS), [(1000, 700), (0, 810), (0, 870), (700, 680)])

    def test_compiled_reads_once_and_writes_what_others_need(self):
        """Between the products one kernel: it reads c and e, and writes f; d is its own, but where somebody else reads it."""
        self.assertEqual(predict_pytorch.compiled(OPERATIONS, {"g"}), [(1000, 700), (0, 400 + 30 + 430), (700, 680)])
        self.assertEqual(predict_pytorch.compiled(OPERATIONS, {"d"}), [(1000, 700), (0, 400 + 30 + 410 + 430), (700, 630)])

    def test_the_device_or_the_host_is_what_is_waited_for(self):
        """8 GB at half of 4 GB/s, two kernels more than the products, whose time is given; launches of four kernels."""
        device = {key: {"value": value} for key, value in (("memory_bandwidth", 4e9), ("memory_fraction", 0.5), ("kernel_latency", 0.125),
                                                           ("launch_overhead", 0.01))}
        kernels = [(1, 9e9), (0, 5e9), (0, 3e9), (1, 7e9)]
        self.assertEqual(predict_pytorch.seconds(kernels, 10, device), 10 + 8 / 2 + 2 * 0.125)
        device["launch_overhead"]["value"] = 5
        self.assertEqual(predict_pytorch.seconds(kernels, 10, device), 20)
        self.assertEqual(predict_pytorch.seconds(kernels, 10, device, launches=False), 10 + 8 / 2 + 2 * 0.125)

    def predicted(self, *sides):
        """{side: bytes of its kernels} and whether the host launches them, of three layers and a head."""
        forward, backward = OPERATIONS[:3], OPERATIONS[3:]
        parts = [(3, forward, backward, {"g"}), (1, [OPERATIONS[1]], [OPERATIONS[1]], {"d"})]
        launched = []

        def seconds(kernels, products, _, launches):
            launched.append(launches)
            self.assertEqual(products, 5)
            return sum(b for _, b in kernels)
        with mock.patch.object(predict_pytorch, "update", lambda *_: [Operation("adam", {"p": 7}, {"p": 8}, 0)]), \
                mock.patch.object(predict_pytorch, "parts", lambda *_: parts), \
                mock.patch.object(predict_pytorch, "seconds", seconds):
            return predict_pytorch.predicted(None, 5, {}, {}, sides), launched

    def test_a_step_is_its_layers_and_one_update(self):
        """Compiled, the backward pass reads f, which is written; d is not."""
        bytes_of, launched = self.predicted("eager", "compiled")
        self.assertEqual(bytes_of, {"eager": 15 + 3 * (700 + 810 + 870 + 680) + 2 * 810,
                                    "compiled": 15 + 3 * (700 + 860 + 680) + 2 * 810})
        self.assertEqual(launched, [True, True])

    def test_graphs_are_launched_as_one(self):
        bytes_of, launched = self.predicted("compiled", "reduce-overhead", "max-autotune")
        self.assertEqual(len(set(bytes_of.values())), 1)
        self.assertEqual(launched, [True, False, False])

    def test_what_is_checkpointed_is_computed_once_more(self):
        """Of each layer its forward pass, and not of the head."""
        bytes_of, _ = self.predicted("eager", "checkpointed", "compiled", "checkpointed-compiled")
        self.assertEqual(bytes_of["checkpointed"] - bytes_of["eager"], 3 * (700 + 810 + 870))
        self.assertEqual(bytes_of["checkpointed-compiled"] - bytes_of["compiled"], 3 * (700 + 860))

    def test_what_frugal_says_is_said(self):
        with self.assertRaises(SystemExit) as ended:
            predict_pytorch.said_by([os.environ["FRUGAL"], "measure", "--model", "no-such-model"])
        self.assertIn("no-such-model", str(ended.exception))


class Compared(unittest.TestCase):
    """Peaks that frugal has over those that are counted: within 1 % of a model, and within 2 % of the fullest of some ranks."""

    def test_a_model(self):
        step = pytorch_compare.Step("gpt", 2, 3, 5, 7, 11, 13, 17, 19, 23, 0.1, True, "none", "new", "layer", "narrow", False)
        kept = {"norm": {"bytes": 8}}
        for peak, here, error, agree in ((10099, kept, 0.99, [True, True]), (10101, {}, 1.01, [False, False]), (9899, kept, -1.01, [False, True])):
            with mock.patch.object(pytorch_compare.pytorch_models, "peak", lambda _: 10000), \
                    mock.patch.object(pytorch_compare.pytorch_models, "kept", lambda _: kept), \
                    mock.patch.object(pytorch_compare, "executed", lambda *_, p=peak, h=here: (p, h, "frugal")):
                line = pytorch_compare.compared("frugal", step, "")
            self.assertEqual((line["error_percent"], [line["peak_agrees"], line["kept_agrees"]]), (error, agree))

    def test_ranks(self):
        one = pytorch_fsdp.CASES[0]
        for peak, error, agree in ((10199, 1.99, True), (10201, 2.01, False), (9799, -2.01, False)):
            with mock.patch.object(pytorch_fsdp, "counted", lambda _: [{"peak": 7000}, {"peak": 10000}, {"peak": 9000}]), \
                    mock.patch.object(pytorch_fsdp, "executed", lambda *_, p=peak: ({"peak": p}, "frugal")):
                line = pytorch_fsdp.compared("frugal", one)
            self.assertEqual((line["error_percent"], line["agrees"]), (error, agree))
