#!/usr/bin/env python3
"""Training steps of frugal and of PyTorch, eager and compiled, on the same machine: the three take turns,
and what is reported is the ratio of their times and of their memory.

  compare_steps.py FRUGAL --on cpu               16 rows: float32 and bf16, separate and fused attention,
                                                 with and without dropout, of a GPT-2 and of a Llama
  compare_steps.py FRUGAL --model gpt2-124m --micro-batch 16
                                                 one row on a GPU: bf16, fused attention, no dropout
  compare_steps.py FRUGAL --on cpu --flags= --flags="--mlp-chunks 4 --head-chunks 8"
                                                 rows without and with more flags of frugal's
  compare_steps.py --read FILE                   what there is in a file, once more

Writes a line of JSON whenever one side had its turn, and a summary when a row is complete: what was
measured stays measured, whenever it is stopped. The Python that runs it has PyTorch."""

import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import step_products

HERE = pathlib.Path(__file__).parent
OPPONENT = HERE / "pytorch_step.py"
SCHEMA, SUMMARY = "frugal.step-turn/1", "frugal.step-comparison/2"
SIDES = ("eager", "compiled")
TOLERANCES = {"f32": 1e-5, "bf16": 1e-4}  # of the loss, as a share of it
KEYS = ("on", "model", "type", "attention", "dropout", "micro_batch", "flags")


class Failure(Exception):
    pass


def fail(who, status, stderr):
    lines = stderr.strip().splitlines() or ["nothing on stderr"]
    raise Failure(f"{who} ended with {status}: {lines[-1]}")


def run_frugal(*command):
    """Its output, and the most memory that was resident."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        if process.returncode != 0:
            fail(command[0], process.returncode, errors.read())
        return out.read(), usage.ru_maxrss * 1024


def flags_of(row):
    """What frugal is asked for: what PyTorch's side does too. Its logits have the type of the products, and its
    gradients do not exist before the backward pass."""
    return ["--model", row["model"], "--on", row["on"], "--type", row["type"], "--attention", row["attention"],
            "--dropout", row["dropout"], "--micro-batch", row["micro_batch"], "--narrow-logits", "--overwrite-gradients",
            *row["flags"].split()]


def recorded(row):
    """The row as results have it: a file without its folder, because no result names a machine's paths."""
    return row | {"model": pathlib.PurePath(row["model"]).name}


def frugal_steps(program, row, threads, steps, *more):
    """The record of so many steps after a first one, and the most memory that was resident."""
    with tempfile.TemporaryDirectory() as out:
        shown, resident = run_frugal(
            program, "measure", *flags_of(row), "--steps", steps + 1, "--out", out, "--format", "json",
            *(["--threads", threads] if row["on"] == "cpu" else []), *more)
    return json.loads(shown), resident


def frugal_operations(program, row, threads, steps):
    """What `frugal operations` says: every operation of so many steps, timed on its own."""
    shown, _ = run_frugal(program, "operations", *flags_of(row), "--steps", steps, "--threads", threads, "--format",
                          "json")
    return json.loads(shown)


class PyTorch:
    """pytorch_step.py, started once for a row: loading and compiling take longer than the steps."""

    def __init__(self, task):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, str(OPPONENT)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.send(json.dumps(task))

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # the answer that is missing says it

    def take(self, side, count):
        """So many steps; the loss alone for none."""
        self.send(f"{side} {count}")
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            fail("PyTorch", self.process.wait(), self.errors.read())
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def rows_of(arguments):
    cpu = arguments.on == "cpu"
    models = arguments.model or ([str(HERE / "steps/gpt2-twelfth.json"), str(HERE / "steps/llama-layer.json")]
                                 if cpu else [])
    if not models:
        raise Failure("--model is missing; on cuda give for example gpt2-124m")
    choices = (models, arguments.type or (["f32", "bf16"] if cpu else ["bf16"]),
               arguments.attention or (["separate", "fused"] if cpu else ["fused"]),
               arguments.dropout or (["0", "0.1"] if cpu else ["0"]), arguments.flags or [""])
    for model, kind, attention, dropout, flags in itertools.product(*choices):
        yield {"on": arguments.on, "model": model, "type": kind, "attention": attention,
               "dropout": float(dropout), "micro_batch": arguments.micro_batch, "flags": flags}


def compare(row, arguments, emit):
    """The turns of a row: frugal first, so that there is a result where PyTorch has none."""
    threads = os.cpu_count() if arguments.threads is None else arguments.threads
    pytorch = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            for turn in range(arguments.rounds):
                record, resident = frugal_steps(arguments.frugal, row, threads, arguments.steps)
                emit(turn, "frugal", seconds=record["metrics"]["step_time"]["samples"], resident_bytes=resident,
                     **about_record(record))
                operations = []
                if row["on"] == "cpu":
                    timed = frugal_operations(arguments.frugal, row, threads, arguments.steps)
                    if len(timed["stages"]) == 1:  # no stage of several is the step
                        operations = timed["stages"][0]["operations"]
                        emit(turn, "operations", operations=operations,
                             **{key: timed[key] for key in ("command", "program", "step_seconds")})
                products = step_products.tasks(operations)
                if pytorch is None:
                    task = {"on": row["on"], "threads": threads, "configuration": record["configuration"],
                            "products": products}
                    same = row["on"] == "cpu" and row["dropout"] == 0  # masks differ, and files may be large
                    if same:
                        task["tensors"] = f"{folder}/tensors"
                        frugal_steps(arguments.frugal, row, threads, 0, "--learning-rate", 0, "--save-tensors",
                                     task["tensors"])
                    pytorch = PyTorch(task)
                    if same:
                        emit(turn, "losses", **{side: pytorch.take(side, 0)["loss"] for side in SIDES},
                             frugal=pytorch.take("tensors", 0)["loss"])
                for side in SIDES:
                    emit(turn, side, **pytorch.take(side, arguments.steps))
                if products:
                    emit(turn, "products", **pytorch.take("products", arguments.steps))
        finally:
            if pytorch is not None:
                pytorch.end()


def about_record(record):
    """What a turn says of frugal: where and how, and what the step needs."""
    held = record["memory"]["peak"]
    return {"device": record["device"], "program": record["program"], "command": record["command"],
            "state_bytes": held["parameter"] + held["gradient"] + held["optimizer"],
            "ledger_bytes": record["memory"]["peak_total"],
            "flops": record["flops"]["hardware"]["value"],
            "peak_flops": record["utilization"]["peak_flops"]["measured"],
            # Weights are read forward and backward and written; all else is written and read once.
            "bytes": 3 * held["parameter"]
                     + 2 * (held["gradient"] + held["optimizer"] + held["activation"])}


def ratio(ours, theirs, draws=2000):
    """Median time of ours over theirs, with a 95 % bootstrap interval over rounds: samples of one turn
    share its luck, so rounds are drawn, not samples."""
    def of(rounds):
        return (statistics.median(x for i in rounds for x in ours[i])
                / statistics.median(x for i in rounds for x in theirs[i]))
    rounds, generator = range(len(ours)), random.Random(1)
    all_draws = sorted(of(generator.choices(rounds, k=len(ours))) for _ in range(draws))
    return {"value": of(rounds), "interval": [all_draws[draws // 40], all_draws[-draws // 40]]}


def summary(turns, machine):
    """Of the turns of one row; None before a round is complete. `machine`: what frugal peak says."""
    by_side = {side: [turn for turn in turns if turn["side"] == side]
               for side in ("frugal", *SIDES, "operations", "products")}
    whole = min(len(by_side[side]) for side in ("frugal", *SIDES))
    if whole == 0:
        return None
    seconds = {side: [turn["seconds"] for turn in by_side[side][:whole]] for side in ("frugal", *SIDES)}
    ours, theirs = by_side["frugal"], {side: by_side[side] for side in SIDES}
    row = {"flags": ""} | {key: ours[0][key] for key in KEYS if key in ours[0]}
    result = {"schema": SUMMARY, **row, "rounds": whole,
              "medians": {side: statistics.median(x for part in parts for x in part)
                          for side, parts in seconds.items()},
              "time_over": {side: ratio(seconds["frugal"], seconds[side]) for side in SIDES},
              "memory": {side: statistics.median(turn["peak_bytes"] for turn in theirs[side]) for side in SIDES}
                        | {"ledger": ours[0]["ledger_bytes"], "state": ours[0].get("state_bytes")},
              "least": least(ours, machine)}
    result |= own_products(by_side, result["least"], seconds)
    if machine:
        resident = max(turn["resident_bytes"] for turn in ours) - machine["program_bytes"]
        result["memory"]["frugal"] = max(resident, result["memory"]["ledger"])  # parts of libraries may be gone
    own = result["memory"].get("frugal", result["memory"]["ledger"])
    result["memory_over"] = {side: own / result["memory"][side] for side in SIDES}
    for losses in (turn for turn in turns if turn["side"] == "losses"):
        result["losses"] = {side: losses[side] for side in ("frugal", *SIDES)}
        result["same_loss"] = all(abs(losses[side] / losses["frugal"] - 1) <= TOLERANCES[row["type"]]
                                  for side in SIDES)
    return result


def least(ours, machine):
    """Seconds that the step's products take at the best rate that was measured, and that its bytes take
    at a copy's."""
    rates = [turn["peak_flops"] for turn in ours if turn["peak_flops"]]
    result = {"flops": ours[0]["flops"] / max(rates) if rates else None, "gemm_rate": max(rates, default=None)}
    if machine:
        result["bytes"] = ours[0]["bytes"] / machine["copy_rate"]
    return result


def own_products(by_side, needed, seconds):
    """What the step's own products take: at their fastest among what it needs at least, and as they usually are over
    PyTorch's time; their share of frugal's operations. Nothing where they were not timed on their own in each round."""
    rounds = list(zip(by_side["operations"], by_side["products"]))[:len(seconds["eager"])]
    rate = needed["gemm_rate"]
    if len(rounds) < len(seconds["eager"]) or not rate:
        return {}
    usual = [[step_products.usual(*turns, rate)] for turns in rounds]
    return {"least": needed | {"products": step_products.fastest(rounds, rate)},
            "products": {"usual": statistics.median(x for (x,) in usual),
                         "over": {side: ratio(usual, seconds[side]) for side in SIDES},
                         "share": statistics.median(step_products.share(ours) for ours, _ in rounds)}}


def describe(result):
    def of(x):
        return f"{x['value']:.3f} [{x['interval'][0]:.3f}, {x['interval'][1]:.3f}]"
    times = ", ".join(f"{of(result['time_over'][side])} of {side}'s time" for side in SIDES)
    memory = ", ".join(f"{result['memory_over'][side]:.2f} of {side}'s memory" for side in SIDES)
    name = " ".join([pathlib.PurePath(result["model"]).stem, *result["flags"].split()])
    loss = "" if result.get("same_loss", True) else ", LOSSES DIFFER"
    return (f"{name} {result['type']} {result['attention']} dropout {result['dropout']:g} batch "
            f"{result['micro_batch']}: {times}, {memory}{loss}")


def machine_of(program, threads):
    """Copy bandwidth, and what the program itself occupies."""
    _, resident = run_frugal(program, "--version")
    shown, _ = run_frugal(program, "peak", "--on", "cpu", "--format", "json",
                          *(["--threads", threads] if threads else []))
    peak = json.loads(shown)
    return {"schema": SCHEMA, "side": "machine", "program_bytes": resident,
            "copy_rate": peak["copy"]["bytes_per_second"], "peak": peak}


def read(lines):
    """Summaries of all rows of a file, from its turns, each with the machine as it was measured before it; a last line
    that was cut off is left out."""
    rows, machine = {}, None
    for line in lines:
        try:
            turn = json.loads(line)
        except ValueError:
            continue
        if turn.get("schema") != SCHEMA:
            continue
        if turn["side"] == "machine":
            machine = turn
        else:
            rows.setdefault(tuple(turn.get(key, "") for key in KEYS), (machine, []))[1].append(turn)
    return [result for of_row, turns in rows.values() if (result := summary(turns, of_row))]


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frugal", nargs="?", help="the program")
    parser.add_argument("--read", type=pathlib.Path, metavar="FILE", help="summarize what it has; run nothing")
    parser.add_argument("--on", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--model", action="append", help="as of frugal measure; several are several rows")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--type", action="append", choices=("f32", "bf16"))
    parser.add_argument("--attention", action="append", choices=("separate", "fused"))
    parser.add_argument("--dropout", action="append", metavar="P")
    parser.add_argument("--flags", action="append", help="more of frugal measure, in one word, on the cpu what frugal "
                        "operations has too; several are several rows")
    parser.add_argument("--threads", type=int, help="of the cpu, for both; all processors otherwise")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--steps", type=int, help="of a turn; default 2 on the cpu, 10 on a GPU")
    arguments = parser.parse_args(words)
    if (arguments.frugal is None) == (arguments.read is None):
        parser.error("give either the program or --read FILE")
    cpu = arguments.on == "cpu"
    arguments.rounds = arguments.rounds or 3
    arguments.steps = arguments.steps or (2 if cpu else 10)
    return arguments


def write(line):
    print(json.dumps(line), flush=True)


def run(arguments):
    """The exit status: 1 where a row failed or the sides do not compute the same."""
    status, machine = 0, None
    if arguments.on == "cpu":
        machine = machine_of(arguments.frugal, arguments.threads)
        write(machine)
    for row in rows_of(arguments):
        turns = []

        def emit(turn, side, row=row, turns=turns, **measured):
            turns.append({"schema": SCHEMA, **recorded(row), "round": turn, "side": side, **measured})
            write(turns[-1])
        try:
            compare(row, arguments, emit)
        except Failure as failure:
            print(f"compare_steps.py: {failure}", file=sys.stderr, flush=True)
            status = 1
        if result := summary(turns, machine):
            write(result)
            print(describe(result), file=sys.stderr, flush=True)
            status = status if result.get("same_loss", True) else 1
    return status


def main():
    arguments = parse(sys.argv[1:])
    try:
        if arguments.read is None:
            return run(arguments)
        for result in read(arguments.read.read_text(encoding="utf-8").splitlines()):
            print(describe(result))
        return 0
    except (Failure, OSError) as failure:
        print(f"compare_steps.py: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("compare_steps.py: stopped; what was measured is written", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
