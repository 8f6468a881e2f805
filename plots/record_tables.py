"""Tables of documents that are made of records, of a machine's file and of `frugal calibrate` (paper_tables.py)."""

import json
import pathlib
import random
import statistics

import memory_bound_rounds

KINDS = ("machine", "published", "published-errors", "overheads", "parts", "modules", "predicted", "predictions", "losses",
         "convergence", "bubbles", "products", "step-work", "long-sequences", "cpu-device")


def table(columns, rows, texts=1):
    """Columns behind the first `texts` are numbers."""
    def line(cells):
        return "| " + " | ".join(cells) + " |\n"
    return line(columns) + line(["---" if i < texts else "---:" for i in range(len(columns))]) + "".join(map(line, rows))


def records(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def median(record, metric):
    return record["metrics"][metric]["median"]


def ratio(record, other, metric):
    """The median of the ratios within rounds, in each of which both were timed."""
    samples = [r["metrics"][metric]["samples"] for r in (record, other)]
    return statistics.median(a / b for a, b in zip(*samples, strict=True))


def grid(reproduction, name, columns):
    """An artifact's rows and these columns of it, as frugal runs it; the paper's numbers in brackets. A column may begin with
    "formula/": then it is what formulas give, and not what was executed."""
    wanted = [(["virtual", "formula"][column.startswith("formula/")], column.removeprefix("formula/")) for column in columns]
    found = {}
    for cell in reproduction["cells"]:
        key = (cell["source"], cell["column"])
        if cell["artifact"] == name and cell["scale"] == "1" and not cell["program"] and key in wanted:
            number = f"{cell['value']:.4g}" + (f" ({cell['paper']:g})" if cell["paper"] is not None else "")
            found.setdefault(cell["row"], {})[key] = f"{number} {cell['unit']}".removesuffix(" 1")
    titles = [("by formula: " if source == "formula" else "") + column for source, column in wanted]
    rows = [[row, *(cells.get(key, "") for key in wanted)] for row, cells in found.items() if set(cells) == set(wanted)]
    return table(["", *titles], rows)


def machine(path):
    """A machine's numbers with their sources, and what else was published of them."""
    file = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    fit = file.get("fit", {"parameters": []})["parameters"]
    rows = []
    for group in ("device", "network"):
        for key, entry in file[group].items():
            if isinstance(entry["value"], list):
                number = ", ".join("×".join(map(str, pair)) for pair in entry["value"])
            else:
                number = f"{entry['value']:.4g}" + ("" if entry["unit"] == "1" else f" {entry['unit']}")
            bold = "**" if f"{group}.{key}" in fit else ""
            rows.append([f"{bold}`{key}`{bold}", f"{bold}{number}{bold}", entry["source"]])
            rows += [["", f"or {other['value']:.4g}", other["source"]] for other in entry.get("others", [])]
    return table(["key", "value", "source"], rows, 3)


def published(path):
    """What other published values of a machine's numbers do to what is held out."""
    rows = []
    for one in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["published"]:
        first = one["held_out"][0]
        errors, points = first["errors"]["percent"], first["errors"]["points"]
        several = ", ".join(f"`{key.split('.')[1]}` {value:.4g}" for key, value in one["values"].items())
        what = one["machine"] if not one["values"] else several if one["source"] else f"{one['machine']}: {several}"
        rows.append([what, f"{one['rms_percent']:.2f}", f"{first['longer_percent']:+.2f}", f"{errors['mean']:.2f}",
                     f"{errors['worst']:.2f}", f"{points['worst']:.1f}"])
    return table(["with", "table 4 fitted again, rms, %", "table 5 is longer by, %", "mean magnitude, %", "worst, %",
                  "worst percentage, points"], rows)


def published_errors(path):
    """Mean errors of everything held out with other published values of a machine's numbers, and what is fitted then."""
    found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["published"]
    artifacts = [held["artifact"].split("/")[1] for held in found[0]["held_out"]]
    rows = []
    for one in found:
        several = ", ".join(f"`{key.split('.')[1]}` {value:.4g}" for key, value in one["values"].items())
        what = one["machine"] if not one["values"] else several if one["source"] else f"{one['machine']}: {several}"
        means = [f"{held['errors']['percent']['mean']:.1f}" for held in one["held_out"]]
        rows.append([what, ", ".join(f"{value:.3g}" for value in one["fitted"].values()), *means])
    return table(["with", "fitted again", *(f"{name}, %" for name in artifacts)], rows)


def overheads(path):
    """Table 4's overheads as a processor measured them."""
    cells = [c for c in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["cells"]
             if c["artifact"] == "korthikanti2022/table4" and c["column"] == "overhead" and c["source"] == "measured"]
    return table(["row", "paper", "measured", "95 % interval"],
                 [[c["row"], "" if c["paper"] is None else f"{c['paper']:+.0f} %", f"{c['value']:+.1f} %",
                   f"{c['interval'][0]:+.1f} … {c['interval'][1]:+.1f}"] for c in cells])


def parts(folder):
    """Steps with mini-sequences on a processor: memory, times and products, relative to M = 1."""
    memory = {r["case"]: r for r in records(pathlib.Path(folder) / "bench-mini-sequence-memory.jsonl")}
    times = {r["case"]: r for r in records(pathlib.Path(folder) / "bench-mini-sequence.jsonl")}
    rows, before = [], None
    for case, record in memory.items():
        size, recompute, m = case.split("/")
        whole = memory[f"{size}/{recompute}/1"], times[f"{size}/{recompute}/1"]

        def relative(metric, record=record, whole=whole[0]):
            return f"{median(record, metric) / 2**20:.1f} ({median(record, metric) / median(whole, metric):.3f})"
        hidden, tokens = size.split("-")
        title = f"d {hidden[1:]}, s {tokens[1:]}" + (", recomputation" if recompute == "full" else "")
        rows.append(["" if title == before else title, m, f"{median(record, 'part_tokens_over_hidden_size'):g}",
                     relative("ledger_peak"), relative("resident_growth_within_peak"),
                     *(f"{ratio(times[case], whole[1], metric):.3f}" for metric in ("time", "work"))])
        before = title
    return table(["", "M", "C/d", "ledger", "system", "time", "products"], rows)


def modules(path):
    """Times of a head and an MLP in parts on a processor, relative to the whole: medians of ratios within rounds."""
    samples = {}
    for record in records(path):
        if record["artifact"] not in ("mst2024/table13", "mst2024/table15"):
            continue
        way, tokens = record["case"].split("/")
        times = [record["metrics"][f"{passes}_time"]["samples"] for passes in ("forward", "backward")]
        samples[record["artifact"], way, tokens] = [sum(both) for both in zip(*times, strict=True)]
    ways = ["M=2", "M=4", "M=8", "M=16", "M=32"]
    rows = []
    for artifact, module in (("mst2024/table13", "output layer"), ("mst2024/table15", "MLP")):
        for tokens in ("1024", "8192"):
            whole = samples[artifact, "standard", tokens]
            rows.append([str(int(tokens) // 8), module, *(
                f"{statistics.median(a / b for a, b in zip(samples[artifact, way, tokens], whole, strict=True)):.3f}"
                if (artifact, way, tokens) in samples else "" for way in ways)])
    return table(["tokens (at 1/8)", "module", *ways], rows, 2)


def prediction_runs(path):
    """The runs of `frugal bench prediction`: each begins with the operations."""
    runs = []
    for record in records(path):
        if record["case"].startswith("operations/"):
            runs.append([])
        else:
            runs[-1].append(record)
    return runs


def predicted(path):
    """Layers and steps of the first run, measured and predicted."""
    rows, errors = [], []
    for record in prediction_runs(path)[0]:
        time = record["metrics"]["time"]
        both = [100 * median(record, metric) for metric in ("virtual_time_error", "virtual_time_by_peaks_error")]
        errors.append(abs(both[0]))
        rows.append([*record["case"].split("/"), f"{1e3 * time['median']:.2f} [{1e3 * time['interval']['low']:.2f}, "
                     f"{1e3 * time['interval']['high']:.2f}]", f"{1e3 * median(record, 'virtual_time'):.2f}",
                     *(f"{error:+.1f}" for error in both)])
    rows.append(["mean, worst", "", "", "", f"{statistics.mean(errors):.1f}, {max(errors):.1f}", ""])
    return table(["of", "model", "measured, ms", "predicted by the virtual machine, ms", "error, %", "error by peaks alone, %"],
                 rows, 2)


def predictions(path):
    """How those runs differ."""
    rows = []
    for i, run in enumerate(prediction_runs(path)):
        spreads = [(max(t["samples"]) - min(t["samples"])) / t["median"] for t in (r["metrics"]["time"] for r in run)]
        errors = [abs(100 * median(r, "virtual_time_error")) for r in run]
        rows.append([f"{i + 1}" + ("" if i else ", in the table"), f"{statistics.median(spreads):.2f} ({max(spreads):.2f})",
                     f"{statistics.mean(errors):.1f}", f"{max(errors):.1f}",
                     f"{sum(e > 10 for e in errors)} of {len(errors)}"])
    return table(["run", "range of a case's rounds / its median: median (largest)", "mean error, %", "worst, %", "beyond 10 %"], rows)


def losses(path):
    """Training on long sequences with and without mini-sequences (bench/long_training.sh)."""
    runs = {}
    for record in records(path):
        if record["status"] == "ok" and record["held_out"]:
            c = record["configuration"]
            way = ("as it is" if c.get("mlp_chunks", 1) == 1 else "mini-sequences") \
                + (", Ulysses on two ranks" if c.get("context_parallel_size", 1) == 2 else "") \
                + (", another seed" if c["seed"] != 1 else "")
            runs[way] = record
    whole = runs["as it is"]["losses"]
    rows = []
    for way, record in runs.items():
        apart = max(abs(a - b) for a, b in zip(record["losses"], whole, strict=True))
        rows.append([way, f"{record['memory']['peak_total'] / 2**20:.1f} MiB", f"{record['losses'][-1]:.6f}",
                     f"{record['held_out'][-1]['loss']:.6f}", "" if way == "as it is" else f"{apart:.2g} nats"])
    return table(["", "peak of a rank", "loss of step 200", "held-out loss", "greatest distance of a step's loss"], rows)


def with_interval(metric):
    interval = metric["interval"]
    return f"{metric['median']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def ratio_with_interval(record, other, metric, times=1):
    """The median of the ratios within rounds, with its 95 % interval by 2000 resamples; times a number."""
    samples = [r["metrics"][metric]["samples"] for r in (record, other)]
    ratios = [times * a / b for a, b in zip(*samples, strict=True)]
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.2f} [{medians[49]:.2f}, {medians[1950]:.2f}]"


def step_work(path):
    """What training steps move (bench/step_work.py); of two layers and one, what the second adds."""
    found = {}
    for record in records(path):
        c, work = record["configuration"], record["work"]

        def moved(prefix, operations=work["operations"]):
            return sum(all["bytes"] for name, all in operations.items() if name.startswith(prefix))
        numbers = [sum(all["count"] for all in work["operations"].values()), work["bytes"], work["least"]["total"],
                   moved("gemm"), moved("cross-entropy"), moved("fill"), median(record, "step_time")]
        model = c["model"]["name"]
        way = "saving" if c.get("narrow_logits") else "as it is"
        before = found.get((model, way))
        found[model, way] = numbers if before is None else [two - one for two, one in zip(numbers, before, strict=True)]
    rows = []
    for (model, way), (count, *moves, seconds) in found.items():
        title = f"{model}, a layer" if model.startswith("llama") else model
        rows.append([title, way, f"{count:.0f}", *(f"{each / 1e9:.2f}" for each in moves), f"{1e3 * seconds:.2f}"])
    return table(["step", "", "operations", "GB", "least GB", "GB of products", "of cross-entropy", "of fills",
                  "virtual ms"], rows, 2)


def long_sequences(path):
    """Ways of dividing a long sequence among ranks (bench/long_sequences.py): their commands, and a column each."""
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]

    def peak(*kinds):
        return lambda case: f"{sum(case['peak_bytes_of'][kind] for kind in kinds) / 2**30:.2f}"

    def busy(wanted):
        return lambda case: f"{1e3 * sum(s for name, s in case['communication_seconds'].items() if wanted(name)):.0f}"
    rows = {"seconds of a step": lambda case: f"{case['step_seconds']:.3f}",
            "peak memory of a rank, GiB": lambda case: f"{case['peak_bytes'] / 2**30:.2f}",
            "of which weights, gradients and optimizer state": peak("parameter", "gradient", "optimizer"),
            "peak of activations, GiB": peak("activation"),
            "peak of communication buffers, GiB": peak("communication"),
            "all-reduces, ms": busy(lambda name: name == "all-reduce"),
            "other communication, ms": busy(lambda name: name != "all-reduce")}
    commands = "".join(f"{case['command']}\n" for case in cases)
    return f"```\n{commands}```\n\n" + table(["", *(case["case"] for case in cases)],
                                          [[name, *map(cell, cases)] for name, cell in rows.items()])


def bubbles(path):
    """Idle time over busy time of pipelines of two stages on two cores, by schedule and microbatches of a batch."""
    found = {r["case"]: r for r in records(path)}
    sizes = sorted({int(case.split("/")[1]) for case in found if case.startswith("gpipe/")})

    def row(title, of):
        return [title, *(of(m) for m in sizes)]
    rows = [row("(p − 1)/m", lambda m: f"{median(found[f'gpipe/{m}'], 'ideal_bubble'):.3f}"),
            row("GPipe", lambda m: with_interval(found[f"gpipe/{m}"]["metrics"]["bubble"])),
            row("1F1B (PipeDream-Flush)", lambda m: with_interval(found[f"1f1b/{m}"]["metrics"]["bubble"])),
            row("2BW, steady state", lambda m: with_interval(found[f"2bw/{m}"]["metrics"]["steady_bubble"])),
            row("2BW's microbatches per second over 1F1B's",
                lambda m: ratio_with_interval(found[f"1f1b/{m}"], found[f"2bw/{m}"], "time"))]
    return table(["", *(f"m = {m}" for m in sizes)], rows)


def rates_beside(path, one, other):
    """Of each case of `one` the rate over that of `other` in the same rounds, by the case's name without it."""
    by_name = {record["case"]: record for record in records(path)}
    found = {}
    for name, record in by_name.items():
        if name.endswith(f"/{one}"):
            case = name.removesuffix(f"/{one}")
            found[case] = ratio_with_interval(by_name[f"{case}/{other}"], record, "time")
    return found


def span(ratios, what):
    """How many cases there are, and the lowest and the highest of their ratios."""
    medians = sorted(float(ratio.split()[0]) for ratio in ratios.values())
    return [what.format(len(medians)), f"{medians[0]:.2f} to {medians[-1]:.2f}"]


def cpu_device(folder):
    """The targets of the CPU device and what was measured of them (docs/performance.md)."""
    here = folder / "cpu-device"
    layers = {record["case"]: record for record in records(here / "layer.jsonl")}
    rows = []
    for kind, least in (("f32", 0.70), ("bf16", 0.60)):
        layer = layers[f"{kind}/layer"]
        best = min((r for name, r in layers.items() if name.startswith(f"{kind}/gemm")),
                   key=lambda r: median(r, "time") / r["metrics"]["work"]["samples"][0])
        work = [record["metrics"]["work"]["samples"][0] for record in (layer, best)]
        rows.append([f"one transformer layer, forward + backward, {kind}, share of the GEMM rate", f"≥ {least:.2f}",
                     ratio_with_interval(best, layer, "time", work[0] / work[1])])
    products = rates_beside(here / "gemm.jsonl", "frugal", "oneDNN")
    inner = {case: ratio for case, ratio in products.items() if "/attention/" in case}
    name, measured = span({case: r for case, r in products.items() if case not in inner},
                          "linear layers against oneDNN called directly, {} cases")
    rows.append([name, "≥ 0.95", measured])
    name, measured = span(inner, "attention's products against oneDNN's batched form, {} cases")
    rows.append([name, "", measured])
    fused = rates_beside(here / "attention.jsonl", "fused", "separate")
    name, measured = span(fused, "fused attention against separate operations, causal, s 512 to 2048, {} cases")
    rows.append([name, "", f"{measured} times as fast"])
    boundary = memory_bound_rounds.BOUNDARY
    medians = memory_bound_rounds.medians(memory_bound_rounds.rounds(folder / "bench-memory-bound.jsonl"), boundary)
    for state, copy in (("slow", "below"), ("fast", "above")):
        known, missed = memory_bound_rounds.missed(medians, state)
        rows.append([f"memory-bound operations against a copy, out of cache, while the copy moved {copy} {boundary} GB/s",
                     f"≥ {memory_bound_rounds.TARGET:.2f}",
                     f"{len(known) - len(missed)} of {len(known)} rows" + (f"; **missed by {len(missed)}**" if missed else "")])
    return table(["what", "target", "measured"], rows, 3)


def products(path):
    """Products of linear layers whose rows share cache sets, against oneDNN called directly in the same rounds."""
    found = {r["case"]: r for r in records(path) if r["case"].startswith("f32/h1536/")}
    rows = []
    for case, record in found.items():
        if not case.endswith("/frugal"):
            continue
        other = found[case.replace("/frugal", "/oneDNN")]
        rates = [1e-9 * median(r, "work") / median(r, "time") for r in (record, other)]
        rows.append([case.removeprefix("f32/h1536/").removesuffix("/frugal"), *(f"{rate:.0f}" for rate in rates),
                     ratio_with_interval(other, record, "time")])
    return table(["product", "GFLOP/s", "oneDNN alone, GFLOP/s", "ratio"], rows)


def convergence(path):
    """Losses of pipelines with a flush, with 2BW, and with 2BW and predicted weights (bench/convergence.sh)."""
    found = {}
    for record in records(path):
        c, options = record["configuration"], record["command"].split(" --")
        rate = next(o.split()[1] for o in options if o.startswith("learning-rate "))
        way = c["schedule"] + (", predicted" if any(o.startswith("weight-prediction") for o in options) else "")
        last = record["held_out"][-1]
        model = c["model"]["name"].split("-")[0].upper()
        found.setdefault((model, last["step"], float(rate)), {}).setdefault(way, {})[c["seed"]] = last["loss"]

    def interval(values, sign=""):
        """Mean and 95 % interval by Student's distribution, of three seeds."""
        assert len(values) == 3
        return f"{statistics.mean(values):{sign}.3f} ± {4.303 * statistics.stdev(values) / 3 ** 0.5:.3f}"
    rows = []
    for (model, steps, rate), ways in sorted(found.items(), key=lambda item: (item[0][0] != "GPT", item[0])):
        flush = ways["1f1b"]
        apart = [[ways[way][seed] - loss for seed, loss in flush.items()] for way in ("2bw", "2bw, predicted")]
        rows.append([f"{model}, {steps}", f"{rate:g}", interval(list(flush.values())), *(interval(a, "+") for a in apart)])
    return table(["model, steps", "learning rate", "with a flush (1F1B)", "2BW minus 1F1B",
                  "2BW with predicted weights minus 1F1B"], rows)


def terms(folder, what):
    """What `frugal explain` found for these columns of an artifact, a table each: a row of the artifact is a column."""
    name, columns = what.split(": ")
    cells = json.loads((pathlib.Path(folder) / name).read_text(encoding="utf-8"))["cells"]
    texts = []
    for column in columns.split("; "):
        found = {cell["row"]: cell for cell in sorted(cells, key=lambda c: c["paper"]) if cell["column"] == column}
        order = {term["behaviour"]: term["status"] for cell in found.values() for term in cell["terms"]}
        added = {row: {t["behaviour"]: t["added"] for t in cell["terms"]} for row, cell in found.items()}
        rows = [["frugal", *(f"{cell['frugal']:.4g}" for cell in found.values())]]
        for behaviour, status in order.items():
            rows.append([f"`{behaviour}`" + ("" if status == "documented" else f" ({status})"),
                         *(f"{added[row][behaviour]:+.2g}" if behaviour in added[row] else "" for row in found)])
        rows += [["the paper's program", *(f"{cell['program']:.4g}" for cell in found.values())],
                 ["not explained", *(f"{cell['paper'] - cell['program']:+.2g}" for cell in found.values())],
                 ["the paper", *(f"{cell['paper']:g}" for cell in found.values())]]
        texts.append(table([column, *found], rows))
    return "\n".join(texts)
