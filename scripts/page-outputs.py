#!/usr/bin/env python3
"""Runs the commands that pages show, and writes what they print behind them.

    page-outputs.py FRUGAL PAGE...           writes the pages anew
    page-outputs.py --check FRUGAL PAGE...   says which would change; exit status 1 where one would

A block of code that begins with "$ frugal …" is a command, in one line or in several with a backslash at their ends, and
behind it what it prints on stdout. Each is run in a folder of its own.
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^(```\n\$ frugal )((?:[^\n]*\\\n)*[^\n]*\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
#: It ended well, or memory ran out: what it says then is an answer, too.
ENDED = (0, 3)


def output(frugal, command):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([frugal, *shlex.split(command.replace("\\\n", " "))], cwd=folder, capture_output=True,
                              text=True, check=False)
    if done.returncode not in ENDED or not done.stdout:
        sys.exit(f"page-outputs.py: frugal {command.strip()} ended with {done.returncode}: {done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def with_outputs(frugal, page):
    """A page's text with what its commands print now."""
    commands = [block[1] for block in BLOCK.findall(page)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = iter(list(pool.map(lambda command: output(frugal, command), commands)))
    return BLOCK.sub(lambda block: block[1] + block[2] + next(outputs) + block[4], page)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and say what would change")
    parser.add_argument("frugal", type=lambda path: str(pathlib.Path(path).resolve()), help="the program")
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    given = parser.parse_args()
    changed = False
    for page in given.pages:
        text = page.read_text(encoding="utf-8")
        new = with_outputs(given.frugal, text)
        if given.check and new != text:
            changed = True
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), str(page), "now"))
        elif not given.check:
            page.write_text(new, encoding="utf-8")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
