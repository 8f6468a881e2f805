#!/usr/bin/env python3
"""The training step of a GPT-2 or a Llama in PyTorch, to hold `frugal measure` against: the same model,
float32 or bf16 products with float32 master weights, gradients clipped by their global norm, fused AdamW. Of
several ways to say the same in PyTorch it has the fastest.

Reads a line of JSON first, then lines such as "eager 10" or "compiled 10": takes so many steps and answers
each with a line of JSON, which has "failed" where it cannot. "reduce-overhead 10" and "max-autotune 10" are
compiled as torch.compile's modes of these names. "eager 0" answers with the loss alone, before any step, and
"tensors 0" with that of the file. "products 2" computes each of the products twice, after once that does not
count. The first line has
  on             cpu or cuda
  threads        of the cpu
  configuration  of a record of `frugal measure`
  weights        "" for float32 below autocast, "bf16" for bf16 with float32 masters, "bf16-alone"
                 for bf16 that AdamW changes itself, in the backward pass
  tensors        what --save-tensors wrote: weights, tokens and labels; drawn where it is missing
  products       those of a step, as frugal operations says
bench/compare_steps.py lets it and frugal take turns."""

import contextlib
import ctypes
import functools
import json
import pathlib
import sys
import time

import pytorch_optimizers
import pytorch_products
import torch
import torch.nn.functional as F
from torch import nn


class Shape:
    """h hidden, v vocabulary, s sequence, b microbatch; of a record's configuration."""

    def __init__(self, configuration):
        model = configuration["model"]
        self.name = model["name"]
        self.b, self.s = configuration["microbatch_size"], model["sequence_length"]
        self.h, self.v, self.layers = (model[key] for key in ("hidden_size", "vocabulary_size", "layers"))
        self.heads = model["attention_heads"]
        self.groups = model.get("key_value_heads", self.heads)
        self.d = model.get("head_size", self.h // self.heads)
        self.intermediate = model.get("intermediate_size", 4 * self.h)
        self.dropout = model["dropout"]
        self.fused = configuration["attention"] == "fused"
        self.llama = model.get("norm") == "rms-norm"
        self.epsilon = model.get("norm_epsilon", 1e-5)
        self.base = model["rotary"]["base"] if self.llama else None
        self.tied = model.get("tied_embeddings", True)
        kinds = ["rms-norm", "swiglu", "none", "rotary"] if self.llama else [None] * 4
        if [model.get(key) for key in ("norm", "mlp", "bias", "positions")] != kinds:
            sys.exit(f"pytorch_step.py: {self.name} is neither a GPT-2 nor a Llama")

    def norm(self):
        return (nn.RMSNorm if self.llama else nn.LayerNorm)(self.h, eps=self.epsilon)

    def linear(self, inputs, outputs):
        return nn.Linear(inputs, outputs, bias=not self.llama)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape, c = shape, shape
        self.attention_norm, self.mlp_norm = c.norm(), c.norm()
        self.qkv = c.linear(c.h, (c.heads + 2 * c.groups) * c.d)  # queries, keys, values
        self.projection = c.linear(c.heads * c.d, c.h)
        self.up = c.linear(c.h, c.intermediate * (2 if c.llama else 1))  # of a Llama the gate first
        self.down = c.linear(c.intermediate, c.h)
        self.hidden_dropout = nn.Dropout(c.dropout)

    def forward(self, x, turns, mask):  # [b, s, h]
        x = x + self.hidden_dropout(self.attention(self.attention_norm(x), turns, mask))
        y = self.up(self.mlp_norm(x))
        if self.shape.llama:
            gate, y = y.chunk(2, -1)
            y = F.silu(gate) * y
        else:
            y = F.gelu(y, approximate="tanh")
        return x + self.hidden_dropout(self.down(y))

    def attention(self, x, turns, mask):
        c, (b, s, _) = self.shape, x.shape
        sizes = [c.heads * c.d, c.groups * c.d, c.groups * c.d]
        q, k, v = (part.view(b, s, -1, c.d).transpose(1, 2) for part in self.qkv(x).split(sizes, -1))
        if c.llama:
            q, k = rotated(q, *turns), rotated(k, *turns)
        if c.fused:
            if c.groups != c.heads:  # faster on a processor than enable_gqa
                k, v = (x.unsqueeze(2).expand(-1, -1, c.heads // c.groups, -1, -1).flatten(1, 2) for x in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=c.dropout)
        else:
            y = self.separate(q, k, v, mask)
        return self.projection(y.transpose(1, 2).reshape(b, s, -1))

    def separate(self, q, k, v, mask):
        """Heads that share keys are rows of one product. The mask is added by the product where that
        saves a pass, and by the softmax where that is compiled."""
        c, (b, heads, s, d) = self.shape, q.shape
        q = q.reshape(b * c.groups, heads // c.groups * s, d)
        k, v = k.reshape(-1, s, d), v.reshape(-1, s, d)
        if torch.compiler.is_compiling():
            scores = torch.bmm(q, k.transpose(1, 2)) * d**-0.5 + mask
        else:
            scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=d**-0.5)
        p = F.dropout(scores.softmax(-1), c.dropout)
        return torch.bmm(p.to(v.dtype), v).view(b, heads, s, d)


def rotated(x, cosines, sines):
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat((-second, first), -1) * sines


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape, c = shape, shape
        self.tokens = nn.Embedding(c.v, c.h)
        self.positions = None if c.llama else nn.Embedding(c.s, c.h)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = c.norm()
        self.head = None if c.tied else nn.Linear(c.h, c.v, bias=False)
        self.dropout = nn.Dropout(c.dropout)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def loss(self, x, labels):
        logits = F.linear(self.norm(x), (self.tokens if self.head is None else self.head).weight)
        return F.cross_entropy(logits.view(-1, self.shape.v).float(), labels.view(-1))

    def compiled(self, **mode):
        """A function of the same weights. Of many layers each is compiled by itself, which takes as long
        for 48 of them as for one; a whole unrolled model takes minutes."""
        if self.shape.layers <= 4:
            return torch.compile(self, **mode)
        layers = [torch.compile(layer, **mode) for layer in self.layers]
        loss = torch.compile(self.loss, **mode)
        return lambda *inputs: self.run(layers, loss, *inputs)

    def forward(self, *inputs):
        return self.run(self.layers, self.loss, *inputs)

    def run(self, layers, loss, ids, labels, turns, mask):
        x = self.tokens(ids)
        x = self.dropout(x if self.positions is None else x + self.positions.weight)
        for layer in layers:
            x = layer(x, turns, mask)
        return loss(x, labels)


def constants(c, dtype):
    """Cosines and sines [s, d] of rotary positions, and what hides later keys from every row of a group."""
    pairs = c.base ** (-torch.arange(0, c.d, 2, dtype=torch.float64) / c.d) if c.llama else torch.zeros(1)
    angles = torch.outer(torch.arange(c.s, dtype=torch.float64), pairs).repeat(1, 2)
    turns = angles.cos().to(dtype), angles.sin().to(dtype)
    hidden = torch.full((c.s, c.s), -torch.inf, dtype=dtype).triu(1)
    return turns, hidden.repeat(c.heads // c.groups, 1)


def read_tensors(path):
    """A safetensors file of float32 and int32."""
    data = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, about in json.loads(data[8:begin]).items():
        if name != "__metadata__" and not name.startswith("gradient/") and name != "logits":
            first, end = about["data_offsets"]
            kind = {"F32": torch.float32, "I32": torch.int32}[about["dtype"]]
            part = bytearray(data[begin + first:begin + end])
            tensors[name.removeprefix("weight/")] = torch.frombuffer(part, dtype=kind).view(about["shape"])
    return tensors


def ours(tensors, c):
    """Weights by the names of this file. The engine's rows of qkv are (head, {q, k, v}, d)."""
    def side_by_side(x):
        return x.unflatten(0, (c.heads, 3, c.d)).transpose(0, 1).flatten(0, 2)

    state = {}
    if not c.llama:
        state = {"tokens.weight": tensors["embedding.token"], "positions.weight": tensors["embedding.position"],
                 "norm.weight": tensors["final_norm.gamma"], "norm.bias": tensors["final_norm.beta"]}
        names = {"attention_norm": "attention_norm", "mlp_norm": "mlp_norm", "qkv": "attention.qkv",
                 "projection": "attention.projection", "up": "mlp.up", "down": "mlp.down"}
        for i in range(c.layers):
            for name, theirs in names.items():
                kinds = ("gamma", "beta") if "norm" in name else ("weight", "bias")
                for kind, of_theirs in zip(("weight", "bias"), kinds):
                    x = tensors[f"layers.{i}.{theirs}.{of_theirs}"]
                    state[f"layers.{i}.{name}.{kind}"] = side_by_side(x) if name == "qkv" else x
        return state
    state = {"tokens.weight": tensors["model.embed_tokens.weight"], "norm.weight": tensors["model.norm.weight"]}
    if not c.tied:
        state["head.weight"] = tensors["lm_head.weight"]
    names = {"attention_norm": ["input_layernorm"], "mlp_norm": ["post_attention_layernorm"],
             "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
             "projection": ["self_attn.o_proj"], "up": ["mlp.gate_proj", "mlp.up_proj"], "down": ["mlp.down_proj"]}
    for i in range(c.layers):
        for name, parts in names.items():
            state[f"layers.{i}.{name}.weight"] = torch.cat(
                [tensors[f"model.layers.{i}.{part}.weight"] for part in parts])
    return state


class Steps:
    """Steps of one model in several ways, with the same weights and optimizer."""

    def __init__(self, task):
        c, self.on = Shape(task["configuration"]), task["on"]
        torch.manual_seed(1)
        if self.on == "cpu":
            torch.set_num_threads(task["threads"])
        else:
            torch.set_float32_matmul_precision("high")
        weights = task.get("weights", "")
        self.bf16 = task["configuration"]["type"] == "bf16"
        self.autocast = self.bf16 and not weights
        tensors = read_tensors(task["tensors"]) if task.get("tensors") else None
        self.model = self.made(c, tensors, torch.bfloat16 if weights else torch.float32)
        self.inputs = self.inputs_of(c, tensors)
        self.warm = set()
        self.warm_up = 1 if self.on == "cpu" else 4  # steps; the first compiles
        self.optimizer = pytorch_optimizers.OF_WEIGHTS[weights](
            self.model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0, fused=True)

    def made(self, c, tensors, dtype):
        """The model on its device."""
        model = Model(c)
        if tensors:
            model.load_state_dict(ours(tensors, c))
            self.loss_of_tensors = tensors["loss"].item()
        return model.to(self.on, dtype)

    @functools.cached_property
    def runs(self):
        """Functions of the inputs that give the loss; they compile when they are called."""
        return {"eager": self.model, "compiled": self.model.compiled(),
                **{mode: self.model.compiled(mode=mode) for mode in ("reduce-overhead", "max-autotune")}}

    def inputs_of(self, c, tensors):
        if tensors:
            ids, labels = (tensors[name].T.contiguous().long() for name in ("tokens", "labels"))
        else:
            ids, labels = (torch.randint(c.v, (c.b, c.s)) for _ in range(2))
        turns, mask = constants(c, torch.bfloat16 if self.bf16 else torch.float32)
        return (ids.to(self.on), labels.to(self.on), tuple(x.to(self.on) for x in turns), mask.to(self.on))

    def narrow(self):
        return torch.autocast(self.on, dtype=torch.bfloat16) if self.autocast else contextlib.nullcontext()

    def loss(self, kind):
        if kind == "tensors":
            return self.loss_of_tensors
        with self.narrow():
            return self.runs[kind](*self.inputs).item()

    def step(self, kind):
        self.optimizer.zero_grad(set_to_none=True)
        torch.compiler.cudagraph_mark_step_begin()
        with self.narrow():
            loss = self.runs[kind](*self.inputs)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def synchronize(self):
        if self.on == "cuda":
            torch.cuda.synchronize()

    def take(self, kind, count):
        """Host seconds of each step, which ends when its loss is on the host, as frugal's does; and the
        most memory that the step before them held."""
        for _ in range(0 if kind in self.warm else self.warm_up):
            self.step(kind)
        self.warm.add(kind)
        self.optimizer.zero_grad(set_to_none=True)
        at_rest = self.begin_peak()
        self.step(kind)
        result = {"seconds": [], "peak_bytes": self.peak(at_rest)}
        if self.on == "cuda":
            result["reserved_bytes"] = torch.cuda.max_memory_reserved()
        for _ in range(count):
            self.synchronize()
            start = time.perf_counter()
            self.step(kind)
            self.synchronize()
            result["seconds"].append(time.perf_counter() - start)
        return result

    def held(self):
        """Bytes of weights, optimizer state and inputs: what lives between steps."""
        states = [x for state in self.optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
        held = [*self.model.parameters(), *states, *self.optimizer.held()]
        return sum(x.numel() * x.element_size() for x in held)

    def begin_peak(self):
        """Resident bytes of the process, from which its peak begins anew."""
        self.synchronize()
        if self.on == "cuda":
            torch.cuda.reset_peak_memory_stats()
            return 0
        ctypes.CDLL(None).malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return resident("VmRSS")

    def peak(self, at_rest):
        """On the cpu what is held between steps, and how much the process grew beyond its size then: not
        the library itself, nor what it keeps."""
        if self.on == "cuda":
            return torch.cuda.max_memory_allocated()
        return self.held() + resident("VmHWM") - at_rest


def resident(key):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def versions(on):
    if on == "cuda":
        return {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(),
                "cudnn": torch.backends.cudnn.version()}
    build = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    return {"torch": torch.__version__, "threads": torch.get_num_threads(),
            "libraries": [line for line in build if "MKL-DNN" in line or "Math Kernel" in line],
            "capability": torch.backends.cpu.get_cpu_capability()}


def answer(steps, kind, count, products):
    """What a line asks for; a side that fails leaves the others as they were."""
    if kind == "products":
        return {"products": [pytorch_products.timed(each, count) for each in products]}
    if not count:
        return {"loss": steps.loss(kind)}
    try:
        return steps.take(kind, count)
    except Exception as error:  # whatever a compiler may throw
        steps.optimizer.zero_grad(set_to_none=True)
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}


def serve(kind_of_steps, **more_versions):
    """Answers the lines of stdin, by steps of this kind."""
    task = json.loads(sys.stdin.readline())
    if task["on"] == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch_step.py: PyTorch sees no GPU")
    steps = kind_of_steps(task)
    for line in sys.stdin:  # "eager 10"
        kind, count = line.split()
        said = answer(steps, kind, int(count), task["products"])
        print(json.dumps(said | versions(task["on"]) | more_versions), flush=True)


if __name__ == "__main__":
    serve(Steps)
