#!/usr/bin/env python3
"""Records as a Parquet file: what `frugal export DIR` prints, with a type for each column and a list of samples.

It needs the Python package pyarrow (`pip install pyarrow`), which Debian 12 does not have.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHOLE = {"record", "scale", "stage", "samples"}
REAL = {"median", "low", "high"}
ZERO = {"paper", "all", "none", "auto"}  # words of the command line for a configuration's 0


def kinds_of(columns):
    """By the names of columns "integer", "number", "boolean", "string" or "numbers", a list: the configuration's from its
    schema, other text as it is."""
    schema = json.loads((ROOT / "docs/configuration.schema.json").read_text())["properties"]
    for column in columns:
        described = schema.get(column, {})
        kind = described.get("anyOf", [described])[0].get("type")
        if column == "values":
            yield "numbers"
        elif column in WHOLE:
            yield "integer"
        elif column in REAL:
            yield "number"
        else:
            yield kind if kind in ("integer", "number", "boolean") else "string"


def value_of(text, kind):
    """What the text of a column stands for; None where nothing is known."""
    if text == "" and kind != "string":
        return None
    if kind == "integer":
        return 0 if text in ZERO else int(text)
    return {"numbers": lambda: [float(sample) for sample in text.split()], "string": lambda: text,
            "boolean": lambda: {"true": True, "false": False}[text], "number": lambda: float(text)}[kind]()


def table_of(exported):
    """What `frugal export` printed: names of columns, the kind of each, and its values, a list for each column."""
    columns, *rows = csv.reader(io.StringIO(exported))
    kinds = list(kinds_of(columns))
    return columns, kinds, [[value_of(row[i], kind) for row in rows] for i, kind in enumerate(kinds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", help="with records.jsonl")
    parser.add_argument("file", metavar="FILE", help="the Parquet file")
    parser.add_argument("--frugal", default=str(ROOT / "build/release/frugal"), help="the program")
    parser.add_argument("--force", action="store_true", help="replace FILE")
    given = parser.parse_args()
    try:
        import pyarrow as arrow  # pylint: disable=import-outside-toplevel
        from pyarrow import parquet  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("the Python package pyarrow is missing; install it (pip install pyarrow), or use frugal export")
    if os.path.exists(given.file) and not given.force:
        sys.exit(f"{given.file} exists already; choose another name, or replace it with --force")
    exported = subprocess.run([given.frugal, "export", given.folder], capture_output=True, text=True, check=False)
    if exported.returncode != 0:
        sys.exit(exported.stderr.strip())
    columns, kinds, values = table_of(exported.stdout)
    types = {"integer": arrow.int64(), "number": arrow.float64(), "boolean": arrow.bool_(), "string": arrow.string(),
             "numbers": arrow.list_(arrow.float64())}
    arrays = [arrow.array(column, types[kind]) for kind, column in zip(kinds, values)]
    part = f"{given.file}.part"
    parquet.write_table(arrow.table(arrays, names=columns), part)
    os.replace(part, given.file)


if __name__ == "__main__":
    main()
