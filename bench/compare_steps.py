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

Writes records (docs/records.md, step_records.py) when a row ends, also when it fails or is stopped: what
was measured stays measured. The Python that runs it has PyTorch."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile

import step_records
import step_results
from step_records import SIDES

HERE = pathlib.Path(__file__).parent
OPPONENT = HERE / "pytorch_step.py"


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
        self.process.communicate()
        self.errors.close()


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


def write(records, status="ok", reason=""):
    for record in records:
        sys.stdout.write(step_records.line(record | {"status": status, "reason": reason, "ended": step_records.now()}))
    sys.stdout.flush()


def command_of(options):
    flags = (f"--{key.replace('_', '-')}={value}" for key, value in options.items())
    return shlex.join(["bench/compare_steps.py", "frugal", *flags])


def compare(row, arguments):
    """A row's records, which are written when it ends, however it does, and why it failed."""
    threads = os.cpu_count() if arguments.threads is None else arguments.threads
    limits = {"steps": arguments.steps} | ({"threads": threads} if row["on"] == "cpu" else {})
    measured = step_records.Measured(row, limits, rounds=os.urandom(8).hex(), command="")
    measured.shared["command"] = command_of(measured.row | limits | {"rounds": arguments.rounds})
    status, reason = "interrupted", "stopped before its last round"
    with contextlib.ExitStack() as opponents:
        try:
            take_turns(row, arguments, threads, measured, opponents)
            status, reason = "ok", ""
        except Failure as failure:
            status, reason = "failed", str(failure)
        finally:  # before PyTorch has ended, which may take longer than there is
            write(measured.records.values(), status, reason)
    return list(measured.records.values()), reason


def take_turns(row, arguments, threads, measured, opponents):
    """frugal first, so that there is a result where PyTorch has none."""
    folder = opponents.enter_context(tempfile.TemporaryDirectory())
    pytorch = None
    for _ in range(arguments.rounds):
        record, resident = frugal_steps(arguments.frugal, row, threads, arguments.steps)
        measured.frugal(record, resident)
        operations = []
        if row["on"] == "cpu":
            timed = frugal_operations(arguments.frugal, row, threads, arguments.steps)
            if len(timed["stages"]) == 1:  # no stage of several is the step
                operations = timed["stages"][0]["operations"]
                measured.operations(operations, program=timed["program"], command=timed["command"])
        products = [{key: each[key] for key in ("operation", "product")} for each in operations if each["product"]]
        if pytorch is None:
            task = {"on": row["on"], "threads": threads, "configuration": record["configuration"],
                    "products": products}
            same = row["on"] == "cpu" and row["dropout"] == 0  # masks differ, and files may be large
            if same:
                task["tensors"] = f"{folder}/tensors"
                frugal_steps(arguments.frugal, row, threads, 0, "--learning-rate", 0, "--save-tensors",
                             task["tensors"])
            pytorch = PyTorch(task)
            opponents.callback(pytorch.end)
            if same:
                for side, asked in {"frugal": "tensors", "eager": "eager", "compiled": "compiled"}.items():
                    measured.record(by=side)["losses"] = [pytorch.take(asked, 0)["loss"]]
        for side in SIDES:
            measured.pytorch(side, **pytorch.take(side, arguments.steps))
        if products:
            measured.products(**pytorch.take("products", arguments.steps))


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
    """Records of the machine."""
    _, resident = run_frugal(program, "--version")
    command = ["peak", "--on", "cpu", *(["--threads", str(threads)] if threads else [])]
    shown, _ = run_frugal(program, *command, "--format", "json")
    return step_records.of_machine(resident, json.loads(shown), " ".join(["frugal", *command]))


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


def run(arguments):
    """The exit status: 1 where a row failed or the sides do not compute the same."""
    status, machine = 0, []
    if arguments.on == "cpu":
        machine = machine_of(arguments.frugal, arguments.threads)
        write(machine)
    for row in rows_of(arguments):
        records, failure = compare(row, arguments)
        if failure:
            print(f"compare_steps.py: {failure}", file=sys.stderr, flush=True)
            status = 1
        for result in step_results.results([*machine, *records]):
            print(describe(result), file=sys.stderr, flush=True)
            status = status if result.get("same_loss", True) else 1
    return status


def main():
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if arguments.read is None:
            return run(arguments)
        for result in step_results.read(arguments.read):
            print(describe(result))
        return 0
    except (Failure, OSError) as failure:
        print(f"compare_steps.py: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("compare_steps.py: stopped; what was measured is written", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
