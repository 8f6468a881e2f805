"""Tables of techniques that are measured on a GPU and predicted for it, for bench/gpu/check_predictions.py."""

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
