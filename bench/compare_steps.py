#!/usr/bin/env python3
"""Training steps of frugal and of PyTorch, eager and compiled, on the same machine: they take turns, from the
second round on in an order that is drawn, and what is reported is the ratio of their times and of their memory.

  compare_steps.py FRUGAL --on cpu               16 rows: float32 and bf16, separate and fused attention,
                                                 with and without dropout, of a GPT-2 and of a Llama
  compare_steps.py FRUGAL --model gpt2-124m --micro-batch 16
                                                 one row on a GPU: bf16, fused attention, no dropout; PyTorch also
                                                 with torch.compile's mode reduce-overhead (CUDA graphs)
  compare_steps.py FRUGAL --model gpt2-124m --weights bf16 --mode compiled --sustained 2
                                                 against bf16 weights with float32 masters; after the short turns
                                                 some of 2 s and more, without their first half second
  compare_steps.py FRUGAL --model llama3-8b --against transformers --weights bf16-alone --mode checkpointed
                   --flags="--precision pure --step-in-backward --recompute full"
                                                 against Hugging Face's model
  compare_steps.py FRUGAL --on cpu --flags= --flags="--mlp-chunks 4 --head-chunks 8"
                                                 rows without and with more flags of frugal's
  compare_steps.py --read FILE                   what there is in a file, once more

Writes records (docs/records.md, step_records.py) when a row ends, also when it fails or is stopped: what
was measured stays measured. The Python that runs it has PyTorch."""

import argparse
import contextlib
import itertools
import json
import math
import os
import pathlib
import random
import shlex
import signal
import sys
import tempfile

import step_records
import step_results
from step_programs import Failure, PyTorch, run_frugal, use_pytorchs_cudnn
from step_records import SIDES

HERE = pathlib.Path(__file__).parent
OPPONENT = HERE / "pytorch_step.py"
OPPONENTS = {"": lambda: OPPONENT, "transformers": lambda: HERE / "gpu/hf_llama.py"}  # tests put others in their place
MODES = {"": (*SIDES, "reduce-overhead", "max-autotune"),
         "transformers": (*SIDES, "checkpointed", "checkpointed-compiled")}
# Without --mode. To find out what is fastest, max-autotune compiles for minutes.
USUAL = {"": MODES[""][:3], "transformers": MODES["transformers"][:3]}
INTERRUPTED = "interrupted", "stopped before its last round"


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


def rows_of(arguments):
    cpu = arguments.on == "cpu"
    models = arguments.model or ([str(HERE / "steps/gpt2-twelfth.json"), str(HERE / "steps/llama-layer.json")]
                                 if cpu else [])
    if not models:
        raise Failure("--model is missing; on cuda give for example gpt2-124m")
    dropped = cpu and not arguments.against  # the library's Llama has none
    choices = (models, arguments.type or (["f32", "bf16"] if cpu else ["bf16"]),
               arguments.attention or (["separate", "fused"] if cpu else ["fused"]),
               arguments.dropout or (["0", "0.1"] if dropped else ["0"]), arguments.flags or [""])
    for model, kind, attention, dropout, flags in itertools.product(*choices):
        yield {"on": arguments.on, "model": model, "type": kind, "attention": attention,
               "dropout": float(dropout), "micro_batch": arguments.micro_batch, "flags": flags,
               "weights": arguments.weights, "against": arguments.against, "modes": ",".join(arguments.mode)}


def write(records, status="ok", reason=""):
    """A side that failed alone has said why."""
    for record in records:
        if record["status"] != "failed":
            record.update(status=status, reason=reason)
        sys.stdout.write(step_records.line(record | {"ended": step_records.now()}))
    sys.stdout.flush()


def command_of(options):
    words = dict(options)
    modes = [f"--mode={mode}" for mode in filter(None, words.pop("modes", "").split(","))]
    flags = (f"--{key.replace('_', '-')}={value}" for key, value in words.items()
             if key not in step_records.MORE_KEYS or value)
    return shlex.join(["bench/compare_steps.py", "frugal", *flags, *modes])


def compare(row, arguments):
    """A row's records, which are written when it ends, however it does, and why it failed."""
    threads = os.cpu_count() if arguments.threads is None else arguments.threads
    limits = {"steps": arguments.steps, "seed": arguments.seed} | ({"threads": threads} if row["on"] == "cpu" else {})
    measured = [step_records.Measured(row | {"turns": turns}, limits, sides_of(arguments), rounds=os.urandom(8).hex())
                for turns in ("", *["sustained"] * bool(arguments.sustained))]
    asked = {"rounds": arguments.rounds}
    if arguments.sustained:
        asked |= {"sustained": arguments.sustained, "left_out": arguments.left_out}
    named = row | {key: measured[0].row[key] for key in ("model", "dropout")}
    for each in measured:
        each.shared["command"] = command_of(named | limits | asked)
    done, reason = 0, ""
    with contextlib.ExitStack() as opponents:
        try:
            pytorch = take_turns(row, arguments, threads, measured[0], opponents)
            done = 1
            for sustained in measured[1:]:
                sustain(row, arguments, threads, pytorch, measured[0], sustained)
                done = 2
        except Failure as failure:
            reason = str(failure)
        finally:  # before PyTorch has ended, which may take longer than there is
            for number, each in enumerate(measured):
                ended = ("ok", "") if number < done else ("failed", reason) if reason else INTERRUPTED
                write(each.records.values(), *ended)
    return [record for each in measured for record in each.records.values()], reason


def sides_of(arguments):
    """PyTorch's."""
    return tuple(arguments.mode) or (SIDES if arguments.on == "cpu" else USUAL[arguments.against])


def drawn_order(sides, seed, number):
    """That of a round."""
    return random.Random(f"{seed} {number}").sample(sides, len(sides))


def take(pytorch, side, count, measured):
    """A turn of PyTorch's; none of a side that failed before."""
    if measured.record(by=side)["status"] == "failed":
        return
    said = pytorch.take(side, count)
    if "failed" in said:
        measured.failed(side, said["failed"])
        print(f"compare_steps.py: {side}: {said['failed']}", file=sys.stderr, flush=True)
    else:
        measured.pytorch(side, **said)


def sustained_counts(short, arguments):
    """{side: (steps that are left out at the beginning of a turn, steps that count)}, by what the short turns took; none
    of a side that has no step."""
    counts = {}
    for record in short.records.values():
        step = record["metrics"].get("step_time", {}).get("median")
        if "operation" not in record["options"] and step:
            seconds = arguments.left_out, arguments.sustained - arguments.left_out
            counts[record["options"]["by"]] = [math.ceil(each / step) for each in seconds]
    return counts


def sustain(row, arguments, threads, pytorch, short, measured):
    """Turns that last so long that the machine is as warm as in a long run, in an order that is drawn."""
    counts = sustained_counts(short, arguments)
    measured.sides = [side for side in counts if side != "frugal"]
    measured.begin(short.about)
    for side, (_, counted) in counts.items():
        measured.record(by=side)["options"]["steps"] = str(counted)
    for number in range(arguments.rounds):
        for side in drawn_order(list(counts), f"{arguments.seed} sustained", number):
            left_out, counted = counts[side]
            if side == "frugal":
                said, resident = frugal_steps(arguments.frugal, row, threads, left_out + counted)
                times = said["metrics"]["step_time"]
                said["metrics"]["step_time"] = times | {"samples": times["samples"][-counted:]}
                measured.frugal(said, resident)
                continue
            said = pytorch.take(side, left_out + counted)
            if "failed" in said:
                raise Failure(f"PyTorch, {side}: {said['failed']}")
            measured.pytorch(side, **said | {"seconds": said["seconds"][-counted:]})


def take_turns(row, arguments, threads, measured, opponents):
    """frugal first, so that there is a result where PyTorch has none; from the second round on as it is drawn.
    Returns PyTorch."""
    folder = opponents.enter_context(tempfile.TemporaryDirectory())
    pytorch, sides = None, sides_of(arguments)
    for number in range(arguments.rounds):
        order = drawn_order(["frugal", *sides], arguments.seed, number) if number else ["frugal", *sides]
        before, after = order[:order.index("frugal")], order[order.index("frugal") + 1:]
        for side in before:
            take(pytorch, side, arguments.steps, measured)
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
                    "weights": row["weights"], "products": products}
            same = row["on"] == "cpu" and row["dropout"] == 0  # masks differ, and files may be large
            if same:
                task["tensors"] = f"{folder}/tensors"
                frugal_steps(arguments.frugal, row, threads, 0, "--learning-rate", 0, "--save-tensors",
                             task["tensors"])
            pytorch = PyTorch(task, OPPONENTS[row["against"]]())
            opponents.callback(pytorch.end)
            if same:
                for side, asked in {"frugal": "tensors", **{side: side for side in sides}}.items():
                    measured.record(by=side)["losses"] = [pytorch.take(asked, 0)["loss"]]
        for side in after:
            take(pytorch, side, arguments.steps, measured)
        if products:
            measured.products(**pytorch.take("products", arguments.steps))
    return pytorch


def describe(result):
    def of(x):
        return f"{x['value']:.3f} [{x['interval'][0]:.3f}, {x['interval'][1]:.3f}]"
    times = ", ".join(f"{of(over)} of {side}'s time" for side, over in result["time_over"].items())
    memory = ", ".join(f"{over:.2f} of {side}'s memory" for side, over in result["memory_over"].items())
    name = " ".join([pathlib.PurePath(result["model"]).stem, *result["flags"].split(),
                     *(result[key] for key in ("weights", "against", "turns") if key in result)])
    loss = "" if result.get("same_loss", True) else ", LOSSES DIFFER"
    if versions := result.get("two_cudnns"):
        loss += ", of two cuDNNs: " + ", ".join(f"{side} {version}" for side, version in versions.items())
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
    parser.add_argument("--mode", action="append", default=[], help="of PyTorch's sides one; several are several: "
                        + ", ".join({mode: "" for modes in MODES.values() for mode in modes}))
    parser.add_argument("--weights", choices=("", "bf16", "bf16-alone"), default="", help="PyTorch's in a step of "
                        "bf16: float32 below autocast otherwise; bf16 with float32 masters; bf16 alone, changed in the "
                        "backward pass")
    parser.add_argument("--against", choices=tuple(OPPONENTS), default="", help="whose model, where not ours")
    parser.add_argument("--sustained", type=float, default=0, metavar="SECONDS", help="also turns that last so long")
    parser.add_argument("--left-out", type=float, default=0.5, metavar="SECONDS", help="at the beginning of each of these, "
                        "which do not count; default 0.5")
    parser.add_argument("--same-cudnn", action="store_true", help="frugal with the cuDNN of this Python's packages, which "
                        "is PyTorch's, where there is one")
    parser.add_argument("--seed", help="of the order of turns; drawn, printed and recorded otherwise")
    parser.add_argument("--threads", type=int, help="of the cpu, for both; all processors otherwise")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--steps", type=int, help="of a turn; default 2 on the cpu, 10 on a GPU")
    arguments = parser.parse_args(words)
    if (arguments.frugal is None) == (arguments.read is None):
        parser.error("give either the program or --read FILE")
    cpu = arguments.on == "cpu"
    if wrong := set(arguments.mode) - set(MODES[arguments.against]):
        parser.error(f"--mode {sorted(wrong)[0]}: there are {', '.join(MODES[arguments.against])}")
    if arguments.sustained and not 0 <= arguments.left_out < arguments.sustained:
        parser.error(f"--sustained {arguments.sustained:g}: nothing is left of it without --left-out {arguments.left_out:g}")
    if arguments.weights and arguments.type != ["bf16"] and (cpu or arguments.type):
        parser.error(f"--weights {arguments.weights} is of steps in bf16; give --type bf16 alone")
    arguments.seed = arguments.seed or os.urandom(4).hex()
    arguments.rounds = arguments.rounds or 3
    arguments.steps = arguments.steps or (2 if cpu else 10)
    return arguments


def run(arguments):
    """The exit status: 1 where a row failed or the sides do not compute the same."""
    status, machine = 0, []
    print(f"compare_steps.py: turns are drawn with --seed {arguments.seed}", file=sys.stderr, flush=True)
    if arguments.same_cudnn and not use_pytorchs_cudnn():
        print("compare_steps.py: this Python's packages have no cuDNN, so frugal keeps its own", file=sys.stderr, flush=True)
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
