"""A configuration from a file, by its keys, and several of them in one command."""

import csv
import io
import json
import shlex
import shutil

import jsonschema
from program import SOURCE, TINY, Cli

VIRTUAL = ["measure", "--model", "gpt-tiny", "--on", "virtual"]
SCHEMA = json.loads((SOURCE / "docs/configuration.schema.json").read_text())


class Configuration(Cli):
    def config(self, values, name="mine.json"):
        return self.given(json.dumps(values), name)

    def record(self, *arguments, out):
        self.run_frugal(*arguments, "--out", out)
        return self.records(out)[-1]

    def test_a_file_a_key_and_a_flag_say_the_same(self):
        by_flags = self.record(*VIRTUAL, "--tensor-parallel", "2", "--recompute", "full", "--steps", "3",
                               "--sequence-parallel", "--head-chunks", "paper", "--layers", "3", out="flags")
        values = {"model": "gpt-tiny", "on": "virtual", "tensor_parallel_size": 2, "recompute": "full", "steps": 3,
                  "sequence_parallel": True, "head_chunks": 0, "layers": 3}
        jsonschema.validate(values, SCHEMA)
        by_file = self.record("measure", "--config", self.config(values), out="file")
        text = {**values, "sequence_parallel": "true", "head_chunks": "paper"}
        by_keys = self.record("measure", *[word for key, value in text.items() for word in ("--set", f"{key}={value}")],
                              out="keys")
        for other in (by_file, by_keys):
            self.assertEqual(other["fingerprint"], by_flags["fingerprint"])
            self.assertEqual(other["metrics"], by_flags["metrics"])
            self.assertEqual(other["command"], by_flags["command"])

    def test_flags_go_before_the_file(self):
        values = {"model": "gpt-tiny", "on": "virtual", "microbatches": 2, "recompute": "full"}
        record = self.record("measure", "--config", self.config(values), "--microbatches", "4", "--set",
                             "recompute=none", out="out")
        self.assertEqual(record["configuration"]["microbatches"], 4)
        self.assertEqual(record["configuration"]["recompute"], "none")

    def test_a_records_configuration_is_one(self):
        for model in ("gpt-tiny", "llama-tiny", "gemma2-tiny"):
            first = self.record("measure", "--model", model, "--on", "virtual", "--type", "bf16", out=model)
            jsonschema.validate(first["configuration"], SCHEMA)
            again = self.record("measure", "--on", "virtual", "--config", self.config(first["configuration"]),
                                out=model + "-again")
            self.assertEqual(again["fingerprint"], first["fingerprint"], model)

    def test_a_model_without_a_name(self):
        sizes = ["layers=2", "hidden_size=64", "attention_heads=4", "sequence_length=32", "vocabulary_size=128"]
        arguments = [word for size in [*sizes, "mlp=swiglu"] for word in ("--set", size)]
        record = self.record("measure", "--on", "cpu", "--threads", "1", *arguments, out="out")
        self.assertEqual((record["case"], record["configuration"]["model"]["mlp"]), ("model", "swiglu"))

    def test_a_changed_machine_is_named_by_its_file(self):
        machine = json.loads((SOURCE / "hardware/a100-selene.json").read_text())
        machine["network"]["host_memory"]["value"] = 1 << 40
        folder = self.folder / "machines"
        folder.mkdir()
        (folder / "changed.json").write_text(json.dumps(machine))
        by_place = self.record(*VIRTUAL[:3], "--on", "virtual:machines/changed.json", out="place")
        self.assertRegex(by_place["on"], "^virtual:.*#[0-9a-f]{8}$")
        self.assertEqual(by_place["command"], "frugal rerun records.jsonl#gpt-tiny")
        by_hardware = self.record(*VIRTUAL, "--hardware", "machines/changed.json", out="hardware")
        self.assertEqual(by_hardware["fingerprint"], by_place["fingerprint"])

    def test_another_model_than_the_named_one_is_none_in_silence(self):
        def named(*arguments, out):
            record = self.record("measure", *arguments, out=out)
            command = shlex.split(record["command"])[1:]
            self.assertEqual(self.record(*command, out=out + "-again")["fingerprint"], record["fingerprint"])
            return record["case"], record["configuration"]["model"]["name"]

        self.assertEqual(named("--model", "llama-tiny", "--hidden", "64", "--sequence", "32", out="own"), ("llama-tiny",) * 2)
        for number, changed in enumerate((("--layers", "3"), ("--sequence", "1k"), ("--vocabulary", "512"), ("--dropout", "0.1"),
                                          ("--hidden", "128", "--intermediate", "96", "--head-size", "32"))):
            self.assertEqual(named("--model", "llama-tiny", *changed, out=str(number)), ("llama-tiny*",) * 2, changed)
        self.assertEqual(named("--model", "llama-tiny", "--layers", "3", "--set", "name=mine", out="mine"), ("mine",) * 2)

    def test_a_training_goes_on_whatever_its_model_is_called(self):
        def run(*arguments, status=0):
            return self.run_frugal(*TINY, *arguments, status=status).stderr

        run("--layers", "1", "--steps", "2", "--checkpoint", "c", "--out", "first")
        run("--layers", "1", "--steps", "3", "--resume", "c", "--set", "name=other", "--out", "second")
        said = run("--layers", "2", "--steps", "3", "--resume", "c", "--out", "third", status=2)
        self.assertIn("whose model's layers is 1, and now it is 2", said)
        for out in ("first", "second"):  # their commands go on from what is there
            shutil.rmtree(self.folder / out)

    def test_a_size_that_follows_a_replaced_one_is_asked_for(self):
        run = ["measure", "--model", "llama3-8b", "--on", "virtual"]
        self.rejected(*run, "--layers", "80", "--hidden", "8192", "--heads", "64",
                      says=["--hidden 8192 --heads 64: llama3-8b states sizes of its own that follow it; give --intermediate (28672 "
                            "keeps the ratio, 14336 the size) and --key-value-heads (16 keeps the ratio, 8 the size)"])
        self.rejected(*run, "--hidden", "8192", "--set", "attention_heads=64", "--key-value-heads", "8",
                      says=["--hidden 8192 --heads 64: ", "; give --intermediate (28672 keeps the ratio, 14336 the size)"])
        self.rejected("plan", *run[1:3], "--hidden", "4097", "--hardware", "h100-dgx", "--devices", "8", "--batch", "8",
                      says=["--hidden 4097: ", "give --intermediate (14336 keeps the size)"])
        gemma = ["measure", "--model", "gemma-2-9b", "--on", "virtual", "--heads", "32"]
        self.rejected(*gemma, says=["--key-value-heads (16 keeps", "--head-size (128 keeps the ratio, 256 the size)"])
        self.rejected(*gemma, "--key-value-heads", "8", "--head-size", "128",
                      says=["--heads 32 --head-size 128: ", "give --set query_scale (128 keeps"])
        self.rejected("measure", "--on", "virtual", "--config", self.config({"model": "llama3-8b", "heads": 64}),
                      says=["heads is not a known key"])
        self.rejected("measure", "--on", "virtual", "--config", self.config({"model": "llama3-8b", "hidden_size": 8192}),
                      says=["--intermediate (28672"])

    def test_flags_replace_values_of_a_model_that_a_file_describes(self):
        first = self.record("measure", "--model", "llama-tiny", "--on", "virtual", out="first")
        file = self.config(first["configuration"])
        run = ["measure", "--on", "virtual", "--config", file]
        self.assertEqual(self.record(*run, out="same")["case"], "llama-tiny")
        self.assertEqual(self.record(*run, "--layers", "3", out="layers")["case"], "llama-tiny*")
        other = self.record(*run, "--model", "gpt-tiny", out="other")["configuration"]["model"]
        self.assertEqual((other["name"], other.get("intermediate_size"), other["dropout"]), ("gpt-tiny", None, 0.1))
        done = self.run_frugal(*run, "--hidden", "128", status=2)
        self.assertIn("--hidden 128: llama-tiny states sizes", done.stderr)

    def test_tables_begin_with_the_number_of_parameters(self):
        model = ["--model", "llama-tiny", "--on", "virtual"]
        line = "llama-tiny: 94,528 parameters"
        for command in (["recompute", *model], ["flops", *model], ["operations", *model],
                        ["trace", *model, "--out-file", "trace.json", "--force"],
                        ["plan", *model[:2], "--hardware", "h100-dgx", "--devices", "2", "--batch", "2"]):
            self.assertEqual(self.run_frugal(*command).stdout.splitlines()[0], line, command)
        for command in ("recompute", "flops"):
            self.assertEqual(self.run_frugal(command, *model, "--format", "markdown").stdout.splitlines()[0], line)
        for command in (["measure", *model], ["longest", *model, "--memory", "64MiB"]):
            self.assertEqual(self.run_frugal(*command).stdout.splitlines()[2].split(), ["parameters", "94,528"])
        rows = csv.DictReader(io.StringIO(self.run_frugal("measure", "--model", "llama-tiny,gpt-tiny", "--on", "virtual", "--layers",
                                                          "2,200", "--format", "csv").stdout))
        self.assertEqual([row["parameters"] for row in rows], ["94,528", "6.202 million", "118,528", "10.02 million"])

    def test_bf16_is_what_gpus_train_in(self):
        for on, usual in (("virtual", "bf16"), ("cpu", "f32")):
            for command in ("measure", "longest"):
                run = [command, "--model", "llama-tiny", "--on", on, "--format", "json"]
                if command == "longest":
                    run += ["--memory", "4MiB"]
                for chosen in ((), ("--type", "f32"), ("--type", "bf16")):
                    found = json.loads(self.run_frugal(*run, *chosen).stdout)
                    self.assertEqual(found["configuration"]["type"], chosen[1] if chosen else usual)
                    if on != "cpu" or "--type bf16" in " ".join(chosen):  # else the default, or recorded before
                        self.assertIn(f"--type {found['configuration']['type']}", found["command"])

    def test_names_with_spaces(self):
        text = self.folder / "a b's text"
        text.write_text("To be, or not to be: that is the question. " * 400)
        record = self.record(*TINY, "--text", str(text), out="out")
        self.assertIn(text.name, shlex.split(record["command"]))

    def test_sweep(self):
        shown = self.run_frugal(*VIRTUAL, "--tensor-parallel", "1,2,4", "--recompute", "none,selective", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(shown.stdout)))
        records = self.records()
        self.assertEqual(len(rows), 6)
        for row, record in zip(rows, records, strict=True):
            configuration = record["configuration"]
            self.assertEqual((row["tensor_parallel_size"], row["recompute"], row["status"]),
                             (str(configuration["tensor_parallel_size"]), configuration["recompute"], "ok"))
            self.assertEqual(row["source"], "virtual, virtual:a100-selene")
            self.assertAlmostEqual(float(row["step time, s"]) / record["metrics"]["step_time"]["median"], 1, delta=1e-3)
        self.assertEqual(len({record["fingerprint"] for record in records}), 6)
        listed = json.loads(self.run_frugal(*VIRTUAL, "--set", "tensor_parallel_size=1,2", "--format", "json").stdout)
        self.assertEqual([r["configuration"]["tensor_parallel_size"] for r in listed], [1, 2])
        self.assertEqual(len(self.records()), 6, "both were recorded before")

    def test_what_a_sweep_cannot_run_is_skipped(self):
        values = {"model": "gpt-tiny", "on": "virtual", "tensor_parallel_size": [1, 3]}
        jsonschema.validate(values, SCHEMA)
        shown = self.run_frugal("measure", "--config", self.config(values))
        self.assertIn("skipped: heads (4) must be divisible by tensor-parallel size (3)", shown.stdout)
        self.assertEqual([record["status"] for record in self.records()], ["ok", "skipped"])

    def test_bad_input(self):
        def file(values, *says):
            self.rejected("measure", "--on", "virtual", "--config", self.config(values), says=["mine.json", *says])

        file({"model": "gpt-tiny", "tensor_parallel": 2}, "tensor_parallel is not a known key", "tensor_parallel_size")
        file({"model": "gpt-tiny", "tensor_parallel_size": 0}, "tensor_parallel_size is 0", "from 1 to 65536")
        file({"model": "gpt-tiny", "microbatches": "4"}, "microbatches is \"4\"", "a whole number")
        file({"model": "gpt-tiny", "steps": []}, "steps is an empty list")
        file({"model": {"layers": 3}, "layers": 4}, "layers stands in model and beside it")
        file({"model": "gpt-tiny", "microbatches": 3, "global_batch": 4}, "global_batch is 4", "is 3")
        file([1], "it is no object")
        file({"model": "gpt-tiny", "steps": 1, "text": ["a", "b"]}, "text is a list")
        model = self.given(json.dumps({"layers": 1, "hidden_size": 8, "attention_heads": 2, "sequence_length": 8,
                                       "vocabulary_size": 8, "positions": "rotary", "rotary": {"bse": 1}}), "model.json")
        self.rejected("measure", "--model", model, "--on", "virtual", says=["model.json: rotary.bse", "base?"])
        self.rejected("measure", "--config", "none.json", says=["none.json", "cannot be read"])
        for arguments, says in ((("--set", "recompute"), ["KEY=VALUE"]),
                                (("--set", "recompute=some"), ["--set recompute is \"some\"", "none, selective"]),
                                (("--set", "recomputation=full"), ["did you mean recompute,"]),
                                (("--set", "steps=2", "--set", "steps=3"), ["steps=3", "leave one out"]),
                                (("--set", "steps=2", "--steps", "3"), ["steps=2", "leave one out"]),
                                (("--on", "cpu,virtual"), ["--on is \"cpu,virtual\""]),
                                (("--tensor-parallel", "2,2"), ["2 twice"]),
                                (("--set", "rotary={\"bse\": 1}"), ["--set rotary: rotary.bse", "base?"]),
                                (("--tensor-parallel", "2,"), ["--tensor-parallel is \"\""]),
                                (("--tensor-parallel", "3,5"), ["heads (4)"]),
                                (("--steps", "1,2", "--save-weights", "w.safetensors"), ["--save-weights", "there are 2"])):
            self.rejected(*(VIRTUAL[:3] if "--on" in arguments else VIRTUAL), *arguments, says=says)
        self.rejected("measure", "--layers", "2", says=["--model is missing", "hidden_size"])
        self.rejected("trace", *VIRTUAL[1:], "--steps", "1,2", "--out-file", "x", says=["--steps", "frugal trace takes one"])
