#!/usr/bin/env python3
"""What a GPU measured beside what its virtual machine predicted, number by number.

  check_predictions.py PREDICTED                what was predicted, and what the targets ask
  check_predictions.py PREDICTED MEASURED       both, with the error of each
  check_predictions.py --page PAGE PREDICTED [MEASURED]   writes the targets' table into a page, and with
                                                MEASURED how far numbers agree, what techniques add to a
                                                layer's time, and steps beside PyTorch's; refuses records
                                                of a program whose tree was changed
  check_predictions.py --times PREDICTED MEASURED   times of both, as JSON, for plots/predictions.py

Both are folders that bench/gpu.sh wrote. Bytes and FLOPs have to be equal, everything else within 10 %; a
record that one side has and the other lacks is named. Exit status 1 where a number is not, 2 where a file
cannot be read."""

import argparse
import json
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import clock_table  # noqa: E402  (the path comes first)
import lone_tables  # noqa: E402
import profile_tables  # noqa: E402
import step_tables  # noqa: E402
import technique_tables  # noqa: E402
import torch_products  # noqa: E402

WITHIN = 0.10
EXACT = ("bytes", "FLOPs", "FLOP")
AT_CLOCK = " at the mean clock"
LEFT_OUT = {"gradient_norm", "longer_lengths_refused"}  # no times, and nothing that a machine decides


def fail(message):
    print(f"check_predictions.py: {message}", file=sys.stderr)
    sys.exit(2)


def lines_of(path):
    """Every whole JSON line; one that a kill cut off is the last."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    objects = []
    for i, line in enumerate(lines):
        try:
            objects.append(json.loads(line))
        except json.JSONDecodeError:
            if i + 1 < len(lines):
                fail(f"{path}:{i + 1} is no JSON; was the file edited?")
    return objects


def layout_of(configuration, options):
    """Words of replicas and stages, and of ranks that share a GPU."""
    words = []
    if (replicas := configuration.get("data_parallel_size", 1)) > 1:
        words.append(f"d {replicas}")
    if (stages := configuration.get("pipeline_parallel_size", 1)) > 1:
        words += [f"p {stages}", configuration["schedule"], f"m {configuration['microbatches']}"]
    if configuration.get("overlap_grad_reduce"):
        words.append("sums overlapped")
    if "shared_gpus" in options:
        words.append("on shared GPUs")
    return words


def label_of(record):
    """What was run, whatever it ran on."""
    if record["artifact"] != "measure":
        return f"{record['artifact']} {record['case']}"
    configuration = record["configuration"]
    model = configuration["model"]
    # A name says by * that something of the model was given, which earlier records do not.
    words = [model["name"].removesuffix("*"), f"{model['layers']} layers", f"s {model['sequence_length']}",
             f"b {configuration['microbatch_size']}", configuration.get("attention", "separate"),
             f"recompute {configuration['recompute']}"]
    if configuration["tensor_parallel_size"] > 1:
        words.append(f"t {configuration['tensor_parallel_size']}")
    if modules := configuration.get("recompute_modules"):
        words[-1] += f" {modules}"
    if configuration.get("context_parallel_size", 1) > 1:
        words.append(f"c {configuration['context_parallel_size']}")
    if configuration.get("shard", "none") != "none":
        words.append(f"shard {configuration['shard']}")
    words += layout_of(configuration, record.get("options", {}))
    for key in ("sequence_parallel", "logits"):
        if configuration.get(key):
            words.append(f"{key.replace('_', ' ')}" if configuration[key] is True else f"{configuration[key]} {key}")
    if not model["dropout"]:
        words.append("no dropout")
    return "measure " + ", ".join(words)


def numbers_of_record(record):
    label = label_of(record)
    if record["status"] != "ok":
        return {f"{label}: status": (record["status"], "status")}
    if "shared_gpus" in record.get("options", {}):  # times of ranks that share a GPU say nothing
        record = {**record, "metrics": {}, "utilization": None}
    numbers = {f"{label}: {name}": (statistics.median(metric["samples"]), metric["unit"])
               for name, metric in record["metrics"].items() if name not in LEFT_OUT}
    if record["memory"]:
        numbers[f"{label}: peak memory"] = (record["memory"]["peak_total"], "bytes")
    if record["flops"]:
        numbers[f"{label}: hardware FLOPs"] = (record["flops"]["hardware"]["value"], "FLOPs")
    for name in ("mfu", "hfu"):
        for against, of in utilization(record, name).items():
            if of["value"] is not None:
                numbers[f"{label}: {name.upper()}{against}"] = (of["value"], "1")
    return numbers


def utilization(record, name):
    """{what is added to its name: against which peak}. The clock of a virtual machine never falls."""
    if not record["utilization"]:
        return {}
    of = record["utilization"][name]
    at_clock = of["data_sheet"] if record["source"] == "virtual" else of.get("at_mean_clock", {"value": None})
    return {"": of["data_sheet"], AT_CLOCK: at_clock}


def numbers_of_peak(peak):
    numbers = {f"gemm {g['type']} {g['m']} x {g['n']} x {g['k']}": (g["flops_per_second"], "FLOP/s") for g in peak["gemm"]}
    for each in peak.get("linear", []):
        label = f"{each['product']} {each['type']} {each['m']} x {each['n']} x {each['k']}"
        numbers[label] = (each["flops_per_second"], "FLOP/s")
    numbers["copy"] = (peak["copy"]["bytes_per_second"], "bytes/s")
    return numbers


def is_loaded(record):
    """Whether what stood for collectives took all that one could: the other of two bounds."""
    return record.get("options", {}).get("collective_load") == "all"


def is_of_copy(record):
    """Whether it is half of a number: an operation or the copy that it took turns with."""
    return record["artifact"] == "bench/memory-bound" and record["status"] == "ok"


def numbers_of_copies(records):
    """Bytes per second of memory-bound operations over those of the copy in the same rounds."""
    pairs, numbers = {}, {}
    for record in records:
        options = record["options"]
        what = "/".join(options[key] for key in ("operation", "width", "type") if key in options)
        pairs.setdefault(what, {})[options["by"]] = record
    for what, by in pairs.items():
        if len(by) < 2 or by["frugal"]["rounds"] != by["copy"]["rounds"]:
            continue
        (seconds, work), (copy_seconds, copy_work) = (
            (record["metrics"]["time"]["samples"], record["metrics"]["work"]["median"])
            for record in (by["frugal"], by["copy"]))
        ratio = statistics.median(copy / ours for ours, copy in zip(seconds, copy_seconds))
        numbers[f"memory-bound {what}: of copy"] = (ratio * work / copy_work, "1")
    return numbers


def refuse_changed(folder):
    """What a program measured whose source nobody can check out is not published."""
    for file in (folder / name for name in ("records.jsonl", "steps.jsonl", "profile.jsonl", "peak.json")):
        for entry in whole(file) if file.suffix == ".json" else lines_of(file):
            build = entry.get("environment", {}).get("build", {})
            if build.get("dirty"):
                fail(f"{file}: its program was built of a changed tree, at {build.get('commit', '')[:8]}; commit the changes, "
                     "build again and measure again")


def numbers_of(folder):
    """{what: (value, unit)} of all files of a folder that have numbers."""
    beside_pytorch, records = lines_of(folder / "steps.jsonl"), lines_of(folder / "records.jsonl")
    numbers = step_tables.numbers_of(beside_pytorch) | torch_products.numbers_of(beside_pytorch)
    numbers |= profile_tables.numbers_of(lines_of(folder / "profile.jsonl"))
    predictable = [record for record in records if not is_of_copy(record) and not is_loaded(record)]
    for entries, of in ((predictable, numbers_of_record),
                        (whole(folder / "peak.json"), numbers_of_peak)):
        for entry in entries:
            numbers.update(of(entry))
    numbers.update(numbers_of_copies(filter(is_of_copy, records)))
    if not numbers:
        fail(f"{folder} has no numbers; it needs what bench/gpu.sh writes")
    return numbers


def whole(path):
    try:
        return [json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []
    except json.JSONDecodeError:
        return []  # a kill cut it off


def error(predicted, measured, unit):
    """Of what was measured against what was predicted; None where that is as it should be without one."""
    if unit == "status" or predicted == 0:
        return 0.0 if predicted == measured else float("inf")
    return measured / predicted - 1


def allowed(unit):
    return 0.0 if unit in EXACT or unit == "status" else WITHIN


def text(number, unit):
    if unit == "status":
        return number
    if unit in EXACT:
        return f"{number:.10g} {unit}"
    return f"{number:.4g}" if unit == "1" else f"{number:.4g} {unit}"


def compared(predicted, measured):
    """Rows of the table, and whether all is as predicted."""
    rows, good = [], True
    for what in [*predicted, *(w for w in measured if w not in predicted)]:
        if what not in measured or what not in predicted:
            side, other = (predicted, "measured") if what in predicted else (measured, "predicted")
            rows.append([what, text(*side[what]) if what in predicted else "", "" if what in predicted else
                         text(*side[what]), f"not {other}"])
            good = False
            continue
        (expected, unit), (found, _) = predicted[what], measured[what]
        off = error(expected, found, unit)
        fits = abs(off) <= allowed(unit)
        good = good and fits
        rows.append([what, text(expected, unit), text(found, unit), f"{100 * off:+.1f} %" + ("" if fits else " !")])
    return rows, good


def judged(targets, numbers):
    """For each target the numbers that it is about, worst first, and whether all reach it."""
    for target in targets:
        found = [(value, what) for what, (value, _) in numbers.items() if re.fullmatch(target["number"], what)]
        worst = min(found, default=None)
        yield target, worst, worst is not None and worst[0] >= target["at_least"] and len(found) >= target.get("count", 1)


def target_rows(targets, predicted, measured):
    columns = [list(judged(targets, numbers)) for numbers in (predicted, measured) if numbers is not None]
    rows = []
    for of_target in zip(*columns):
        target = of_target[0][0]
        scale = target.get("scale", 1)
        row = [target["what"], f"≥ {target['at_least'] / scale:g} {target['unit']}".strip()]
        for _, worst, reached in of_target:
            of = "" if worst is None or target.get("count", 1) == 1 else f" ({worst[1].split(':')[0]})"
            row.append("—" if worst is None else
                       f"{worst[0] / scale:.3g} {target['unit']}".strip() + of + ("" if reached else ", **below**"))
        rows.append(row)
    return rows


# What numbers are of: the first that fits, and what it is called. Utilizations are times once more.
FAMILIES = [(f".*: ((MFU|HFU)({AT_CLOCK})?|status)", None),
            (".*: peak memory", "peak memory of a rank, every case"),
            (".*: hardware FLOPs", "FLOPs that are executed, every case"),
            ("step of .*: frugal", "GPT-2 steps, fused attention"),
            ("step of .*", "how many times as fast as PyTorch these are"),
            ("measure .*", "steps of whole models"),
            ("gemm (f32|bf16) .*", "products, {0}"),
            ("(forward|input-gradient|weight-gradient|first-weight-gradient) (f32|bf16) .*",
             "products of linear layers, {0}, {1}"),
            ("product .*: frugal", "the same beside torch.mm"),
            ("product .*", "how many times as fast as torch.mm these are"),
            ("profile of .*: (step|operations together)", "profiled steps: {0}"),
            ("profile of ([^,]*), .*", "operations of a step of {0}"),
            ("bench/collectives .*: work", None),
            ("bench/collectives ([^/]*)/.*", "{0} of a node by size"),
            ("copy", "a conversion of 1 GiB from float32 to float32"),
            ("bench/recompute .*: time", "a layer that recomputes"),
            ("bench/recompute .*: (kept|peak|work)", "its memory and FLOPs (a layer that recomputes)"),
            ("memory-bound .*/(f32|bf16): .*", "memory-bound operations over a copy, {0}"),
            ("(\\S+) .*time", "{0}: forward and backward passes")]


def family_of(what):
    for pattern, name in FAMILIES:
        if found := re.fullmatch(pattern, what):
            return name and name.format(*found.groups())
    fail(f"{what} is of no family; add one to FAMILIES")


def agreement_rows(predicted, measured):
    """Of each family how many numbers there are, how many agree, the median difference and the largest."""
    families = {}
    for what, (value, unit) in predicted.items():
        if family := family_of(what):
            off = error(value, measured[what][0], unit) if what in measured else None
            families.setdefault(family, []).append((what, unit, off))
    for family, numbers in families.items():
        known = [(abs(off), off, what) for what, _, off in numbers if off not in (None, float("inf"))]
        _, worst, what = max(known, default=(0, 0, ""))
        notes = [f"{worst:+.1%}".replace("%", " %") + (f" ({what})" if len(numbers) > 1 else "")] if worst else []
        for other, of in ((None, "not measured"), (float("inf"), "predicted as 0")):
            if count := sum(off == other for _, _, off in numbers):
                notes.append(f"{count} {of}")
        median = f"{100 * statistics.median(off for off, _, _ in known):.1f} %" if known else ""
        yield [family, str(len(numbers)), str(sum(abs(off) <= allowed(unit) for _, unit, off in numbers if off is not None)),
               median, "; ".join(notes)]


def paired_times(predicted, measured):
    """[(what kind of case, predicted seconds, measured seconds)], of what both sides have and takes time."""
    return [(what.split("/")[0].split()[0], value, measured[what][0])
            for what, (value, unit) in predicted.items() if unit == "s" and value > 0 and what in measured]


def agreement(predicted, measured, what):
    return table(["what", "numbers", what, "median difference", "largest"], agreement_rows(predicted, measured))


def measured_tables(predicted, measured, folders):
    """{name on the page: table}"""
    records = [lines_of(folder / "records.jsonl") for folder in folders]
    return {"agreement": agreement(predicted, measured, "as predicted"),
            "effects": table(["of", "layer", "technique", "predicted", "measured", "forward pass, the same work",
                              "by the forward pass as a clock"],
                             technique_tables.effect_rows(*map(technique_tables.layer_times, records))),
            "clocks": table(["part", "looks", "SM clock, MHz", "W", "°C at most", "held back by, of the looks"],
                            clock_table.rows(folders[1], records[1])),
            "recomputed": table(["layer", "recomputed", "kept, MiB", "adds, predicted", "measured",
                                 "full recomputation of some layers, for as much memory"],
                                technique_tables.recomputed_rows(*records)),
            "lone stages": table(lone_tables.COLUMNS, lone_tables.rows(*records)),
            "sharded": table(["divided", "recomputed", "step predicted, s", "measured, s", "", "peak predicted, GiB",
                              "measured, GiB", "reserved, GiB"], technique_tables.sharded_rows(*records)),
            "steps": table(["step", "frugal, ms", "eager, ms", "compiled, ms", "times as fast as eager", "as compiled",
                            "frugal, GiB", "eager, GiB", "compiled, GiB"], step_tables.rows_of(lines_of(folders[1] / "steps.jsonl")))}


def filled(page, name, text, file="the page"):
    """The page with this table where it has the one of this name. One without rows needs no place."""
    if text.count("\n") < 2 and f"<!-- {name}: " not in page:
        return page
    parts = re.split(rf"(<!-- {name}: .* -->\n|<!-- end of {name} -->)", page)
    if len(parts) != 5:
        fail(f"{file} has no place for the {name}")
    return "".join([*parts[:2], text, "\n", *parts[3:]])


def table(header, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predicted", type=pathlib.Path)
    parser.add_argument("measured", type=pathlib.Path, nargs="?")
    parser.add_argument("--page", type=pathlib.Path, help="write the page's tables there, and print nothing")
    parser.add_argument("--before", type=pathlib.Path, help="an earlier folder of the same: how far the page says it agrees")
    parser.add_argument("--times", action="store_true",
                        help="print {device, times: [[kind of case, predicted, measured seconds], ...], recomputed: "
                             "[{layer, modules, ...}, ...]} as JSON")
    parser.add_argument("--targets-only", action="store_true", help="leave the numbers out that no target names")
    arguments = parser.parse_args()
    predicted = numbers_of(arguments.predicted)
    measured = numbers_of(arguments.measured) if arguments.measured else None
    if arguments.times:
        if measured is None:
            fail("--times needs MEASURED, too")
        device = lines_of(arguments.measured / "records.jsonl")[0]["device"].split(",")[0]
        records = [lines_of(folder / "records.jsonl") for folder in (arguments.predicted, arguments.measured)]
        print(json.dumps({"device": device, "times": paired_times(predicted, measured),
                          "recomputed": [of._asdict() for of in technique_tables.recomputed(*records)]}))
        return 0
    targets = json.loads((HERE / "targets.json").read_text(encoding="utf-8"))
    header = ["target", "", "predicted"] + (["measured"] if measured is not None else [])
    of_targets = table(header, target_rows(targets, predicted, measured))
    if arguments.page:
        for folder in filter(None, (arguments.predicted, arguments.measured, arguments.before)):
            refuse_changed(folder)
        if not arguments.page.exists():
            fail(f"there is no page {arguments.page}; make one with places for the tables, as docs/h100.md has them")
        page = filled(arguments.page.read_text(encoding="utf-8"), "targets", of_targets, arguments.page)
        if measured is not None:
            tables = measured_tables(predicted, measured, (arguments.predicted, arguments.measured))
            if arguments.before:
                tables["repeated"] = agreement(numbers_of(arguments.before), measured, "the same again")
            for name, filling in tables.items():
                page = filled(page, name, filling, arguments.page)
        arguments.page.write_text(page, encoding="utf-8")
        return 0
    print(of_targets)
    if arguments.targets_only:
        return 0
    if measured is None:
        print("\n" + table(["number", "predicted"], [[what, text(*number)] for what, number in predicted.items()]))
        return 0
    rows, good = compared(predicted, measured)
    print("\n" + table(["number", "predicted", "measured", "error"], rows))
    as_predicted = sum(not row[3].endswith(("!", "measured", "predicted")) for row in rows)
    print(f"\n{as_predicted} of {len(rows)} numbers as predicted")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
