"""Bad input, reproduce, measure and interrupts, as users see them."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import unittest

import jsonschema
from program import GPU, SCHEMA, SOURCE, TINY, Cli


class BadInput(Cli):
    def test_commands(self):
        self.rejected(says=["subcommand", "--help"])
        self.rejected("reprodce", says=["reprodce", "reproduce"])
        self.rejected("reproduce", says=["ARTIFACT"])
        self.rejected("completion", "csh", says=["csh", "bash, zsh or fish"])

    def test_artifacts(self):
        self.rejected("reproduce", "korthikanti2022/tabel2", says=["tabel2", "korthikanti2022/table2", "frugal list"])
        self.rejected("reproduce", "nothing-*", says=["nothing-*"])
        self.rejected("list", "korthikanti", says=["korthikanti2022"])
        self.rejected("list", "tabel4", says=["did you mean", "table4"])

    def test_attention_is_separate_or_fused(self):
        self.rejected("measure", "--model", "gpt-tiny", "--attention", "flash", says=["flash", "separate, fused"])

    def test_modules_of_layers_are_recomputed_under_selective_recomputation(self):
        self.rejected(*TINY, "--recompute", "full", "--recompute-modules", "norm+mlp",
                      says=["recompute_modules is norm+mlp", "needs recompute=selective", "drop recompute_modules"])
        self.rejected(*TINY, "--recompute-modules", "norm+attention", says=["norm+attention", "core-attention"])
        self.rejected("recompute", "--model", "gpt-tiny", "--on", "virtual", "--recompute", "full",
                      says=["--recompute", "leave it out"])
        self.rejected("recompute", "--model", "gpt-tiny", "--on", "cpu", says=["--on is cpu", "--on virtual"])

    def test_what_takes_fused_attention_refuses_separate_attention(self):
        self.rejected("measure", "--model", "gemma2-tiny", "--attention", "separate", "--recompute", "selective",
                      says=["attention is separate", "choose attention=fused"])

    def test_precision_of_types_that_have_one_only(self):
        for command in ("measure", "longest", "trace"):
            for model_type in (["--on", "cpu"], ["--type", "f32"], ["--type", "f64"]):
                self.rejected(command, "--model", "llama-tiny", *model_type, "--precision", "pure",
                              says=["--precision is pure", model_type[1].replace("cpu", "f32"), "--type bf16"])

    def test_short_names_are_written_out(self):
        for command, short, flag in (("measure", "--tp", "--tensor-parallel"), ("trace", "--pp", "--pipeline-parallel"),
                                     ("measure", "-tp", "--tensor-parallel"), ("longest", "--tp=8", "--tensor-parallel"),
                                     ("measure", "--dp", "--data-parallel"), ("measure", "--cp", "--context-parallel"),
                                     ("measure", "--sp", "--sequence-parallel"), ("measure", "--mbs", "--micro-batch"),
                                     ("measure", "--gbs", "--microbatches"), ("plan", "--gbs", "--batch"),
                                     ("measure", "--seq-len", "--sequence"), ("measure", "--seq_len", "--sequence"),
                                     ("measure", "--dtype", "--type"), ("flops", "--kv-heads", "--key-value-heads")):
            arguments = [short] if "=" in short else [short, "8"]
            self.rejected(command, *arguments, says=[f'there is no "{short.split("=")[0]}" in frugal {command}; did you mean {flag}? '])
        self.rejected("longest", "--seq-len", "8", says=['there is no "--seq-len" in frugal longest; '])

    def test_flags(self):
        artifact = ["reproduce", "korthikanti2022/table2"]
        self.rejected(*artifact, "--formt", "json", says=["--formt", "did you mean --format"])
        self.rejected(*artifact, "--format", "xml", says=["--format", "xml", "table, json, csv, markdown"])
        self.rejected(*artifact, "--on", "tpu", says=["--on", "tpu", "virtual, cpu"])
        self.rejected(*artifact, "--scale", "4", says=["--scale", "1/4"])
        self.rejected(*artifact, "--scale", "1/0", says=["--scale", "1/0"])
        self.rejected(*artifact, "--scale", "1/7", says=["divisible", "7"])
        self.rejected(*artifact, "--samples", "9", says=["--samples", "9", "10"])
        self.rejected(*artifact, "--threads", "0", says=["--threads", "from 1"])
        self.rejected(*artifact, "--threads", "two", says=["--threads", "two"])
        self.rejected(*artifact, "--budget", "-1", says=["--budget", "-1", "at least 0"])
        self.rejected(*artifact, "--out", says=["--out"])

    @unittest.skipIf(GPU, "there is a GPU")
    def test_characters_that_no_record_can_have(self):
        self.rejected("measure", "--model", b"gpt\xff", says=["argument 3", "UTF-8"])

    def test_cuda_without_a_gpu(self):
        says = ["use cpu"]
        for on in ("cuda", "all"):
            self.rejected("reproduce", "korthikanti2022/table2", "--on", on, says=says)
        for command in (TINY[:3], [*TINY[:3], "--hardware", "h200-hgx"], ["peak"], ["peak", "--write", "machine.json"],
                        [*TINY[:3], "--tensor-parallel", "2", "--lone-rank", "h200-hgx"]):
            self.rejected(*command, "--on", "cuda", says=says)

    def test_lone_rank(self):
        lone = [*TINY, "--lone-rank", "h200-hgx"]
        two = [*lone, "--tensor-parallel", "2"]
        self.rejected(*lone, says=["--lone-rank", "--tensor-parallel"])
        self.rejected(*TINY, "--tensor-parallel", "2", "--lone-rank", "h200", says=["h200", "did you mean h200-hgx"])
        self.rejected(*TINY[:3], "--tensor-parallel", "2", "--lone-rank", "h200-hgx",
                      says=["--lone-rank", "virtual", "--on cpu", "--lone-rank a100-selene"])
        self.rejected(*two, "--save-tensors", "x", says=["--save-tensors", "--lone-rank"])
        self.rejected(*two, "--text", self.given("some text"), says=["--text", "--lone-rank"])

    def test_lone_stages(self):
        lone = [*TINY, "--lone-rank", "h200-hgx", "--pipeline-parallel", "2", "--microbatches", "2"]
        self.rejected(*lone, "--validate-steps", "after", says=["--lone-rank", "validate steps before"])
        self.rejected(*lone, "--offload-modules", "residual", says=["--lone-rank", "offload"])
        self.rejected(*lone, "--save-weights", "x", says=["--save-weights", "--lone-rank"])
        own = self.run_frugal("schedule", "gpipe", "--stages", "2", "--microbatches", "4", "--format", "text").stdout
        self.rejected(*TINY, "--lone-rank", "h200-hgx", "--schedule-file", self.given(own),
                      says=["--lone-rank", "--schedule-file"])

    def test_peak(self):
        self.rejected("peak", "--force", says=["--force", "--write", "--machine"])
        self.rejected("peak", "--machine", "x.json", "--write", "x.json", says=["--write", "--machine", "x.json"])
        for flag in ("--machine", "--write"):
            self.rejected("peak", flag, "absent/x.json", says=[flag, "absent/x.json", "No such file"])
        given = self.given("mine")
        self.rejected("peak", "--write", given, says=["--write", "exists already", "--force"])
        self.assertEqual(pathlib.Path(given).read_text(), "mine")
        self.rejected("peak", "--write", str(self.folder / "given"), "--force", says=["--write", "is a folder"])

    def test_measure(self):
        self.rejected("measure", says=["--model is missing"])
        self.rejected("measure", "--model", "22b", says=["22b", "22B"])
        self.rejected(*TINY, "--tensor-parallel", "3", says=["heads (4)", "tensor-parallel size (3)"])
        self.rejected(*TINY, "--dropout", "1", says=["--dropout", "below 1"])
        self.rejected(*TINY, "--steps", "0", says=["--steps", "from 1"])
        self.rejected(*TINY, "--layers", "99999999999999999999", says=["--layers"])
        self.rejected(*TINY, "--recompute", "some", says=["none, selective, full"])
        self.rejected(*TINY, "--text", "absent.txt", says=["absent.txt"])
        self.rejected(*TINY[:3], "--on", "virtual:a100", says=["a100", "a100-selene"])
        self.rejected(*TINY[:3], "--on", "gpu", says=["--on", "cpu, cuda, virtual"])
        self.rejected(*TINY[:3], "--on", "virtual", "--save-tensors", "x", says=["--save-tensors", "--on cpu"])
        self.rejected(*TINY, "--save-tensors", "absent/x", says=["--save-tensors", "absent/x", "No such file"])
        self.rejected(*TINY, "--hardware", "a100-selene", says=["a100-selene", "machine file of this processor"])
        sheet = str(SOURCE / "hardware/a100-selene.json")
        self.rejected(*TINY, "--hardware", sheet, says=["a100-selene", "machine file of this processor"])
        self.rejected(*TINY, "--text", self.given(""), says=["mine.txt is empty"])

    def test_sizes_that_cannot_be(self):
        for on in ("virtual", "cpu"):
            run = ["measure", "--model", "gpt-tiny", "--on", on]
            huge = str(2**62)
            self.rejected(*run, "--hidden", huge, says=[f'--hidden is "{huge}"', "1048576"])
            self.rejected(*run, "--sequence", huge, says=[f'--sequence is "{huge}"', "16777216"])
            self.rejected(*run, "--sequence", "4096M", says=['--sequence is "4096M"', "16777216"])
            for size in ("8kB", "0k", "1.5", "0.1k", "k", "8 k", "8ki"):
                self.rejected(*run, "--sequence", size, says=[f'--sequence is "{size}"', "8k for 8192"])
            self.rejected(*run, "--vocabulary", "32k", says=['--vocabulary is "32k"', "a whole number"])
            self.rejected(*run, "--vocabulary", huge, says=[f'--vocabulary is "{huge}"', "16777216"])
            self.rejected(*run, "--layers", huge, says=[f'--layers is "{huge}"', "65536"])
            self.rejected(*run, "--micro-batch", huge, says=[f'--micro-batch is "{huge}"', "65536"])
            self.rejected(*run, "--layers", "65536", "--hidden", "1048576", says=["weights", "2^63 bytes"])

    def test_model_files(self):
        self.rejected("measure", "--model", "absent.json", says=["absent.json"])
        self.rejected("measure", "--model", self.given('{"layers": 2,', "model.json"), says=["model.json:1:14", "truncated"])
        self.rejected("measure", "--model", self.given('{"layers": "two"}', "model.json"), says=["model.json", "layers", "two"])
        self.rejected("measure", "--model", self.given('{"layers": 2, "layers": 3}', "model.json"), says=['"layers" stands twice'])
        self.rejected("measure", "--model", self.given('{"layer": 2}', "model.json"), says=["model.json", "layer", "layers"])

    def test_outputs(self):
        (self.folder / "given").write_text("a file, not a folder")
        self.rejected("reproduce", "korthikanti2022/table2", "--out", "given/out", says=["--out", "given/out"])
        self.rejected("report", "absent", says=["absent", "there is no such folder or file"])


class Reproduce(Cli):
    ARGUMENTS = ["reproduce", "korthikanti2022/table2", "--on", "virtual"]

    def test_json(self):
        result = json.loads(self.run_frugal(*self.ARGUMENTS, "--format", "json").stdout)
        self.assertEqual(result["schema"], "frugal.reproduction/1")
        cell_keys = {"artifact", "row", "column", "unit", "paper", "read", "value", "source", "on", "scale",
                     "error_percent", "status", "reason"}
        claim_keys = {"id", "statement", "paper", "value", "tolerance", "source", "on", "verdict"}
        self.assertTrue(result["cells"] and result["claims"])
        for cell in result["cells"]:
            self.assertLessEqual(cell_keys, cell.keys())
            self.assertEqual((cell["source"], cell["on"]), ("virtual", "virtual:a100-selene"))
        for claim in result["claims"]:
            self.assertLessEqual(claim_keys, claim.keys())
            self.assertIn(claim["verdict"], ["reproduced", "not reproduced", "not measurable here"])

    def test_records_are_valid_and_resumed(self):
        first = self.run_frugal(*self.ARGUMENTS)
        records = self.records()
        self.assertEqual({r["status"] for r in records}, {"ok"})
        again = self.run_frugal(*self.ARGUMENTS)
        self.assertEqual(again.stdout, first.stdout)
        self.assertEqual(self.records(), records)

    def test_what_has_no_case_there_is_said(self):
        for arguments in (["pipedream2bw2021/figure6a", "--on", "cpu"],
                          ["pipedream2bw2021/figure9", "--on", "virtual", "--scale", "1/2"]):
            self.rejected("reproduce", *arguments, says=[arguments[0], "nothing to run there", "--on"])
        some = self.run_frugal("reproduce", "pipedream2bw2021/figure1a", "korthikanti2022/figure1", "--on", "cpu")
        self.assertIn("worker 4", some.stdout)
        self.assertIn("nothing to run there for korthikanti2022/figure1", some.stderr)

    def test_force_keeps_the_old_records(self):
        self.run_frugal(*self.ARGUMENTS)
        before = (self.folder / "out/records.jsonl").read_text()
        self.run_frugal(*self.ARGUMENTS, "--force")
        self.assertEqual((self.folder / "out/records.1.jsonl").read_text(), before)
        self.assertNotEqual((self.folder / "out/records.jsonl").read_text(), before)

    def test_a_failed_claim_is_a_status_only_with_check(self):
        arguments = ["reproduce", "korthikanti2022/table4", "--on", "virtual", "--scale", "1/32", "--format", "json"]
        claims = json.loads(self.run_frugal(*arguments).stdout)["claims"]
        self.assertIn("not reproduced", [claim["verdict"] for claim in claims])
        self.run_frugal(*arguments, "--check", status=1)

    def test_an_expected_contradiction_passes_check(self):
        arguments = ["reproduce", "korthikanti2022/section5", "--on", "virtual", "--format", "json", "--check"]
        claims = json.loads(self.run_frugal(*arguments).stdout)["claims"]
        missed = [claim for claim in claims if claim["verdict"] == "not reproduced"]
        self.assertTrue(missed)
        for claim in missed:
            self.assertTrue(claim["expected"] and claim["reason"], claim)

    def test_csv_and_markdown(self):
        cells = json.loads(self.run_frugal(*self.ARGUMENTS, "--format", "json").stdout)["cells"]
        rows = list(csv.DictReader(io.StringIO(self.run_frugal(*self.ARGUMENTS, "--format", "csv").stdout)))
        self.assertEqual(len(rows), len(cells))
        for row, cell in zip(rows, cells):
            self.assertEqual((row["row"], row["column"], float(row["value"])),
                             (cell["row"], cell["column"], cell["value"]))
        self.assertIn("|---|", self.run_frugal(*self.ARGUMENTS, "--format", "markdown").stdout)

    def test_a_record_names_no_path_and_no_host(self):
        self.run_frugal(*self.ARGUMENTS, "--out", str(self.folder / "elsewhere"))
        for record in self.records("elsewhere"):
            text = json.dumps(record)
            self.assertNotIn(str(self.folder), text)
            self.assertNotIn(str(SOURCE), text)
            self.assertNotIn(json.dumps(os.uname().nodename), text)


class Measure(Cli):
    def test_losses_and_schema(self):
        shown = json.loads(self.run_frugal(*TINY, "--steps", "4", "--format", "json").stdout)
        (record,) = self.records()
        self.assertEqual(shown, record)
        self.assertEqual(len(record["losses"]), 4)
        self.assertEqual(len(record["metrics"]["step_time"]["samples"]), 3)
        self.assertEqual(record["metrics"]["gradient_norm"]["unit"], "1")
        self.assertEqual(len(record["metrics"]["gradient_norm"]["samples"]), 4)
        self.assertGreater(record["utilization"]["mfu"]["measured"]["value"], 0)
        self.assertIsNone(record["utilization"]["mfu"]["data_sheet"]["value"])
        self.assertIn("--hardware", record["utilization"]["mfu"]["data_sheet"]["reason"])

    def test_a_virtual_machine_says_whether_it_is_calibrated(self):
        shown = self.run_frugal(*TINY[:3], "--on", "virtual:rtx-4090", "--attention", "fused").stdout
        self.assertRegex(shown, "source +virtual .*not calibrated: ")
        self.assertRegex(shown, "error of such times +not calibrated")
        self.assertIn("not calibrated", self.records()[-1]["device"])
        shown = self.run_frugal(*TINY[:3], "--on", "virtual:v100-p3-16xlarge", "--attention", "fused").stdout
        self.assertRegex(shown, "fused attention +not calibrated")
        shown = self.run_frugal(*TINY[:3], "--on", "virtual", "--attention", "fused").stdout
        self.assertRegex(shown, "source +virtual .*compute_share fitted")
        self.assertNotRegex(shown, "source .*not calibrated|fused attention +not calibrated")

    def test_lone_rank(self):
        run = [*TINY, "--tensor-parallel", "2", "--sequence-parallel", "--steps", "3"]
        self.run_frugal(*run, "--out", "whole")
        shown = self.run_frugal(*run, "--lone-rank", "h200-hgx", "--out", "lone")
        (whole,), (lone,) = self.records("whole"), self.records("lone")
        self.assertEqual(whole["communication"], {"kind": "real"})
        modelled = lone["communication"]
        self.assertEqual((modelled["kind"], modelled["machine"]), ("modelled", "h200-hgx"))
        self.assertIn("mean nothing", modelled["left_out"])
        self.assertTrue(lone["device"].startswith(
            whole["device"] + "; one rank of 2; communication modelled on h200-hgx (not fitted: "), lone["device"])
        self.assertIn("--lone-rank h200-hgx", lone["command"])
        self.assertEqual((lone["source"], lone["on"], lone["status"]), ("measured", "cpu", "ok"))
        self.assertEqual((lone["losses"], lone["held_out"], list(lone["metrics"])), ([], [], ["step_time"]))
        self.assertEqual(len(whole["losses"]), 3)
        self.assertEqual(lone["flops"], whole["flops"])
        for key in ("peak", "peak_total"):
            self.assertEqual(lone["memory"][key], whole["memory"][key])
        self.assertGreaterEqual(lone["memory"]["reserved"], lone["memory"]["peak_total"])
        self.assertGreater(lone["utilization"]["mfu"]["measured"]["value"], 0)
        self.assertIn("modelled on h200-hgx", shown.stdout.replace("modelled  on", "modelled on"))
        self.assertNotIn("loss ", shown.stderr)
        wrong = dict(lone, losses=[1.5])
        self.assertRaises(jsonschema.ValidationError, jsonschema.validate, wrong, SCHEMA)

    def test_lone_stages(self):
        run = [*TINY, "--pipeline-parallel", "2", "--tensor-parallel", "2", "--microbatches", "4", "--steps", "4"]
        self.run_frugal(*run, "--out", "whole")
        shown = self.run_frugal(*run, "--lone-rank", "h200-hgx", "--out", "lone").stdout
        (whole,), (lone,) = self.records("whole"), self.records("lone")
        parts = {"computation_time": "measured", "communication_time": "modelled", "bubble_time": "walked"}
        self.assertEqual(lone["lone_stages"], {"stages": [0, 1], "parts": parts})
        self.assertNotIn("lone_stages", whole)
        self.assertEqual(set(lone["metrics"]), {*parts, "step_time"})
        samples = {name: metric["samples"] for name, metric in lone["metrics"].items()}
        self.assertEqual(len(samples["step_time"]), 3)
        for i, seconds in enumerate(samples["step_time"]):
            self.assertAlmostEqual(sum(samples[part][i] for part in parts), seconds)
        for part, source in parts.items():
            self.assertRegex(shown, f"{part} .* s, {source}")
        self.assertRegex(shown, "stages that ran +0, 1 +of 2")
        self.assertEqual(lone["losses"], [])
        self.assertEqual(lone["memory"]["peak_total"], whole["memory"]["peak_total"])
        self.assertEqual(lone["flops"], whole["flops"])
        jsonschema.validate(lone, SCHEMA)

    def test_gpt2(self):
        for model, parameters in (("gpt2-124m", 124e6), ("gpt2-1.5b", 1.56e9)):
            self.run_frugal("measure", "--model", model, "--type", "bf16", "--out", model)
            (record,) = self.records(model)
            # bf16 weights, besides which the tables are padded.
            self.assertAlmostEqual(record["memory"]["peak"]["parameter"] / 2 / parameters, 1, delta=0.01)

    def test_out_of_memory(self):
        run = ["measure", "--on", "virtual", "--type", "bf16", "--tensor-parallel", "8"]
        done = self.run_frugal(*run, "--model", "22B", "--micro-batch", "64", status=3)
        self.assertRegex(done.stderr, "GiB of [a-z]+ for layer [0-9]+ did not fit: of 80 GiB .* are free; .* smaller microbatch")
        (record,) = self.records()
        self.assertEqual(record["status"], "oom")
        done = self.run_frugal(*run, "--model", "1T", status=3)
        self.assertRegex(done.stderr, "of parameter for the whole model of a rank did not fit: .* try a larger tensor-parallel")

    def test_out_of_memory_on_the_processor(self):
        # 112 TiB of weights: beyond any machine, and beyond what its operating system would promise.
        self.run_frugal(*TINY, "--hidden", str(2**20), "--vocabulary", str(2**22), status=3)
        (record,) = self.records()
        self.assertEqual(record["status"], "oom")
        self.assertIn("for the whole model of a rank", record["reason"])
        # What it needs is counted virtually: 112 TiB of weights in float32, as much of gradients, and twice of moments.
        needed = record["needed"]["memory"]
        self.assertAlmostEqual(needed["peak_total"] / (4 * 112 * 2**40), 1, delta=0.02)
        self.assertIn(f"needs {needed['peak_total'] / 2**40:.5g} TiB of ", record["reason"])

    def test_a_virtual_run_holds_no_tokens(self):
        # 8 GiB of tokens if there were any; the machine described has no room for their activations.
        done = self.run_frugal("measure", "--model", "gpt-tiny", "--on", "virtual", "--micro-batch", "65536",
                               "--microbatches", "512", "--layers", "1", status=0)
        self.assertIn("step_time", done.stdout)

    def test_one_step_is_warm(self):
        run = [*TINY, "--layers", "8"]
        self.run_frugal(*run, "--out", "one")
        self.run_frugal(*run, "--steps", "9", "--out", "many")
        (one,), (many,) = self.records("one"), self.records("many")
        self.assertEqual(len(one["metrics"]["step_time"]["samples"]), 1)
        self.assertEqual(one["losses"][0], many["losses"][0])
        self.assertEqual(one["memory"], many["memory"])

    def test_virtual(self):
        self.run_frugal("measure", "--model", "22B", "--type", "bf16", "--tensor-parallel", "8", "--recompute", "selective")
        (record,) = self.records()
        self.assertEqual((record["source"], record["losses"]), ("virtual", []))
        self.assertEqual(record["flops"]["hardware_as_printed"]["formula"], "korthikanti2022/eq8")

    def test_saved_tensors_are_not_overwritten(self):
        self.run_frugal(*TINY, "--dropout", "0", "--save-tensors", "tensors")
        size = (self.folder / "tensors").stat().st_size
        self.assertGreater(size, 100000)
        self.assertIn("exists already", self.run_frugal(*TINY, "--save-tensors", "tensors", status=2).stderr)

    def test_model_file_and_scale(self):
        model = {"layers": 2, "hidden_size": 128, "attention_heads": 4, "sequence_length": 64, "vocabulary_size": 512}
        (self.folder / "own.json").write_text(json.dumps(model))
        self.run_frugal("measure", "--model", "own.json", "--scale", "1/2")
        configuration = self.records()[0]["configuration"]["model"]
        self.assertEqual((configuration["hidden_size"], configuration["name"]), (64, "own"))
        self.assertEqual(self.records()[0]["scale"], "1/2")


class Interrupt(Cli):
    def test_validate_stops_among_its_operations(self):
        self.assertNotIn("products:", self.interrupt(["validate"], signal.SIGINT, 1))

    def test_measure(self):
        arguments = [*TINY, "--steps", "1000000"]
        self.interrupt(arguments, signal.SIGINT, 3)
        (record,) = self.records()
        self.assertEqual(record["status"], "interrupted")
        self.assertGreater(len(record["metrics"]["step_time"]["samples"]), 0)
        self.assertIn("from its start", record["reason"])
        self.interrupt(arguments, signal.SIGTERM, 3)  # it is not final: the same command runs it again
        self.assertEqual([r["status"] for r in self.records()], ["interrupted"] * 2)

    def test_a_training_with_checkpoints_goes_on_where_it_stopped(self):
        run = [*TINY, "--steps", "300"]
        whole = json.loads(self.run_frugal(*run, "--out", "whole", "--format", "json").stdout)["losses"]
        kept = [*run, "--checkpoint", "k"]
        behind = []
        for number, arguments, how in ((signal.SIGINT, kept, "the same command with --resume k goes on from there"),
                                       (signal.SIGTERM, [*kept, "--resume", "k"], "the same command goes on from there")):
            rest = self.interrupt(arguments, number, 3)
            found = re.search(r"^frugal: interrupted behind step (\d+), which is kept in k; (.*)$", rest, re.MULTILINE)
            self.assertEqual(found[2], how)
            behind.append(int(found[1]))
            manifest = json.loads((self.folder / f"k/step-{behind[-1]:08}/manifest.json").read_text())
            self.assertEqual(manifest["losses"], whole[:behind[-1]])
            record = self.records()[-1]
            self.assertEqual(record["status"], "interrupted")
            self.assertIn(f"behind step {behind[-1]}, which is in a checkpoint", record["reason"])
        self.assertLess(0, behind[0])
        self.assertLess(behind[0], behind[1])
        self.run_frugal(*kept, "--resume", "k")
        self.assertEqual(self.records()[-1]["losses"], whole)

    def test_reproduce_keeps_what_is_finished_and_resumes(self):
        arguments = ["reproduce", "korthikanti2022/table2", "--on", "cpu", "--scale", "1/32", "--threads", "1"]
        self.interrupt(arguments, signal.SIGINT, 2)
        before = self.records()
        self.assertEqual(before[-1]["status"], "interrupted")
        kept = [r["case"] for r in before if r["status"] == "ok"]
        self.assertGreaterEqual(len(kept), 2)
        self.run_frugal(*arguments)
        after = self.records()
        self.assertEqual(after[:len(before)], before)
        cases = [r["case"] for r in after if r["status"] == "ok"]
        self.assertEqual(len(cases), len(set(cases)), "no finished case ran again")
        self.assertIn(before[-1]["case"], cases)
