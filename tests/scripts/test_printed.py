"""Numbers and decisions of scripts/, from inputs that are made up."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from sources import SOURCE, InFolder, scripts_of

scripts_of("scripts")


def script(name):
    specification = importlib.util.spec_from_file_location(name.replace("-", "_"), SOURCE / f"scripts/{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Sizes(InFolder):
    def test_functions_of_more_than_60_lines_and_files_of_more_than_700(self):
        (self.folder / "scripts").mkdir()
        for name in ("check-sizes.py", "sources.sh"):
            shutil.copy(SOURCE / "scripts" / name, self.folder / "scripts")
        for lines in (60, 61):
            (self.folder / f"f{lines}.cpp").write_text("\n\nint f() {\n" + "  f();\n" * (lines - 2) + "}\n")
            (self.folder / f"f{lines}.py").write_text("\ndef f():\n" + "    f()\n" * (lines - 1))
        for lines in (700, 701):
            (self.folder / f"g{lines}.h").write_text("int x;\n" * lines)
        done = subprocess.run([self.folder / "scripts/check-sizes.py"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        said = "check-sizes.py: {}: 61 lines, at most 60 are allowed in a function; split it"
        self.assertEqual(done.stderr.splitlines(), [
            said.format("f61.cpp:3"), said.format("f61.py:2"),
            "check-sizes.py: g701.h has 701 lines, at most 700 are allowed in a file; split it by what it does"])


class QuickCheck(InFolder):
    """Two papers, of two artifacts and of one: four cells and three claims, of which an artifact that is not chosen has more."""

    def setUp(self):
        super().setUp()
        self.check, self.losses, self.peaks = script("quick_check"), {"f64": 3.0, "f32": 3.0}, [7, 7]
        papers = {"a": (["a/x", "a/y", "a/y"], ["x/1", "y/1"]), "b": (["b/z"], ["z/1"])}
        self.numbers = {paper: {"cells": [{"artifact": artifact, "row": f"r{i}", "column": "c", "value": 1.0} for i, artifact in enumerate(artifacts)],
                                "claims": [{"id": name, "value": 2.0} for name in claims]}
                        for paper, (artifacts, claims) in papers.items()}
        for paper, numbers in self.numbers.items():
            more = {"cells": [{"artifact": f"{paper}/other"}], "claims": [{"id": "other/1"}]}
            (self.folder / f"{paper}.json").write_text(json.dumps({key: numbers[key] + more[key] for key in more}))

    def answer(self, _program, command, *words):
        if command == "reproduce":
            return self.numbers[words[0].split("/")[0]]
        configuration = {"tensor_parallel_size": 1, "pipeline_parallel_size": 2, "recompute": "none"}
        return [{"losses": [5.0, loss], "memory": {"peak_total": peak}, "configuration": {"type": kind, **configuration}}
                for (kind, loss), peak in zip([("f64", 3.0), *self.losses.items()], [7, *(self.peaks if "cpu" in words else [7, 7])])]

    def said(self):
        out = io.StringIO()
        arguments = ["", "program", "--results", str(self.folder), "--only", "a/x", "b/z", "a/y"]
        with mock.patch.object(self.check, "answer", self.answer), mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
            self.check.main()
        self.lines = out.getvalue().splitlines()
        return self.lines[-1]

    def test_all_is_counted(self):
        said = "OK: 3 artifacts of the papers have the 4 cells and 3 claims that are expected, and 3 trainings on this processor agree, "
        self.assertTrue(self.said().startswith(said), self.said())
        self.assertTrue(self.lines[0].startswith("a: 2 artifacts on virtual machines, 3 cells and 2 claims as expected"), self.lines)
        self.assertTrue(self.lines[1].startswith("b: 1 artifacts on virtual machines, 1 cells and 1 claims as expected"), self.lines)
        self.numbers["a"]["cells"][1]["value"] = 1 + 2**-52
        self.assertIn("FAILED: a: 1 of 5 cells and claims are not as expected; the first: cell a/y / r1 / c: value is", self.said())

    def test_losses_are_within_1e_12_and_1e_6_of_the_serial_ones(self):
        for kind, allowed in (("f64", 1e-12), ("f32", 1e-6)):
            for factor, good in ((0.9, True), (-0.9, True), (1.1, False), (-1.1, False)):
                self.losses = {"f64": 3.0, "f32": 3.0, kind: 3 * (1 + factor * allowed)}
                self.assertEqual(self.said().startswith("OK"), good, (kind, factor))
        self.losses, self.peaks = {"f64": 3.0, "f32": 3.0}, [7, 8]
        self.assertIn("type f32, tensor parallel size 1, pipeline parallel size 2, recompute none: a rank held 8 bytes here and 7 on",
                      self.said())


class Hosts(InFolder):
    def test_addresses_slots_and_processors(self):
        hosts, commands = script("hosts"), []

        class Made(hosts.Hosts):
            def start(self, name):
                (self.folder / name).write_text("1")

            def on(self, name, *command):
                commands.append(" ".join([name, *command]))

        for processors, shares in (({2, 3, 5, 7, 11, 13, 17}, ["2,7,17", "3,11", "5,13"]), ({2, 3}, ["2", "3", "2"])):
            two = Made(count=3, slots=5, rate="1gbit")
            two.folder = self.folder
            with mock.patch.object(os, "sched_getaffinity", lambda _, here=processors: here):
                two.begin()
            self.assertEqual([(self.folder / f"host{i}.processors").read_text() for i in range(3)], shares)
        self.assertEqual((self.folder / "hosts").read_text(),
                         "127.0.0.1 localhost\n10.77.0.1 host0\n10.77.0.2 host1\n10.77.0.3 host2\n")
        self.assertEqual((self.folder / "slots").read_text(), "host0 slots=5\nhost1 slots=5\nhost2 slots=5\n")
        self.assertIn("host2 ip address add 10.77.0.3/24 dev eth0", commands)
        self.assertEqual(sum(command.endswith("root tbf rate 1gbit burst 128kb latency 100ms") for command in commands), 6)


class TriedInARoot(InFolder):
    def test_what_a_step_took(self):
        """Two steps beside a file that is there: the first writes 80 kB, the second has 48 of them left."""
        with mock.patch.object(sys, "path", [str(SOURCE / "scripts"), *sys.path]):
            tried = script("try-in-root")
        root, commands, sizes = self.folder / "root", [], []
        root.mkdir()
        (root / "before").write_bytes(bytes(100_000))
        ready = tried.Tried.__new__(tried.Tried)
        ready.root = root
        ready.given = mock.Mock(folder=self.folder, costs=self.folder / "costs.json", steps=[])

        def run(command, **options):
            commands.append(command[-1])
            options["stdout"].write(b"said\n")
            written = root / "written"
            written.write_bytes(bytes(80_000 if command[-1] == "first" else 48_000))
            sizes.append(512 * written.stat().st_blocks)
            return {"status": 0, "seconds": 61.25, "processor_seconds": 100.5, "largest_process_bytes": 7}

        with mock.patch.object(tried.costs, "run", run), contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.object(os, "getloadavg", lambda: (1.26, 9, 9)):
            self.assertEqual([ready.run(f"the {what}", what) for what in ("first", "second")], ["said\n"] * 2)
        self.assertEqual(commands, ["first", "second"])
        self.assertEqual(out.getvalue(), "   61.2 s  the first\n   61.2 s  the second\n")
        kept = json.loads((self.folder / "costs.json").read_text())
        self.assertEqual(kept["steps"], [{"what": f"the {what}", "status": 0, "seconds": 61.25, "processor_seconds": 100.5,
                                          "largest_process_bytes": 7, "disk_bytes": size, "load_average": 1.3}
                                         for what, size in (("first", sizes[0]), ("second", sizes[1] - sizes[0]))])
        self.assertLess(sizes[1], sizes[0])


CPP = """#include "a.h"
namespace frugal::engine {
namespace {
int few(int n) { return n; }  // few(0)
}
Rank::Rank(int size) : size_{size}, name_(make("a{", {1})) {
  if (size < 1) throw InputError("size < 1");
  clear(size, few(2));
}
struct Other {
  template <class T>
  bool is(const T& a) const {
    return a.b == 1 && a.c + 1 > few(a.d - 1);
  }
};
}
"""
PYTHON = '#!/usr/bin/env python3\n"""Doc\nstring."""\nfrom __future__ import annotations\n\n\nclass A:\n    def f(self, x):\n        """Says."""\n' \
    '        if x > 2:\n            print("big", x + 1)\n        return x * 2  # * 3\n\n\nprint(A().f(2), A().f(3))\n'


class Faults(InFolder):
    def wrong(self, name, operator, sources):
        mutations = script("mutations")
        return [mutations.wrong_text(site)[function.begin:].split("\n}")[0].strip() for function in mutations.find(name, sources)
                for site in mutations.sites(function, operator)]

    def test_functions_are_found_by_their_names(self):
        mutations = script("mutations")
        self.assertEqual([function.name for function in mutations.functions("a.cpp", CPP)],
                         [f"frugal::engine::{name}" for name in ("few", "Rank::Rank", "Other::is")])
        self.assertEqual([function.name for function in mutations.functions("b/a.py", PYTHON)], ["a.A.f"])
        self.assertEqual(mutations.find("frugal::few", {"a.cpp": CPP}), [])

    def test_operators_make_one_mistake_each(self):
        body = 'if (size < 1) throw InputError("size < 1");\n  clear(size, few(2));'
        for operator, wrong in (("swap-comparison <", [body.replace("(size < 1", "(size <= 1")]),
                                ("negate-condition", [body.replace("(size < 1)", "(!(size < 1))")]),
                                ("never size", [body.replace("(size < 1)", "(false)")]),
                                ("drop-call clear", [body.replace("clear(size, few(2));", ";")]),
                                ("drop-statement", [body.replace('throw InputError("size < 1");', ";"), body.replace("clear(size, few(2));", ";")]),
                                ("swap-arguments clear", [body.replace("size, few(2)", "few(2), size")]),
                                ("replace-constant 2→3", [body.replace("2", "3")]), ("replace few→many", [body.replace("few", "many")])):
            self.assertEqual(self.wrong("frugal::engine::Rank::Rank", operator, {"a.cpp": CPP}), wrong)
        for operator, wrong in (("off-by-one", ["a.b == 1 && a.c + 0 > few(a.d - 1)", "a.b == 1 && a.c + 1 > few(a.d - 0)"]),
                                ("drop-operand a.c", ["a.b == 1 "]),
                                ("swap-logic", ["a.b == 1 || a.c + 1 > few(a.d - 1)"])):
            self.assertEqual([" ".join(text.split()) for text in self.wrong("frugal::engine::Other::is", operator, {"a.cpp": CPP})],
                             [f"return {text}; }}" for text in wrong])

    def test_a_function_has_each_mistake_beside_what_is_right(self):
        mutations = script("mutations")
        function = mutations.find("frugal::engine::Rank::Rank", {"a.cpp": CPP})[0]
        sites = dict(enumerate(mutations.sites(function, "drop-statement"), 4))
        planted, lines = mutations.plant(CPP, sites)
        self.assertEqual([planted.count(text) for text in ("frugal_fault(4)", "frugal_fault(5)", "throw", "clear(")], [1, 1, 2, 2])
        for number, (first, last) in lines.items():
            self.assertIn(f"frugal_fault({number})", planted.splitlines()[first - 1])
            self.assertEqual(planted.splitlines()[last - 1].strip(), "} else")

    def test_a_fault_of_python_is_on_by_its_number(self):
        mutations = script("mutations")
        function = mutations.find("a.A.f", {"b/a.py": PYTHON})[0]
        sites = {4: mutations.sites(function, "swap-comparison")[0], 5: mutations.sites(function, "off-by-one")[0],
                 9: mutations.sites(function, "swap-arithmetic *")[0]}
        text = mutations.plant(PYTHON, sites)[0]
        for number, said in (("0", "big 4\n4 6"), ("4", "big 3\nbig 4\n4 6"), ("5", "big 3\n4 6"), ("9", "big 4\n1.0 1.5")):
            done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "FRUGAL_FAULT": number}, capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stdout, said + "\n")

    def test_the_list_fits_the_sources(self):
        faults = script("faults")
        fault = {"name": "n", "function": "a.A.f", "operator": "swap-comparison", "found_by": ["ctest t"]}
        self.assertEqual([len(faults.problems([{**fault, **change}], {"b/a.py": PYTHON})) for change in (
            {}, {"nth": 1}, {"nth": 2}, {"operator": "off-by-one"}, {"operator": "off-by-two"}, {"operator": "swap-logic"}, {"function": "a.f"},
            {"found_by": "ctest t"}, {"found_by": ["ctest"]}, {"layer": "l"})], [0, 0, 1, 0, 1, 1, 1, 1, 1, 1])

    def test_those_that_are_found_are_counted(self):
        faults = script("faults")
        numbered = {number: {"name": f"n{number}", "found_by": by} for number, by in enumerate((["a b"], ["a b", "g h"], ["c d"], ["e f"]), 1)}
        said = {("a b", 0): "passed", ("a b", 1): "failed", ("a b", 2): "passed", ("c d", 0): "failed", ("e f", 0): "passed", ("e f", 4): "hung",
                ("g h", 0): "passed", ("g h", 2): "failed"}
        with mock.patch.object(faults, "outcome", lambda by, number=0: said[by, number]), contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(faults.try_all(numbered), 2)
        self.assertEqual([line.startswith("NOT FOUND: ") for line in out.getvalue().splitlines()], [False, True, False, True, False])

    def test_a_change_is_its_added_lines(self):
        mutate, mutations = script("mutate"), script("mutations")
        self.assertEqual([mutate.tests_of(file)[-1] for file in ("kernels/view.cpp", "engine/comm/nccl/nccl.cpp", "engine/config.cpp", "plots/a.py",
                                                                 "bench/a.py", "bench/a.cpp")],
                         ["tests_kernels *", "tests_nccl *", "tests_engine *", "ctest plots.*", "ctest bench.*", "tests_bench *"])
        lines = {"a.cpp": {8}, "gone.cpp": {1}}
        self.assertEqual({site.line for site in mutate.mutants_of({"a.cpp": CPP}, lines)}, {8})
        self.assertGreater(len(mutate.mutants_of({"a.cpp": CPP}, {"a.cpp": None})), 8)
        self.assertIsNotNone(mutations)


class Nccl(unittest.TestCase):
    """What scripts/nccl.sh leaves out does nothing where it is called, and nobody would say so."""

    def built(self):
        done = subprocess.run([SOURCE / "scripts/nccl.sh", "--funcs"], capture_output=True, text=True, check=True)
        return re.compile("(?:" + done.stdout.strip().replace("*", "[^ ]*") + ")$")  # as NCCL's generator reads it

    def test_has_every_collective_that_is_called(self):
        called = set()
        for path in (SOURCE / "engine/comm/nccl").glob("*.cpp"):
            called.update(re.findall(r"nccl(AllReduce|AllGather|ReduceScatter|Reduce|Broadcast|Send|Recv|AlltoAll|Gather|"
                                     r"Scatter)\(", path.read_text()))
        self.assertTrue({"AllReduce", "Send"} <= called, called)
        needed = {"SendRecv"}
        for name in called - {"Send", "Recv"}:
            of = [f"Sum {type_} " for type_ in ("f32", "bf16", "f64")] if "Reduce" in name else [""]
            needed.update(f"{name} {kind}{algorithm} {protocol}" for kind in of for algorithm in ("RING", "TREE", "NVLS", "PAT")
                          for protocol in ("LL", "LL128", "SIMPLE"))
        built = self.built()
        self.assertEqual([function for function in needed if not built.match(function)], [])
        for function in ("Reduce Sum f32 RING LL", "AllReduce Prod f32 RING LL", "AllReduce Sum i8 RING LL", "AllGatherV RING LL"):
            self.assertIsNone(built.match(function), function)

    def test_sums_are_of_the_types_that_it_has(self):
        text = (SOURCE / "engine/comm/communicator.cpp").read_text()
        (summed,) = re.findall(r"bool can_be_summed\(.*?\n}", text, re.DOTALL)
        self.assertEqual(set(re.findall(r"DType::(\w+)", summed)), {"f32", "bf16", "f64"})

    def test_a_tag_of_another_commit_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            top, source = pathlib.Path(folder) / "top", pathlib.Path(folder) / "source"
            (top / "scripts").mkdir(parents=True)
            shutil.copy(SOURCE / "scripts/nccl.sh", top / "scripts")
            (top / "nvcc").write_text("#!/bin/sh\n")
            (top / "nvcc").chmod(0o755)
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", source]
            (tag,) = re.findall(r"^tag=(.*)$", (SOURCE / "scripts/nccl.sh").read_text(), re.MULTILINE)
            subprocess.run(["git", "init", "--quiet", source], check=True)
            subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "Begin"], check=True)
            subprocess.run([*git, "tag", tag], check=True)
            done = subprocess.run([top / "scripts/nccl.sh"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "FRUGAL_NCCL_SOURCE": str(source), "PATH": f"{top}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"nccl.sh: v[\d.-]+ of .* is [0-9a-f]{40}, and must be [0-9a-f]{40}")
            self.assertFalse((top / "build").exists())
