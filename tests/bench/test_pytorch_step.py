"""PyTorch's sides of bench/compare_steps.py: what they compute, where there is PyTorch. CTest sets FRUGAL_SOURCE_DIR."""

import importlib.util
import io
import json
import sys
import unittest
from unittest import mock

from sources import scripts_of

scripts_of("bench/gpu", "bench")
HAS = {name: importlib.util.find_spec(name) is not None for name in ("torch", "transformers")}
if HAS["torch"]:
    import pytorch_optimizers
    import pytorch_step
    import torch
if HAS["torch"] and HAS["transformers"]:
    import hf_llama

LLAMA = {"name": "l", "layers": 2, "hidden_size": 32, "attention_heads": 4, "key_value_heads": 2, "intermediate_size": 48,
         "sequence_length": 8, "vocabulary_size": 40, "norm": "rms-norm", "mlp": "swiglu", "bias": "none",
         "positions": "rotary", "rotary": {"base": 10000.0}, "tied_embeddings": False, "dropout": 0.0}
OPTIONS = {"lr": 0.1, "betas": (0.9, 0.95), "weight_decay": 0, "eps": 1e-8}


def task(weights="", kind="f32", attention="fused", **model):
    configuration = {"model": LLAMA | model, "microbatch_size": 2, "attention": attention, "type": kind}
    return {"on": "cpu", "threads": 1, "configuration": configuration, "weights": weights, "products": []}


@unittest.skipUnless(HAS["torch"], "there is no PyTorch here")
class Optimizers(unittest.TestCase):
    GRADIENTS = ([3.0, -4.0], [0.25, 0.5])  # the first has a norm of 5, the second of less than 1

    def adamw(self, value, clip):
        """In float64 by its equations, of a first weight and a second (Kingma and Ba 2014, with no decay)."""
        m, v = [0.0, 0.0], [0.0, 0.0]
        for step, gradient in enumerate(self.GRADIENTS, 1):
            norm = sum(g * g for g in gradient) ** 0.5
            gradient = [g / norm if clip and norm > 1 else g for g in gradient]
            m = [0.9 * a + 0.1 * g for a, g in zip(m, gradient)]
            v = [0.95 * a + 0.05 * g * g for a, g in zip(v, gradient)]
            value = [w - 0.1 * (a / (1 - 0.9**step)) / ((b / (1 - 0.95**step)) ** 0.5 + 1e-8)
                     for w, a, b in zip(value, m, v)]
        return value

    def stepped(self, kind, dtype):
        weight = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=dtype))
        optimizer = pytorch_optimizers.OF_WEIGHTS[kind]([weight], **OPTIONS)
        for gradient in self.GRADIENTS:
            optimizer.zero_grad(set_to_none=True)
            (weight * torch.tensor(gradient, dtype=dtype)).sum().backward()
            optimizer.step()
        return weight, optimizer

    def test_float32_weights_have_clipped_gradients(self):
        weight, optimizer = self.stepped("", torch.float32)
        self.assertLess(max(abs(a - b) for a, b in zip(weight.tolist(), self.adamw([1, 2], clip=True))), 1e-5)
        self.assertEqual(optimizer.held(), [])

    def test_masters_are_changed_and_bf16_weights_follow(self):
        weight, optimizer = self.stepped("bf16", torch.bfloat16)
        (master,) = optimizer.copies
        self.assertLess(max(abs(a - b) for a, b in zip(master.tolist(), self.adamw([1, 2], clip=True))), 5e-3)
        self.assertTrue(torch.equal(weight, master.bfloat16()))
        self.assertEqual([x.dtype for x in optimizer.held()], [torch.float32] * 2)  # masters and their gradients

    def test_weights_alone_change_in_the_backward_pass_without_a_norm(self):
        weight, optimizer = self.stepped("bf16-alone", torch.float32)
        self.assertIsNone(weight.grad)
        self.assertLess(max(abs(a - b) for a, b in zip(weight.tolist(), self.adamw([1, 2], clip=False))), 1e-5)
        self.assertEqual({x.numel() for x in optimizer.state[weight].values() if x.dim()}, {2})


@unittest.skipUnless(HAS["torch"], "there is no PyTorch here")
class Steps(unittest.TestCase):
    def test_weights_are_of_the_type_that_is_asked_for(self):
        for weights, dtype, held in (("", torch.float32, 3 * 4), ("bf16", torch.bfloat16, 2 + 4 * 4), ("bf16-alone", torch.bfloat16, 3 * 2)):
            steps = pytorch_step.Steps(task(weights, "bf16"))
            steps.step("eager")
            parameters = list(steps.model.parameters())
            self.assertEqual({p.dtype for p in parameters}, {dtype})
            self.assertEqual(steps.autocast, not weights)
            count = sum(p.numel() for p in parameters)
            self.assertAlmostEqual(steps.held() / count, held, delta=0.1)  # and a count of steps for each

    def test_a_kind_that_fails_is_told_and_the_others_go_on(self):
        steps = pytorch_step.Steps(task())
        steps.runs = {"eager": steps.model, "broken": mock.Mock(side_effect=RuntimeError("no\nmore"))}
        said, lines = io.StringIO(), io.StringIO(json.dumps(task()) + "\nbroken 1\neager 2\n")
        with mock.patch.object(sys, "stdin", lines), mock.patch.object(sys, "stdout", said):
            pytorch_step.serve(lambda _: steps, library="5")
        broken, eager = map(json.loads, said.getvalue().splitlines())
        self.assertEqual((broken["failed"], broken["library"]), ("RuntimeError: no", "5"))
        self.assertEqual(len(eager["seconds"]), 2)


@unittest.skipUnless(HAS["torch"] and HAS["transformers"], "there is no PyTorch with transformers here")
class HuggingFace(unittest.TestCase):
    def pair(self, attention="fused", **model):
        """Ours and the library's, with the same weights."""
        ours, theirs = (kind(task(attention=attention, **model)) for kind in (pytorch_step.Steps, hf_llama.Steps))
        state = {name: x.detach().clone() for name, x in theirs.model.state_dict().items()}
        ours.model.load_state_dict(pytorch_step.ours(state, pytorch_step.Shape(ours_configuration(ours))))
        theirs.inputs = ours.inputs
        return ours, theirs

    def test_its_loss_and_gradients_are_those_of_our_model(self):
        for attention in ("fused", "separate"):
            ours, theirs = self.pair(attention)
            losses = [steps.runs["eager"](*steps.inputs) for steps in (ours, theirs)]
            self.assertAlmostEqual(losses[0].item(), losses[1].item(), places=5)
            for loss in losses:
                loss.backward()
            gradients = [steps.model.get_parameter(name).grad for steps, name in
                         ((ours, "tokens.weight"), (theirs, "model.embed_tokens.weight"))]
            self.assertLess((gradients[0] - gradients[1]).abs().max().item(), 1e-6)

    def test_checkpointing_recomputes_each_layer(self):
        _, theirs = self.pair()
        counts = []
        for kind in ("eager", "checkpointed", "checkpointed", "eager"):
            calls = []
            hooks = [layer.mlp.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
                     for layer in theirs.model.model.layers]
            theirs.runs[kind](*theirs.inputs).backward()
            for hook in hooks:
                hook.remove()
            counts.append(len(calls))
        self.assertEqual(counts, [2, 4, 4, 2])

    def test_other_models_are_refused(self):
        for changes, says in (({"dropout": 0.1}, "no dropout"), ({"norm": "layer-norm"}, "neither a GPT-2 nor a Llama")):
            with self.assertRaises(SystemExit) as ended:
                hf_llama.Steps(task(**changes))
            self.assertIn(says, str(ended.exception))


def ours_configuration(steps):
    return task(attention="fused" if steps.model.shape.fused else "separate")["configuration"]
