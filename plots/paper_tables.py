#!/usr/bin/env python3
"""Writes the tables of a document that results/virtual has the numbers of.

    paper_tables.py RESULTS DOCUMENT...           writes them into the documents
    paper_tables.py --check RESULTS DOCUMENT...   says which would change; exit status 1 where one would

A table stands between `<!-- cells: PAPER/ARTIFACT ... -->` or `<!-- claims: PAPER -->` and `<!-- end -->`. Cells are those
of the artifacts that have a number of the paper's: beside it that of the paper's program, and frugal's own. Claims are
counted, and those listed that the paper's program does not reproduce, each with what no behaviour explains. `verdicts:`
counts verdicts of claims and cells. `errors:` has
the mean magnitude of the errors of such cells, by their rows. `calibration:` has how good described machines are, `file:` a table as a file has
it, and `steps:` what bench/pytorch_compare.py wrote. Those of records, of machines' files and of grids of an artifact's
columns are described in record_tables.py, those of docs/artifact-evaluation.md in evaluation_tables.py, those of trials in
trial_tables.py, those of ranks of a processor in rank_tables.py, those of published runs in published_tables.py.
"""

import json
import pathlib
import re
import sys

import context_tables
import evaluation_tables
import planning_tables
import published_tables
import rank_tables
import record_tables
import recompute_tables
import schedule_tables
import trial_tables

MODULES = (record_tables, context_tables, evaluation_tables, planning_tables, published_tables, rank_tables,
           recompute_tables, schedule_tables, trial_tables)
#: Of a path within RESULTS.
OF_A_PATH = {kind: module for module in MODULES for kind in module.KINDS}
KINDS = ("cells", "claims", "verdicts", "errors", "calibration", "file", "steps", "grid", "terms", *OF_A_PATH)
BLOCK = re.compile(rf"(<!-- ({'|'.join(KINDS)}): ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def number(value):
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def error(cell):
    if cell["error_points"] is not None:
        return f"{cell['error_points']:+.1f} pt"
    return "" if cell["error_percent"] is None else f"{cell['error_percent']:+.1f} %"


def value(cell):
    if cell is None:
        return ["", ""]
    if cell["value"] is None:
        return ["out of memory" if cell["status"] == "oom" else cell["status"], ""]
    return [number(cell["value"]), error(cell)]


def table(columns, rows):
    def line(texts):
        return "| " + " | ".join(texts) + " |\n"
    return line(columns) + line(["---:" if i >= 2 else "---" for i in range(len(columns))]) + "".join(map(line, rows))


class Results:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.read = {}

    def of(self, paper):
        if paper not in self.read:
            self.read[paper] = json.loads((self.folder / f"{paper}.json").read_text(encoding="utf-8"))
        return self.read[paper]

    def cells(self, names):
        rows, programs = [], set()
        for name in names.split():
            found = {}
            for cell in self.of(name.split("/")[0])["cells"]:
                if cell["artifact"] == name and cell["source"] == "virtual" and cell["scale"] == "1":
                    found.setdefault((cell["row"], cell["column"]), {})[bool(cell["program"])] = cell
                    programs.add(cell["program"])
            for (row, column), pair in found.items():
                any_cell = next(iter(pair.values()))
                if any_cell["paper"] is None and not any_cell["paper_oom"]:
                    continue
                papers = "out of memory" if any_cell["paper_oom"] else number(any_cell["paper"])
                title = [name.split("/")[1], row] if " " in names else [row]
                rows.append([", ".join(title), f"{column}, {any_cell['unit']}", papers,
                             *value(pair.get(True)), *value(pair.get(False))])
        with_program = any(programs)
        columns = ["", "", "paper", "paper's program", "error", "frugal", "error"]
        if not with_program:
            columns = columns[:3] + columns[5:]
            rows = [row[:3] + row[5:] for row in rows]
        return table(columns, rows)

    def errors(self, names):
        """Of the paper's program, where there is one; without rows that stand beside another row's number."""
        found = {}
        for name in names.split():
            cells = [c for c in self.of(name.split("/")[0])["cells"] if c["artifact"] == name and c["scale"] == "1"
                     and c["error_percent"] is not None and c["source"] == "virtual" and "that fits here" not in c["row"]]
            program = any(c["program"] for c in cells)
            for cell in cells:
                if bool(cell["program"]) == program:
                    found.setdefault(cell["row"], []).append(cell["error_percent"])
        rows = [*found.items(), ("all", [e for errors in found.values() for e in errors])]
        return table(["", "", "mean magnitude, %", "worst, %"],
                     [[row, f"{len(errors)} numbers", f"{sum(map(abs, errors)) / len(errors):.1f}",
                       f"{max(errors, key=abs):+.1f}"] for row, errors in rows])

    def steps(self, name):
        said = json.loads((self.folder / name).read_text(encoding="utf-8"))
        groups = {}
        for line in said["steps"]:
            step = line["step"]
            groups.setdefault((step["family"], "fused" if step["fused_attention"] else "separate",
                               "none" if step["recompute"] == "none" else "full"), []).append(line)
        rows = []
        for group, lines in sorted(groups.items()):
            errors = [line["error_percent"] for line in lines]
            rows.append([*group, str(len(lines)), f"{sum(map(abs, errors)) / len(errors):.2f}", f"{max(errors, key=abs):+.2f}",
                         str(sum(line["kept_agrees"] for line in lines))])
        return (f"{said['peaks']} of {said['count']} peaks are within {said['within_percent']:g} %, and what is kept is equal, "
                f"for each kind of module in number and bytes, in {said['kept']} (PyTorch {said['pytorch']}, seed {said['seed']}).\n\n"
                + table(["family", "attention", "recomputation", "steps", "mean magnitude, %", "worst, %", "kept is equal"], rows))

    def grid(self, what):
        name, columns = what.split(": ")
        return record_tables.grid(self.of(name.split("/")[0]), name, columns.split("; "))

    def terms(self, what):
        return record_tables.terms(self.folder, what)

    def file(self, name):
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        return "".join(line for line in lines if line.startswith("|"))

    def calibration(self, machines):
        rows = []
        for machine in machines.split():
            found = json.loads((self.folder / f"calibration-{machine}.json").read_text(encoding="utf-8"))
            fitted = f"{found['refit']['rms_percent']['file']:.2f} % of {len(found['refit']['cells'])}"
            for artifact in found["held_out"]:
                for unit, name in (("percent", "%"), ("points", "points")):
                    errors = artifact["errors_unseen"][unit]
                    if errors and errors["cells"]:
                        rows.append([machine, fitted, artifact["artifact"], f"{errors['cells']} of {len(artifact['cells'])}",
                                     f"{errors['mean']:.2f} {name}", f"{errors['worst']:.2f}"])
        columns = ["machine", "fitted, rms", "held out", "unseen cells", "mean", "worst"]
        return table(columns, rows).replace("| --- | --- | ---: |", "| --- | --- | --- |", 1)

    def verdicts(self, papers):
        """How many claims and cells have which verdict, each paper's program before frugal, without formulas."""
        names = ("reproduced", "not reproduced", "calibrated", "not comparable", "not measurable here")
        rows = []
        for paper in papers.split():
            for what, keys in (("claims", ("id",)), ("cells", ("artifact", "row", "column"))):
                judged = {}
                for one in self.of(paper)[what]:
                    name = tuple(one[key] for key in keys)
                    if one["source"] == "virtual" and one["verdict"] and (one["program"] or name not in judged):
                        judged[name] = one["verdict"]
                counts = [list(judged.values()).count(name) for name in names]
                assert sum(counts) == len(judged)
                rows.append([paper, what, *map(str, counts), f"{100 * counts[0] / (counts[0] + counts[1]):.0f} %"])
        return table(["paper", "", *names, "reproduced of decided"], rows)

    def claims(self, paper):
        claims = [c for c in self.of(paper)["claims"] if c["source"] == "virtual"]
        of_program = {c["id"]: c for c in claims if c["program"]}
        own = [c for c in claims if not c["program"]]
        judged = [of_program.get(c["id"], c) for c in own]

        def count(some):
            return sum(c["verdict"] == "reproduced" for c in some)
        fitted = sum(c["verdict"] == "calibrated" for c in judged)
        text = (f"Of {len(judged)} claims {count(judged)} are reproduced by the paper's program, "
                f"and {count(own)} by frugal's own runs" + (f"; {fitted} were fitted to" if fitted else "") + ".\n\n")
        rows = [[c["id"].replace("|", "\\|"), c["unit"], number(c["paper"]), number(c["value"]) or "out of memory",
                 number(None if c["value"] is None else c["paper"] - c["value"]), f"± {number(c['tolerance'])}"]
                for c in judged if c["verdict"] not in ("reproduced", "calibrated")]
        return text + table(["not reproduced", "", "paper", "here", "not explained", "allowed"], rows)


def written(document, results):
    def block(match):
        begin, kind, what, end = match.groups()
        if kind in OF_A_PATH:
            return begin + getattr(OF_A_PATH[kind], kind.replace("-", "_"))(results.folder / what) + end
        return begin + getattr(results, kind)(what) + end
    return BLOCK.sub(block, document)


def main(arguments):
    check = arguments[:1] == ["--check"]
    paths = arguments[check:]
    if len(paths) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    results, changed = Results(paths[0]), 0
    for path in map(pathlib.Path, paths[1:]):
        before = path.read_text(encoding="utf-8")
        after = written(before, results)
        if after == before:
            continue
        changed += 1
        if check:
            print(f"paper_tables.py: {path}: its tables are not those of {paths[0]}; run it without --check")
        else:
            path.write_text(after, encoding="utf-8")
    return 1 if check and changed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
