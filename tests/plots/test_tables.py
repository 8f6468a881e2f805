"""The tables that plots/ write into pages, from numbers that are made up: what no page's own numbers reach."""

import json
import pathlib
import tempfile
import unittest

import evaluation_tables
import modern_hardware_tables
import paper_tables
import planning_tables
import rank_tables
import record_tables

GIB, MIB = 2**30, 2**20


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows(table):
    return [cells(line) for line in table.splitlines()[2:]]


class Tables(unittest.TestCase):
    def written(self, content):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "p.json"
        path.write_text(json.dumps(content))
        return path

    def test_units_of_costs(self):
        self.assertEqual([evaluation_tables.minutes(seconds) for seconds in (90, 597, 600, 5955)], ["1.5", "9.9", "10", "99"])
        self.assertEqual([evaluation_tables.gib(size) for size in (1.5 * GIB, 12 * GIB)], ["1.5", "12"])
        self.assertEqual([evaluation_tables.mib(size) for size in (1.5 * MIB, 99 * MIB, 100 * MIB, 1234 * MIB)], ["1.5", "99", "100", "1234"])
        claims = [{"id": name, "verdict": verdict, "program": ""} for name, verdict in (("t/1", "reproduced"), ("t/2", "calibrated"), ("u/1", "x"))]
        self.assertEqual(evaluation_tables.expected({"cells": [], "claims": claims}, "p/t"), "claims: 1 reproduced, 1 calibrated")

    def test_cells_and_claims_of_a_paper(self):
        self.assertEqual([paper_tables.number(value) for value in (None, 999999.0, 1e6, -1234567.0, 0.123456)],
                         ["", "999999", "1e+06", "-1.235e+06", "0.1235"])

        def cell(row, value, paper, **more):
            percent = None if None in (value, paper) else 100 * (value / paper - 1)
            return {"artifact": "p/t", "source": "virtual", "scale": "1", "program": "", "row": row, "column": "c", "unit": "GiB", "value": value,
                    "status": "ok", "paper": paper, "paper_oom": False, "error_points": None, "error_percent": percent, **more}

        def claim(name, value, verdict, program=""):
            return {"id": name, "source": "virtual", "program": program, "verdict": verdict, "unit": "%", "paper": 7.0, "value": value, "tolerance": 0.5}
        found = {"cells": [cell("a", 3, 2), cell("b", None, 5, status="oom"), cell("c", 4, None, paper_oom=True),
                           cell("d", None, 11, status="failed"), cell("e", 42.0, 40.0, error_points=2.0), cell("a", 1, 2, scale="1/2")],
                 "claims": [claim("x", 9.0, "not reproduced"), claim("x", 7.25, "not reproduced", "theirs"), claim("y", 7.0, "reproduced"),
                            claim("z", None, "not measurable here"), claim("f", 7.0, "calibrated")]}
        results = paper_tables.Results(self.written(found).parent)
        self.assertEqual(rows(results.cells("p/t")), [["a", "c, GiB", "2", "3", "+50.0 %"], ["b", "c, GiB", "5", "out of memory", ""],
                                                      ["c", "c, GiB", "out of memory", "4", ""], ["d", "c, GiB", "11", "failed", ""],
                                                      ["e", "c, GiB", "40", "42", "+2.0 pt"]])
        said, _, *table = results.claims("p").splitlines()
        self.assertEqual(said, "Of 4 claims 1 are reproduced by the paper's program, and 1 by frugal's own runs; 1 were fitted to.")
        self.assertEqual(list(map(cells, table[2:])), [["x", "%", "7", "7.25", "-0.25", "± 0.5"], ["z", "%", "7", "out of memory", "", "± 0.5"]])

    def test_attention_may_take_so_many_times_what_its_products_take(self):
        """175B on 8 stages of 8 ranks, 64 microbatches: 10 times the seconds of 7 products of s² h FLOPs each, and once more."""
        flops = 7 * 2048**2 * 12288 * 96 / 64 * (64 + 7)
        results = []
        for machine in modern_hardware_tables.MACHINES:
            results.append({"set": "machines", "machine": machine, "flops_bf16": 2e14, "gemm_sustained": 0.5})
            for model, tokens in modern_hardware_tables.SHAPES:
                for name, seconds in (("fused + SP", 1), ("selective + SP", 1 + 10 * flops / 1e14)):
                    results.append({"set": "techniques", "machine": machine, "model": model, "sequence": tokens, "case": name,
                                    "step_seconds": seconds})
        table = {row[0]: row[1:] for row in rows(modern_hardware_tables.attention(results))}
        self.assertEqual(table["175B"], ["11"] * 4)
        more = {"530B": 20480 / 12288 * 105 / 96 * 8 / 35 * (280 + 34) / 71, "1T": 25600 / 12288 * 128 / 96 / 8 * (512 + 63) / 71, "175B, s = 8192": 16}
        self.assertEqual({name: table[name] for name in more}, {name: [f"{1 + 10 / ratio:.0f}"] * 4 for name, ratio in more.items()})

    def test_of_several_ranks_the_fullest(self):
        counted = [{"peak": peak * 1e6, "at_peak": {"parameter": 2 * peak * 1e6, "gradient": 3 * peak * 1e6}} for peak in (5, 7, 6)]
        case = {"step": {"family": "gpt", "layers": 2, "hidden": 3, "sequence": 5, "vocabulary": 7, "batch": 11, "recompute": "other"},
                "microbatches": 13, "reshard": True, "counted": counted, "error_percent": 0.1234,
                "executed": {"peak": 8e6, "at_peak": {"gradient": 9e6, "parameter": 10e6}}}
        path = self.written({"cases": [case, {**case, "reshard": False}], "agree": 1, "within_percent": 0.5, "pytorch": "2", "ranks": 4})
        said, _, _, *table = rank_tables.pytorch_fsdp(path).splitlines()
        self.assertEqual(said, "1 of 2 peaks are within 0.5 % (PyTorch 2, 4 processes, float32).")
        self.assertEqual(cells(table[1]), ["gpt, L 2, h 3, s 5, v 7, b 11, m 13", "full", "yes", "7.0", "8.0", "+0.123", "21.0, 9.0", "14.0, 10.0"])
        self.assertEqual(cells(table[2])[2], "no")

    def test_how_runs_end(self):
        """Two faults, of which one has no second moment; and three kills."""
        ends = {"start": {"status": 4, "seconds": 2.06}, "write": {"status": -9, "seconds": 0.04}}
        faults = [{"what": "a", "ranks": "threads", "whose": "the rank", "moments": ends},
                  {"what": "b", "ranks": "processes", "whose": "nobody's", "moments": {"start": {"status": 130, "seconds": 12.0}}}]
        table = rank_tables.faults(self.written({"moments": ["start", "write"], "faults": faults}))
        self.assertEqual([cells(line) for line in table.splitlines()], [
            ["what goes wrong", "ranks are", "said to be whose fault", "start", "write"], ["---"] * 5,
            ["a", "threads", "the rank", "4, 2.1 s", "-9, 0.0 s"], ["b", "processes", "nobody's", "130, 12.0 s", ""]])
        kills = [{"ranks_are": kind, "left_half": half} for kind, half in (("threads", True), ("threads", False), ("processes", True))]
        self.assertEqual(" ".join(rank_tables.kills(self.written({"ranks": 5, "kills": kills})).split()),
                         "This held for all 3 kills, 2 of runs whose ranks are threads and 1 of runs of 5 processes; 2 of them left a "
                         "checkpoint half written or half removed beside it.")

    def test_published_utilizations(self):
        case = {"devices": 8192, "tokens": 4096, "context_parallel_size": 3, "published_mfu": 0.43, "mfu": 0.4567, "peak_bytes": 77 * GIB}
        self.assertEqual(rows(planning_tables.published_training(self.written({"published": [case]}))),
                         [["8,192", "4,096", "3", "43", "45.7", "+2.7", "77"]])

    def test_a_machines_others_and_its_fitted_numbers(self):
        def entry(value, unit="1", **more):
            return {"value": value, "unit": unit, "source": f"of {unit}", **more}
        machine = {"device": {"a": entry(12345.6, "B/s", others=[{"value": 2.0, "source": "else"}]), "b": entry([[2, 3], [5, 7]])},
                   "network": {"c": entry(0.25)}, "fit": {"parameters": ["network.c"]}}
        self.assertEqual(rows(record_tables.machine(self.written(machine))),
                         [["`a`", "1.235e+04 B/s", "of B/s"], ["", "or 2", "else"], ["`b`", "2×3, 5×7", "of 1"],
                          ["**`c`**", "**0.25**", "of 1"]])
