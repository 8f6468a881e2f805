#!/usr/bin/env python3
"""What PyTorch holds when it trains as mst2024 says, counted without computing anything.

    pytorch_memory.py OUT.json          (Python with PyTorch; two minutes on one core, no GPU)

Models run forward and backward on PyTorch's meta device, where tensors have shapes and no memory, at
full size. Every storage that an operation returns counts from then until PyTorch itself lets it go:
autograd decides what is kept. Not seen is what one operation takes within itself, and what the caching
allocator loses to rounding and fragments.

The models are written as such models were in PyTorch in 2024: norms in float32, rotary positions as
products with cosines and sines, SiLU and its product as two operations, logits copied to float32 and
shifted, the loss of these. Flash attention takes its keys and values as they are. Weights, gradients
and both moments are bfloat16; an update within the backward pass drops a gradient as soon as it is
complete. What mini-sequences are is Algorithm 1 and 2 of the paper: the MLP of one part after the other
within a layer that is recomputed, and an output layer whose gradients are computed part by part in its
forward pass.
"""

import dataclasses
import json
import math
import pathlib
import sys
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

GIB = 2**30
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAPER = json.loads((ROOT / "experiments/mst2024/paper.json").read_text(encoding="utf-8"))
MACHINE = json.loads((ROOT / "hardware/a100-80gb.json").read_text(encoding="utf-8"))
CAPACITY = MACHINE["device"]["memory_capacity"]["value"]


class LiveBytes(TorchDispatchMode):
    """Bytes of all storages that operations have returned and that are still there."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.add.Tensor and self.sums_in_place(*args[:2]):
            func = torch.ops.aten.add_.Tensor
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return result

    @staticmethod
    def sums_in_place(sum_, term):
        """Whether autograd, in a backward pass, adds a gradient to another's memory, as it does where nothing else has that,
        but not while somebody looks on (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace): one share of a
        storage is the sum's, one this class's."""
        backward = torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()
        return (backward and isinstance(term, torch.Tensor) and sum_.shape == term.shape
                and torch._C._storage_Use_Count(sum_.untyped_storage()._cdata) == 2)

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.known:
            self.known[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.drop, key)

    def drop(self, key):
        self.now -= self.known.pop(key)


def empty(*shape, **options):
    return torch.empty(*shape, device="meta", dtype=torch.bfloat16, **options)


def linear(rows, columns):
    return nn.Linear(rows, columns, bias=False, device="meta", dtype=torch.bfloat16)


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(empty(hidden))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


class Mlp(nn.Module):
    """In `parts` mini-sequences, each of which leaves to autograd what it has computed."""

    def __init__(self, model, parts=1):
        super().__init__()
        self.gate, self.up = (linear(model["hidden"], model["intermediate"]) for _ in range(2))
        self.down = linear(model["intermediate"], model["hidden"])
        self.parts = parts

    def part(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))

    def forward(self, x):
        if self.parts == 1:
            return self.part(x)
        y = torch.empty_like(x)
        for begin in range(0, x.shape[1], step := math.ceil(x.shape[1] / self.parts)):
            y[:, begin:begin + step] = self.part(x[:, begin:begin + step])
        return y


def rotated(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines


class Layer(nn.Module):
    def __init__(self, model, parts):
        super().__init__()
        hidden, size = model["hidden"], model["head_dim"]
        self.head_size, self.heads, self.groups = size, model["heads"], model["kv_heads"]
        self.query, self.out = linear(hidden, self.heads * size), linear(self.heads * size, hidden)
        self.key, self.value = (linear(hidden, self.groups * size) for _ in range(2))
        self.before_attention, self.before_mlp = Norm(hidden), Norm(hidden)
        self.mlp = Mlp(model, parts)

    def attention(self, x, cosines, sines):
        batch, tokens, _ = x.shape
        q, k, v = (projected(x).view(batch, tokens, heads, self.head_size).transpose(1, 2) for projected, heads in
                   ((self.query, self.heads), (self.key, self.groups), (self.value, self.groups)))
        q, k = rotated(q, cosines, sines), rotated(k, cosines, sines)
        y = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]
        return self.out(y.transpose(1, 2).reshape(batch, tokens, -1))

    def forward(self, x, cosines, sines):
        x = x + self.attention(self.before_attention(x), cosines, sines)
        return x + self.mlp(self.before_mlp(x))


class HeadInParts(torch.autograd.Function):
    """Loss, and gradients of input and weights, of one part after the other."""

    @staticmethod
    def forward(ctx, x, weight, labels, parts):
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight)
        step = math.ceil(x.shape[1] / parts)
        for begin in range(0, x.shape[1], step):
            with torch.enable_grad():
                part, table = x[:, begin:begin + step].detach().requires_grad_(), weight.detach().requires_grad_()
                logits = F.linear(part, table).float()
                loss = F.cross_entropy(logits.flatten(0, 1), labels[:, begin:begin + step].flatten())
                gradients = torch.autograd.grad(loss, (part, table))
            dx[:, begin:begin + step] = gradients[0]
            dweight += gradients[1]
        ctx.save_for_backward(dx, dweight)
        return loss.detach()

    @staticmethod
    def backward(ctx, gradient):
        dx, dweight = ctx.saved_tensors
        return dx * gradient, dweight * gradient, None, None


@dataclasses.dataclass(frozen=True)
class Way:
    """How a step is taken. `kept` are the logits that its caller keeps: "float32" those of which the loss
    is, "bfloat16" those before, as later versions of the libraries have it, "" none."""

    name: str
    recompute: bool = True
    mini_sequences: bool = False
    stepped: bool = True
    kept: str = "float32"


class Model(nn.Module):
    def __init__(self, model, way, tokens):
        super().__init__()
        in_parts = way.mini_sequences
        self.way, self.head_size = way, model["head_dim"]
        self.head_parts = math.ceil(model["vocab"] / model["hidden"]) if in_parts else 1
        self.embedding = nn.Embedding(model["vocab"], model["hidden"], device="meta", dtype=torch.bfloat16)
        mlp_parts = math.ceil(tokens / model["hidden"]) if in_parts else 1
        self.layers = nn.ModuleList(Layer(model, mlp_parts) for _ in range(model["layers"]))
        self.norm, self.head = Norm(model["hidden"]), linear(model["hidden"], model["vocab"])

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        cosines, sines = (empty(1, 1, tokens.shape[1], self.head_size) for _ in range(2))
        for layer in self.layers:
            x = checkpoint(layer, x, cosines, sines, use_reentrant=True) if self.way.recompute else layer(
                x, cosines, sines)
        x = self.norm(x)
        if self.head_parts > 1:
            return HeadInParts.apply(x, self.head.weight, labels, self.head_parts), None
        return self.loss(self.head(x), labels)

    def loss(self, logits, labels):
        """With what the caller keeps of the logits."""
        wide = logits.float()
        kept = {"float32": wide, "bfloat16": logits, "": None}[self.way.kept]
        del logits
        shifted = wide[:, :-1].contiguous()
        return F.cross_entropy(shifted.flatten(0, 1), labels[:, 1:].flatten()), kept


def count_step(model, way, tokens):
    """Bytes: what stays (weights and moments), and a step's peak."""
    live = LiveBytes()
    with live:
        network = Model(model, way, tokens)
        for parameter in network.parameters():
            live.add(parameter)
        moments = [empty(2, *parameter.shape) for parameter in network.parameters()]
        stays = live.now
        for parameter in network.parameters():
            if way.stepped:
                parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
            else:
                parameter.grad = torch.empty_like(parameter)
        numbers = torch.zeros(1, tokens, dtype=torch.int64, device="meta")
        loss, kept = network(numbers, numbers)
        loss.backward()
    del moments, kept
    return stays, live.peak


def longest(model, way):
    """Tokens whose step fits the machine, to a thousandth: a peak is nearly linear in them."""
    low, high = 512, 4096
    stays, bytes_low = count_step(model, way, low)
    bytes_high = count_step(model, way, high)[1]
    while True:
        guess = int(low + (high - low) * (CAPACITY - bytes_low) / (bytes_high - bytes_low))
        low, bytes_low, high, bytes_high = high, bytes_high, guess, count_step(model, way, guess)[1]
        if abs(bytes_high - CAPACITY) < 1e-3 * (CAPACITY - stays):
            return guess


def count_module(module, tokens, loss_of):
    """Peak of the second of two passes over a module alone, whose gradients are there then. `loss_of` has
    a loss and what the module gave, which is kept."""
    live = LiveBytes()
    with live:
        for parameter in module.parameters():
            live.add(parameter)
        x = empty(1, tokens, module_width(module), requires_grad=True)
        for _ in range(2):
            x.grad = None
            live.peak = live.now
            loss, _kept = loss_of(module, x)
            loss.backward()
            del loss, _kept
    return live.peak


def module_width(module):
    return (module.gate if isinstance(module, Mlp) else module).in_features


def modules(model, tokens):
    def head_with_loss(head, x):
        labels = torch.zeros(tokens, dtype=torch.int64, device="meta")
        return F.cross_entropy(head(x).flatten(0, 1), labels), None

    def sum_of(mlp, x):
        y = mlp(x)
        return y.sum(), y

    counted = {"table14, standard": count_module(linear(model["hidden"], model["vocab"]), tokens, head_with_loss)}
    for parts, row in ((1, "standard"), (8, "M=8")):
        counted[f"table16, {row}"] = count_module(Mlp(model, parts), tokens, sum_of)
    return {name: round(peak / GIB, 3) for name, peak in counted.items()}


VANILLA = Way("vanilla", recompute=False)
RECOMPUTED = Way("activation recomputation")
MINI_SEQUENCE = Way("mini-sequence", mini_sequences=True)
# What the paper's numbers at 4096 tokens are of: rows of its tables 8 to 11.
AT_4096 = (dataclasses.replace(VANILLA, kept=""), dataclasses.replace(RECOMPUTED, kept=""), MINI_SEQUENCE)


def at_4096(model):
    """GiB of activations: all but weights and moments."""
    found = {}
    for way in AT_4096:
        stays, peak = count_step(model, way, 4096)
        found[way.name] = round((peak - stays) / GIB, 3)
    return found


def lengths(models):
    """{table: {model: {way: [K tokens that fit, GiB at the paper's length or None]}}}."""
    found = {}
    for table, names, stepped in (("table2", ("llama3-8b", "llama2-7b"), True),
                                  ("table3", ("mistral-7b", "qwen2-7b"), True),
                                  ("table4", ("llama3-8b", "llama2-7b"), False)):
        printed = {(c["row"], c["column"]): c["value"] for c in PAPER["artifacts"][table]["cells"]}
        for name in names:
            for way in (VANILLA, RECOMPUTED, MINI_SEQUENCE):
                way = dataclasses.replace(way, stepped=stepped)
                at = printed.get((name, way.name))
                peak = count_step(models[name], way, int(1000 * at))[1] / GIB if at else None
                row = found.setdefault(table, {}).setdefault(name, {})
                row[way.name] = [longest(models[name], way) / 1000, peak and round(peak, 2)]
                print(table, name, way.name, row[way.name], file=sys.stderr)
    return found


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    out = pathlib.Path(sys.argv[1])
    if out.exists():
        print(f"pytorch_memory.py: {out} exists; remove it or name another file", file=sys.stderr)
        raise SystemExit(2)
    models = {m["name"]: m for m in PAPER["models"]}
    llama3 = models["llama3-8b"]
    later = Way("activation recomputation", kept="bfloat16")
    result = {"schema": "frugal.pytorch_memory/1", "pytorch": torch.__version__.split("+")[0],
              "capacity_gib": round(CAPACITY / GIB, 2),
              "modules_at_80000_tokens_gib": modules(llama3, 80000),
              "activations_at_4096_tokens_gib": at_4096(llama3),
              "bytes_of_a_logit": {kept or "none": round(bytes_of_a_logit(llama3, kept), 2)
                                   for kept in ("", later.kept, RECOMPUTED.kept)},
              "longest": lengths(models)}
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def bytes_of_a_logit(model, kept):
    """By how much the peak grows for each, with recomputation, beside a model with half the vocabulary."""
    tokens, fewer = 16384, {**model, "vocab": model["vocab"] // 2}
    way = Way("activation recomputation", kept=kept)
    (stays, peak), (stays_fewer, peak_fewer) = (count_step(m, way, tokens) for m in (model, fewer))
    return (peak - stays - peak_fewer + stays_fewer) / (tokens * (model["vocab"] - fewer["vocab"]))


if __name__ == "__main__":
    main()
