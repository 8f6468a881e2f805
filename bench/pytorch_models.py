"""GPT, BERT and Llama in plain PyTorch, and what a training step of theirs holds: counted, not computed.

Modules are written as their users write them on PyTorch of today, with the structure of frugal's models: norms first,
sequence before batch, as torch.nn.Transformer and Megatron-LM have it. GPT and BERT project queries, keys and values by one
map; Llama has a map for each, and for gate and up. On CUDA dropout is native_dropout, RMSNorm _fused_rms_norm, and
scaled_dot_product_attention of 16-bit tensors flash attention: these are named, because the meta device would take others.

`count()` runs a step on the meta device. Its peak is that of all storages that operations return. What is kept is what
autograd saves: each storage once, for the module that saves it first; not weights, what the caller gives, or tensors of at
most two elements (a random state, a sum).
"""

import contextlib
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytorch_memory import LiveBytes, rotated

META = {"device": "meta", "dtype": torch.bfloat16}
FEWEST = 3  # elements of a tensor that counts


@dataclasses.dataclass(frozen=True)
class Step:
    """A model and how a step of it is taken."""

    family: str  # gpt, bert or llama
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    sequence: int
    batch: int
    dropout: float
    fused_attention: bool
    recompute: str  # none, reentrant, or other
    gradients: str  # new: made where they are needed; there: summed with what is there; stepped: dropped when complete
    norm: str  # layer, fused, or float32
    loss: str  # narrow: of logits as they are; float32: of a copy
    returned_logits: bool

    @property
    def causal(self):
        return self.family != "bert"


class FusedRmsNorm(torch.autograd.Function):
    """_fused_rms_norm as on CUDA, which keeps its input and the inverse deviations (tools/autograd/derivatives.yaml); on
    the meta device it is composed of others."""

    @staticmethod
    def forward(ctx, x, weight):
        deviations = torch.empty(x.shape[:-1], device="meta", dtype=torch.float32)
        ctx.save_for_backward(x, weight, deviations)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class Rms(nn.Module):
    """As nn.RMSNorm, or transformers' LlamaRMSNorm."""

    def __init__(self, step):
        super().__init__()
        self.weight, self.fused = nn.Parameter(torch.empty(step.hidden, **META)), step.norm == "fused"

    def forward(self, x):
        if self.fused:
            return FusedRmsNorm.apply(x, self.weight)
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def norm(step):
    return nn.LayerNorm(step.hidden, **META) if step.norm == "layer" else Rms(step)


class Dropout(nn.Module):
    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        return torch.ops.aten.native_dropout(x, self.probability, True)[0] if self.probability else x


class Attention(nn.Module):
    """Its core is scaled_dot_product_attention, or products, mask, softmax and dropout."""

    def __init__(self, step):
        super().__init__()
        self.step, size, biased = step, step.head_size, step.family != "llama"
        widths = [heads * size for heads in (step.heads, step.key_value_heads, step.key_value_heads)]
        self.inputs = nn.ModuleList(nn.Linear(step.hidden, width, bias=biased, **META)
                                    for width in ([sum(widths)] if biased else widths))
        self.out = nn.Linear(widths[0], step.hidden, bias=biased, **META)
        self.on_probabilities, self.on_output = Dropout(step.dropout), Dropout(step.dropout)

    def projected(self, x, made):
        """Queries, keys and values, each [s, b, heads, d]."""
        size = self.step.head_size
        if len(self.inputs) == 1:
            return self.inputs[0](x).view(*x.shape[:2], self.step.heads, 3 * size).split(size, dim=-1)
        q, k, v = (project(x).view(*x.shape[:2], -1, size) for project in self.inputs)
        return rotated(q, *made["rotary"]), rotated(k, *made["rotary"]), v

    def separate(self, q, k, v, mask):
        s, b, heads, size = q.shape
        q, k, v = (x.reshape(s, b * heads, size).transpose(0, 1) for x in (q, k, v))
        scores = torch.baddbmm(torch.empty(b * heads, s, s, **META), q, k.transpose(1, 2), beta=0, alpha=size**-0.5)
        if mask is not None:
            scores.masked_fill_(mask, float("-inf"))
        probabilities = F.softmax(scores, dim=-1)
        del scores
        return torch.bmm(self.on_probabilities(probabilities), v).transpose(0, 1).reshape(s, b, heads * size)

    def fused(self, q, k, v):
        q, k, v = (x.permute(1, 2, 0, 3) for x in (q, k, v))
        y = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, self.step.dropout, self.step.causal)[0]
        return y.permute(2, 0, 1, 3).flatten(2)

    def forward(self, x, made):
        q, k, v = self.projected(x, made)
        y = self.fused(q, k, v) if self.step.fused_attention else self.separate(q, k, v, made["mask"])
        del q, k, v
        return self.on_output(self.out(y))


class Mlp(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.gated, biased = step.family == "llama", step.family != "llama"
        if self.gated:
            self.gate = nn.Linear(step.hidden, step.intermediate, bias=biased, **META)
        self.up = nn.Linear(step.hidden, step.intermediate, bias=biased, **META)
        self.down = nn.Linear(step.intermediate, step.hidden, bias=biased, **META)
        self.on_output = Dropout(step.dropout)

    def forward(self, x):
        return self.on_output(self.down(F.silu(self.gate(x)) * self.up(x) if self.gated else F.gelu(self.up(x))))


class Layer(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.attention_norm, self.attention, self.mlp_norm, self.mlp = norm(step), Attention(step), norm(step), Mlp(step)

    def forward(self, x, made):
        x = x + self.attention(self.attention_norm(x), made)
        return x + self.mlp(self.mlp_norm(x))


class Embedding(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.token = nn.Embedding(step.vocabulary, step.hidden, **META)
        self.position = None if step.family == "llama" else nn.Parameter(torch.empty(step.sequence, 1, step.hidden, **META))
        self.on_output = Dropout(step.dropout)

    def forward(self, ids):
        x = self.token(ids)
        return x if self.position is None else self.on_output(x + self.position)


class Head(nn.Module):
    """Logits and the loss of them; and the logits, where they are returned."""

    def __init__(self, step, table):
        super().__init__()
        self.step, self.weight = step, table

    def forward(self, x, labels):
        logits = F.linear(x, self.weight)
        loss = F.cross_entropy((logits.float() if self.step.loss == "float32" else logits).flatten(0, 1), labels.flatten())
        return loss, logits if self.step.returned_logits else None


class Model(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step, self.embedding = step, Embedding(step)
        self.layers = nn.ModuleList(Layer(step) for _ in range(step.layers))
        self.norm = norm(step)
        tied = step.family != "llama"  # GPT and BERT
        self.head = Head(step, self.embedding.token.weight if tied
                         else nn.Parameter(torch.empty(step.vocabulary, step.hidden, **META)))

    def made_once(self):
        """What all layers share: the causal mask of separate scores, cosines and sines of positions."""
        step = self.step
        masked = step.causal and not step.fused_attention
        mask = torch.ones(step.sequence, step.sequence, dtype=torch.bool, device=META["device"]).triu_(1) if masked else None
        turned = step.family == "llama"
        angles = [torch.empty(step.sequence, 1, 1, step.head_size, **META) for _ in range(2 * turned)]
        return {"mask": mask, "rotary": angles}

    def forward(self, ids, labels):
        made = self.made_once()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, made) if self.step.recompute == "none" else checkpoint(
                layer, x, made, use_reentrant=self.step.recompute == "reentrant")
        return self.head(self.norm(x), labels)


PARTS = {Embedding: "embedding", Layer: "layer", nn.LayerNorm: "norm", Rms: "norm", Attention: "attention", Mlp: "mlp",
         Head: "head"}


class Kept:
    """{module: [tensors, bytes]} of what autograd saves while a model runs forward."""

    def __init__(self, model, given):
        self.inside, self.seen, self.parts = ["layer"], {}, {}  # a checkpoint saves for its layer
        self.not_counted = {x.untyped_storage()._cdata for x in [*model.parameters(), *given]}
        self.made_by_model = set()
        self.recomputes = model.step.recompute != "none"
        for module in model.modules():
            if type(module) in PARTS:
                module.register_forward_pre_hook(lambda m, _: self.inside.append(PARTS[type(m)]))
                module.register_forward_hook(lambda *_: self.inside.pop() and None)
        made_once = model.made_once

        def noted():
            made = made_once()
            tensors = [x for x in [made["mask"], *made["rotary"]] if x is not None]
            self.made_by_model = {x.untyped_storage()._cdata for x in tensors}
            for tensor in tensors * self.recomputes:  # which a checkpoint has among its arguments
                self.pack(tensor)
            return made
        model.made_once = noted

    def pack(self, tensor):
        key = tensor.untyped_storage()._cdata
        self.add(tensor, "model" if key in self.made_by_model else self.inside[-1])
        return tensor

    def add(self, tensor, name):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.seen or key in self.not_counted or tensor.numel() < FEWEST:
            return
        self.seen[key] = storage  # so that nothing else gets its number
        part = self.parts.setdefault(name, [0, 0])
        part[0] += 1
        part[1] += storage.nbytes()


def kept(step):
    model = Model(step)
    ids = torch.zeros(step.sequence, step.batch, dtype=torch.int64, device="meta")
    labels = torch.zeros_like(ids)
    found = Kept(model, [ids, labels])
    with torch.autograd.graph.saved_tensors_hooks(found.pack, lambda x: x):
        _, logits = model(ids, labels)
    if logits is not None:
        found.add(logits, "head")
    return {name: {"tensors": tensors, "bytes": count} for name, (tensors, count) in sorted(found.parts.items())}


def peak(step):
    """Bytes: weights, two moments of theirs, and a step's peak beside them."""
    live = LiveBytes()
    with live, contextlib.ExitStack() as stays:
        model = Model(step)
        for parameter in model.parameters():
            live.add(parameter)
        moments = [torch.empty(2, *parameter.shape, **META) for parameter in model.parameters()]
        stays.callback(moments.clear)
        for parameter in model.parameters():
            if step.gradients == "stepped":
                parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
            elif step.gradients == "there":
                parameter.grad = torch.empty_like(parameter)
        ids = torch.zeros(step.sequence, step.batch, dtype=torch.int64, device="meta")
        loss, logits = model(ids, ids)
        loss.backward()
        del logits
    return live.peak
