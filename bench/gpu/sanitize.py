#!/usr/bin/env python3
"""compute-sanitizer's four tools over the operation tests of a GPU:
    bench/gpu/sanitize.py TESTS RESULTS.csv SECONDS
A line is added to RESULTS.csv when a test ends under a tool: tool, test, outcome, seconds. The
tests of one tool share a process, and so a GPU's device, for as long as none fails to end; then the tests
after it have another. What needs most looking at comes first: what threads of a block share memory for."""

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from parts import SKIPPED, STOPPED, TEST, opened_for_lines

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Products are the library's.
TESTS = "Rows/OnTheGpu.AgreesWithFloat64/*:-*/gemm*"
SHARED = re.compile(r"/(softmax|layer_norm|rms_norm|column_sum|cross_entropy|embedding_backward|bias_dropout|sum)")
LONGEST = 20  # seconds for one test; a tool slows a kernel down a hundred times
BEGIN = re.compile(r"^\[ RUN +\] (\S+)")
# What a tool says beside its findings.
NO_FINDING = re.compile(r"^=+ (COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application|$)")


def listed(program):
    """In order of value, in two parts."""
    said = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={TESTS}"], capture_output=True, text=True,
                          check=True).stdout
    names, suite = [], ""
    for text in said.splitlines():
        word = text.split("#")[0].strip()
        if text.startswith(" "):
            names.append(suite + word)
        else:
            suite = word
    first = [name for name in names if SHARED.search(name)]
    return first, [name for name in names if name not in first]


class Watch:
    """One process of a tool: what its tests come to, and its end where one does not."""

    def __init__(self, tool, program, tests, add):
        self.tool, self.add, self.left = tool, add, list(tests)
        self.current, self.began, self.findings = None, time.monotonic(), 0
        command = ["compute-sanitizer", "--tool", tool, "--destroy-on-device-error", "kernel", "--error-exitcode", "9",
                   "--print-limit", "20", program, "--gtest_filter=" + ":".join(tests)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", process_group=0,
                                        env={**os.environ, "FRUGAL_TEST_SMALL": "1", "FRUGAL_CUDA_PAGES": "0"})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for text in self.process.stdout:
            text = text.rstrip()
            print(text, flush=True)
            begin, end = BEGIN.match(text), TEST.match(text)
            if begin:
                self.current, self.began, self.findings = begin[1], time.monotonic(), 0
            elif end and end[2] == self.current:
                self.ended({"OK": "ok", "FAILED": "failed"}.get(end[1], "skipped"))
            elif text.startswith("=====") and not NO_FINDING.match(text):
                self.findings += 1

    def ended(self, outcome):
        seconds = time.monotonic() - self.began
        self.add(self.tool, self.current, "found" if self.findings else outcome, seconds)
        self.left.remove(self.current)
        self.current, self.began, self.findings = None, time.monotonic(), 0

    def wait(self, until):
        """Returns the tests that are left for another process."""
        while self.reader.is_alive() and time.monotonic() < min(until, self.began + LONGEST) and not STOPPED.is_set():
            self.reader.join(0.2)
        alive = self.reader.is_alive()
        self.stop()
        if self.findings and not self.current:
            self.add(self.tool, "after the last test", "found", 0)
        if STOPPED.is_set():
            return []
        if self.current:
            self.ended("limit" if alive else "died")
        elif self.left and time.monotonic() < until:  # it ends before a test or between two
            self.current = self.left[0]
            self.ended("limit" if alive else "died")
        return self.left


    def stop(self):
        """The tool and the program, which is its child."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: bench/gpu/sanitize.py TESTS RESULTS.csv SECONDS")
    program, results, end = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
    if not shutil.which("compute-sanitizer"):
        print("there is no compute-sanitizer here")
        sys.exit(SKIPPED)
    signal.signal(signal.SIGINT, lambda *_: STOPPED.set())
    outcomes = collections.Counter()
    with opened_for_lines(results) as file:
        def write(*fields):
            file.write(",".join(fields).encode() + b"\n")
            file.flush()

        def add(tool, test, outcome, seconds):
            write(tool, test, outcome, f"{seconds:.3f}")
            print(f"{tool} {test}: {outcome}", flush=True)
            outcomes[outcome] += 1

        if os.fstat(file.fileno()).st_size == 0:
            write("tool", "test", "outcome", "seconds")
        for part in listed(program):
            for i, tool in enumerate(TOOLS):
                left = part
                until = time.monotonic() + (end - time.monotonic()) / (len(TOOLS) - i)
                while left and not STOPPED.is_set() and time.monotonic() < until:
                    left = Watch(tool, program, left, add).wait(until)
                if left:
                    print(f"{tool}: no time for {len(left)} tests", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())) or "nothing was run")
    sys.exit(0 if set(outcomes) == {"ok"} else 1)


if __name__ == "__main__":
    main()
