"""Tables of techniques that are measured on a GPU and predicted for it, for bench/gpu/check_predictions.py."""

import re
import statistics
import typing

import step_results

MIB, GIB = 2**20, 2**30
LAYER = "bench/recompute"


def added(times, reference):
    """How much longer than the reference something takes in the same rounds, and a 95 % interval where there is one."""
    over = step_results.ratio(*zip(*(([ours / theirs], [1]) for ours, theirs in zip(times, reference))))
    return over["value"] - 1, [end - 1 for end in over["interval"]]


def percent(value, interval=(0, 0)):
    low, high = interval
    return f"{100 * value:+.1f} %" + (f" [{100 * low:+.1f}, {100 * high:+.1f}]" if high > low else "")


# A layer with a technique or as the baseline, as one rank of eight or alone.
LAYER_CASE = re.compile(r"([^/]+)/([^/]+)(/t1|)")
PAPERS_LAYERS = ("korthikanti2022/table4", "korthikanti2022/figure8")


# Techniques that differ from the baseline in nothing but what the backward pass computes again: the forward pass is
# the same work, a control.
CONTROLLED = ("full", "selective")


def layer_times(records):
    """{(artifact, case): ([forward seconds of a round, ...], [those of both passes, ...])}, of layers that have both."""
    times = {}
    for record in records:
        if record["artifact"] in PAPERS_LAYERS and record["status"] == "ok":
            forward, backward = (record["metrics"][which]["samples"] for which in ("forward_time", "backward_time"))
            times[record["artifact"], record["case"]] = forward, [sum(passes) for passes in zip(forward, backward)]
    return times


def effect(ours, baseline):
    """How much longer than the baseline a layer takes in the same rounds, and a 95 % interval where there are some."""
    return added(ours[1], baseline[1])


def control(ours, baseline):
    """The same of the forward pass alone."""
    return added(ours[0], baseline[0])


def by_forward(ours, baseline):
    """The effect, were the device as much slower in both passes as it was in the forward pass."""
    return added(*([both / forward for forward, both in zip(*side)] for side in (ours, baseline)))


def moved_more(whole, part):
    """Whether a control changed by more than the whole, and surely so: then the change is no effect of the technique."""
    (value, _), (moved, (low, high)) = whole, part
    return abs(moved) > abs(value) and (low > 0 or high < 0)


def effect_rows(predicted, measured):
    """What each technique of korthikanti2022 adds to a layer's time, of two layer_times(). Where the forward pass is the
    same work also what that changed by, and what is left of the effect by it."""
    for artifact, case in predicted:
        model, technique, alone = LAYER_CASE.fullmatch(case).groups()
        if technique == "baseline" or (artifact, case) not in measured:
            continue
        expected, found = ((side[artifact, case], side[artifact, f"{model}/baseline{alone}"])
                           for side in (predicted, measured))
        controlled = technique in CONTROLLED
        yield [artifact.split("/")[1], f"{model}, alone" if alone else f"{model}, one rank of 8",
               technique.replace("+", " + "), percent(*effect(*expected)),
               "refused" if controlled and moved_more(effect(*found), control(*found)) else
               percent(*effect(*found)),
               *(percent(*of(*found)) if controlled else "" for of in (control, by_forward))]


def layers(records):
    """{(layer, what it recomputes): record}"""
    return {tuple(record["case"].split("/")): record for record in records
            if record["artifact"] == LAYER and record["status"] == "ok"}


def median(record, metric):
    return statistics.median(record["metrics"][metric]["samples"])


def samples(record):
    return record["metrics"]["time"]["samples"]


class Recomputed(typing.NamedTuple):
    """A layer that recomputes modules, beside one that keeps everything."""
    layer: str
    modules: str
    kept: float  # bytes, from the forward to the backward pass
    predicted: float  # part of its time that it adds
    measured: float
    interval: list
    whole: float  # measured of full recomputation of some layers, so many that as much is kept


def recomputed(predicted, measured):
    sides = [layers(predicted), layers(measured)]
    for layer, modules in sides[0]:
        if (layer, modules) not in sides[1]:
            continue
        here, none, full = ([side[layer, what] for side in sides] for what in (modules, "none", "full"))
        kept, most, least = (median(side, "kept") for side in (here[1], none[1], full[1]))
        adds = [added(samples(ours), samples(theirs)) for ours, theirs in zip(here, none)]
        whole, _ = added(samples(full[1]), samples(none[1]))
        yield Recomputed(layer, modules, kept, adds[0][0], *adds[1], (most - kept) / (most - least) * whole)


def recomputed_rows(predicted, measured):
    for of in recomputed(predicted, measured):
        if of.modules != "none":
            yield [of.layer, of.modules.replace("+", " + "), f"{of.kept / MIB:.0f}", percent(of.predicted),
                   percent(of.measured, of.interval), "" if of.modules == "full" else percent(of.whole)]


def sharded(records):
    """{(what is divided, what is recomputed): record} of steps of whole models."""
    found = {}
    for record in records:
        configuration = record["configuration"] or {}
        if record["artifact"] == "measure" and configuration.get("shard", "none") != "none":
            recompute = configuration.get("recompute_modules") or configuration["recompute"]
            found[configuration["shard"], recompute] = record
    return found


def sharded_rows(predicted, measured):
    """Of a step: its time and memory, predicted and measured."""
    sides = sharded(predicted), sharded(measured)
    for what, here in sides[0].items():
        if there := sides[1].get(what):
            seconds = [median(side, "step_time") for side in (here, there)]
            yield [what[0], what[1].replace("+", " + "), *(f"{second:.3f}" for second in seconds),
                   f"{100 * (seconds[1] / seconds[0] - 1):+.1f} %",
                   *(f"{side['memory']['peak_total'] / GIB:.2f}" for side in (here, there)),
                   f"{there['memory']['reserved'] / GIB:.2f}"]
