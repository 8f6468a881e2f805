#!/usr/bin/env python3
"""Do the tests notice the lines that a change adds? Makes small mistakes there, and says which of them no test finds.

    scripts/mutate.py BASE            lines that were added since BASE, committed or not
    scripts/mutate.py --all FILE...   every line of some files
    scripts/mutate.py BASE --list     which mistakes it would make; builds nothing

Operators of scripts/mutations.py make the mistakes, all in one copy of the sources, build/faults. Mutants that do not
compile are left out. Tests of the folder that mirrors the file's run first, then the whole test program of its layer. A
mutant that survives needs a test, or is no mistake.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import faults
import mutations

# The tests of a file whose path begins so; the first that fits. `PROGRAM FILTER`, or ctest and a beginning of names.
TESTS = (("kernels/cuda/", ["tests_emulated *", "tests_cuda_emulated *"]), ("kernels/", ["tests_kernels *"]),
         ("engine/comm/nccl/nccl", ["tests_nccl *"]), ("engine/", ["tests_engine *"]), ("harness/", ["tests_harness *"]),
         ("experiments/", ["tests_experiments *"]), ("app/", ["ctest cli.*"]), ("bench/", ["tests_bench *"]),
         ("plots/", ["ctest plots.*"]), ("scripts/", ["ctest scripts.*"]))


def added_lines(base):
    """{file: its line numbers that the tree has and `base` has not}."""
    diff = subprocess.run(["git", "diff", "-U0", "--no-color", base], cwd=faults.ROOT, check=True, capture_output=True, text=True).stdout
    lines, file = collections.defaultdict(set), None
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line[6:]
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(match[1]), int(match[2] or 1)
            lines[file].update(range(first, first + count))
    return lines


def mutants_of(sources, lines):
    """Every mistake on the lines; None stands for all lines of a file."""
    return [site for file in sorted(lines) if file in sources for function in mutations.functions(file, sources[file])
            for operator in mutations.ALONE for site in mutations.sites(function, operator)
            if lines[file] is None or site.line in lines[file]]


def tests_of(file):
    """What runs for a mutant of a file, nearest first."""
    if file.startswith("bench/") and file.endswith(".py"):
        return ["ctest bench.*"]
    all_of_it = next(tests for beginning, tests in TESTS if file.startswith(beginning))
    path = pathlib.PurePath(file)
    near = [test for test in (faults.ROOT / "tests" / path.parent).glob("*_test.cpp")
            if path.stem.split("_")[0] in test.stem or path.stem in test.read_text()]
    suites = sorted({suite for test in near for suite in re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),", test.read_text(), re.MULTILINE)})
    nearest = [f"{all_of_it[0].split()[0]} {':'.join(f'{s}.*:*/{s}.*:{s}/*' for s in suites)}"] if suites else []
    return nearest + all_of_it


def build(mutants):
    """Compiles all that can be; returns those mutants that could."""
    programs = faults.programs_of(by for site in mutants.values() for by in tests_of(site.function.file))
    while mutants:
        lines = faults.copy_sources(mutants)
        run = faults.build(programs, capture_output=True, text=True)
        if run.returncode == 0:
            return mutants
        bad = {number for file, line in re.findall(r"([\w./+-]+):(\d+):(?:\d+:)? +(?:error|fatal|required from)", run.stdout + run.stderr)
               for name, of_file in lines.items() if file.endswith(name) for number, (first, last) in of_file.items()
               if first <= int(line) <= last}
        if not bad:
            sys.exit(run.stdout[-4000:] + run.stderr)
        print(f"{len(bad)} do not compile", flush=True)
        mutants = {number: site for number, site in mutants.items() if number not in bad}
    return mutants


def tried(number, site, passing):
    """By which tests a mutant was found; None where it survived. passing: {tests: seconds without a mutant}."""
    for tests in tests_of(site.function.file):
        if tests in passing and faults.outcome(tests, number, 4 * passing[tests] + 20) in ("failed", "crashed", "hung"):
            return tests
    return None


def timed(tests):
    start = time.monotonic()
    return faults.outcome(tests, longest=1200), time.monotonic() - start


def try_all(mutants):
    """Prints what survives, and returns how many that are."""
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        finders = sorted({tests for site in mutants.values() for tests in tests_of(site.function.file)})
        passing = {}
        for tests, (said, seconds) in zip(finders, pool.map(timed, finders)):
            if said == "passed":
                passing[tests] = seconds
            elif said != "0 tests ran":
                sys.exit(f"{tests}: {said} without a mutant")
        for (number, site), by in zip(mutants.items(), pool.map(lambda item: tried(*item, passing), mutants.items())):
            survivors += by is None
            print(f"{'SURVIVES' if by is None else 'found'}: {describe(site)}" + (f"  [{by.split()[0]}]" if by else ""), flush=True)
    return survivors


def describe(site):
    right, wrong = (re.sub(r"\s+", " ", text) for text in (site.right, site.wrong))
    return f"{site.function.file}:{site.line}: {site.function.name}: {site.operator}: {right} -> {wrong or 'nothing'}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?")
    parser.add_argument("--all", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if bool(options.base) == bool(options.all):
        parser.error("give a commit, or --all with files")
    return options


def main():
    options = arguments()
    sources = faults.read_sources()
    lines = added_lines(options.base) if options.base else {str(pathlib.PurePath(file)): None for file in options.all}
    chosen = mutants_of(sources, lines)
    if options.sample is not None and options.sample < len(chosen):
        chosen = random.Random(options.seed).sample(chosen, options.sample)
    if options.list:
        return print("\n".join(describe(site) for site in chosen) or "no mistakes fit these lines")
    mutants = build(dict(enumerate(chosen, 1)))
    if not mutants:
        return print("no mutants to try")
    survivors = try_all(mutants)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants found")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
