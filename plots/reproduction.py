"""Reading what `frugal reproduce --format json` printed, and files of JSON lines."""

import argparse
import json
import pathlib
import sys
import typing

SCHEMA = "frugal.reproduction/1"


class Origin(typing.NamedTuple):
    """Where numbers come from. Those of two origins are two series: another device, size or number
    of threads, or one rank whose communication is modelled (`on` then says so)."""

    source: str  # "virtual", "measured", "formula"
    on: str
    scale: str
    threads: int | None

    @classmethod
    def of(cls, cell):
        return cls(cell["source"], cell["on"], cell["scale"], cell.get("threads"))

    @property
    def lone_rank(self):
        return ", lone rank on " in self.on

    def label(self):
        """Such as "measured (cpu, 2 threads, scale 1/4)"."""
        where = [self.on.removeprefix("virtual:")] if self.on else []
        where += [f"{self.threads} threads"] if self.threads else []
        where += [] if self.scale == "1" else [f"scale {self.scale}"]
        return f"{self.source} ({', '.join(where)})" if where else self.source


class Artifact:
    """The cells of one table or figure of a paper."""

    def __init__(self, cells):
        self.cells = cells

    def names(self, key, of_paper=True):
        """Its rows or columns (`key`) in their order: those of which the paper has a number, or the others of which
        there is one here."""
        theirs = {cell[key] for cell in self.cells if cell["paper"] is not None or cell.get("paper_oom")}
        found = dict.fromkeys(cell[key] for cell in self.cells if of_paper or cell["value"] is not None)
        return [name for name in found if (name in theirs) == of_paper]

    def origins(self, source, rows, columns, scale=None):
        """Each origin of a source ("virtual", "measured", "formula") that has a value in these rows
        and columns, at any scale unless one is given."""
        found = [Origin.of(cell) for cell in self._with_value(rows, columns)
                 if cell["source"] == source and scale in (None, cell["scale"])]
        return list(dict.fromkeys(found))

    def find(self, row, column, origin):
        """The last cell of an origin, or None."""
        for cell in reversed(self.cells):
            if (cell["row"], cell["column"], Origin.of(cell)) == (row, column, origin):
                return cell
        return None

    def ours(self, row, column, origin, factor=1):
        """Its (value, interval), times a factor, or None."""
        cell = self.find(row, column, origin)
        if cell is None or cell["value"] is None:
            return None
        interval = cell.get("interval")
        return cell["value"] * factor, interval and [factor * end for end in interval]

    def has(self, rows, columns):
        """Whether there is a value in these rows and columns."""
        return any(True for _ in self._with_value(rows, columns))

    def fitted(self, row, column, origin):
        """Whether something was fitted so that this number meets the paper's."""
        cell = self.find(row, column, origin)
        return cell is not None and cell["fitted"]

    def paper(self, row, column, factor=1):
        """What the paper reports, as (value, None), or None."""
        for cell in self.cells:
            if (cell["row"], cell["column"]) == (row, column) and cell["paper"] is not None:
                return cell["paper"] * factor, None
        return None

    def paper_or_oom(self, row, column):
        """The same, or "OOM" where the paper reports that memory ran out."""
        oom = any((cell["row"], cell["column"]) == (row, column) and cell.get("paper_oom")
                  for cell in self.cells)
        return "OOM" if oom else self.paper(row, column)

    def ours_or_oom(self, row, column, origin):
        """ours(), or "OOM" where memory ran out."""
        cell = self.find(row, column, origin)
        return "OOM" if cell and cell["status"] == "oom" else self.ours(row, column, origin)

    def notes(self, rows, columns, origin):
        """What readers of these rows and columns have to know."""
        return {cell["note"] for cell in self._with_value(rows, columns) if Origin.of(cell) == origin}

    def mean_error(self, rows, columns, origin):
        """Mean magnitude of the errors in percent, and of how many cells."""
        errors = [abs(cell["error_percent"]) for row in rows for column in columns
                  if (cell := self.find(row, column, origin)) and cell["error_percent"] is not None]
        return sum(errors) / max(len(errors), 1), len(errors)

    def _with_value(self, rows, columns):
        return (c for c in self.cells
                if c["row"] in rows and c["column"] in columns and c["value"] is not None)


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def lines(path):
    """The objects of a file that has one a line. A last line without its end, as a killed program leaves it, is
    no result."""
    whole = pathlib.Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]


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
