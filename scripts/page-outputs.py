#!/usr/bin/env python3
"""Runs the commands that pages show, and writes what they print behind them.

    page-outputs.py FRUGAL PAGE...           writes the pages anew
    page-outputs.py --check FRUGAL PAGE...   says which would change; exit status 1 where one would

A block of code that begins with "$ frugal …" has commands, each in one line or in several with a backslash at their ends,
and behind it what it prints on stdout. Those of a block run one after the other in a shell, in a folder of their own.
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?<=^```\n)\$ frugal .*?(?=^```$)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ frugal ((?:[^\n]*\\\n)*[^\n]*\n)", re.MULTILINE)
#: It ended well, or memory ran out: what it says then is an answer, too.
ENDED = (0, 3)


def output(frugal, command, folder):
    done = subprocess.run(["bash", "-c", 'frugal() { "$0" "$@"; }; frugal ' + command, frugal], cwd=folder,
                          capture_output=True, text=True, check=False)
    if done.returncode not in ENDED or not (done.stdout or ">" in command):
        sys.exit(f"page-outputs.py: frugal {command.strip()} ended with {done.returncode}: {done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def block_with_outputs(frugal, block):
    with tempfile.TemporaryDirectory() as folder:
        return "".join(f"$ frugal {command}{output(frugal, command, folder)}" for command in COMMAND.findall(block))


def with_outputs(frugal, page):
    """A page's text with what its commands print now."""
    if (all_blocks := len(re.findall(r"^```.*\n\$ frugal ", page, re.MULTILINE))) != len(BLOCK.findall(page)):
        sys.exit(f"page-outputs.py: {all_blocks} blocks begin with a command, and {len(BLOCK.findall(page))} of them end; "
                 "a fence is a line of ``` and nothing else")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        blocks = iter(list(pool.map(lambda block: block_with_outputs(frugal, block), BLOCK.findall(page))))
    return BLOCK.sub(lambda _: next(blocks), page)


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
