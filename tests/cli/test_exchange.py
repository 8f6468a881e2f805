"""What comes from other programs and goes to them: frugal import and frugal export."""

import csv
import importlib.util
import io
import json
import os
import shlex
import statistics
import subprocess
import sys

import python_package
from program import FRUGAL, SOURCE, TINY, Cli

LISTS = SOURCE / "tests/fuzz/corpus/import"
SMALL = ["--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "32",
         "--micro-batch-size", "2", "--vocab-size", "256"]
# For each list: what is given beside it, some of what is mapped, all that frugal does not have, and the parameters.
GPT3 = (["--vocabulary", "50257", "--world-size", "1536"],
        {"layers": 96, "hidden_size": 12288, "vocabulary_size": 51200, "tensor_parallel_size": 8, "type": "bf16",
         "pipeline_parallel_size": 16, "data_parallel_size": 12, "microbatches": 128, "attention": "fused",
         "dropout": 0.1, "stored_masks": True, "clip": 1, "weight_decay": 0.1},
        {"--step-batch-size-schedule"}, 174615846912)
LLAMA_8B = (["--world-size", "8"],
            {"layers": 32, "intermediate_size": 14336, "key_value_heads": 8, "head_size": 128, "norm": "rms-norm",
             "mlp": "swiglu", "positions": "rotary", "rotary": {"base": 1e6}, "bias": "none", "tied_embeddings": False,
             "data_parallel_size": 8, "microbatches": 16, "vocabulary_size": 128256, "dropout": 0,
             "narrow_reduction": True, "attention": "fused", "program": "megatron-core+float32-loss~batch-masks"},
            {"--fp8-format", "--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-param-gather",
             "--overlap-grad-reduce", "--overlap-param-gather",
             "--profile", "--profile-step-start", "--profile-step-end", "--empty-unused-memory-level"}, 8030261248)
LLAMA_70B = (["--world-size", "128", "--vocabulary", "131072"],
             {"layers": 80, "chunks": 2, "schedule": "interleaved", "sequence_parallel": True, "microbatches": 256,
              "data_parallel_size": 4, "seed": 28, "shard": "optimizer", "overlap_grad_reduce": True,
              "rotary": {"base": 5e5, "factor": 8, "bands": {"low": 1, "high": 4, "original": 8192}}},
             {"--use-precision-aware-optimizer", "--main-grads-dtype",
              "--overlap-param-gather",
              "--defer-embedding-wgrad-compute", "--wgrad-deferral-limit", "--overlap-p2p-communication-warmup-flush"},
             70599843840)
SC21 = (["--world-size", "1536", "--vocabulary", "50257"],
        {"layers": 80, "chunks": 2, "schedule": "interleaved", "recompute": "full", "attention": "separate",
         "microbatch_size": 2, "microbatches": 48, "data_parallel_size": 24, "weight_decay": 0.01},
        {"--DDP-impl"}, 145622261760)
TR1 = (["--world-size", "512", "--vocabulary", "50257"],
       {"layers": 40, "intermediate_size": 20480, "vocabulary_size": 50432, "recompute": "full", "microbatches": 16,
        "data_parallel_size": 64, "attention": "separate", "optimizer": "adamw", "seed": 42, "shard": "optimizer"},
       {"--rampup-batch-size", "--deepspeed", "--deepspeed_config", "--deepspeed-activation-checkpointing"},
       12854282240)
RUN = {"gpt3-175b": GPT3, "llama3-8b-fp8": LLAMA_8B, "llama3-70b": LLAMA_70B, "sc21-145b": SC21, "tr1-13b": TR1}
MISSING_OF_MIXTRAL = {"--num-experts", "--moe-router-topk", "--moe-router-load-balancing-type", "--moe-aux-loss-coeff",
                      "--moe-grouped-gemm", "--moe-token-dispatcher-type", "--expert-model-parallel-size",
                      "--overlap-param-gather",
                      "--no-masked-softmax-fusion"}


class Import(Cli):
    def test_a_list_of_megatron_core_says_which_number_it_predicts(self):
        self.assertIn("PyTorch's allocated bytes", self.imported("--", *SMALL, "--use-mcore-models")["predicts"])
        self.assertIn("PyTorch's allocated bytes", self.run_frugal("import", "--", *SMALL, "--use-mcore-models").stdout)
        for beside in ([], ["--use-mcore-models", "false"]):
            self.assertIsNone(self.imported("--", *SMALL, *beside)["predicts"])
        self.assertIsNone(self.imported("--program", "frugal", "--", *SMALL, "--use-mcore-models")["predicts"])

    @staticmethod
    def names(parts):
        return {word for part in parts for word in part["said"].split() if word.startswith("--")}

    def test_bad_input(self):
        self.rejected("import", "absent", says=["absent", "cannot be read"])
        self.rejected("import", self.given("echo nothing\n"), says=["mine.txt", "no arguments"])
        self.rejected("import", "--", *SMALL, "--bf16", "7", says=["\"7\" stands behind --bf16"])
        self.rejected("import", "--", "words", "--bf16", says=["words"])
        self.rejected("import", self.given(" ".join(SMALL)), "--set", "x", says=["--set", "NAME=VALUE"])
        self.rejected("import", self.given(" ".join(SMALL[:-4])), says=["--micro-batch-size is missing"])
        self.rejected("import", self.given("[job\n", "a.toml"), "--from", "torchtitan", says=["a.toml, line 1"])
        self.rejected("import", self.given("[model]\nname = \"x\"\n", "a.toml"), says=["model.name", "llama3", "--model"])
        self.rejected("import", self.given("{}", "a.json"), says=["a.json", "--model"])
        self.rejected("import", self.given("{\"train_batch_size\": \"x\"}", "a.json"), "--model", "22B",
                      says=["train_batch_size", "\"x\"", "whole number"])
        self.rejected("import", self.given("run\nif [ a ]; then\n", "a.sh"), says=["a.sh, line", "syntax error", "bash"])

    def test_what_stands_beside_a_list_takes_precedence(self):
        report = self.imported("--", *SMALL, "--bf16", "--sequence-parallel", "--tensor-model-parallel-size", "1")
        self.assertEqual(report["configuration"].get("tensor_parallel_size"), 1)
        file = self.given(" ".join([*SMALL, "--bf16", "--sequence-parallel", "--tensor-model-parallel-size", "1"]))
        given = self.imported(file, "--tensor-parallel", "4", "--world-size", "8")["configuration"]
        self.assertEqual((given["tensor_parallel_size"], given["data_parallel_size"], given["vocabulary_size"]), (4, 2, 512))
        self.assertTrue(given["sequence_parallel"])

    def test_what_is_left_to_the_program_around_deepspeed_is_named(self):
        text = json.dumps({"bf16": {"enabled": True}, "fp16": {"enabled": False}, "gradient_clipping": "auto",
                           "train_micro_batch_size_per_gpu": 1})
        report = self.imported(self.given(text, "auto.json"), "--model", "gpt-tiny")
        self.assertIn('gradient_clipping = "auto"', [part["said"] for part in report["assumed"]])
        self.assertIn("fp16.enabled = false", [part["said"] for part in report["same"]])
        self.rejected("import", self.given(json.dumps({"bf16": {"enabled": "auto"}}), "auto.json"), "--model", "gpt-tiny",
                      says=["bf16.enabled is \"auto\"", "give --type"])

    def test_each_argument_of_five_lists_is_named_and_runs_as_its_command(self):
        for name, (given, mapped, missing, parameters) in RUN.items():
            with self.subTest(name):
                file = LISTS / f"{name}.args"
                report = self.imported(str(file), *given, "--on", "virtual:b200-dgx")
                self.assertEqual({key: report["configuration"].get(key) for key in mapped}, mapped)
                self.assertEqual(self.names(report["missing"]), missing)
                self.assertEqual(report["unknown"], [])
                self.assertEqual(report["parameters"], parameters)
                in_file = {word for line in file.read_text().splitlines() if not line.startswith("#")
                           for word in line.split() if word.startswith("--")}
                named = self.names(report["missing"] + report["mapped"] + report["same"])
                self.assertEqual(in_file - named, set())
                self.is_its_command(report)

    def is_its_command(self, report):
        words = shlex.split(report["command"])
        record = json.loads(self.run_frugal(*words[1:], "--out", "command", "--force", "--format", "json").stdout)
        ran = report["records"][0]
        self.assertEqual(ran["status"], "ok")
        for key in ("configuration", "memory", "metrics", "flops", "work", "utilization", "fingerprint", "command"):
            self.assertEqual(ran[key], record[key], key)

    def test_a_mixture_of_experts_is_named_and_not_run(self):
        file = str(LISTS / "mixtral-8x7b.args")
        done = self.run_frugal("import", file, "--vocabulary", "32000", "--world-size", "32", "--format", "json", status=2)
        report = json.loads(done.stdout)
        self.assertEqual(self.names(report["missing"]), MISSING_OF_MIXTRAL)
        self.assertEqual((report["records"], report["command"]), ([], None))
        self.assertIn("--num-experts", report["not_run"])
        self.assertIn("frugal: not run: ", done.stderr)

    def test_what_is_not_known_is_named(self):
        odd = ["--", *SMALL, "--bf16", "--num-query-group", "2", "--frobnicate"]
        done = self.run_frugal("import", "--format", "json", *odd, status=2)
        report = json.loads(done.stdout)
        self.assertEqual([part["said"] for part in report["unknown"]], ["--num-query-group 2", "--frobnicate"])
        self.assertIn("--num-query-groups", report["unknown"][0]["what"])
        self.assertEqual((report["records"], report["command"]), ([], None))
        for said in ("--num-query-group 2, --frobnicate", "--ignore-unknown"):
            self.assertIn(said, report["not_run"])
            self.assertIn(said, done.stderr)
        shown = self.run_frugal("import", "--ignore-unknown", *odd).stdout
        self.assertIn("frugal measure ", shown)
        self.assertIn("\nWithout --num-query-group 2, --frobnicate: what each would change stands below.\n", shown)
        self.assertIn("| not known |", self.run_frugal("import", "--ignore-unknown", "--format", "markdown", *odd).stdout)
        for file in (self.given("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training2]\nseq_len = 1\n", "a.toml"),
                     self.given("{\"zero_optimisation\": {\"stage\": 3}}", "a.json")):
            self.assertIn("--ignore-unknown", self.run_frugal("import", file, "--model", "gpt-tiny", status=2).stderr)
            self.run_frugal("import", file, "--model", "gpt-tiny", "--ignore-unknown", "--on", "virtual:b200-dgx")

    def test_the_answer_comes_first(self):
        for form in ("table", "markdown"):
            lines = self.run_frugal("import", "--format", form, "--", *SMALL, "--bf16").stdout.splitlines()
            report = self.imported("--", *SMALL, "--bf16")
            self.assertIn(f"{report['parameters']:,}", lines[0])
            self.assertIn(" parameters", lines[0])
            self.assertRegex(lines[1], r"^It fits: a rank needs [0-9.]+ [KMG]iB of 80 GiB on virtual:a100-selene, 1 ranks?\.$")
            self.assertRegex(lines[2], r"^A step takes [0-9.e-]+ s, MFU [0-9.e-]+ %\.$")
            self.assertRegex(lines[3], "^How far off that is")
            self.assertEqual(lines[lines.index("") + 1], report["command"])
        self.assertLessEqual(max(map(len, lines[:lines.index("")])), 120)
        table = self.run_frugal("import", "--", *SMALL, "--bf16").stdout
        parts = table[table.index("\na field of frugal's\n"):table.index("\nquantity")].splitlines()
        self.assertLessEqual(max(map(len, parts)), 120)
        big = [*SMALL, "--bf16"]
        big[1], big[3] = "40", "8192"
        shown = self.run_frugal("import", "--", *big, status=3).stdout.splitlines()
        self.assertRegex(shown[1], r"^It does not fit: a rank needs [0-9.]+ GiB of [0-9.]+ GiB on virtual:b200-dgx, 1 ranks?\.$")

    def test_the_list_that_megatron_prints_is_its_arguments(self):
        expected = self.imported("--", *SMALL, "--bf16", "--swiglu")["configuration"]
        lines = "".join(f"  {name[2:].replace('-', '_')} {'.' * 20} {value}\n" for name, value in zip(SMALL[::2], SMALL[1::2]))
        text = f"{'-' * 24} arguments {'-' * 24}\n  bf16 .... True\n{lines}  num_experts .... None\n  swiglu .... True\n" \
               f"{'-' * 20} end of arguments {'-' * 21}\n"
        configuration = self.imported(self.given(text, "log.txt"))["configuration"]
        configuration.pop("name", None)
        self.assertEqual(configuration, expected)

    def test_stages_without_layers_and_microbatches_of_any_number_run(self):
        file = " ".join(SMALL + ["--bf16", "--pipeline-model-parallel-size", "4", "--global-batch-size", "3"])
        layers = dict(zip(SMALL[::2], SMALL[1::2]))["--num-layers"]
        more = ["--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
        report = self.imported(self.given(file.replace(f"--num-layers {layers}", "--num-layers 2")
                                          .replace(f"--micro-batch-size {dict(zip(SMALL[::2], SMALL[1::2]))['--micro-batch-size']}",
                                                   "--micro-batch-size 1") + " " + " ".join(more)))
        self.assertEqual(report["configuration"]["stage_layers"], "0+2*1+0")
        self.assertEqual(report["records"][-1]["status"], "ok")
        self.is_its_command(report)

    def test_other_forms_of_a_list(self):
        lines = self.given("\n".join(SMALL + ["--bf16"]), "lines.txt")
        yaml = "ENV: 1\nMODEL_ARGS:\n" + "".join(f"  {a}: {b}\n" for a, b in zip(SMALL[::2], SMALL[1::2])) + \
            "  --bf16: true\n  --swiglu: false\n"
        expected = self.imported("--", *SMALL, "--bf16")["configuration"]
        done = subprocess.run([FRUGAL, "import", "-", "--format", "json"], input=" ".join(SMALL + ["--bf16"]),
                              capture_output=True, text=True, check=True)
        for configuration in (self.imported(lines)["configuration"],
                              self.imported(self.given(yaml, "a.yaml"))["configuration"],
                              json.loads(done.stdout)["configuration"]):
            configuration.pop("name", None)
            self.assertEqual(configuration, expected)

    def test_it_takes_the_first_cluster_that_it_fits(self):
        big = [*SMALL, "--bf16"]
        big[1], big[3] = "40", "8192"
        self.assertEqual(self.imported("--", *SMALL, "--bf16")["records"][0]["on"], "virtual:a100-selene")
        chosen = self.imported("--", *big, status=3)["records"]
        self.assertEqual((len(chosen), chosen[0]["status"]), (1, "oom"))  # 18 bytes of each of 32 billion
        self.assertEqual(chosen[0]["on"], "virtual:b200-dgx")
        self.assertGreater(chosen[0]["needed"]["memory"]["peak_total"], 500e9)

    def test_torchtitan(self):
        report = self.imported(str(LISTS / "torchtitan-llama3-70b.toml"), "--world-size", "64")
        mapped = {"layers": 80, "hidden_size": 8192, "tensor_parallel_size": 8, "data_parallel_size": 8,
                  "microbatch_size": 8, "microbatches": 1, "sequence_length": 8192, "recompute": "full",
                  "sequence_parallel": True, "type": "bf16", "clip": 1, "weight_decay": 0.1, "shard": "weights"}
        self.assertEqual({key: report["configuration"].get(key) for key in mapped}, mapped)
        self.assertEqual((report["missing"], report["unknown"], report["parameters"]), ([], [], 70553706496))
        peak = report["records"][0]["memory"]["peak"]  # in 64 parts; while a step is made, roots of a moment, too
        kept = {"parameter": 4, "gradient": 4, "optimizer": 8 + 4}
        for kind, bytes_each in kept.items():
            self.assertAlmostEqual(peak[kind] / (bytes_each * report["parameters"] / 64), 1, delta=1e-3)
        self.is_its_command(report)

    def test_deepspeed(self):
        report = self.imported(str(LISTS / "deepspeed-zero2.json"), "--model", "22B", "--world-size", "16",
                               "--tensor-parallel", "8")
        mapped = {"model": "22B", "data_parallel_size": 2, "microbatch_size": 8, "microbatches": 1, "type": "bf16",
                  "clip": 1, "optimizer": "adamw", "learning_rate": 0.00015, "shard": "gradients"}
        self.assertEqual({key: report["configuration"].get(key) for key in mapped}, mapped)
        self.assertEqual({part["said"] for part in report["missing"]},
                         {"activation_checkpointing.partition_activations = true"})
        self.assertEqual(report["unknown"], [])
        self.is_its_command(report)
        done = self.run_frugal("import", str(LISTS / "deepspeed-zero2.json"), "--model", "22B", "--world-size", "48", status=2)
        self.assertIn("train_batch_size is 16, which is no multiple of 48", done.stderr)


class Export(Cli):
    def rows(self, *arguments):
        return list(csv.DictReader(io.StringIO(self.run_frugal("export", "out", *arguments).stdout)))

    def test_bad_input(self):
        self.rejected("export", "absent", says=["absent", "there is no such folder or file"])
        self.rejected("export", "x", "--format", "parquet", says=["parquet", "csv"])

    def test_a_file_is_not_overwritten(self):
        self.run_frugal(*TINY)
        (self.folder / "there.csv").write_text("mine")
        done = self.run_frugal("export", "out", "--out", "there.csv", status=2)
        self.assertIn("--force", done.stderr)
        self.assertEqual((self.folder / "there.csv").read_text(), "mine")
        self.run_frugal("export", "out", "--out", "there.csv", "--force")
        self.assertEqual((self.folder / "there.csv").read_text(), self.run_frugal("export", "out").stdout)

    def test_numbers_are_the_records_to_the_last_bit(self):
        self.run_frugal(*TINY, "--steps", "12", "--microbatches", "2", "--recompute", "full")
        self.run_frugal("measure", "--model", "22B", "--layers", "4", "--type", "bf16", "--on", "virtual",
                        "--tensor-parallel", "1,8", "--pipeline-parallel", "2", "--recompute", "selective")
        self.run_frugal("measure", "--model", "530B", "--on", "virtual", status=3)
        records, rows = self.records(), self.rows()
        for number, record in enumerate(records):
            mine = [row for row in rows if row["record"] == str(number)]
            for key in ("artifact", "case", "source", "on", "device", "status", "reason", "command", "fingerprint", "what",
                        "started"):
                self.assertEqual({row[key] for row in mine}, {record[key]})
            for key in ("layers", "tensor_parallel_size", "microbatches"):
                expected = record["configuration"].get(key, record["configuration"]["model"].get(key))
                self.assertEqual({row[key] for row in mine}, {str(expected)})
            values = {(row["quantity"], row["stage"]): row for row in mine}
            self.assertEqual(len(values), len(mine))
            self.are_the_numbers(values, record)

    def are_the_numbers(self, values, record):
        for name, metric in record["metrics"].items():
            row = values[name, ""]
            self.assertEqual([float(sample) for sample in row["values"].split()], metric["samples"])
            self.assertEqual((float(row["median"]), row["unit"], int(row["samples"])),
                             (metric["median"], metric["unit"], len(metric["samples"])))
            interval = metric["interval"] or {"low": None, "high": None}
            self.assertEqual([float(row[end]) if row[end] else None for end in ("low", "high")],
                             [interval["low"], interval["high"]])
        self.assertEqual({key: float(row["median"]) for key, row in values.items() if key[0] not in record["metrics"]},
                         dict(self.counted(record)))
        if record["losses"]:
            self.assertEqual([float(loss) for loss in values["loss", ""]["values"].split()], record["losses"])

    def counted(self, record):
        """All numbers of a record but its metrics, by quantity and stage."""
        def kinds(name, of_kind, stage=""):
            return [((f"{name}_{kind}", stage), bytes_) for kind, bytes_ in of_kind.items()]

        if record["status"] != "ok":
            needed = record["needed"]["memory"]
            yield from [(("needed_memory", ""), needed["peak_total"]), (("needed_host_memory", ""), needed["host_peak"])]
            yield from kinds("needed_memory_at_peak", max(needed["stages"], key=lambda stage: stage["peak"])["at_peak"])
            return
        memory, flops, work = record["memory"], record["flops"], record["work"]
        yield from kinds("peak_memory", memory["peak"])
        for number, stage in enumerate(memory["stages"]):
            yield from [(("peak_memory", str(number)), stage["peak"]), *kinds("memory_at_peak", stage["at_peak"], str(number)),
                        *kinds("peak_memory", stage["peak_per_kind"], str(number))]
        numbers = {"peak_memory": memory["peak_total"], "peak_host_memory": memory["host_peak"],
                   "reserved_memory": memory["reserved"], "model_flops": flops["model"]["value"],
                   "hardware_flops": flops["hardware"]["value"], "bytes_moved": work["bytes"],
                   "hardware_flops_as_printed": (flops["hardware_as_printed"] or {}).get("value"),
                   "operations": sum(one["count"] for one in work["operations"].values()), "least_bytes": work["least"]["total"],
                   "loss": statistics.median(record["losses"]) if record["losses"] else None}
        for side in ("data_sheet", "measured"):
            peak = numbers[f"{side}_peak"] = record["utilization"]["peak_flops"][side]
            for fraction, counted in (("mfu", "model"), ("hfu", "hardware")):
                value = numbers[f"{fraction}_{side}"] = record["utilization"][fraction][side]["value"]
                of_peak = peak and flops[counted]["value"] / record["metrics"]["step_time"]["median"] / peak
                self.assertAlmostEqual(value, of_peak, delta=1e-12 * (of_peak or 0))
        yield from (((f"held_out_loss_of_step_{one['step']}", ""), one["loss"]) for one in record["held_out"])
        yield from (((name, ""), value) for name, value in numbers.items() if value is not None)


PARQUET = SOURCE / "scripts/records-to-parquet.py"


class Parquet(Cli):
    @staticmethod
    def script():
        specification = importlib.util.spec_from_file_location("parquet_script", PARQUET)
        script = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(script)
        return script

    def test_every_row_is_a_row_with_its_samples_in_order(self):
        exported = 'quantity,layers,values\r\n"a, b",2,3 1 2\r\npeak,,\r\nc,4,1.5\r\n'
        self.assertEqual(self.script().table_of(exported), (
            ["quantity", "layers", "values"], ["string", "integer", "numbers"],
            [["a, b", "peak", "c"], [2, None, 4], [[3, 1, 2], None, [1.5]]]))

    def test_what_is_not_known_is_null_and_a_word_is_a_known_one(self):
        script = self.script()
        columns = ["quantity", "median", "low", "high", "samples", "values", "layers", "causal", "shard_size", "mlp_chunks",
                   "bucket_size"]
        kinds = list(script.kinds_of(columns))
        self.assertEqual(kinds, ["string", "number", "number", "number", "integer", "numbers", "integer", "boolean",
                                 "integer", "integer", "integer"])
        values = [script.value_of(*pair) for pair in zip(["time", "1.5", "", "", "7", "1 2.5", "", "false", "all", "paper",
                                                             "auto"], kinds)]
        self.assertEqual(values, ["time", 1.5, None, None, 7, [1, 2.5], None, False, 0, 0, 0])
        self.assertEqual(script.value_of("", "string"), "")
        for text, kind in (("several", "integer"), ("1.5", "integer"), ("much", "number"), ("yes", "boolean")):
            with self.assertRaises((ValueError, KeyError)):
                script.value_of(text, kind)

    def test_it_says_what_is_missing(self):
        (self.folder / "pyarrow.py").write_text("raise ImportError")
        done = subprocess.run([sys.executable, PARQUET, "out", "records.parquet"], env={**os.environ, "PYTHONPATH": str(self.folder)},
                              capture_output=True, text=True, check=False)
        self.assertIn("pyarrow is missing", done.stderr)
        self.assertNotEqual(done.returncode, 0)


class ParquetFile(Cli):
    """The file as pyarrow reads it, which comes from the Python package index, into build/."""

    def test_it_has_the_numbers_of_the_csv(self):
        python = python_package.installed("pyarrow", "26.0.1") / "bin/python"

        def convert(*arguments):
            return subprocess.run([python, PARQUET, "out", "records.parquet", "--frugal", FRUGAL, *arguments], cwd=self.folder,
                                  capture_output=True, text=True, check=False)
        self.run_frugal(*TINY, "--steps", "12")
        self.run_frugal("measure", "--model", "22B", "--layers", "4", "--on", "virtual", "--head-chunks", "paper")
        self.run_frugal("measure", "--model", "530B", "--on", "virtual", status=3)
        self.assertEqual((done := convert()).returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(self.run_frugal("export", "out").stdout)))
        reading = "import json, pyarrow.parquet as p; print(json.dumps(p.read_table('records.parquet').to_pylist()))"
        read = json.loads(subprocess.run([python, "-c", reading], cwd=self.folder, capture_output=True, text=True, check=True).stdout)
        self.assertEqual(len(read), len(rows))
        for typed, row in zip(read, rows):
            self.assertEqual(list(typed), list(row))
            self.assertEqual(typed["values"] or [], [float(sample) for sample in row["values"].split()])
            for column, text in row.items():
                if isinstance(typed[column], float):
                    self.assertEqual(typed[column], float(text), column)
                elif text in ("paper", "all", "none", "auto") and isinstance(typed[column], int):
                    self.assertEqual(typed[column], 0, column)
                elif isinstance(typed[column], (str, int)):
                    self.assertEqual(str(typed[column]).lower(), text.lower(), column)
                elif typed[column] is None:
                    self.assertEqual(text, "", column)
        self.assertEqual({type(typed["layers"]) for typed in read}, {int})
        self.assertIn("exists already", convert().stderr)
        self.assertEqual(convert("--force").returncode, 0)
