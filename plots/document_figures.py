#!/usr/bin/env python3
"""Draws every figure that README and docs/ show, from results/ and virtual runs of the program.

document_figures.py PROGRAM           draws docs/figures anew
document_figures.py PROGRAM --check   exits with 1 where a figure there shows something else than would be drawn now,
                                      where a page shows a figure that nothing draws, and where no page shows one

PROGRAM is build/release/frugal. What `frugal schedule --format svg` draws is written beside its command on the page."""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import drawn

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs/figures"
VIRTUAL, CPU, H100 = ROOT / "results/virtual", ROOT / "results/amd-epyc-2-cores", ROOT / "results/nvidia-h100-80gb"
BY_COMMAND = {"schedules.svg", "schedules-in-a-v.svg"}  # written by scripts/page-outputs.py's command


@dataclasses.dataclass
class Drawing:
    """A script of plots/, its arguments (`{work}` is a folder of its own, `{out}` the one for figures), and the figures
    that pages show of it: their names on a page by those that the script gives them. `first` are commands that
    make its input: a file in {work} for what is printed, or none, and the command."""
    script: str
    arguments: list
    figures: dict
    first: list = dataclasses.field(default_factory=list)


def named(*names):
    return {name: name for name in names}


def of_virtual(script, *names):
    return Drawing(script, [VIRTUAL, "{out}"], named(*names))


TIMES = ("times.json", ["{python}", ROOT / "bench/gpu/check_predictions.py", "--times", H100 / "predicted", H100])
DRAWINGS = [
    of_virtual("korthikanti2022_calibration", "korthikanti2022-calibration", "korthikanti2022-sensitivity"),
    of_virtual("korthikanti2022_pipeline", "korthikanti2022-figure1", "korthikanti2022-figure9"),
    of_virtual("korthikanti2022_table4", "korthikanti2022-table4"),
    of_virtual("korthikanti2022_table5", "korthikanti2022-table5", "korthikanti2022-figure8"),
    of_virtual("modern_hardware", *(f"modern-hardware-{what}" for what in ("techniques", "memory", "schedules", "scale"))),
    of_virtual("mst2024_modules", "mst2024-modules"),
    of_virtual("pipedream2bw2021_memory", "pipedream2bw2021-memory"),
    of_virtual("pipedream2bw2021_throughput", "pipedream2bw2021-figure6"),
    of_virtual("planned_training", "planned-training"),
    of_virtual("published", "published-errors", "published-runs"),
    of_virtual("recompute_frontier", "recompute-frontier"),
    Drawing("memory_bound", [CPU / "bench-memory-bound.jsonl", "{out}"], named("memory-bound")),
    Drawing("steps", [CPU / "bench-steps.jsonl", "{work}/performance.md", "{out}"], named("steps"),
            [("performance.md", ["cat", ROOT / "docs/performance.md"])]),
    Drawing("steps", [ROOT / "results/amd-epyc-avx2-2-cores/bench-steps-products.jsonl", "{work}/performance.md", "{out}",
                      "steps-avx2"], named("steps-avx2"), [("performance.md", ["cat", ROOT / "docs/performance.md"])]),
    Drawing("training_mst2024", [CPU / "long-training", "{out}"], named("mst2024-training")),
    Drawing("training_pipedream2bw2021", [CPU / "convergence", "{out}"], named("pipedream2bw2021-figure5")),
    Drawing("predictions", ["{work}/times.json", "{out}", "h100-predictions"], named("h100-predictions"), [TIMES]),
    Drawing("korthikanti2022_table4", ["{work}", "{out}"], {"korthikanti2022-table4": "h100-table4"},
            [(None, ["mkdir", "{work}/records"]), (None, ["cp", H100 / "records.jsonl", "{work}/records"]),
             (None, ["{program}", "reproduce", "korthikanti2022/table4", "--on", "virtual", "--out", "{work}/records"]),
             ("table4.json", ["{program}", "report", "{work}/records", "--format", "json"])]),
    Drawing("explain", ["{work}/explain.json", "{out}", "mst2024-explain"], named("mst2024-explain"),
            [("explain.json", ["{program}", "explain", "mst2024/tables8-11", "mst2024/figure11", "--column", "peak",
                               "--format", "json"])]),
    Drawing("mst2024_timeline", ["{work}", "{out}"], named("mst2024-figure11"),
            [(None, ["cp", VIRTUAL / "mst2024.json", "{work}"]), (None, [ROOT / "bench/timelines.sh", "{work}", "{program}"])]),
]


def run(command, stdout=subprocess.DEVNULL):
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env={**os.environ, "MPLBACKEND": "Agg"})
    if done.returncode:
        raise SystemExit(f"{done.stderr}document_figures.py: status {done.returncode}: {' '.join(map(str, command))}")


def draw(drawing, program, folder):
    """Draws its figures into folder, by their names on pages."""
    with tempfile.TemporaryDirectory() as made:
        out = pathlib.Path(made) / "figures"
        places = {"work": made, "out": out, "program": program, "python": sys.executable}

        def filled(words):
            return [str(word).format(**places) for word in words]
        for file, command in drawing.first:
            if file is None:
                run(filled(command))
                continue
            with open(pathlib.Path(made) / file, "w", encoding="utf-8") as stdout:
                run(filled(command), stdout)
        run([sys.executable, "-B", ROOT / "plots" / f"{drawing.script}.py", *filled(drawing.arguments)])
        for name, on_page in drawing.figures.items():
            shutil.copy(out / f"{name}.png", folder / f"{on_page}.png")


def draw_all(program, folder):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(draw, drawing, program, folder) for drawing in DRAWINGS]:
            done.result()


def shown(root=ROOT):
    """{file name of a figure: the first page that shows it}, of all pages."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    found = {}
    for page in pages:
        for name in re.findall(r"!\[[^\]]*\]\((?:docs/)?figures/([^)]+)\)", page.read_text(encoding="utf-8")):
            found.setdefault(name, page.relative_to(root))
    return found


def first_difference(here, now, where="figure"):
    """Where two drawings differ first, in words; None where they do not."""
    if isinstance(here, dict) and isinstance(now, dict) and here.keys() == now.keys():
        pairs = [(f"{where}.{key}", here[key], now[key]) for key in here]
    elif isinstance(here, list) and isinstance(now, list) and len(here) == len(now):
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(here, now))]
    else:
        return None if here == now else f"{where} is {here!r}, and would be {now!r}"
    return next((said for pair in pairs if (said := first_difference(pair[1], pair[2], pair[0]))), None)


def differences(folder, figures=FIGURES, pages=None):
    """A line for each figure of docs/ that is not as drawn in folder, that nothing draws, or that no page shows."""
    pages = shown() if pages is None else pages
    drawn_now = {path.name for path in folder.glob("*.png")} | BY_COMMAND
    there = {path.name for path in figures.iterdir()}
    lines = [f"{page} shows figures/{name}, which nothing draws" for name, page in pages.items() if name not in drawn_now]
    lines += [f"docs/figures/{name} is shown by no page" for name in sorted(there - pages.keys())]
    lines += [f"docs/figures/{name} is missing" for name in sorted(drawn_now - there)]
    for name in sorted(drawn_now & there - BY_COMMAND):
        if said := first_difference(drawn.of_png(figures / name), drawn.of_png(folder / name)):
            lines.append(f"docs/figures/{name}: {said}")
    return lines


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    if len(arguments) != 1 + check or arguments[0].startswith("--"):
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        draw_all(pathlib.Path(arguments[0]).resolve(), folder)
        if not check:
            for path in folder.iterdir():
                shutil.copy(path, FIGURES)
        if lines := differences(folder):
            print(*lines, "draw them with: plots/document_figures.py build/release/frugal", sep="\n", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
