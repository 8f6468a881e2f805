"""What the products of a training step take at the step's own shapes, each on its own, by frugal and by PyTorch's
library: at their fastest, and as they usually are.

bench/compare_steps.py has both in every round of the cpu's rows: a turn "operations" of frugal's (frugal operations,
docs/trace.md) and a turn "products" of PyTorch's (bench/pytorch_products.py). A product of frugal's includes the bias,
the activation and the sum that it is fused with; PyTorch's has none of them."""

import statistics


def tasks(operations):
    """What PyTorch is asked for: the products among a step's operations."""
    return [{key: each[key] for key in ("operation", "product")} for each in operations if each["product"]]


def key(operation):
    return operation["operation"], tuple(operation["product"])


def attention(ours, rate):
    """Seconds of what multiplies and is no single product, which is fused attention: its FLOPs at `rate`."""
    return sum(each["count"] * each["flops"] / rate for each in ours["operations"] if not each["product"])


def fastest(rounds, rate):
    """Seconds of a step's products, each as fast as either library ever made it in these rounds, which are pairs of
    turns."""
    best = {}
    for turn in (turn for pair in rounds for turn in pair):
        for each in turn.get("operations", turn.get("products")):
            if each["product"]:
                best[key(each)] = min(best.get(key(each), float("inf")), *each["seconds"])
    ours = rounds[0][0]
    return attention(ours, rate) + sum(each["count"] * best[key(each)] for each in ours["operations"]
                                       if each["product"])


def usual(ours, theirs, rate):
    """The same in one round: each by the library whose median is lower."""
    of_theirs = {key(each): statistics.median(each["seconds"]) for each in theirs["products"]}
    return attention(ours, rate) + sum(each["count"] * min(statistics.median(each["seconds"]), of_theirs[key(each)])
                                       for each in ours["operations"] if each["product"])


def share(ours):
    """Of the time of a step's operations, that of those which multiply."""
    def took(operations):
        return sum(each["count"] * statistics.median(each["seconds"]) for each in operations)
    return took(each for each in ours["operations"] if each["flops"] > 0) / took(ours["operations"])
