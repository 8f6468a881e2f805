#!/usr/bin/env python3
"""What frugal predicts of runs that others have measured and published, published/*.json (docs/published.md).

    bench/published.py [PROGRAM] [--set NAME]... [--every K] [--only TEXT] [--out FOLDER]   (minutes)
    bench/published.py --ablation [PROGRAM] ...     the same without each behaviour of what is imitated, by turns
    bench/published.py --without BEHAVIOUR ...      the same without one

Each row becomes what a user would have: Megatron-LM's arguments or torchtitan's TOML, which `frugal import` reads, or
the flags of `frugal measure`. FOLDER (results/virtual/published) gets SET.jsonl, a line for each row: what was predicted
beside what was published, or why nothing was; bands.json; and ablation.json. Standard library only.

--program SET=NAME imitates another program in a set, and --machines FOLDER has machine files beside those of hardware/.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import published_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 2**30
#: Median over shortest step of a run whose host did something else besides: its time says nothing of a program.
UNSTEADY = 1.25
#: What a set's runs were made with, where no file that `frugal import` reads says so.
PROGRAMS = {"llm-foundry": "pytorch-2023"}
#: Of the kinds of GPU in published/.
MACHINES = {"a100": "a100-selene", "a100_80gb": "a100-selene", "a100-80gb": "a100-selene", "a100-80gb-pcie": "a100-pcie", "h100": "h100-dgx",
            "h100_80gb": "h100-dgx", "h100-80gb": "h100-dgx", "h100-96gb-500w": "h100-96gb-500w", "gb200": "gb200-nvl72"}
#: Which of the predicted bytes a set has published.
MEMORY = {"megatron-ci": "allocated, last stage", "simumax": "allocated, largest stage", "torchtitan": "reserved"}
#: Arguments of Megatron-LM that are a technique, and not the model, the data or what is reported.
TECHNIQUES = {
    "parallel sizes": r"(tensor|pipeline)-model-parallel-size|context-parallel-size|use-tp-pp-dp-mapping",
    "sequence parallelism": r"sequence-parallel",
    "stages": r"num-layers-per-virtual.*|num-virtual-stages.*|decoder-(first|last)-.*|account-for-.*",
    "sharding": r"use-distributed-optimizer|num-distributed-optimizer-instances|data-parallel-sharding.*|use-megatron-fsdp",
    "overlap": r"overlap-.*|tp-comm-overlap",
    "recomputation": r"recompute-.*",
    "kernels": r"attention-backend|transformer-impl|spec|cross-entropy-.*|no-gradient-accumulation-fusion|"
               r"no-masked-softmax-fusion|no-persist-layer-norm|use-flash-attn|apply-query-key.*|attention-softmax.*",
    "precision": r"bf16|fp16|fp8.*", "deterministic": r"deterministic-mode", "dropout": r".*-dropout",
    "batch": r"micro-batch-size|global-batch-size", "sequence": r"seq-length"}
MODEL = r"num-layers|hidden-size|ffn-.*|num-attention-heads|group-query.*|num-query-groups|untie-.*|swiglu|squared-relu|" \
        r"position-embedding-type|rotary-percent|apply-layernorm-1p|normalization|disable-bias-linear|vocab-size"


def techniques_of(arguments):
    """{technique: its arguments}, and the arguments that are the model."""
    said = {name.removeprefix("--"): value for name, value in arguments.items() if value is not False}
    found = {technique: {n: v for n, v in said.items() if re.fullmatch(pattern, n)} for technique, pattern in TECHNIQUES.items()}
    found = {technique: its for technique, its in found.items() if its or technique == "parallel sizes"}
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"):
        found["parallel sizes"].setdefault(name, 1)
    return found, {n: v for n, v in said.items() if re.fullmatch(MODEL, n)}


def yaml(arguments):
    """As Megatron-LM's functional tests have them."""
    def text(value):
        if value is True:
            return "true"
        return f'"{value}"' if isinstance(value, str) and set(value) & set(" |[]()*:") else value
    return "MODEL_ARGS:\n" + "".join(f"  {name}: {text(value)}\n" for name, value in arguments.items() if value is not False)


def script(program, arguments):
    words = (word for name, value in arguments.items() if value is not False for word in (name, *[str(value)] * (value is not True)))
    return f"python {program} {shlex.join(words)}\n"


def megatron(arguments, world, vocabulary, program=None):
    """What `frugal import` is given: the name of a file, its text, and flags."""
    flags = ["--world-size", world] + ([] if "--vocab-size" in arguments else ["--vocabulary", vocabulary])
    return ("run.sh", script(program, arguments), flags) if program else ("arguments.yaml", yaml(arguments), flags)


def megatron_ci(row, document):
    case = document["cases"][row["args"]]
    found, model = techniques_of(case["args"])
    found["parallel sizes"]["world"] = row["world"]
    if row["dp"] == 1:  # then it orders ranks as they are without it
        found["parallel sizes"].pop("use-tp-pp-dp-mapping", None)
    left_out = "its peak differs from its equals'" if any("peak differs" in flag for flag in row["flags"] or []) else None
    size = "7B" if row["model"]["hidden"] == 4096 else "small"
    unsteady = (row["iteration_time"] or 0) > UNSTEADY * (row["iteration_time_min"] or 0)
    program = "pretrain_bert.py" if row["model"]["kind"] == "bert" else None  # files of arguments are taken for GPT's
    return {"name": f"{row['case']}, {row['env']}" + (", resumed" if row["run"] == 2 else ""), "group": f"{row['gpu']}, {size}",
            "given": megatron(case["args"], row["world"], row["model"]["vocab"], program) if row["world"] else "the number of GPUs is not public",
            "alike": [row["gpu"], row["env"], row["run"], model], "techniques": found, "left_out": left_out,
            "tokens": (row["global_batch"] or 0) * row["model"]["seq"], "sequence": row["model"]["seq"], "world": row["world"],
            "memory": row["max_allocated_bytes"], "time": None if unsteady else row["iteration_time"],
            "without_time": f"its median step is over {UNSTEADY} times the shortest: no time" if unsteady else None}


def simumax(row, _):
    arguments = dict(row["args"])
    if arguments.get("--recompute-num-layers") == 0:  # which is none
        arguments = {name: value for name, value in arguments.items() if not name.startswith("--recompute-")}
    found, model = techniques_of(arguments)
    found["batch"] = row["microbatches"]
    return {"name": row["case"], "group": row["case"].split("_")[0], "given": megatron(arguments, row["world"], row["model"]["vocab"]),
            "alike": [row["gpu"], model], "techniques": found, "tokens": row["global_batch"] * row["seq"], "sequence": row["seq"],
            "world": row["world"], "memory": row["max_allocated_gib"] * GIB, "time": row["step_time_s"]}


def toml(row):
    """Of the version that the tables were made with, torchtitan 9dec370."""
    mode, _, option = row["ac"].partition(" ")
    float8 = row["float8"] or {}
    sections = {
        "model": {"name": "llama3", "flavor": row["model"].split("-")[1].upper()},
        "optimizer": {"name": "AdamW"},
        "training": {"batch_size": row["local_batch"], "seq_len": row["seq"], "max_norm": 1.0, "compile": row["compile"],
                     "data_parallel_shard_degree": row["dp_shard"], "tensor_parallel_degree": row["tp"]},
        "experimental": {"context_parallel_degree": row["cp"], "pipeline_parallel_degree": row["pp"],
                         "pipeline_parallel_schedule": row["schedule"], "pipeline_parallel_microbatches": row["microbatches"],
                         "enable_async_tensor_parallel": row["async_tp"]},
        "activation_checkpoint": {"mode": mode, "selective_ac_option": option.removeprefix("layer ") or None},
        "float8": {"enable_float8_linear": bool(float8), "enable_fsdp_float8_all_gather": float8.get("fsdp_all_gather")}}
    return "".join(f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value is not None)
                   for section, keys in sections.items())


def torchtitan(row, _):
    kind = "float8" if row["float8"] else "bf16"
    name = f"{row['model']}, {row['world']} GPUs, {row['seq']} tokens, {row['ac']}" + ", compiled" * row["compile"] + f", {kind}"
    compiled = {"layers": row["compile"], "loss": row["loss_compiled"]}
    return {"name": name, "group": kind, "given": ("torchtitan.toml", toml(row), ["--world-size", row["world"]]),
            "alike": [row["gpu"], row["model_facts"]],
            "techniques": {"compile": compiled, "float8": row["float8"], "recomputation": row["ac"], "batch": row["local_batch"],
                           "sequence": row["seq"], "parallel sizes": [row[key] for key in ("dp_shard", "tp", "pp", "cp")],
                           "schedule": row["schedule"], "overlap": row["async_tp"]},
            "tokens": row["global_batch"] * row["seq"], "sequence": row["seq"], "world": row["world"],
            "memory": row["memory_gib"] * GIB if row["memory_gib"] else None, "time": row["step_time_s"]}


def llm_foundry(row, _):
    flags = ["--model", "gpt2-124m", "--layers", row["layers"], "--hidden", row["hidden"], "--heads", row["heads"],
             "--sequence", row["seq"], "--vocabulary", row["vocab"], "--dropout", 0, "--type", "bf16", "--attention", "fused",
             "--data-parallel", row["gpus"], "--shard", {"FULL_SHARD": "weights", "SHARD_GRAD_OP": "gradients"}[row["shard"]],
             "--recompute", "full" if row["checkpointing"] else "none", "--micro-batch", row["micro"], "--microbatches", row["accum"]]
    length = "8k tokens and more" if row["seq"] >= 8192 else "up to 4k tokens"
    kind = ", fp8" if "fp8" in row["precision"] else ""
    name = f"{row['model']}, {row['gpus']} GPUs, {row['seq']} tokens, {row['micro']} x {row['accum']}" + kind
    return {"name": name + ", recomputed" * row["checkpointing"], "group": f"{row['gpu'][:4]}{kind}, {length}",
            "given": flags, "alike": [row["gpu"], row["layers"], row["hidden"]],
            "techniques": {"parallel sizes": row["gpus"], "sequence": row["seq"], "batch": [row["micro"] * row["seq"], row["accum"]],
                           "recomputation": row["checkpointing"], "sharding": row["shard"], "precision": kind},
            "tokens": row["global_batch"] * row["seq"], "sequence": row["seq"], "world": row["gpus"], "memory": None,
            "time": row["step_time_s"]}


def others(row, _):
    flags = ["--model", "qwen2.5-7b" if row["gated"] else "gpt2-124m", "--layers", row["layers"], "--hidden", row["hidden"],
             "--heads", row["heads"], "--key-value-heads", row["kv"], "--intermediate", row["ffn"], "--vocabulary", row["vocab"],
             "--sequence", row["seq"], "--dropout", row["dropout"], "--type", "bf16", "--precision", row["precision"],
             "--set", f"tied_embeddings={json.dumps(row['tied'])}", "--attention", row["attention"], "--recompute", row["recompute"],
             "--head-chunks", row["head_chunks"], "--tensor-parallel", row["tp"], "--pipeline-parallel", row["pp"],
             "--data-parallel", row["dp"], "--shard", "optimizer" if row["zero"] else "none", "--micro-batch", row["micro_batch"],
             "--microbatches", row["accumulation"], *["--offload-optimizer"] * row["offload_optimizer"],
             *["--narrow-logits"] * (row["program"] is None)]
    name = f"{row['model']}, {row['gpus']} GPU" + "s" * (row["gpus"] > 1)
    if row["tp"] > 1:
        name += f": {row['dp']} x {row['tp']} x {row['pp']}, {row['heads']} heads, {row['micro_batch']} x {row['accumulation']}"
    return {"name": name, "group": row["of"], "given": flags,
            "program": row["program"], "alike": [row[key] for key in ("of", "gpu", "layers", "hidden", "heads")],
            "techniques": {"parallel sizes": [row[key] for key in ("tp", "pp", "dp")], "batch": row["micro_batch"]}, "tokens": row["global_batch"] * row["seq"],
            "sequence": row["seq"], "world": row["gpus"], "memory": None, "time": row["step_time_s"]}


SETS = {"megatron-ci": megatron_ci, "simumax": simumax, "torchtitan": torchtitan, "llm-foundry": llm_foundry, "others": others}


def is_of(row, rows):
    """Whether each key has one of its values; of an object in a column, "column.key"."""
    def value(key):
        column, _, part = key.partition(".")
        return row[column][part] if part else row[column]
    return all(value(key) in values for key, values in rows.items())


def rows_of(name, folder=ROOT / "published"):
    """[(number of the row, what it becomes)]"""
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    found = []
    for number, values in enumerate(document["rows"]):
        row = dict(zip(document["columns"], values))
        one = SETS[name](row, document) | {"set": name, "row": number, "gpu": row["gpu"]}
        one["used_for"] = sorted({use["of"] for use in document["used_for"] if is_of(row, use["rows"])})
        found.append(one)
    return found


class Runner:
    """Runs frugal: what is asked twice, once."""

    def __init__(self, frugal, machines):
        self.frugal, self.folders = str(frugal), [*machines, ROOT / "hardware"]
        self.run = functools.lru_cache(maxsize=None)(self._run)

    def machine(self, name):
        """Its file, or None."""
        return next((folder / f"{name}.json" for folder in self.folders if (folder / f"{name}.json").exists()), None)

    def value(self, file, group, key):
        """Of a machine's file, or of the one that it is based on."""
        said = json.loads(file.read_text(encoding="utf-8"))
        own = said.get(group, {}).get(key)
        return own["value"] if own else self.value(self.machine(said["base"]), group, key)

    def _run(self, given, flags):
        """(a record, the program imitated, what frugal does not have of it), or why there is none. In a file's place
        `given` has its name and text."""
        with tempfile.TemporaryDirectory() as folder:
            if given:
                path = pathlib.Path(folder) / given[0]
                path.write_text(given[1], encoding="utf-8")
                command = ["import", str(path)]
            else:
                command = ["measure", "--out", folder]
            command = [self.frugal, *command, *flags, "--format", "json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode not in (0, 3):
            return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1].replace(folder + "/", "").removeprefix("frugal: ")
        said = json.loads(done.stdout)
        record = said["records"][0] if given and said["records"] else said
        if "memory" not in record:
            return str(said.get("not_run"))
        if record["status"] != "ok":
            return "out of memory" if record["status"] == "oom" else record["reason"]
        words = shlex.split(said["command"]) if given else list(flags)
        program = words[words.index("--program") + 1] if "--program" in words else "frugal"
        return record, program, [one["said"].split()[0] for one in said.get("missing", [])]

    def line(self, one, program=None):
        """What is kept of a row, predicted with a program in place of the set's, the row's or the file's own."""
        program = program or one.get("program")
        kept = {key: one[key] for key in ("set", "row", "name", "group", "gpu", "alike", "techniques", "used_for")}
        file = self.machine(MACHINES.get(one["gpu"], one["gpu"]))
        if isinstance(one["given"], str):
            return kept | {"not_predicted": one["given"]}
        if file is None:
            return kept | {"not_predicted": f"no machine {MACHINES.get(one['gpu'], one['gpu'])}"}
        given, flags = (one["given"][:2], one["given"][2]) if isinstance(one["given"], tuple) else (None, one["given"])
        known = str(file) if file.parent != ROOT / "hardware" else file.stem
        flags = [*flags, "--hardware", known, *(["--program", program] if program else [])]
        found = self.run(given, tuple(map(str, flags)))
        if isinstance(found, str):
            return kept | {"not_predicted": found}
        record, program, missing = found
        return kept | self.predicted(one, file, record) | {"machine": file.stem, "program": program, "missing": missing,
                                                           "left_out": one.get("left_out"), "without_time": one.get("without_time")}

    def predicted(self, one, file, record):
        stages = [stage["peak"] for stage in record["memory"]["stages"] or []] or [record["memory"]["peak_total"]]
        bytes_of = {"allocated, last stage": stages[-1], "allocated, largest stage": max(stages), "reserved": record["memory"]["reserved"]}
        kind = MEMORY.get(one["set"])
        launches = record["work"]["calls"]["launches"]
        busy = record["flops"]["hardware"]["value"] / record["utilization"]["peak_flops"]["data_sheet"]
        most = max(stages) / self.value(file, "device", "memory_capacity")
        values = {"sequence": one["sequence"], "nodes": -(-one["world"] // self.value(file, "network", "devices_per_node")),
                  "seconds_per_launch": float(f"{busy / launches:.4g}") if launches else None,
                  "per_token": one["world"] / one["tokens"], "share_of_memory": float(f"{most:.4g}")}
        for what, predicted, published in (("memory", bytes_of.get(kind), one["memory"]),
                                           ("time", record["metrics"]["step_time"]["median"], one["time"])):
            values[what] = None if predicted is None or published is None else {
                "predicted": float(f"{predicted:.6g}"), "published": float(f"{published:.6g}")}
        if values["memory"]:
            values["memory"]["kind"] = kind
        return values


def behaviours_of(program, folder=ROOT / "programs"):
    """Names of all behaviours that it has: programs and behaviours behind +, without those behind ~."""
    found = []
    for sign, name in re.findall(r"([+~]?)([^+~]+)", program.split(":")[0]):
        file = folder / f"{name}.json"
        entries = json.loads(file.read_text(encoding="utf-8"))["behaviours"] if file.exists() else [{"behaviour": name}]
        names = [entry.get("behaviour") or entry["kernel"] for entry in entries]  # a kernel is the program's own
        if sign == "~":
            found = [b for b in found if b not in names]
        elif name != "frugal":
            found += [b for b in names if b not in found]
    return found


def without(lines, rows, runner, behaviour):
    """The lines predicted once more without it; those whose program does not have it as they are."""
    def one(line, row):
        has = "program" in line and behaviour in behaviours_of(line["program"])
        return runner.line(row, f"{line['program']}~{behaviour}") if has else line
    return concurrently(one, lines, rows)


def concurrently(function, *arguments):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, *arguments))


def predicted_set(name, runner, options):
    rows = [row for row in rows_of(name)[::options.every] if options.only in row["name"]]
    program = dict(pair.split("=", 1) for pair in options.program).get(name, PROGRAMS.get(name))
    if program in PROGRAMS.values() and not (ROOT / "programs" / f"{program}.json").exists():
        print(f"published.py: {name}: no program {program}: frugal's own is predicted", file=sys.stderr)
        program = None
    return rows, concurrently(lambda row: runner.line(row, program), rows)


def ablation_of(name, rows, lines, runner):
    found = {}
    for behaviour in dict.fromkeys(b for line in lines if "program" in line for b in behaviours_of(line["program"])):
        found[behaviour] = published_errors.moved(lines, without(lines, rows, runner, behaviour))
        print(f"{name}~{behaviour}: {found[behaviour]}", file=sys.stderr)
    return {"rows": len(lines), "behaviours": found}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frugal", nargs="?", type=pathlib.Path, default=ROOT / "build/release/frugal", metavar="PROGRAM")
    parser.add_argument("--set", action="append", choices=SETS, dest="sets")
    parser.add_argument("--every", type=int, default=1, metavar="K")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--program", action="append", default=[], metavar="SET=NAME")
    parser.add_argument("--machines", action="append", default=[], type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--without", metavar="BEHAVIOUR")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/virtual/published", metavar="FOLDER")
    options = parser.parse_args(arguments)
    if not os.access(options.frugal, os.X_OK):
        parser.error(f"{options.frugal} not found; first run scripts/build.sh release")
    partial = options.every > 1 or options.only or options.without
    if partial and not options.ablation and options.out == parser.get_default("out"):
        parser.error("some rows, or without a behaviour, are not what results/ has: give --out FOLDER")
    runner, ablation = Runner(options.frugal.resolve(), [folder.resolve() for folder in options.machines]), {}
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.sets or SETS:
        rows, lines = predicted_set(name, runner, options)
        if options.ablation:
            ablation[name] = ablation_of(name, rows, lines, runner)
            continue
        if options.without:
            lines = without(lines, rows, runner, options.without)
        (options.out / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for line in published_errors.in_words(name, lines):
            print(line)
    if not options.ablation:
        bands = published_errors.bands([line for lines in published_errors.read(options.out).values() for line in lines])
        (options.out / "bands.json").write_text(published_errors.json_of_bands(bands), encoding="utf-8")
    else:
        text = json.dumps({"schema": "frugal.published-ablation/1", "every": options.every, "sets": ablation}, indent=1)
        (options.out / "ablation.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
