#!/usr/bin/env python3
"""The training step of a GPT-2 in PyTorch, to hold `frugal measure` against: the same shapes, bf16
products with float32 master weights, gradients clipped by their global norm, Adam.

Reads lines such as "eager 10" or "compiled 10", takes so many steps for each and answers with a line
of JSON. bench/gpu/compare_steps.py lets it and frugal take turns."""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {  # layers, hidden size, heads; sequence length 1024, vocabulary 50257 padded to 50304
    "gpt2-124m": (12, 768, 12),
    "gpt2-1.5b": (48, 1600, 25),
}
SEQUENCE, VOCABULARY = 1024, 50304


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):  # [b, s, h]
        b, s, h = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(b, s, 3, self.heads, -1).unbind(2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                           v.transpose(1, 2), is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, hidden)
        self.positions = nn.Embedding(SEQUENCE, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def loss(self, x, labels):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY).float(), labels.view(-1))

    def compiled(self):
        """A function of the same weights. Layers are compiled one by one, which takes as long for
        48 of them as for one; a whole unrolled model takes minutes."""
        layers = [torch.compile(layer) for layer in self.layers]
        loss = torch.compile(self.loss)
        return lambda ids, labels: self.run(layers, loss, ids, labels)

    def forward(self, ids, labels):
        return self.run(self.layers, self.loss, ids, labels)

    def run(self, layers, loss, ids, labels):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for layer in layers:
            x = layer(x)
        return loss(x, labels)


class Steps:
    """Steps of one model, eager or compiled, with the same weights and optimizer."""

    def __init__(self, name, micro_batch):
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("high")
        self.model = Gpt(*MODELS[name]).cuda()
        self.runs = {"eager": self.model, "compiled": self.model.compiled()}
        self.warm = set()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.95),
                                           weight_decay=0, fused=True)
        shape = (micro_batch, SEQUENCE)
        self.ids = torch.randint(VOCABULARY, shape, device="cuda")
        self.labels = torch.randint(VOCABULARY, shape, device="cuda")

    def step(self, run):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(self.ids, self.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def seconds(self, kind, count):
        """Host seconds of each step: it ends when its loss is on the host, as frugal's does."""
        warm_up = 1 if kind in self.warm else 5
        self.warm.add(kind)
        samples = []
        for i in range(warm_up + count):
            torch.cuda.synchronize()
            start = time.perf_counter()
            self.step(self.runs[kind])
            torch.cuda.synchronize()
            if i >= warm_up:
                samples.append(time.perf_counter() - start)
        return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--micro-batch", type=int, required=True)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("pytorch_step.py: PyTorch sees no GPU")
    steps = Steps(arguments.model, arguments.micro_batch)
    for line in sys.stdin:  # "eager 10" or "compiled 10"
        kind, count = line.split()
        result = {"seconds": steps.seconds(kind, int(count)), "torch": torch.__version__,
                  "gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(),
                  "peak_bytes": torch.cuda.max_memory_allocated()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
