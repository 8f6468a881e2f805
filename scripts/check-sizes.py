#!/usr/bin/env python3
"""Fails for a function of more than 60 lines, and for a file of more than 700."""

import ast
import pathlib
import subprocess
import sys

MOST_IN_FUNCTION, MOST_IN_FILE = 60, 700
ROOT = pathlib.Path(__file__).resolve().parent.parent


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def functions_of_cpp(lines):
    """(first line from 1, lines) of each block: clang-format closes functions by a brace alone, and what is not one,
    such as a class, a table or a namespace, by more than that."""
    for end, line in enumerate(lines):
        if line.strip() != "}":
            continue
        depth = indentation(line)
        begin = end - 1
        while begin > 0 and (not lines[begin].strip() or indentation(lines[begin]) > depth
                             or lines[begin].startswith(("#", "}"))):
            begin -= 1
        yield begin + 1, end - begin + 1


def functions_of_python(lines):
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def functions(path, lines):
    if path.suffix in (".cpp", ".h", ".cu", ".cuh"):
        return functions_of_cpp(lines)
    return functions_of_python(lines) if path.suffix == ".py" else ()


def main():
    sources = subprocess.run([ROOT / "scripts/sources.sh", "--all"], capture_output=True, text=True, check=True)
    failed = False
    for name in sources.stdout.split():
        lines = (ROOT / name).read_text().splitlines()
        if len(lines) > MOST_IN_FILE:
            print(f"check-sizes.py: {name} has {len(lines)} lines, at most {MOST_IN_FILE} are allowed in a file; split "
                  "it by what it does", file=sys.stderr)
            failed = True
        for line, length in functions(pathlib.Path(name), lines):
            if length > MOST_IN_FUNCTION:
                print(f"check-sizes.py: {name}:{line}: {length} lines, at most {MOST_IN_FUNCTION} are allowed in a "
                      "function; split it", file=sys.stderr)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
