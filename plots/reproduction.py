"""Reading what `frugal reproduce --format json` printed."""

import argparse
import json
import pathlib
import sys

SCHEMA = "frugal.reproduction/1"


class Artifact:
    """The cells of one table or figure of a paper."""

    def __init__(self, cells):
        self.cells = cells

    def find(self, row, column, source, scale=None):
        """The last cell of a source ("virtual", "measured", "formula"), at any scale unless one is
        given; or None."""
        for cell in reversed(self.cells):
            if ((cell["row"], cell["column"], cell["source"]) == (row, column, source)
                    and scale in (None, cell["scale"])):
                return cell
        return None

    def ours(self, row, column, source, factor=1, scale=None):
        """Its (value, interval), times a factor, or None."""
        cell = self.find(row, column, source, scale)
        if cell is None or cell["value"] is None:
            return None
        interval = cell.get("interval")
        return cell["value"] * factor, interval and [factor * end for end in interval]

    def has(self, name):
        """Whether a row or column of this name has a value."""
        return any(name in (c["row"], c["column"]) and c["value"] is not None for c in self.cells)

    def fitted(self, row, column, source):
        """Whether something was fitted so that this number meets the paper's."""
        cell = self.find(row, column, source)
        return cell is not None and cell["fitted"]

    def paper(self, row, column, factor=1):
        """What the paper reports, as (value, None), or None."""
        for cell in self.cells:
            if (cell["row"], cell["column"]) == (row, column) and cell["paper"] is not None:
                return cell["paper"] * factor, None
        return None

    def origin(self, source):
        """Where numbers of a source come from, such as "measured (cpu, scale 1/4)"; None where
        there are none."""
        for cell in reversed(self.cells):
            if cell["source"] == source and cell["value"] is not None:
                where = [cell["on"].removeprefix("virtual:")] if cell["on"] else []
                where += [] if cell["scale"] == "1" else [f"scale {cell['scale']}"]
                return f"{source} ({', '.join(where)})" if where else source
        return None


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def read(folder, artifact, source=None):
    """An artifact's cells from every reproduction in a folder, later files (by name) over earlier
    ones. Stops with the command that makes them where there are none (of the source)."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        fail(f"{folder}: no such folder; give the one with the output of 'frugal reproduce'")
    cells = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fail(f"{path}: {error}; remove it or run the command that wrote it again")
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            cells += [c for c in document["cells"] if c["artifact"] == artifact]
    if not any(c["value"] is not None and source in (None, c["source"]) for c in cells):
        on = " --on virtual" if source == "virtual" else ""
        fail(f"{folder}: no results of {artifact}; make them with: frugal reproduce {artifact}{on} "
             f"--format json > {folder}/{artifact.replace('/', '-')}.json")
    return Artifact(cells)


def arguments(description):
    """The input and the output folder of a plot."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("input", help="folder with JSON of 'frugal reproduce --format json'")
    parser.add_argument("output", help="folder for PNG and SVG files; made where it is missing")
    return parser.parse_args()
