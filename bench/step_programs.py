"""The two programs whose training steps bench/compare_steps.py compares, as processes."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile


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


class PyTorch:
    """pytorch_step.py, started once for a row: loading and compiling take longer than the steps."""

    def __init__(self, task, opponent):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, str(opponent)], stdin=subprocess.PIPE,
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


def use_pytorchs_cudnn():
    """The programs that are started from now on look for cuDNN where PyTorch has its own; whether there is one. The
    records say which cuDNN each side had."""
    spec = importlib.util.find_spec("nvidia")
    for package in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted(pathlib.Path(package).glob("*/lib/libcudnn.so.*")):
            before = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = f"{library.parent}:{before}" if before else str(library.parent)
            return True
    return False
