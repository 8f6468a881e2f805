"""What bench/gpu/check_predictions.py says of a folder of predictions and one of measurements."""

import contextlib
import io
import json
import math
import pathlib
import statistics
import sys

from sources import SOURCE, InFolder, scripts_of

scripts_of("bench/gpu")
import check_predictions  # noqa: E402  (the path comes first)
import clock_table  # noqa: E402
import lone_tables  # noqa: E402
import step_records  # noqa: E402
import technique_tables  # noqa: E402


def record(case="22B/fused/t1", seconds=0.02, peak=1000, status="ok", source="virtual", **configuration):
    return {"artifact": "korthikanti2022/table4", "case": case, "status": status, "source": source,
            "metrics": {"forward_time": {"unit": "s", "samples": [seconds, 9 * seconds, seconds / 2]},
                        "gradient_norm": {"unit": "1", "samples": [3]}} if status == "ok" else {},
            "memory": {"peak_total": peak}, "flops": {"hardware": {"value": 5e12}},
            "utilization": {kind: {"data_sheet": {"value": 0.7}} for kind in ("mfu", "hfu")}, "configuration": configuration}


def peak(rate):
    return {"gemm": [{"type": "bf16", "m": 8192, "n": 8192, "k": 8192, "flops_per_second": rate}],
            "copy": {"bytes_per_second": 4e12}}


def of_copy(by, seconds, work, rounds="1", status="ok"):
    """Half of a memory-bound operation beside a copy."""
    return {"artifact": "bench/memory-bound", "case": f"f32/gelu/{by}", "status": status, "rounds": rounds,
            "options": {"type": "f32", "operation": "gelu", "by": by},
            "metrics": {"time": {"unit": "s", "samples": seconds}, "work": {"unit": "bytes", "median": work}}}


def alone(seconds, load=None, stages=(0, 1, 7)):
    """A model whose stages ran alone; of a virtual machine without a load."""
    configuration = {"model": {"name": "175B", "layers": 96, "sequence_length": 2048, "dropout": 0.1}, "microbatch_size": 1,
                     "recompute": "selective", "tensor_parallel_size": 8, "pipeline_parallel_size": 8, "microbatches": 16,
                     "schedule": "interleaved"}
    parts = {"step_time": seconds, "computation_time": seconds / 2, "communication_time": seconds / 4, "bubble_time": seconds / 4}
    metrics = {name: {"unit": "s", "samples": [value] * 7, "median": value, "interval": {"low": 0.9 * value, "high": 1.1 * value}}
               for name, value in parts.items()}
    return {"artifact": "measure", "case": "measure", "status": "ok", "configuration": configuration, "metrics": metrics,
            "communication": {"kind": "modelled", "machine": "h100-dgx"}, "options": {"collective_load": load} if load else {},
            "lone_stages": {"stages": list(stages)}, "flops": None, "utilization": None,
            "memory": {"peak_total": 3 << 30, "stages": [{"peak": (3 - i) << 30} for i in range(len(stages))]}}


class Predictions(InFolder):
    def side(self, name, *records, cut="", **files):
        side = self.folder / name
        side.mkdir()
        (side / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records) + cut)
        for file, value in files.items():
            (side / file.replace("_", ".")).write_text(json.dumps(value))
        return str(side)

    def run_script(self, *arguments):
        out = io.StringIO()
        before, sys.argv = sys.argv, ["check_predictions.py", *arguments]
        try:
            with contextlib.redirect_stdout(out):
                status = check_predictions.main()
        finally:
            sys.argv = before
        return status, out.getvalue()

    def refused(self, says, function, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            function(*arguments)
        self.assertEqual(ended.exception.code, 2)
        self.assertIn(says, said.getvalue())

    def rows(self, text):
        return {cells[1]: cells[2:-1] for cells in
                ([c.strip() for c in line.split("|")] for line in text.splitlines() if line.startswith("|"))}

    def test_of_ranks_that_share_a_gpu_memory_alone_is_a_number(self):
        """And runs that divide work in other ways have other names."""
        shape = {"model": {"name": "m", "layers": 1, "sequence_length": 8, "dropout": 0}, "microbatch_size": 1, "recompute": "none",
                 "tensor_parallel_size": 1}
        runs = [{}, {"data_parallel_size": 2}, {"data_parallel_size": 2, "overlap_grad_reduce": True},
                {"pipeline_parallel_size": 2, "schedule": "1f1b", "microbatches": 4},
                {"pipeline_parallel_size": 2, "schedule": "gpipe", "microbatches": 4}]
        records = [{**record(**shape, **run), "artifact": "measure"} for run in runs]
        self.assertEqual(len({check_predictions.label_of(each) for each in records}), 5)
        apart = {**records[1], "options": {"ranks": "threads"}}
        shared = {**records[1], "options": {"ranks": "threads", "shared_gpus": "allowed"}}
        units = [{unit for _, unit in check_predictions.numbers_of_record(each).values()} for each in (apart, shared)]
        self.assertEqual(units, [{"s", "bytes", "FLOPs", "1"}, {"bytes", "FLOPs"}])
        self.assertNotEqual(check_predictions.label_of(apart), check_predictions.label_of(shared))

    def test_ten_percent_of_a_median_is_as_predicted_and_more_is_not(self):
        predicted = self.side("p", record())
        for name, seconds, fits in (("near", 0.0219, True), ("far", 0.0221, False), ("short", 0.0179, False)):
            status, text = self.run_script(predicted, self.side(name, record(seconds=seconds)))
            row = self.rows(text)["korthikanti2022/table4 22B/fused/t1: forward_time"]
            self.assertEqual((status, row[-1].endswith("!")), (0 if fits else 1, not fits), row)
            self.assertNotIn("gradient_norm", text)

    def test_bytes_are_equal_or_are_not_as_predicted(self):
        predicted = self.side("p", record())
        status, text = self.run_script(predicted, self.side("m", record(peak=1001)))
        self.assertEqual(status, 1)
        self.assertEqual(self.rows(text)["korthikanti2022/table4 22B/fused/t1: peak memory"],
                         ["1000 bytes", "1001 bytes", "+0.1 % !"])

    def test_what_one_side_lacks_is_named(self):
        status, text = self.run_script(self.side("p", record()), self.side("m", record(case="other")))
        self.assertEqual(status, 1)
        self.assertEqual(self.rows(text)["korthikanti2022/table4 22B/fused/t1: MFU"], ["0.7", "", "not measured"])
        self.assertEqual(self.rows(text)["korthikanti2022/table4 other: MFU"], ["", "0.7", "not predicted"])
        self.assertIn("0 of 14 numbers as predicted", text)

    def test_running_out_of_memory_is_predicted_too(self):
        predicted = self.side("p", record(status="oom"))
        self.assertEqual(self.run_script(predicted, self.side("same", record(status="oom")))[0], 0)
        self.assertEqual(self.run_script(predicted, self.side("other", record(status="failed")))[0], 1)

    def test_targets_are_judged_on_either_side(self):
        files = {"peak_json": peak(758e12)}
        status, text = self.run_script(self.side("p", record(), **files),
                                       self.side("m", record(), peak_json=peak(790e12)), "--targets-only")
        row = self.rows(text)["bf16 product of 8192³, random operands"]
        self.assertEqual((status, row), (0, ["≥ 760 TFLOP/s", "758 TFLOP/s, **below**", "790 TFLOP/s"]))
        self.assertEqual(self.rows(text)["22B layer, one device, fused attention: MFU"][1:], ["70 %", "70 %"])

    def test_at_the_mean_clock_a_machine_is_measured_and_a_virtual_one_keeps_its_own(self):
        throttled = record(source="measured")
        throttled["utilization"]["mfu"]["at_mean_clock"] = {"value": 0.9}
        status, text = self.run_script(self.side("p", record()), self.side("m", throttled))
        rows = self.rows(text)
        self.assertEqual(rows["22B layer, one device, fused attention: MFU at the mean clock"], ["≥ 85 %", "70 %, **below**", "90 %"])
        self.assertEqual(rows["korthikanti2022/table4 22B/fused/t1: MFU at the mean clock"], ["0.7", "0.9", "+28.6 % !"])
        self.assertEqual(rows["korthikanti2022/table4 22B/fused/t1: HFU at the mean clock"], ["0.7", "", "not measured"])
        self.assertEqual((status, rows["korthikanti2022/table4 22B/fused/t1: MFU"]), (1, ["0.7", "0.7", "+0.0 %"]))

    def test_of_steps_beside_pytorch_the_last_counts(self):
        lines = []
        for number, (model, over) in enumerate((("a", 0.9), ("b", 0.8), ("a", 0.5))):
            row = {"model": model, "type": "bf16", "attention": "fused", "dropout": 0.0, "micro_batch": 4, "flags": ""}
            measured = step_records.Measured(row, {"steps": 1}, rounds=f"{number:016x}")
            measured.begin({"source": "measured", "on": "cuda", "device": "", "environment": {}, "configuration": None,
                            "program": "", "command": ""})
            for side, seconds in (("frugal", 0.1 * over), ("eager", 0.1), ("compiled", 0.1)):
                step_records.add(measured.record(by=side), "step_time", "s", seconds)
                step_records.add(measured.record(by=side), "ledger_memory" if side == "frugal" else "peak_memory", "bytes", 2**31)
            lines += map(step_records.line, measured.records.values())
        folder = self.side("p")
        (pathlib.Path(folder) / "steps.jsonl").write_text("".join(lines))
        with (pathlib.Path(folder) / "steps.jsonl").open("a") as file:  # a row of its own, and no target's
            row = {"model": "b", "type": "bf16", "attention": "fused", "dropout": 0.0, "micro_batch": 4, "flags": "",
                   "weights": "bf16"}
            measured = step_records.Measured(row, {"steps": 1}, ("eager", "reduce-overhead"), rounds="f" * 16)
            measured.begin({"source": "measured", "on": "cuda", "device": "", "environment": {}, "configuration": None,
                            "program": "", "command": ""})
            for side, seconds in (("frugal", 1), ("eager", 0.5), ("reduce-overhead", 0.25)):
                step_records.add(measured.record(by=side), "step_time", "s", seconds)
            file.writelines(map(step_records.line, measured.records.values()))
        numbers = check_predictions.numbers_of(pathlib.Path(folder))
        self.assertEqual(numbers["step of b, b 4, bf16: times as fast as PyTorch, reduce-overhead"], (0.25, "1"))
        records = check_predictions.lines_of(pathlib.Path(folder) / "steps.jsonl")
        self.assertEqual({cells[0] for cells in check_predictions.step_tables.rows_of(records)},
                         {"a, microbatch 4", "b, microbatch 4"})
        row = self.rows(self.run_script(folder)[1])["GPT-2 124M and 1.5B steps against PyTorch, eager"]
        self.assertEqual(row, ["≥ 1.2 ×", "1.25 × (step of b, b 4)"])  # the slower of 2 and 1.25

    def test_a_models_name_is_that_of_earlier_records(self):
        for name in ("m", "m*"):
            model = {"name": name, "layers": 2, "sequence_length": 3, "dropout": 0.1}
            configuration = {"model": model, "microbatch_size": 4, "recompute": "none", "tensor_parallel_size": 1}
            self.assertEqual(check_predictions.label_of({"artifact": "measure", "configuration": configuration}),
                             "measure m, 2 layers, s 3, b 4, separate, recompute none")

    def test_stages_that_ran_alone_have_two_bounds_of_which_one_is_predicted(self):
        predicted, measured = [alone(4)], [alone(4.1, "none"), alone(8, "all")]
        sides = [self.side(name, *records) for name, records in (("p", predicted), ("m", measured))]
        numbers = [check_predictions.numbers_of(pathlib.Path(side)) for side in sides]
        label = "measure 175B, 96 layers, s 2048, b 1, separate, recompute selective, t 8, p 8, interleaved, m 16"
        self.assertEqual([side[f"{label}: step_time"] for side in numbers], [(4, "s"), (4.1, "s")])
        self.assertEqual(set(numbers[0]), set(numbers[1]))
        (row,) = lone_tables.rows(predicted, measured)
        self.assertEqual(dict(zip(lone_tables.COLUMNS, row, strict=True))["model"], "175B, 96 layers")
        self.assertEqual(row[1:], ["0, 1, 7", "4 [3.6, 4.4]", "4.1 [3.69, 4.51]", "8 [7.2, 8.8]", "2.05 [1.845, 2.255]",
                                   "4 [3.6, 4.4]", "1.025 [0.9225, 1.127]", "1.025 [0.9225, 1.127]", "3.00, 2.00, 1.00"])
        (row,) = lone_tables.rows([], measured[:1])  # neither predicted nor loaded
        self.assertEqual([row[2], *row[4:7:2]], ["", "", ""])
        self.assertEqual(list(lone_tables.rows(predicted, measured[1:])), [])
        _, out = self.run_script(*sides)
        self.assertNotIn("not predicted", out)

    def test_linear_products_and_profiles_have_numbers_of_a_family(self):
        rate = {"product": "weight-gradient", "type": "bf16", "m": 2, "n": 3, "k": 5, "flops_per_second": 7e12}
        folder = self.side("p", record(), peak_json=peak(1) | {"linear": [rate]})
        gelu = {"operation": "gelu bf16", "product": None, "count": 2, "bytes": 4e6, "seconds": [3]}
        profile = {"command": "frugal operations --model m", "plain_step_seconds": [9], "stages": [{"operations": [gelu]}]}
        (pathlib.Path(folder) / "profile.jsonl").write_text(json.dumps(profile) + "\n" + '{"command": "cut')
        numbers = check_predictions.numbers_of(pathlib.Path(folder))
        named = {"weight-gradient bf16 2 x 3 x 5": ((7e12, "FLOP/s"), "products of linear layers, weight-gradient, bf16"),
                 "profile of m: step": ((9, "s"), "profiled steps: step"),
                 "profile of m: operations together": ((6, "s"), "profiled steps: operations together"),
                 "profile of m, gelu bf16 4 MB": ((6, "s"), "operations of a step of m")}
        for what, (number, family) in named.items():
            self.assertEqual((numbers[what], check_predictions.family_of(what)), (number, family))
        for what, family in (("product bf16/m/x/1x2x3/forward: frugal", "the same beside torch.mm"),
                             ("product bf16/m/x/1x2x3/forward: times as fast as torch.mm",
                              "how many times as fast as torch.mm these are")):
            self.assertEqual(check_predictions.family_of(what), family)

    def test_an_operations_rate_is_over_that_of_the_copy_in_the_same_rounds(self):
        predicted = self.side("p", of_copy("frugal", [2], 200), of_copy("copy", [1], 100))  # a virtual clock's
        measured = self.side("m", of_copy("frugal", [9, 9, 9], 100, rounds="0"), of_copy("copy", [9, 9, 9], 100, rounds="0"),
                             of_copy("frugal", [1, 2, 4], 100), of_copy("copy", [1, 1, 1], 100))
        row = self.rows(self.run_script(predicted, measured)[1])["memory-bound gelu/f32: of copy"]
        self.assertEqual(row, ["1", "0.5", "-50.0 % !"])
        half = self.side("half", of_copy("frugal", [1], 100, rounds="2"), of_copy("copy", [1], 100))
        lost = self.side("lost", of_copy("frugal", [1], 100), of_copy("copy", [], 0, status="oom"))
        row = self.rows(self.run_script(predicted, lost)[1])
        self.assertEqual(row["memory-bound gelu/f32: of copy"], ["1", "", "not measured"])
        self.assertEqual(row["bench/memory-bound f32/gelu/copy: status"], ["", "oom", "not predicted"])
        self.refused("has no numbers", self.run_script, half)

    def test_numbers_agree_by_what_they_are_of(self):
        predicted = {"paper/table a: peak memory": (4, "bytes"), "paper/table b: peak memory": (8, "bytes"),
                     "paper/table a: forward_time": (2.0, "s"), "paper/table a: MFU": (0.5, "1"), "copy": (0, "bytes/s")}
        measured = {"paper/table a: peak memory": (4, "bytes"), "paper/table b: peak memory": (9, "bytes"),
                     "paper/table a: forward_time": (2.1, "s"), "paper/table a: MFU": (0.1, "1"), "copy": (1, "bytes/s")}
        predicted["measure m: step_time"] = (1.0, "s")
        self.assertEqual(list(check_predictions.agreement_rows(predicted, measured)), [
            ["peak memory of a rank, every case", "2", "1", "6.2 %", "+12.5 % (paper/table b: peak memory)"],
            ["paper/table: forward and backward passes", "1", "1", "5.0 %", "+5.0 %"],
            ["a conversion of 1 GiB from float32 to float32", "1", "0", "", "1 predicted as 0"],
            ["steps of whole models", "1", "0", "", "1 not measured"]])
        self.refused("is of no family", check_predictions.family_of, "something")

    def test_effects_are_over_the_baseline_of_the_same_layer_by_turns(self):
        def layer(case, forward, backward):
            return {"artifact": "korthikanti2022/table4", "case": case, "status": "ok",
                    "metrics": {"forward_time": {"samples": forward}, "backward_time": {"samples": backward}}}

        predicted = technique_tables.layer_times([
            layer("22B/baseline", [1], [3]), layer("22B/selective+sequence-parallel", [1], [4]),
            layer("22B/baseline/t1", [10], [10]), layer("22B/fused/t1", [5], [10])])
        measured = predicted | technique_tables.layer_times([
            layer("22B/baseline", [1, 2, 3], [1, 2, 3]), layer("22B/selective+sequence-parallel", [1, 2, 3], [2, 4, 9])])
        self.assertEqual(list(technique_tables.effect_rows(predicted, measured)), [
            ["table4", "22B, one rank of 8", "selective + sequence-parallel", "+25.0 %", "+50.0 % [+50.0, +100.0]", "", ""],
            ["table4", "22B, alone", "fused", "-25.0 %", "-25.0 %", "", ""]])

    def test_an_effect_is_beside_what_the_same_work_did_and_refused_where_that_was_more(self):
        def sides(*backward):
            """A baseline of 1 + 2 s, and a layer whose forward pass took a half longer."""
            return [technique_tables.layer_times([
                {"artifact": "korthikanti2022/figure8", "case": f"22B/{case}", "status": "ok",
                 "metrics": {"forward_time": {"samples": forward}, "backward_time": {"samples": passes}}}
                for case, forward, passes in (("baseline", [1] * 20, [2] * 20), ("full", forwards, backwards))])
                for forwards, backwards in (([1], [4]), ([1.5] * 20, list(backward)))]

        (row,) = technique_tables.effect_rows(*sides(*[6] * 20))
        # 7.5 s for 3; over the forward pass 5 for 3.
        self.assertEqual(row[2:], ["full", "+66.7 %", "+150.0 %", "+50.0 %", "+66.7 %"])
        (row,) = technique_tables.effect_rows(*sides(*[2.7] * 20))  # 4.2 s for 3
        self.assertEqual(row[4:], ["refused", "+50.0 %", "-6.7 %"])
        (row,) = technique_tables.effect_rows(*sides(*[3.3] * 20))  # 4.8 s for 3
        self.assertEqual(row[4:], ["+60.0 %", "+50.0 %", "+6.7 %"])

    def test_an_h100s_forward_passes_are_what_the_page_says(self):
        """Where the order moved the same work, from the records alone."""
        times = {}
        for record in check_predictions.lines_of(SOURCE / "results/nvidia-h100-80gb/records.jsonl"):
            if record["artifact"] == "korthikanti2022/table4":
                samples = [1000 * seconds for seconds in record["metrics"]["forward_time"]["samples"]]
                times[record["case"]] = f"{statistics.median(samples):.2f} ms [{min(samples):.2f}, {max(samples):.2f}]"
        page = " ".join((SOURCE / "docs/h100.md").read_text(encoding="utf-8").split())
        self.assertIn(times["22B/baseline/t1"], page)
        for case in ("22B/full/t1", "22B/selective/t1"):
            self.assertIn(times[case].replace(" ms", ""), page)

    def test_what_modules_add_is_beside_full_recomputation_of_some_layers(self):
        def layer(modules, kept, *seconds):
            return {"artifact": "bench/recompute", "case": f"8B/{modules}", "status": "ok",
                    "metrics": {"kept": {"samples": [kept]}, "time": {"samples": list(seconds)}}}

        predicted = [layer("none", 100 << 20, 2), layer("norm", 75 << 20, 2.2), layer("full", 0, 3)]
        measured = [layer("none", 100 << 20, 1, 2, 3), layer("norm", 75 << 20, 1, 2.2, 3.6), layer("full", 0, 2, 4, 6)]
        self.assertEqual(list(technique_tables.recomputed_rows(predicted, measured)), [
            ["8B", "norm", "75", "+10.0 %", "+10.0 % [+0.0, +20.0]", "+25.0 %"],
            ["8B", "full", "0", "+50.0 %", "+100.0 %", ""]])

    def test_of_a_step_that_is_divided_time_and_memory_are_beside_the_predicted_ones(self):
        def step(seconds, peak, reserved=None):
            return {"artifact": "measure", "configuration": {"shard": "weights", "recompute": "full"},
                    "metrics": {"step_time": {"samples": seconds}}, "memory": {"peak_total": peak, "reserved": reserved}}

        self.assertEqual(list(technique_tables.sharded_rows([step([2.0], 2**30)], [step([1, 3, 2.5], 2**30, 3 * 2**29)])),
                         [["weights", "full", "2.000", "2.500", "+25.0 %", "1.00", "1.00", "1.50"]])

    def test_clocks_are_those_at_which_the_gpu_was_busy(self):
        folder = self.folder / "clocks"
        folder.mkdir()
        (folder / "clocks.csv").write_text(
            "timestamp, clocks.current.sm [MHz], power.draw [W], temperature.gpu, clocks_event_reasons.active, utilization.gpu [%]\n"
            "2026/01/02 03:04:05.500, 1000, 600.0, 60, 0x0000000000000004, 90\n"
            "2026/01/02 03:04:06.000, 1980, 100.0, 50, 0x0000000000000001, 89\n"
            "2026/01/02 03:04:06.500, 1300, 701.0, 80, 0x0000000000000024, 100\n"
            "2026/01/02 03:04:07.500, 1900, 500.0, 70, 0x0000000000000000, 100\n")

        def taking(begin, end, artifact="korthikanti2022/table4", rounds="r", status="ok"):
            return {"artifact": artifact, "rounds": rounds, "status": status, "started": f"2026-01-02T03:04:{begin}Z",
                    "ended": f"2026-01-02T03:04:{end}Z"}

        records = [taking("05.000", "05.600"), taking("06.400", "06.600"), taking("05.000", "08.000", status="oom"),
                   taking("07.000", "08.000", artifact="bench/memory-bound")]
        self.assertEqual(list(clock_table.rows(folder, records)), [
            ["all that ran", "3", "1400 [1000, 1900]", "600", "80", "power cap 67 %, thermal slowdown by software 33 %"],
            ["korthikanti2022/table4", "2", "1150 [1000, 1300]", "650", "80",
             "power cap 100 %, thermal slowdown by software 50 %"]])
        self.assertEqual(list(clock_table.rows(self.folder, records)), [])

    def test_heat_of_the_other_run_is_what_the_page_says(self):
        """Once more, by columns."""
        lines = (SOURCE / "results/nvidia-h100-80gb/unpublished/clocks.csv").read_text(encoding="utf-8").splitlines()
        rows = [line.split(", ") for line in lines[1:]]
        busy = [row for row in rows if int(row[7]) >= 90]
        of = {bit: sum(int(row[6], 16) & bit != 0 for row in busy) / len(busy) for bit in (4, 32)}
        page = " ".join((SOURCE / "docs/h100.md").read_text(encoding="utf-8").split())
        self.assertIn(f"got to {max(int(row[5]) for row in busy)} °C. In {100 * of[32]:.0f} % of its busy looks software held its "
                      f"clock back because of heat, and in {100 * of[4]:.0f} % the power cap", page)

    def test_what_a_changed_tree_measured_is_not_published(self):
        def built(dirty):
            return record() | {"environment": {"build": {"commit": "0123456789abcdef", "dirty": dirty}}}

        page = self.folder / "page.md"
        page.write_text("<!-- targets: x -->\n<!-- end of targets -->\n")
        clean, changed = self.side("clean", built(False)), self.side("changed", built(False), built(True))
        self.assertEqual(self.run_script("--page", str(page), clean)[0], 0)
        before = page.read_text()
        self.refused("records.jsonl: its program was built of a changed tree, at 01234567; commit", self.run_script,
                     "--page", str(page), changed)
        self.assertEqual(page.read_text(), before)

    def test_times_of_both_sides_are_pairs(self):
        predicted = {"paper/table a: forward_time": (2.0, "s"), "paper/table a: peak memory": (4, "bytes"),
                     "measure m, 1 layers: step_time": (3.0, "s"), "step of m, b 4: frugal": (0, "s"),
                     "paper/table b: forward_time": (1.0, "s")}
        measured = {what: (2 * value, unit) for what, (value, unit) in predicted.items() if " b:" not in what}
        self.assertEqual(check_predictions.paired_times(predicted, measured),
                         [("paper", 2.0, 4.0), ("measure", 3.0, 6.0)])

    def test_a_line_that_a_kill_cut_off_is_left_out_and_one_before_it_is_not(self):
        predicted = self.side("p", record())
        cut = self.side("cut", record(), cut='{"artifact": "kor')
        self.assertEqual(self.run_script(predicted, cut)[0], 0)
        broken = self.side("broken", cut='{"artifact": "kor\n' + json.dumps(record()) + "\n")
        self.refused("records.jsonl:1 is no JSON", self.run_script, predicted, broken)

    def test_every_target_has_a_prediction_and_the_pages_have_what_there_is(self):
        targets = json.loads((SOURCE / "bench/gpu/targets.json").read_text(encoding="utf-8"))
        for name, *folders in (("cuda.md", "virtual/h200-hgx"), ("h100.md", "nvidia-h100-80gb/predicted", "nvidia-h100-80gb")):
            folders = [SOURCE / "results" / folder for folder in folders]
            for target, worst, _ in check_predictions.judged(targets, check_predictions.numbers_of(folders[0])):
                self.assertIsNotNone(worst, target["what"])
            page = (SOURCE / "docs" / name).read_text(encoding="utf-8")
            copy = self.folder / name
            copy.write_text(page, encoding="utf-8")
            self.run_script("--page", str(copy), *map(str, folders))
            self.assertEqual(copy.read_text(encoding="utf-8"), page)
        rows = "| a |\n| --- |\n| b |"
        self.refused("has no place for the targets", check_predictions.filled, "# CUDA", "targets", rows)
        self.assertEqual(check_predictions.filled("# CUDA", "targets", rows[:-6]), "# CUDA")  # none needs a place
        self.refused("has no numbers", self.run_script, str(self.folder))

    def test_readme_says_how_many_times_were_as_predicted(self):
        """Counted from the records alone: medians of rounds on both sides, at most 10 % apart."""
        def times(folder):
            found, lines = {}, (SOURCE / "results" / folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
            for one in map(json.loads, lines):
                kind = ("layer" if one["artifact"].startswith(("korthikanti2022/", "mst2024/"))
                        else "step" if one["artifact"] == "measure" else None)
                for name, metric in one["metrics"].items() if kind and one["status"] == "ok" else ():
                    if name in ("forward_time", "backward_time", "step_time"):
                        run = one["case"] if kind == "layer" else json.dumps(one["configuration"], sort_keys=True)
                        found[kind, one["artifact"], run, name] = statistics.median(metric["samples"])
            steps = (SOURCE / "results" / folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
            for row in check_predictions.step_tables.step_results.results(list(map(json.loads, steps))):
                found["step", "steps", row["model"], row["micro_batch"]] = row["medians"]["frugal"]
            return found
        predicted, measured = times("nvidia-h100-80gb/predicted"), times("nvidia-h100-80gb")
        off = {kind: [abs(measured[key] / value - 1) if value else math.inf for key, value in predicted.items()
                      if key[0] == kind and key in measured] for kind in ("layer", "step")}
        within = {kind: sum(o <= 0.1 for o in all_of) for kind, all_of in off.items()}
        readme = " ".join((SOURCE / "README.md").read_text(encoding="utf-8").split())
        self.assertIn(f"Of the papers' layer times {within['layer']} of {len(off['layer'])} were within 10 % of its "
                      f"prediction, and of steps of whole models {within['step']} of {len(off['step'])} (median difference "
                      f"{100 * statistics.median(off['step']):.0f} %, largest {100 * max(off['step']):.0f} %)", readme)
