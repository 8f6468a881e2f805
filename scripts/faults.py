#!/usr/bin/env python3
"""Do the tests find faults? Puts those of tests/faults/faults.json in by turns, and runs the tests that find each.

    scripts/faults.py                 all, in a build of their own: build/faults
    scripts/faults.py --only NAME     one of them, or several
    scripts/faults.py --list          what there are
    scripts/faults.py --check         whether the list still fits the sources; builds nothing

A fault stands for a kind of mistake: the name of a `function`, and an `operator` of scripts/mutations.py that makes the
mistake there, at the place `nth` where the operator fits several. Each test of `found_by` has to find it: a program and a
filter of its tests, or `ctest` and the exact name of a test. All faults are compiled into one copy of the sources, and the
environment variable FRUGAL_FAULT, a number, says which of them is on.
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

import mutations

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/faults/faults.json"
COPY = ROOT / "build/faults"
BUILD = COPY / "build/release"
KEYS, OPTIONAL = {"name", "function", "operator", "found_by"}, {"nth"}
FOLDERS = ("kernels", "engine", "harness", "experiments", "app", "bench", "plots", "scripts")
LONGEST = 300  # seconds that a test may run; with a fault it may wait for ever


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True).stdout
    return [file for file in listed.decode().split("\0") if file and (ROOT / file).is_file()]


def read_sources():
    return {file: (ROOT / file).read_text() for file in tracked()
            if file.endswith((*mutations.CPP, ".py")) and file.startswith(tuple(f"{folder}/" for folder in FOLDERS))}


def site_of(fault, sources):
    """Where a fault is; throws ValueError, which says what does not fit."""
    definitions = mutations.find(fault["function"], sources)
    if not definitions:
        raise ValueError(f"there is no function {fault['function']}")
    if fault["operator"].split()[0] not in mutations.OPERATORS:
        raise ValueError(f"there is no operator {fault['operator']}; there are {', '.join(mutations.OPERATORS)}")
    found = [site for function in definitions for site in mutations.sites(function, fault["operator"])]
    nth = fault.get("nth", 1)
    if nth > len(found) or "nth" not in fault and len(found) > 1:
        places = "".join(f"\n  {i}: {site.function.file}:{site.line}: {site.right!r} -> {site.wrong!r}" for i, site in enumerate(found, 1))
        raise ValueError(f"{fault['operator']} fits {len(found)} places of {fault['function']}; say with nth which{places}")
    return found[nth - 1]


def problems(faults, sources):
    """What is wrong with the list; sources: {file: text}."""
    found = []
    names = collections.Counter(fault.get("name") for fault in faults)
    for fault in faults:
        name = fault.get("name")
        if not KEYS <= set(fault) <= KEYS | OPTIONAL or not all(fault.values()):
            found.append(f"{name}: needs {', '.join(sorted(KEYS))}, may have {', '.join(sorted(OPTIONAL))}, and nothing else")
            continue
        if names[name] > 1:
            found.append(f"{name}: there are {names[name]} of this name")
        if not isinstance(fault["found_by"], list) or any(len(by.split()) != 2 for by in fault["found_by"]):
            found.append(f"{name}: found_by is a list of programs with a filter of their tests, or of ctest with a test's name")
        try:
            site = site_of(fault, sources)
            if site.function.python:
                ast.parse(mutations.plant(site.function.text, {1: site})[0])
        except (ValueError, SyntaxError) as error:
            found.append(f"{name}: {error}")
    return found


def write(path, content):
    """Only where it changes, so that only that is compiled again."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def copy_sources(mutants):
    """The tree with its mutants, {number: site}; returns {file: {number: (first, last line)}} of them."""
    files = tracked()
    known = set(files)
    of_file, lines = collections.defaultdict(dict), {}
    for number, site in mutants.items():
        of_file[site.function.file][number] = site
    for file in files:
        content = (ROOT / file).read_bytes()
        if file in of_file:
            planted, lines[file] = mutations.plant(content.decode(), of_file[file])
            content = planted.encode()
        write(COPY / file, content)
        (COPY / file).chmod((ROOT / file).stat().st_mode)
    write(COPY / "frugal_fault.h", mutations.HEADER.encode())
    # What was removed since an earlier run would be compiled still: sources are globbed.
    for folder in {pathlib.PurePath(file).parts[0] for file in files if "/" in file}:
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(COPY)) not in known:
                path.unlink()
    return lines


def build(programs, **options):
    environment = dict(os.environ, CCACHE_BASEDIR=str(COPY))
    configure = ["cmake", "--preset", "release", "-DFRUGAL_WITH_CUDA=OFF", "-DFRUGAL_BUILD_BENCH=OFF"]
    if subprocess.run(["which", "ccache"], capture_output=True).returncode == 0:
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(configure, cwd=COPY, env=environment, check=True, **options)
    return subprocess.run(["cmake", "--build", "--preset", "release", "--target", *programs, "--", "-k0"], cwd=COPY,
                          env=environment, **options)


def outcome(found_by, number=0, longest=LONGEST):
    """What the tests say with this fault: passed, failed, crashed, hung, or that there are none."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, FRUGAL_FAULT=str(number), FRUGAL_TEST_SEED="1", FRUGAL_RUN_ONCE="1",
                           PYTHONDONTWRITEBYTECODE="1", TEST_TMPDIR=folder, TMPDIR=folder, GTEST_FAIL_FAST="1")
        program, tests = found_by.split()
        if program == "ctest":
            named = tests if tests.endswith("*") else f"^{re.escape(tests)}$"
            command = ["ctest", "--test-dir", BUILD, "-R", named.removesuffix("*"), "--timeout", str(longest), "--stop-on-failure"]
            run = subprocess.run(command, env=environment, capture_output=True)
            if b"No tests were found" in run.stderr + run.stdout:
                return "0 tests ran"
            return "failed" if run.returncode else "passed"
        command = [BUILD / "tests" / program, f"--gtest_filter={tests}"]
        try:
            run = subprocess.run(command, cwd=BUILD / "tests", env=environment, timeout=longest, capture_output=True)
        except subprocess.TimeoutExpired:
            return "hung"
    if b"[ RUN      ]" not in run.stdout:
        return "0 tests ran"
    if run.returncode == 0:
        return "passed"
    return "failed" if b"[  FAILED  ]" in run.stdout else "crashed"


def try_all(numbered):
    """Prints a line for each fault and finder; returns how many faults all of theirs found. Tests run beside each other, each
    with a folder of its own."""
    width = max(len(fault["name"]) for fault in numbered.values())
    finders = sorted({by for fault in numbered.values() for by in fault["found_by"]})
    missed = set()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        without = dict(zip(finders, pool.map(outcome, finders)))

        def tried(item):
            number, by, start = *item, time.monotonic()
            said = outcome(by, number) if without[by] == "passed" else f"{without[by]} without the fault"
            return said, time.monotonic() - start
        tries = [(number, by) for number, fault in numbered.items() for by in fault["found_by"]]
        for (number, by), (said, seconds) in zip(tries, pool.map(tried, tries)):
            good = said in ("failed", "crashed", "hung")
            if not good:
                missed.add(number)
            print(f"{'' if good else 'NOT FOUND: '}{numbered[number]['name']:{width}}  {by}  {said}  {seconds:.1f} s", flush=True)
    return len(numbered) - len(missed)


def programs_of(finders):
    return sorted({by.split()[0].replace("ctest", "frugal") for by in finders})


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    faults = json.loads(LIST.read_text())
    sources = read_sources()
    wrong = problems(faults, sources)
    if wrong:
        sys.exit("\n".join(wrong))
    if options.check:
        return print(f"{len(faults)} faults fit the sources")
    numbered = {number: fault for number, fault in enumerate(faults, 1)
                if options.only is None or fault["name"] in options.only}
    if options.list or not numbered:
        for fault in faults:
            print(f"{fault['name']}: {fault['operator']} in {fault['function']}")
        return sys.exit(0 if options.list else f"--only {' '.join(options.only)}: there is none; these are all")
    copy_sources({number: site_of(fault, sources) for number, fault in enumerate(faults, 1)})
    build(programs_of(by for fault in numbered.values() for by in fault["found_by"])).check_returncode()
    found = try_all(numbered)
    print(f"{found} of {len(numbered)} faults found")
    sys.exit(found < len(numbered))


if __name__ == "__main__":
    main()
