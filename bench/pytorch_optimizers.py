"""How a step of PyTorch changes its weights: AdamW, in the ways that bench/pytorch_step.py has weights."""

import torch
from torch import nn


class Masters:
    """AdamW of float32 copies of bf16 weights, which the weights follow."""

    def __init__(self, weights, **options):
        self.weights = list(weights)
        self.copies = [nn.Parameter(w.detach().float()) for w in self.weights]
        for copy in self.copies:
            copy.grad = torch.zeros_like(copy)
        self.gradients = [copy.grad for copy in self.copies]
        self.optimizer = torch.optim.AdamW(self.copies, **options)
        self.state = self.optimizer.state

    def zero_grad(self, set_to_none):
        for w in self.weights:
            w.grad = None if set_to_none else w.grad

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_(self.gradients, [w.grad for w in self.weights])  # pylint: disable=protected-access
        nn.utils.clip_grad_norm_(self.copies, 1.0)
        self.optimizer.step()
        torch._foreach_copy_(self.weights, self.copies)  # pylint: disable=protected-access

    def held(self):
        return [*self.copies, *self.gradients]


class Clipped:
    """AdamW of weights, of gradients that are clipped."""

    def __init__(self, weights, **options):
        self.weights = list(weights)
        self.optimizer = torch.optim.AdamW(self.weights, **options)
        self.state = self.optimizer.state

    def zero_grad(self, set_to_none):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self):
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()

    def held(self):
        return []


class InBackward:
    """AdamW of each weight as soon as its gradient is there, which is gone then."""

    def __init__(self, weights, **options):
        self.optimizers = {w: torch.optim.AdamW([w], **options) for w in weights}
        for w in self.optimizers:
            w.register_post_accumulate_grad_hook(self.update)

    def update(self, weight):
        self.optimizers[weight].step()
        weight.grad = None

    @property
    def state(self):
        return {w: state for optimizer in self.optimizers.values() for w, state in optimizer.state.items()}

    def zero_grad(self, set_to_none):
        """There are none."""

    def step(self):
        """It has been done."""

    def held(self):
        return []


OF_WEIGHTS = {"": Clipped, "bf16": Masters, "bf16-alone": InBackward}
