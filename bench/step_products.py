"""What the products of a training step take at the step's own shapes, each on its own: by frugal's library and by
PyTorch's. No step that is made of these products takes less than the faster of both for each of them.

bench/compare_steps.py has it in every round of the cpu's rows: a turn "operations" of frugal's (frugal operations,
docs/trace.md) and a turn "products" of PyTorch's (bench/pytorch_products.py)."""

import statistics


def tasks(operations):
    """What PyTorch is asked for: the products among a step's operations."""
    return [{key: each[key] for key in ("operation", "product")} for each in operations if each["product"]]


def key(operation):
    return operation["operation"], tuple(operation["product"])


def least(ours, theirs, rate):
    """Seconds of a round's turns. What multiplies and is no single product, which is fused attention, has its FLOPs at
    `rate`, the best that any product reached."""
    of_theirs = {key(each): statistics.median(each["seconds"]) for each in theirs["products"]}
    seconds = 0
    for each in ours["operations"]:
        if each["product"]:
            seconds += each["count"] * min(statistics.median(each["seconds"]), of_theirs[key(each)])
        elif each["flops"] > 0:
            seconds += each["count"] * each["flops"] / rate
    return seconds


def share(ours):
    """Of the time of a step's operations, that of those which multiply."""
    def took(operations):
        return sum(each["count"] * statistics.median(each["seconds"]) for each in operations)
    return took(each for each in ours["operations"] if each["flops"] > 0) / took(ours["operations"])
