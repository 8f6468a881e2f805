"""Products of a step of frugal's by PyTorch, each on its own, on random operands."""

import time

import torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def operands(task):
    """a [batch, m, k], b [batch, k, n] and c; a and b stored as the operation says, [rows, cols] where there is one."""
    words, (batch, m, n, k) = task["operation"].split(), task["product"]
    kind = next(TYPES[word] for word in words if word in TYPES)

    def drawn(rows, cols, transposed):
        shape = (cols, rows) if transposed else (rows, cols)
        x = torch.randn((batch, *shape) if batch > 1 else shape, dtype=kind)
        return x.transpose(-1, -2) if transposed else x
    a, b = drawn(m, k, "transpose_a" in words), drawn(k, n, "transpose_b" in words)
    return a, b, torch.empty(*a.shape[:-1], n, dtype=kind)


def timed(task, count):
    """The task with the seconds of so many calls, after one that is not counted."""
    a, b, c = operands(task)
    taken = []
    for _ in range(count + 1):
        start = time.perf_counter()
        torch.matmul(a, b, out=c)
        taken.append(time.perf_counter() - start)
    return task | {"seconds": taken[1:]}
