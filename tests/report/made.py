"""Folders of records and of traces, and the page that frugal makes of them. CTest sets FRUGAL and FRUGAL_SOURCE_DIR."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

FRUGAL = os.environ["FRUGAL"]
SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
PAPERS = ("korthikanti2022", "pipedream2bw2021", "mst2024")
#: Has intervals, undecided claims, lone ranks: what a GPU measured. A run that later ones leave as it is.
MEASURED = SOURCE / "results/nvidia-h100-80gb"
PIPELINE = ["trace", "--model", "gpt-3m", "--layers", "8", "--pipeline-parallel", "4", "--schedule", "1f1b", "--microbatches", "8",
            "--on", "virtual:a100-selene"]


def frugal(*arguments):
    return subprocess.run([FRUGAL, *arguments], capture_output=True, text=True, check=True).stdout


def number_text(value):
    """As frugal's tables have it: all digits of a whole number, four of any other."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def value_text(number):
    text = number_text(number["value"])
    if number["interval"]:
        text += " [{}, {}]".format(*(number_text(end) for end in number["interval"]))
    elif number["samples"]:
        text += f" (median of {number['samples']})"
    return text + " (fitted)" if number["fitted"] else text


def origin(number):
    """The name of a column."""
    name = {"virtual": number["on"], "measured": f"measured {number['on']}", "formula": "formula"}[number["source"]]
    if number["threads"]:
        name += f", {number['threads']} threads"
    return name if number["scale"] == "1" else f"{name} at {number['scale']}"


class Made:
    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        for paper in PAPERS:
            frugal("reproduce", f"{paper}/*", "--on", "virtual", "--out", self.folder / paper, "--format", "json")
        self.trace, self.memory = (self.folder / PAPERS[1] / name for name in ("pipeline.json", "memory.json"))
        frugal(*PIPELINE, "--out-file", self.trace, "--memory-file", self.memory)
        self.papers = self.page("papers", [self.folder / paper for paper in PAPERS])
        #: The same, and what was measured.
        self.folders = [*(self.folder / paper for paper in PAPERS), MEASURED]
        self.all = self.page("all", self.folders)
        self.numbers = json.loads(frugal("report", *self.folders, "--format", "json"))

    def page(self, name, folders):
        out = self.folder / name
        out.mkdir()
        frugal("report", *folders, "--out", out)
        return out / "report.html"

    @staticmethod
    def document(page):
        return json.loads(re.search(r'<script type="application/json" id="document">(.*?)</script>',
                                    page.read_text(encoding="utf-8"), re.DOTALL).group(1))

    def gone(self):
        self.temporary.cleanup()
