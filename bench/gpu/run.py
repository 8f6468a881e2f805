"""What bench/gpu.sh says, done."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import groups
import libraries
import parts

BENCH = pathlib.Path(__file__).resolve().parent.parent
PATIENCE = "FRUGAL_GPU_PATIENCE"
USAGE = (f"usage: bench/gpu.sh BUILD OUT [{'|'.join(groups.Groups(*[BENCH] * 4).all)} ...], or "
         "bench/gpu.sh --predict MACHINE BUILD OUT [node]")


def fail(message, status=2):
    print(f"gpu.sh: {message}", file=sys.stderr, flush=True)
    sys.exit(status)


def limits(all_groups):
    """A table of what each part may take; says whether every group has time for that."""
    check, smoke = all_groups.check().seconds, groups.seconds_of("smoke", all_groups.all["smoke"])
    print(f"{'check':<12} {all_groups.check().name:<56} {check:4} s")
    fits = True
    for name, members in all_groups.all.items():
        for part in members:
            print(f"{name:<12} {part.name:<56} {part.seconds:4} s")
        alone = name == "smoke" or name in groups.CALLS
        total = check + groups.seconds_of(name, members) + (0 if alone else smoke)
        limit = groups.CALLS.get(name, groups.LIMIT)
        before = "the check" if alone else "the check and smoke"
        print(f"{name:<12} {f'in all, with {before} before it':<56} {total:4} s of {limit}")
        fits = fits and total <= limit
    return fits


def described(frugal, environment):
    commands = [[frugal, "--version"]]
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,memory.total,clocks.sm,clocks.mem"
        commands.insert(0, ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"])
    for command in commands:
        try:
            yield subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                                 timeout=10).stdout.strip()
        except subprocess.TimeoutExpired:
            yield f"{command[0]} does not answer"


@contextlib.contextmanager
def clocks_kept(out):
    """Twice a second what the GPU's clocks, power and temperature are, and what holds the clocks down."""
    if not shutil.which("nvidia-smi"):
        yield
        return
    kept = out / "clocks.csv"
    fields = ("timestamp,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_event_reasons.active,"
              "utilization.gpu,memory.used")
    form = "csv,nounits,noheader" if kept.exists() else "csv,nounits"
    with open(kept, "a", encoding="utf-8") as file:
        command = ["nvidia-smi", f"--query-gpu={fields}", f"--format={form}", "-lms", "500"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def usable(programs, nccl=None):
    """The environment in which they start."""
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/local/cuda/bin"}
    absent = [str(program) for program in programs if not program.exists()]
    if absent:
        fail(f"{', '.join(absent)} not found: first run scripts/build.sh release")
    carried = [nccl.parent] if nccl else []  # where the machine has no NCCL of its own
    environment = libraries.with_libraries(programs, environment, lambda: [*libraries.folders(), *carried])
    if lacking := libraries.missing(programs, environment):
        fail(f"{programs[0]} does not start without {', '.join(lacking)}; name the folders of these libraries "
             "in LD_LIBRARY_PATH")
    return environment


def predict(machine, build, out, aside, wanted):
    """What a GPU of this machine should measure. A folder has the predictions of one program: it is new."""
    all_groups = groups.Groups(build, BENCH, out, aside, machine)
    environment = usable([all_groups.frugal])
    if not (BENCH.parent / f"hardware/{machine}.json").exists():
        fail(f"--predict {machine}: no file of hardware/ has this name")
    if out.exists() and any(out.iterdir()):
        fail(f"{out} is not empty: predictions of another program may be in it; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    runner = parts.Runner(out, environment)
    return all([runner.run([part]) for part in all_groups.predicted(wanted)])


def patience():
    """How many times as long as on a GPU each part may take: an emulated one is as slow as its processor."""
    text = os.environ.get(PATIENCE, "1")
    if not text.isdigit() or int(text) == 0:
        fail(f'{PATIENCE} is "{text}", and must be a whole number from 1')
    return int(text)


def run(build, out, aside, wanted):
    times = patience()
    all_groups = groups.Groups(build, BENCH, out, aside)
    environment = usable([all_groups.frugal, all_groups.tests, all_groups.ranks], all_groups.nccl_library)
    out.mkdir(parents=True, exist_ok=True)
    runner = parts.Runner(out, environment)
    for text in described(all_groups.frugal, environment):
        runner.note(text)
    check = all_groups.check()
    runner.run([check])
    if runner.outcomes[check.name] != "ok":  # a test that was skipped has checked nothing
        fail("the GPU fails its check: nothing else is run", 3)
    good = True
    with clocks_kept(out):
        for name in wanted:
            members = [part._replace(seconds=times * part.seconds) for part in all_groups.all[name]]
            runner.note(f"--- {name}, at most {groups.seconds_of(name, members)} s")
            for together in [members] if name == "smoke" else [[part] for part in members]:
                good = runner.run(together) and good
    return good


def main():
    arguments = sys.argv[1:]
    names = groups.Groups(*[BENCH] * 4)
    if arguments == ["--limits"]:
        sys.exit(0 if limits(names) else 1)
    machine = None
    if arguments[:1] == ["--predict"] and (len(arguments) == 4 or arguments[4:] == ["node"]):
        machine = arguments[1]
        del arguments[:2]
    if len(arguments) < 2:
        fail(USAGE)
    build, out, *wanted = arguments
    for name in wanted:
        if name not in names.all:
            fail(f"no group {name}; {USAGE}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: parts.STOPPED.set())
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as aside:
            places = pathlib.Path(build).resolve(), pathlib.Path(out).resolve(), pathlib.Path(aside)
            good = predict(machine, *places, wanted) if machine else run(*places, wanted or names.by_topic())
    except KeyboardInterrupt:
        fail(f"stopped after {time.monotonic() - start:.0f} s; what has ended is in {out}", 130)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
