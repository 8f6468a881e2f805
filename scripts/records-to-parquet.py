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


def types_of(columns, arrow):
    """By the names of columns: the configuration's from its schema, other text as it is."""
    schema = json.loads((ROOT / "docs/configuration.schema.json").read_text())["properties"]
    kinds = {"integer": arrow.int64(), "number": arrow.float64(), "boolean": arrow.bool_()}
    for column in columns:
        described = schema.get(column, {})
        kind = described.get("anyOf", [described])[0].get("type")
        if column == "values":
            yield arrow.list_(arrow.float64())
        elif column in WHOLE:
            yield arrow.int64()
        elif column in REAL:
            yield arrow.float64()
        else:
            yield kinds.get(kind, arrow.string())


def value_of(text, kind, arrow):
    if text == "" and kind != arrow.string():
        return None
    if arrow.types.is_list(kind):
        return [float(sample) for sample in text.split()]
    if arrow.types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if arrow.types.is_integer(kind):
        return int(text) if text.lstrip("-").isdigit() else 0  # the word for 0, such as "paper"
    return float(text) if arrow.types.is_floating(kind) else text


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
    rows = list(csv.reader(io.StringIO(exported.stdout)))
    columns, rows = rows[0], rows[1:]
    kinds = list(types_of(columns, arrow))
    arrays = [arrow.array([value_of(row[i], kind, arrow) for row in rows], kind) for i, kind in enumerate(kinds)]
    part = f"{given.file}.part"
    parquet.write_table(arrow.table(arrays, names=columns), part)
    os.replace(part, given.file)


if __name__ == "__main__":
    main()
