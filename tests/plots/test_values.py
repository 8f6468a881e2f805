"""The numbers that each figure draws, computed a second time from the raw results."""

import contextlib
import io
import json
import math
import pathlib
import statistics
import sys
import tempfile
import unittest

import drawn
import explain
import korthikanti2022_calibration
import korthikanti2022_memory
import korthikanti2022_pipeline
import korthikanti2022_table4
import korthikanti2022_table5
import memory_bound
import modern_hardware
import mst2024_modules
import mst2024_timeline
import pipedream2bw2021_memory
import pipedream2bw2021_throughput
import planned_training
import predictions
import published
import recompute_frontier
import recomputed_layers
import steps
import style
import training_mst2024
import training_pipedream2bw2021
from sources import SOURCE

VIRTUAL, CPU = SOURCE / "results/virtual", SOURCE / "results/amd-epyc-2-cores"
GIB = 1024 ** 3


def json_of(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def lines_of(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def cells_of(artifact):
    paper = artifact.split("/")[0]
    return [cell for cell in json_of(VIRTUAL / f"{paper}.json")["cells"] if cell["artifact"] == artifact]


def value_of(cells, row, column, label):
    """The value of the series with a legend's label: "paper…", else "SOURCE (MACHINE…)" of full size."""
    if label.startswith("paper"):
        return next((c["paper"] for c in cells if (c["row"], c["column"]) == (row, column) and c["paper"] is not None), None)
    source, machine = label.split(" (", 1)
    machine = machine.split(")")[0]
    found = [c["value"] for c in cells if (c["row"], c["column"], c["source"]) == (row, column, source)
             and c["on"] == f"virtual:{machine}"]
    return found[-1] if found else None


class Values(unittest.TestCase):
    def tearDown(self):
        style.plt.close("all")

    def run_main(self, module, folder, name):
        """The numbers of a script's figure, drawn from a folder."""
        with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
            before, sys.argv = sys.argv, [module.__name__, str(folder), out]
            try:
                module.main()
            finally:
                sys.argv = before
            return drawn.of_png(pathlib.Path(out) / f"{name}.png")

    def close(self, found, expected, what=""):
        self.assertEqual(len(found), len(expected), what)
        for a, b in zip(found, expected):
            self.assertTrue(a == b or math.isclose(a, b, rel_tol=2e-5, abs_tol=1e-9), f"{what}: {a} is drawn, not {b}")

    def rows_of(self, panel, series, rows):
        """{(row, series): (left, width)} of grouped horizontal bars: `series` of them share 0.8 of a row."""
        found = {}
        for left, bottom, width, height in panel["bars"]:
            row = round(bottom + height / 2)
            at = round((bottom + 0.4 - row) / (0.8 / series))
            self.assertLess(row, rows)
            self.assertNotIn((row, at), found, "two bars in one place")
            found[row, at] = (left, width)
        return found

    def check_bars(self, panel, keys, labels, expected):
        """expected(key, label) is what the bar of a row's key and a series' label is as long as; None: no bar."""
        found = self.rows_of(panel, len(labels), len(keys))
        count = 0
        for row, key in enumerate(keys):
            for at, label in enumerate(labels):
                value = expected(key, label)
                if value is None:
                    self.assertNotIn((row, at), found, f"{key}, {label}")
                    continue
                self.close(found[row, at], (0, value), f"{panel['title']}: {key}, {label}")
                count += 1
        self.assertEqual(len(found), count)
        self.assertGreater(count, 0)

    def test_korthikanti2022_table2_is_in_gib(self):
        cells = cells_of("korthikanti2022/table2")
        figure = drawn.of_figure(korthikanti2022_memory.table2(VIRTUAL))
        self.assertEqual([panel["x_label"] for panel in figure["panels"]], ["GiB"] * 4)
        for panel in figure["panels"]:
            self.check_bars(panel, list(korthikanti2022_memory.TABLE2), figure["legend"],
                            lambda row, label, model=panel["title"]: (v := value_of(cells, row, model, label)) and v / GIB)

    def test_korthikanti2022_figure7(self):
        cells = cells_of("korthikanti2022/figure7")
        figure = drawn.of_figure(korthikanti2022_memory.figure7(VIRTUAL))
        columns = [tick.replace("\n", " ") for tick in figure["panels"][0]["y_ticks"]]
        self.assertEqual(set(columns), {c["column"] for c in cells})
        self.assertEqual([panel["x_label"] for panel in figure["panels"]], ["% of baseline"] * 4)
        for panel in figure["panels"]:
            self.check_bars(panel, columns, figure["legend"],
                            lambda column, label, model=panel["title"]: value_of(cells, model, column, label))

    def test_korthikanti2022_figure1_and_the_memory_of_an_a100(self):
        cells = cells_of("korthikanti2022/figure1")
        figure = drawn.of_figure(korthikanti2022_pipeline.figure1(VIRTUAL))
        for panel in figure["panels"]:
            self.check_bars(panel, [*korthikanti2022_pipeline.FIGURE1, *korthikanti2022_pipeline.MOST], figure["legend"],
                            lambda column, label, model=panel["title"]: value_of(cells, model, column, label))
            self.assertIn([80.0, 80.0], [line["x"] for line in panel["lines"]])

    def test_korthikanti2022_figure9(self):
        cells = cells_of("korthikanti2022/figure9")
        (panel,) = drawn.of_figure(korthikanti2022_pipeline.figure9(VIRTUAL))["panels"]
        ranks = range(35)
        for line in panel["lines"]:
            label, row = line["label"].rsplit(", ", 1)
            expected = {rank: value for rank in ranks
                        if (value := value_of(cells, row, f"rank {rank}", label)) is not None}
            self.close(line["x"], list(expected), line["label"])
            self.close(line["y"], list(expected.values()), line["label"])
        self.assertEqual(sum(line["label"].startswith("paper") for line in panel["lines"]), 2)
        self.assertGreaterEqual(len(panel["lines"]), 4)

    def test_korthikanti2022_table4_stacks_forward_and_backward(self):
        cells = cells_of("korthikanti2022/table4")
        theirs = [c["row"] for c in cells if c["paper"] is not None]
        rows = list(dict.fromkeys(theirs + [c["row"] for c in cells if c["value"] is not None]))
        figure = self.run_main(korthikanti2022_table4, VIRTUAL, "korthikanti2022-table4")
        times, overheads = figure["panels"]
        labels = figure["legend"]
        self.check_bars(overheads, rows, labels, lambda row, label: value_of(cells, row, "overhead", label))
        expected = []
        for row, name in enumerate(rows):
            for at, label in enumerate(labels):
                forward, backward = (value_of(cells, name, part, label) for part in ("forward", "backward"))
                if forward is not None:
                    expected += [(row, at, 0, forward), (row, at, forward, backward)]
        found = []
        for left, bottom, width, height in times["bars"]:
            row = round(bottom + height / 2)
            found.append((row, round((bottom + 0.4 - row) / (0.8 / len(labels))), left, width))
        for a, b in zip(sorted(found), sorted(expected), strict=True):
            self.close(a, b)

    def test_korthikanti2022_table5_draws_errors_and_utilizations(self):
        cells = cells_of("korthikanti2022/table5")
        figure = drawn.of_figure(korthikanti2022_table5.table5(VIRTUAL))
        models = [m for m in ("22B", "175B", "530B", "1T")]
        *labels, formula = figure["legend"]
        self.assertIn("equations 7 and 8", formula)

        def error(column):
            def of(model, label):
                paper, ours = value_of(cells, model, column, "paper"), value_of(cells, model, column, label)
                return None if ours is None else 100 * (ours - paper) / paper
            return of
        for column, panel in zip(korthikanti2022_table5.TIMES, figure["panels"]):
            self.check_bars(panel, models, labels[1:], error(column))
        for column, panel in zip(korthikanti2022_table5.RATIOS, figure["panels"][2:]):
            def ratio(model, label, column=column):
                if label == formula:
                    return next(c["value"] for c in reversed(cells)
                                if (c["row"], c["column"], c["source"]) == (model, column, "formula"))
                return value_of(cells, model, column, label)
            self.check_bars(panel, models, figure["legend"], ratio)

    def test_korthikanti2022_figure8(self):
        cells = cells_of("korthikanti2022/figure8")
        figure = drawn.of_figure(korthikanti2022_table5.figure8(VIRTUAL))
        rows = list(dict.fromkeys(c["row"] for c in cells if c["paper"] is not None))
        for part, panel in zip(korthikanti2022_table5.PARTS, figure["panels"]):
            self.check_bars(panel, rows, figure["legend"], lambda row, label, part=part: value_of(cells, row, part, label))

    def test_calibration_errors_and_their_means(self):
        document = json_of(VIRTUAL / "calibration-a100-selene.json")
        left, right = drawn.of_figure(korthikanti2022_calibration.errors(document))["panels"]
        held = {one["artifact"]: one["cells"] for one in document["held_out"]}
        seconds = [c for c in held["korthikanti2022/table5"] if c["unit"] == "s"]
        errors = [100 * (c["value"] / c["paper"] - 1) for c in seconds]
        self.close([bar[2] for bar in left["bars"]], errors)
        self.assertIn(f"mean magnitude {statistics.fmean(map(abs, errors)):.2f} %", left["title"])
        percents = [c for c in held["korthikanti2022/figure8"] if c["unit"] == "%"]
        points = {(c["row"], c["column"]): c["value"] - c["paper"] for c in percents}
        self.check_bars(right, right["y_ticks"], list(korthikanti2022_calibration.PARTS), lambda row, part: points[row, part])
        unseen = [abs(c["value"] - c["paper"]) for c in percents if not c["seen"]]
        self.assertIn(f"mean magnitude {statistics.fmean(unseen):.2f} points", right["title"])

    def test_sensitivity_is_the_change_of_mean_time(self):
        document = json_of(VIRTUAL / "calibration-a100-selene.json")
        figure = drawn.of_figure(korthikanti2022_calibration.sensitivity(document))
        found = [one for one in document["sensitivity"]["parameters"] if one["effect_percent"] > 0.05][:14]
        for i, panel in enumerate(figure["panels"]):
            def change(one, label, i=i):
                way = one["less" if label == "a tenth less" else "more"]["artifacts"]
                percent = way[i]["time_percent"] if way else 0
                return percent if abs(percent) >= 0.05 else None
            self.check_bars(panel, found, figure["legend"], change)
            self.assertEqual("korthikanti2022/" + panel["title"], document["sensitivity"]["unchanged"][i]["artifact"])

    def check_systems(self, figure, artifacts):
        """Bars of pipedream2bw2021 by (system, batch), their mean error against the paper's, and what ran out of memory."""
        systems = ["Inter-layer MP", "Tensor MP", "GPipe", "PipeDream-Flush", "PipeDream-2BW"]
        for name, panel in zip(artifacts, figure["panels"], strict=True):
            cells = cells_of(f"pipedream2bw2021/{name}")
            batches = sorted({c["column"] for c in cells}, key=lambda text: int(text.split()[1]))
            keys = [(system, batch) for batch in batches for system in systems]
            self.check_bars(panel, keys, figure["legend"], lambda key, label: value_of(cells, *key, label))
            first = figure["legend"][1]
            errors = [abs(value_of(cells, *key, first) / value_of(cells, *key, "paper") - 1) for key in keys
                      if value_of(cells, *key, first) is not None and value_of(cells, *key, "paper") is not None]
            self.assertIn(f"mean error {100 * statistics.fmean(errors):.0f} %, {len(errors)} bar", panel["title"])
            self.assertEqual(sum(text == "paper: OOM" for text in panel["texts"]), sum(
                any(c["paper_oom"] for c in cells if (c["row"], c["column"]) == key) for key in keys))

    def test_pipedream2bw2021_memory(self):
        figure = drawn.of_figure(pipedream2bw2021_memory.footprints(VIRTUAL))
        self.check_systems(figure, ["figure7", "figure11"])
        for panel in figure["panels"]:  # 16 GiB in units of 1000 MiB
            self.assertIn([16 * 1024 / 1000] * 2, [line["x"] for line in panel["lines"]])

    def test_pipedream2bw2021_throughput(self):
        for number, model in ((6, "GPT"), (10, "BERT")):
            figure = drawn.of_figure(pipedream2bw2021_throughput.systems(VIRTUAL, f"figure{number}", model))
            self.check_systems(figure, [f"figure{number}{part}" for part in "abc"])

    def check_sweep(self, figure, name):
        cells = cells_of(f"pipedream2bw2021/{name}")
        columns = sorted({c["column"] for c in cells if c["paper"] is not None or c["paper_oom"]},
                         key=lambda text: int(text.split()[1]))
        for panel in figure["panels"]:
            row = panel["title"].split("\n")[0]
            self.check_bars(panel, columns, figure["legend"], lambda column, label: value_of(cells, row, column, label))

    def test_pipedream2bw2021_sweeps(self):
        self.check_sweep(drawn.of_figure(pipedream2bw2021_throughput.figure8(VIRTUAL)), "figure8")
        self.check_sweep(drawn.of_figure(pipedream2bw2021_throughput.figure12(VIRTUAL)), "figure12")

    def test_pipedream2bw2021_figure9(self):
        cells = cells_of("pipedream2bw2021/figure9")
        figure = drawn.of_figure(pipedream2bw2021_memory.figure9(VIRTUAL))
        (panel,) = figure["panels"]
        (row,) = {c["row"] for c in cells if c["paper"] is not None}
        depths = sorted({c["column"] for c in cells if c["paper"] is not None}, key=lambda text: int(text.split()[1]))
        self.check_bars(panel, depths, figure["legend"], lambda column, label: value_of(cells, row, column, label))

    def test_mst2024_modules(self):
        figure = drawn.of_figure(mst2024_modules.figure_of(VIRTUAL))
        for at, (memory, time) in enumerate((("table14", "table13"), ("table16", "table15"))):
            panels = figure["panels"][at], figure["panels"][at + 2]
            label = panels[0]["title"].split(", ", 1)[1]
            cells = cells_of(f"mst2024/{memory}")
            rows = list(dict.fromkeys(c["row"] for c in cells))
            lengths = sorted({int(c["column"]) for c in cells if c["column"].isdigit()})
            drawn_rows = [line for line in panels[0]["lines"] if line["label"]]
            self.assertEqual([line["label"] for line in drawn_rows], rows)
            for row, line in zip(rows, drawn_rows):
                expected = {s: v for s in lengths if (v := value_of(cells, row, str(s), label)) is not None}
                self.close(line["x"], list(expected))
                self.close(line["y"], list(expected.values()), f"{memory}, {row}")
            squares = [(x, y) for line in panels[0]["lines"] if not line["label"] for x, y in zip(line["x"], line["y"])]
            papers = [(s, v) for row in rows for s in lengths if (v := value_of(cells, row, str(s), "paper")) is not None]
            self.close(sum(squares, ()), sum(papers, ()))
            self.check_times(panels[1], time, rows, label)

    def check_times(self, panel, table, rows, label):
        """Each is a ratio of the seconds in the row and those of the standard."""
        cells = cells_of(f"mst2024/{table}")
        lengths = sorted({int(c["column"]) for c in cells if c["column"].isdigit()})
        for row, line in zip(rows[1:], panel["lines"]):
            seconds = {s: (value_of(cells, row, str(s), label), value_of(cells, rows[0], str(s), label)) for s in lengths}
            ratios = {s: a / b for s, (a, b) in seconds.items() if a is not None and b is not None}
            self.close(line["x"], list(ratios))
            for found, expected in zip(line["y"], ratios.values(), strict=True):
                self.assertAlmostEqual(found, expected, delta=2e-5 * expected, msg=f"{table}, {row}")

    def test_modern_hardware(self):
        results = lines_of(VIRTUAL / "modern-hardware.jsonl")

        def one(**keys):
            (found,) = [r for r in results if all(r.get(k) == v for k, v in keys.items())]
            return found
        shapes = [("22B", 2048), ("175B", 2048), ("530B", 2048), ("1T", 2048), ("175B", 8192)]
        figure = drawn.of_figure(modern_hardware.techniques(results))
        for machine, panel in zip(("a100-no-software", "h100-dgx", "h200-hgx", "b200-dgx"), figure["panels"], strict=True):
            def saved(shape, name, machine=machine):
                of = {"set": "techniques", "model": shape[0], "sequence": shape[1], "machine": machine}
                with_it, full = one(case=name, **of), one(case="full", **of)
                return 100 - 100 * with_it["step_seconds"] / full["step_seconds"] if with_it["status"] == "ok" else None
            self.check_bars(panel, shapes, figure["legend"], saved)
        figure = drawn.of_figure(modern_hardware.memory(results))
        for (model, tokens), panel in zip(shapes, figure["panels"], strict=True):
            self.check_bars(panel, panel["y_ticks"] or modern_hardware.TECHNIQUES, ["b200-dgx"], lambda name, machine: one(
                set="techniques", model=model, sequence=tokens, machine=machine, case=name)["peak_bytes"] / GIB)
            capacities = [one(set="machines", machine=m)["memory_capacity"] / GIB for m in ("h100-dgx", "h200-hgx", "b200-dgx")]
            self.close([line["x"][0] for line in panel["lines"]], capacities)

    def test_modern_hardwares_curves_are_mfu_in_percent(self):
        results = lines_of(VIRTUAL / "modern-hardware.jsonl")
        figure = drawn.of_figure(modern_hardware.schedules(results))
        settings = [(m, s) for m in ("h100-dgx", "b200-dgx") for s in ("", " + SP")]
        for (machine, suffix), panel in zip(settings, figure["panels"], strict=True):
            for line in (line for line in panel["lines"] if line["label"]):
                found = [r for r in results if (r["set"], r.get("machine"), r.get("case"))
                         == ("schedules", machine, line["label"] + suffix)]
                self.close(line["y"], [100 * r["mfu"] for r in found], line["label"])
                words = [r["options"].split() for r in found]
                self.close(line["x"], [int(w[w.index("--microbatches") + 1]) for w in words])
        figure = drawn.of_figure(modern_hardware.scale(results))
        for machine, panel in zip(("h100-dgx", "h200-hgx", "b200-dgx"), figure["panels"], strict=True):
            for line in (line for line in panel["lines"] if line["label"] and "published" not in line["label"]):
                found = [r for r in results if (r["set"], r.get("machine"), r.get("case")) == ("scale", machine, line["label"])]
                self.close(line["y"], [100 * r["mfu"] for r in found], line["label"])
                self.close(line["x"], [r["devices"] for r in found])

    def test_planned_training(self):
        document = json_of(VIRTUAL / "planned-training.json")
        figure = self.run_main(planned_training, VIRTUAL, "planned-training")
        steps_there = list(dict.fromkeys(case["step"] for case in document["planned"]))
        for panel in figure["panels"]:
            expected = []
            for at, step in enumerate(steps_there):
                for group, machine in enumerate(("h100-dgx", "h200-hgx", "b200-dgx")):
                    (case,) = [c for c in document["planned"]
                               if (c["model"], c["machine"], c["step"]) == (panel["title"], machine, step)]
                    if case["choice"]:
                        width = 0.8 / len(steps_there)
                        expected.append((group - 0.4 + at * width, 0, width, 100 * case["choice"]["mfu"]))
            for found, bar in zip(sorted(panel["bars"]), sorted(expected), strict=True):
                for a, b in zip(found, bar):
                    self.assertAlmostEqual(a, b, delta=1e-4 * max(1, abs(b)))

    def test_published_errors_and_runs(self):
        """Means of the magnitudes, in percent; points are seconds and GiB."""
        sizes, points = {}, {"memory": 0, "time": 0}
        for path in sorted((VIRTUAL / "published").glob("*.jsonl")):
            for what in points:
                rows = [line for line in lines_of(path) if line.get(what) and not line["left_out"]]
                some_set_a_number = any(what in line["used_for"] for line in rows)
                for line in rows:
                    points[what] += 1
                    off = abs(line[what]["predicted"] - line[what]["published"]) / line[what]["published"]
                    check = ["that set no number"] if some_set_a_number and what not in line["used_for"] else []
                    for group in (line["group"], "all", *check):
                        sizes.setdefault((what, f"{path.stem}: {group}"), []).append(100 * off)
        errors, runs = (self.run_main(published, VIRTUAL, f"published-{name}") for name in ("errors", "runs"))
        for what, panel in zip(points, errors["panels"], strict=True):
            labels = errors["panels"][0]["y_ticks"]
            expected = {row: statistics.fmean(sizes[what, label]) for row, label in enumerate(labels) if (what, label) in sizes}
            found = {row: width for (row, series), (_, width) in self.rows_of(panel, 2, len(labels)).items() if series == 0}
            self.assertEqual(sorted(found), sorted(expected))
            self.close([found[row] for row in expected], list(expected.values()), what)
        for what, panel in zip(points, runs["panels"], strict=True):
            self.assertEqual(sum(len(cloud["at"]) for cloud in panel["points"]), points[what])

    def test_recompute_frontier(self):
        cases = json_of(VIRTUAL / "recompute-frontier.json")["cases"]
        figure = drawn.of_figure(recompute_frontier.figure_of(VIRTUAL))
        for case, panel in zip(cases, figure["panels"], strict=True):
            self.assertEqual(panel["title"], f"{case['model']}, {case['machine']}")
            sets, plain, memory = panel["lines"]
            for line, key in ((sets, "frontier"), (plain, "frontier_without_modules")):
                self.close(line["x"], [way["peak_bytes"] / GIB for way in case[key]])
                self.close(line["y"], [way["step_seconds"] for way in case[key]])
            self.close(memory["x"], [case["memory"] / GIB] * 2)

    def test_predictions_error_is_measured_over_predicted(self):
        """A step that took longer than was predicted is above zero."""
        points = [("korthikanti2022", 0.010, 0.012), ("measure", 2.0, 1.5)]
        scatter, error = drawn.of_figure(predictions.draw(points, "GPU"))["panels"]
        self.assertEqual([one["at"] for one in scatter["points"]], [[[0.01, 0.012]], [[2.0, 1.5]]])
        self.close([one["at"][0][1] for one in error["points"]], [20.0, -25.0])
        self.close([one["at"][0][0] for one in error["points"]], [0.01, 2.0])
        self.assertEqual((scatter["x_label"], scatter["y_label"]), ("predicted, s", "measured, s"))

    def test_recomputed_layers_are_percent_and_gib(self):
        rows = [{"modules": "none", "kept": 2 * GIB, "predicted": 0.0, "measured": 0.01, "interval": [-0.01, 0.03]},
                {"modules": "norm+mlp", "kept": GIB, "predicted": 0.2, "measured": 0.25, "interval": [0.24, 0.3]},
                {"modules": "full", "kept": GIB / 4, "predicted": 0.3, "measured": 0.35, "interval": [0.34, 0.37]}]
        figure, panel = style.plt.subplots()
        recomputed_layers.draw_layer(panel, "layer", rows)
        (found,) = drawn.of_figure(figure)["panels"]
        ends, measured, *_ = found["lines"]
        self.assertEqual((ends["x"], ends["y"]), ([2, 0.25], [1, 35]))
        self.assertEqual((measured["x"], measured["y"]), ([2, 1, 0.25], [1, 25, 35]))
        predicted = next(one["at"] for one in found["points"] if one["label"] == "predicted")
        self.assertEqual(predicted, [[2, 0], [1, 20], [0.25, 30]])
        bars = [one["at"] for one in found["points"] if len(one["at"]) == 6]
        self.assertEqual(bars, [[[2, -1], [2, 3], [1, 24], [1, 30], [0.25, 34], [0.25, 37]]])
        self.assertEqual(found["texts"], ["none", "norm+mlp", "full"])
        self.assertEqual(recomputed_layers.short("core-attention+projection+activation"), "core+proj+act")

    def test_steps_are_ratios_with_their_intervals(self):
        result = {"model": "a/small.json", "type": "f32", "attention": "fused", "dropout": 0.0, "flags": "",
                  "medians": {"frugal": 1.0, "eager": 2.0, "compiled": 4.0}, "least": {"flops": 0.5, "bytes": 0.1},
                  "time_over": {"eager": {"value": 0.5, "interval": [0.4, 0.7]},
                                "compiled": {"value": 0.25, "interval": [0.2, 0.26]}},
                  "memory_over": {"eager": 0.6, "compiled": 1.2}}
        time, memory = drawn.of_figure(steps.draw([result]))["panels"]
        self.close([bar[2] for bar in time["bars"]], [0.5, 0.25])
        self.close([bar[2] for bar in memory["bars"]], [0.6, 1.2])
        self.close([one["at"][0][0] for one in time["points"][-2:]], [0.5 / 2.0, 0.5 / 4.0])  # products alone over theirs
        ends = [[x for x, _ in one["at"]] for one in time["points"] if len(one["at"]) == 2]
        self.assertEqual(ends, [[0.4, 0.7], [0.2, 0.26]])
        targets = [line["x"] for line in time["lines"] if len(set(line["x"])) == 1 and line["y"] == [0, 1]]
        self.assertEqual(targets, [[0.5, 0.5], [0.7, 0.7]])

    def test_memory_bound_is_the_median_ratio_of_rates(self):
        records = [r for r in lines_of(CPU / "bench-memory-bound.jsonl") if r["status"] == "ok"]
        cases = memory_bound.rounds(CPU / "bench-memory-bound.jsonl")
        table = memory_bound.medians(cases, 55)
        figure = drawn.of_figure(memory_bound.draw(table, memory_bound.rates(cases, 55)))
        pairs = {}
        for r in records:
            work, = r["metrics"]["work"]["samples"]
            key = f"{r['options']['operation']}/{r['options']['type']}"
            pairs.setdefault((key, r["rounds"]), {})[r["options"]["by"]] = [work / s for s in r["metrics"]["time"]["samples"]]
        ratios = {}
        for (key, _), by in pairs.items():
            for ours, copy in zip(by.get("frugal", []), by.get("copy", [])):
                ratios.setdefault((key, copy < 55e9), []).append(ours / copy)
        seen = 0
        for panel in figure["panels"]:
            for state, group in zip((True, False), panel["points"]):
                for x, y in group["at"]:
                    values = ratios[panel["y_ticks"][round(y)], state]
                    self.assertGreaterEqual(len(values), 5)
                    self.close([x], [statistics.median(values)], panel["y_ticks"][round(y)])
                    seen += 1
            self.assertIn([0.8, 0.8], [line["x"] for line in panel["lines"]])
        self.assertEqual(seen, sum(len(values) >= 5 for values in ratios.values()))

    def test_timeline_stacks_kinds_in_gib(self):
        rows = [[0.0, "forward", 1 * GIB, 2 * GIB, 0], [1.0, "forward", 1 * GIB, 4 * GIB, 0],
                [2.0, "backward", 1 * GIB, 3 * GIB, 0], [3.0, "backward", 1 * GIB, 2 * GIB, 0]]
        timeline = mst2024_timeline.memory_timeline.Timeline(["time", "phase", "parameter", "activation", "host"], rows)
        for kind in mst2024_timeline.KINDS:
            timeline.bytes.setdefault(kind, [0] * len(rows))
        figure, panel = style.plt.subplots()
        mst2024_timeline.draw(panel, timeline)
        (found,) = drawn.of_figure(figure)["panels"]
        total = found["lines"][0]
        self.assertEqual(total["x"], [0, 1, 2, 3])
        self.assertEqual(total["y"], [3, 5, 4, 3])
        peak = next(line for line in found["lines"] if line["label"] == "peak")
        self.assertEqual((peak["x"], peak["y"]), ([1], [5]))
        tops = {one["label"]: max(y for _, y in one["at"]) for one in found["points"]}
        self.assertEqual(tops, {"weights": 1, "activations kept for backward": 5})
        self.assertEqual(found["texts"], ["5.0 GiB", "forward", "backward"])

    def test_explain_leads_from_frugals_number_to_the_papers(self):
        cell = {"artifact": "p/table1", "row": "r", "column": "c", "unit": "GiB", "frugal": 10.0, "program": 13.0,
                "paper": 16.0, "terms": [{"behaviour": "kept", "status": "documented", "added": 4.0},
                                         {"behaviour": "freed", "status": "counted", "added": -1.0}]}
        (panel,) = [p for p in drawn.of_figure(explain.figure_of([cell]))["panels"] if p["bars"]]
        self.assertEqual([(left, width) for left, _, width, _ in panel["bars"]],
                         [(0, 10), (10, 4), (14, -1), (0, 13), (13, 3), (0, 16)])
        self.assertEqual(panel["texts"], ["10", "+4", "-1", "13", "+3", "16"])
        self.assertEqual(panel["title"], "table1, r\nc, GiB")

    def test_training_mst2024(self):
        """Losses of every step, and how far they are from training as it is."""
        losses, apart = self.run_main(training_mst2024, CPU / "long-training", "mst2024-training")["panels"]
        records = [r for r in lines_of(CPU / "long-training/records.jsonl") if r["status"] == "ok" and r["held_out"]]
        ways = {(r["configuration"]["seed"] == 1, "mlp_chunks" in r["configuration"],
                 r["configuration"].get("context_parallel_size", 1)): r for r in records}
        record_of = {"as it is": ways[True, False, 1], "mini-sequences": ways[True, True, 1],
                     "mini-sequences, Ulysses on two ranks": ways[True, True, 2],
                     "as it is, another seed": ways[False, False, 1]}
        reference = record_of["as it is"]
        whole = next(line for line in losses["lines"] if line["label"] == "as it is")
        self.assertEqual(len(losses["lines"]), len(apart["lines"]) + 1)
        others = [line for line in losses["lines"] if line is not whole]
        for line, distance in zip(others, apart["lines"], strict=True):
            record = record_of[line["label"]]
            self.close(line["y"], record["losses"])
            expected = [abs(a - b) or None for a, b in zip(record["losses"], reference["losses"], strict=True)]
            self.assertEqual([y is None for y in distance["y"]], [e is None for e in expected])
            self.close([y for y in distance["y"] if y], [e for e in expected if e])

    def test_training_pipedream2bw2021(self):
        """Held-out losses of each seed, smoothed training losses, and letters told in percent."""
        figure = self.run_main(training_pipedream2bw2021, CPU / "convergence", "pipedream2bw2021-figure5")
        records = [r for r in lines_of(CPU / "convergence/records.jsonl")
                   if r["status"] == "ok" and r["held_out"] and "last_words" in r["options"]]
        letters = {round(100 * r["metrics"]["last_word_letter_accuracy"]["median"], 3) for r in records}
        seen = 0
        for training, held_out, told in zip(*[iter(figure["panels"])] * 3):
            for line, smooth in zip(held_out["lines"], training["lines"], strict=True):
                (record,) = [r for r in records if len(r["held_out"]) == len(line["y"]) and all(
                    math.isclose(p["loss"], y, rel_tol=1e-5) for p, y in zip(r["held_out"], line["y"]))]
                self.assertEqual(line["x"], [p["step"] for p in record["held_out"]])
                width = max(len(record["losses"]) // 40, 1)
                self.close(smooth["y"], [sum(record["losses"][i - width:i]) / width
                                         for i in range(width, len(record["losses"]) + 1, width)])
                seen += 1
            for line in told["lines"]:
                for y in line["y"]:
                    self.assertTrue(any(abs(y - letter) < 1e-3 for letter in letters), y)
        self.assertEqual(seen, len(records))
