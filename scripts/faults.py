#!/usr/bin/env python3
"""Do the tests find faults? Puts those of tests/faults/faults.json in by turns, and runs the test that finds each.

    scripts/faults.py                 all, in a build of their own: build/faults
    scripts/faults.py --only NAME     one of them, or several
    scripts/faults.py --list          what there are
    scripts/faults.py --check         whether the list still fits the sources; builds nothing

All faults are put into one copy of the sources, and the environment variable FRUGAL_FAULT, a number, says which of
them is on: `right` has become `(frugal_fault(N) ? (wrong) : (right))`, or with if and else where it is statements; in
Python, expressions alone, `((wrong) if _fault(N) else (right))`. Several faults may have the same `right`. `found_by`
is a program and a filter of its tests, or `ctest` and the exact name of a test.
"""

import argparse
import ast
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/faults/faults.json"
COPY = ROOT / "build/faults"
BUILD = COPY / "build/release"
KEYS = {"name", "layer", "file", "right", "wrong", "found_by"}
LONGEST = 300  # seconds that a test may run; with a fault it may wait for ever

# Kernels too are compiled with it, on the emulated GPU, which is told of all that instrumented code reads.
HEADER = """#pragma once
#include <cstdlib>
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-value"
[[maybe_unused]] static const int frugal_fault_on = [] {
  const char* const number = std::getenv("FRUGAL_FAULT");
  return number == nullptr ? 0 : std::atoi(number);
}();
[[maybe_unused, gnu::no_sanitize_thread]] static bool frugal_fault(int number) { return number == frugal_fault_on; }
"""
PYTHON = 'def _fault(number): import os; return os.environ.get("FRUGAL_FAULT") == str(number)  # noqa\n'


def problems(faults, read):
    """What is wrong with the list; read(file) gives a source's text."""
    found = []
    names = collections.Counter(fault.get("name") for fault in faults)
    for fault in faults:
        name = fault.get("name")
        if set(fault) != KEYS or not all(fault.values()):
            found.append(f"{name}: needs {', '.join(sorted(KEYS))}, and nothing else")
            continue
        if names[name] > 1:
            found.append(f"{name}: there are {names[name]} of this name")
        if len(fault["found_by"].split()) != 2:
            found.append(f"{name}: found_by is a program and a filter of its tests, or ctest and a test's name")
        if is_statement(fault, "right") != is_statement(fault, "wrong"):
            found.append(f"{name}: right and wrong are both expressions, or both statements")
        if any(not is_whole(fault[which]) for which in ("right", "wrong")):
            found.append(f"{name}: right and wrong are whole: not the head of a loop, no part of a string, parentheses or braces")
        text = read(fault["file"])
        count = text.count(fault["right"])
        if count != 1:
            found.append(f"{name}: what is right stands {count} times in {fault['file']}, and must once")
        elif is_python(fault):
            try:
                ast.parse(with_faults(text, {1: fault}))
            except SyntaxError as error:
                found.append(f"{name}: what is right and wrong are Python's expressions: {error}")
    return found


def is_whole(code):
    """No head of a loop, and no part of a string, of parentheses or of braces."""
    pairs = all(code.count(begin) == code.count(end) for begin, end in ("()", "{}"))
    head = re.match(r"(for|if|while) \(", code) and code[-1] not in ";}"
    return pairs and not head and code.replace('\\"', "").count('"') % 2 == 0


def is_python(fault):
    return fault["file"].endswith(".py")


def is_statement(fault, which):
    return not is_python(fault) and fault[which][-1] in ";}"


def with_faults(text, faults):
    """A source with its faults, each {number: fault}, to choose among."""
    chosen = {}
    for number, fault in faults.items():
        right, wrong = fault["right"], fault["wrong"]
        others = chosen.get(right, right)
        if is_python(fault):
            chosen[right] = f"(({wrong}) if _fault({number}) else ({others}))"
        elif is_statement(fault, "right"):
            chosen[right] = f"if (frugal_fault({number})) {{ {wrong} }} else {{ {others} }}"
        else:
            chosen[right] = f"(frugal_fault({number}) ? ({wrong}) : ({others}))"
    for right, any_of_them in chosen.items():
        text = text.replace(right, any_of_them)
    return with_helper(text) if is_python(fault) else '#include "frugal_fault.h"\n' + text


def with_helper(text):
    """Python that can ask for its fault: after the module's doc string and what it has from the future."""
    line = 1 if text.startswith("#!") else 0
    for statement in ast.parse(text).body:
        string = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not string and getattr(statement, "module", None) != "__future__":
            break
        line = statement.end_lineno
    lines = text.splitlines(keepends=True)
    return "".join(lines[:line] + [PYTHON] + lines[line:])


def write(path, content):
    """Only where it changes, so that only that is compiled again."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def copy_sources(numbered):
    tracked = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    files = [file for file in tracked.decode().split("\0") if file and (ROOT / file).is_file()]
    known = set(files)
    of_file = collections.defaultdict(dict)
    for number, fault in numbered.items():
        of_file[fault["file"]][number] = fault
    for file in files:
        content = (ROOT / file).read_bytes()
        if file in of_file:
            content = with_faults(content.decode(), of_file[file]).encode()
        write(COPY / file, content)
        (COPY / file).chmod((ROOT / file).stat().st_mode)
    write(COPY / "frugal_fault.h", HEADER.encode())
    # What was removed since an earlier run would be compiled still: sources are globbed.
    for folder in {pathlib.PurePath(file).parts[0] for file in files if "/" in file}:
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(COPY)) not in known:
                path.unlink()


def build(programs):
    environment = dict(os.environ, CCACHE_BASEDIR=str(COPY))
    configure = ["cmake", "--preset", "release", "-DFRUGAL_WITH_CUDA=OFF", "-DFRUGAL_BUILD_BENCH=OFF"]
    if subprocess.run(["which", "ccache"], capture_output=True).returncode == 0:
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for command in configure, ["cmake", "--build", "--preset", "release", "--target", *programs, "--", "-k0"]:
        subprocess.run(command, cwd=COPY, env=environment, check=True)


def outcome(found_by, number=0):
    """What the tests say with this fault: passed, failed, crashed, hung, or that there are none."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, FRUGAL_FAULT=str(number), FRUGAL_TEST_SEED="1", FRUGAL_RUN_ONCE="1",
                           PYTHONDONTWRITEBYTECODE="1", TEST_TMPDIR=folder, TMPDIR=folder)
        program, tests = found_by.split()
        if program == "ctest":
            command = ["ctest", "--test-dir", BUILD, "-R", f"^{re.escape(tests)}$", "--timeout", str(LONGEST)]
            run = subprocess.run(command, env=environment, capture_output=True)
            if b"No tests were found" in run.stderr + run.stdout:
                return "0 tests ran"
            return "failed" if run.returncode else "passed"
        command = [BUILD / "tests" / program, f"--gtest_filter={tests}"]
        try:
            run = subprocess.run(command, cwd=BUILD / "tests", env=environment, timeout=LONGEST, capture_output=True)
        except subprocess.TimeoutExpired:
            return "hung"
    if b"[ RUN      ]" not in run.stdout:
        return "0 tests ran"
    if run.returncode == 0:
        return "passed"
    return "failed" if b"[  FAILED  ]" in run.stdout else "crashed"


def try_all(numbered):
    """Prints a line for each fault; returns how many were found. Tests run beside each other, each with a folder of its own."""
    width = max(len(fault["name"]) for fault in numbered.values())
    finders = sorted({fault["found_by"] for fault in numbered.values()})
    found = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        without = dict(zip(finders, pool.map(outcome, finders)))

        def tried(item):
            number, by, start = item[0], item[1]["found_by"], time.monotonic()
            said = outcome(by, number) if without[by] == "passed" else f"{without[by]} without the fault"
            return said, time.monotonic() - start
        for fault, (said, seconds) in zip(numbered.values(), pool.map(tried, numbered.items())):
            good = said in ("failed", "crashed", "hung")
            found += good
            print(f"{'' if good else 'NOT FOUND: '}{fault['name']:{width}}  {fault['layer']:14}  {fault['found_by']}  {said}  "
                  f"{seconds:.1f} s", flush=True)
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    faults = json.loads(LIST.read_text())
    wrong = problems(faults, lambda file: (ROOT / file).read_text())
    if wrong:
        sys.exit("\n".join(wrong))
    if options.check:
        return print(f"{len(faults)} faults fit the sources")
    numbered = {number: fault for number, fault in enumerate(faults, 1)
                if options.only is None or fault["name"] in options.only}
    if options.list or not numbered:
        for fault in faults:
            print(f"{fault['name']}: {fault['layer']}, {fault['file']}")
        return sys.exit(0 if options.list else f"--only {' '.join(options.only)}: there is none; these are all")
    copy_sources(dict(enumerate(faults, 1)))
    build(sorted({fault["found_by"].split()[0].replace("ctest", "frugal") for fault in numbered.values()}))
    found = try_all(numbered)
    print(f"{found} of {len(numbered)} faults found")
    sys.exit(found < len(numbered))


if __name__ == "__main__":
    main()
