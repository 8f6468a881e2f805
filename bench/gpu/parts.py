"""Parts of what is run on a GPU: programs with limits, and what is kept of them, whenever they end."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import typing

GRACE = 8  # seconds between the signal that asks a part to stop and the one that ends it
LOST = 7  # the exit status of frugal after an error that leaves its process without the GPU
PROCESSES = 3  # at most, of a part that goes on after that
SKIPPED = 77  # the exit status of what cannot be run here; its last line says why
# That all parts are to stop. An exception in its place would come between a program's start and the note of it.
STOPPED = threading.Event()
TEST = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^,\s]+).*\((\d+) ms\)$")  # a line of GoogleTest's


class Part(typing.NamedTuple):
    name: str
    seconds: int  # all that it may take
    command: list
    output: str | None = None  # the file for what it prints; otherwise that is in the log
    whole: bool = False  # whether that file is there only when the part has ended
    shows: tuple = ()  # which outcomes of its tests the summary has a line for
    skip: str = ""  # why it cannot be run here
    resumes: bool = False  # whether another process goes on where one lost its GPU


def line(name, outcome, seconds):
    return f"{name:<56} {outcome:<10} {seconds:6.1f} s"


def end(process, number):
    """Signals a part's programs: it is the leader of their group."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def opened_for_lines(path):
    """To add lines to; without a last one that a killed program left without its end."""
    file = open(path, "a+b")
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    return file


class Runner:
    """Runs parts. The summary and the log have what has ended, and what was said, at any moment."""

    def __init__(self, out, environment):
        self.out, self.environment = out, environment
        self.log = open(out / "log.txt", "a", encoding="utf-8", buffering=1)
        self.summary = open(out / "summary.txt", "a", encoding="utf-8", buffering=1)
        self.lock = threading.Lock()
        self.processes, self.outcomes = [], {}
        self.ended = queue.SimpleQueue()

    def note(self, text):
        with self.lock:
            self.summary.write(text + "\n")
            print(text, flush=True)

    def run(self, parts):
        """All at the same time. Returns whether none failed; raises KeyboardInterrupt when all have stopped."""
        left, killed_at = len(parts), None
        for part in parts:
            threading.Thread(target=self.run_part, args=(part,), daemon=True).start()
        while left > 0:
            with contextlib.suppress(queue.Empty):
                self.ended.get(timeout=0.1)
                left -= 1
            if STOPPED.is_set() and killed_at is None:
                killed_at = time.monotonic() + GRACE
                self.end_all(signal.SIGINT)
            if killed_at and time.monotonic() > killed_at:
                self.end_all(signal.SIGKILL)
        if STOPPED.is_set():
            raise KeyboardInterrupt
        return all(self.outcomes[part.name] in ("ok", "skipped") for part in parts)

    def end_all(self, number):
        for process in self.processes:
            if process.returncode is None:  # the numbers of others may be another's by now
                end(process, number)

    def run_part(self, part):
        start = time.monotonic()
        self.outcomes[part.name] = "failed"
        try:
            outcome, why = ("skipped", part.skip) if part.skip else self.run_program(part, start + part.seconds)
            if STOPPED.is_set():
                outcome, why = "stopped", ""
            self.outcomes[part.name] = outcome
            self.note(line(part.name, outcome, time.monotonic() - start) + (f"  {why}" if why else ""))
        finally:
            self.ended.put(part.name)

    def run_program(self, part, until):
        """How it ended, and why if not well."""
        for left in reversed(range(PROCESSES if part.resumes else 1)):
            outcome, why, status = self.run_process(part, until - time.monotonic())
            if status != LOST or left == 0 or STOPPED.is_set() or until - time.monotonic() < 2 * GRACE:
                return outcome, why
            self.note(f"  {part.name} goes on in another process after {why}")

    def run_process(self, part, seconds):
        """The same and its exit status, if it was started."""
        with self.lock:
            self.log.write(f"\n=== {part.name}: {' '.join(map(str, part.command))}\n")
        said = [""]
        with self.opened(part) as output:
            try:
                process = subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE,
                                           stderr=subprocess.PIPE if output else subprocess.STDOUT, text=True,
                                           errors="replace", env=self.environment, process_group=0)
            except OSError as error:
                return "failed", str(error), None
            self.processes.append(process)
            if STOPPED.is_set():
                end(process, signal.SIGINT)
            reader = threading.Thread(target=self.read, args=(part, process, said), daemon=True)
            reader.start()
            in_time = self.wait(process, seconds)
            reader.join(2)
            if not reader.is_alive():  # what left the group may keep the pipe
                (process.stderr if part.output else process.stdout).close()
            if part.whole:
                self.keep(part, output)
        status = process.returncode
        if status == 0:
            return "ok", "", status
        if status == SKIPPED:
            return "skipped", said[0], status
        if not in_time:
            return "limit", f"stopped after its {part.seconds - GRACE} s", status
        return "failed", f"status {status}: {said[0]}", status

    def opened(self, part):
        if part.output is None:
            return contextlib.nullcontext()
        return tempfile.TemporaryFile() if part.whole else opened_for_lines(self.out / part.output)

    def read(self, part, process, said):
        for text in process.stderr if part.output else process.stdout:
            with self.lock:
                self.log.write(text)
            said[0] = text.strip() or said[0]
            test = TEST.match(text)
            outcome = test and {"OK": "ok"}.get(test[1], test[1].lower())
            if outcome in part.shows:
                self.note(line("  " + test[2], outcome, int(test[3]) / 1000))

    def wait(self, process, seconds):
        """Whether it ended in time. Nothing of it is left behind."""
        in_time = False
        try:
            process.wait(seconds - GRACE)
            in_time = True
        except subprocess.TimeoutExpired:
            end(process, signal.SIGINT)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                pass
        end(process, signal.SIGKILL)
        process.wait()
        return in_time

    def keep(self, part, output):
        """A file that is there whole or not at all."""
        output.seek(0)
        text = output.read()
        if text:
            unfinished = self.out / (part.output + ".part")
            unfinished.write_bytes(text)
            unfinished.replace(self.out / part.output)
