"""Questions that a configuration leaves open to frugal import, and files that are none."""

import json

from program import Cli
from test_exchange import SMALL


class Answers(Cli):
    def test_questions_that_a_file_leaves_open(self):
        auto = self.given(json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                                      "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
                                      "zero_optimization": {"stage": 3}}), "auto.json")
        self.rejected("import", auto, "--model", "gpt-tiny", "--world-size", "8",
                      says=["train_micro_batch_size_per_gpu, gradient_accumulation_steps, bf16.enabled, fp16.enabled",
                            "--micro-batch", "--global-batch-size", "--type"])
        answers = ["--micro-batch", "2", "--global-batch-size", "64", "--type", "bf16", "--world-size", "8"]
        given = self.imported(auto, "--model", "gpt-tiny", *answers)["configuration"]
        self.assertEqual((given["microbatch_size"], given["microbatches"], given["type"]), (2, 4, "bf16"))
        moot = self.given(json.dumps({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
                                      "bf16": {"enabled": True}, "fp16": {"enabled": "auto"},
                                      "zero_optimization": {"stage": 3}}), "moot.json")
        report = self.imported(moot, "--model", "gpt-tiny")
        self.assertEqual((report["configuration"]["type"], report["unknown"]), ("bf16", []))
        schedule = [*SMALL, "--bf16", "--step-batch-size-schedule", "0:32", "1B:64"]
        self.rejected("import", "--", *schedule, says=["--step-batch-size-schedule", "--global-batch-size"])
        report = self.imported("--global-batch-size", "64", "--world-size", "8", "--", *schedule)
        self.assertEqual(report["configuration"]["microbatches"], 4)
        report = self.imported("--micro-batch", "1", "--sequence", "16", "--recompute", "full", "--type", "f32", "--", *SMALL,
                               "--bf16")
        given = report["configuration"]
        self.assertEqual((given["microbatch_size"], given["sequence_length"], given["recompute"], given["type"]),
                         (1, 16, "full", "f32"))
        block = ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "1"]
        given = self.imported("--", *SMALL, "--bf16", *block)["configuration"]
        self.assertEqual((given["recompute"], given["recompute_layers"]), ("full", 1))
        report = self.imported("--recompute", "none", "--", *SMALL, "--bf16", *block)
        self.assertEqual(report["configuration"]["recompute"], "none")
        self.assertNotIn("recompute_layers", report["configuration"])
        self.assertIn("--recompute-num-layers 1", " ".join(part["said"] for part in report["same"]))

    def test_what_is_no_training_is_named(self):
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64}
        folder = self.folder / "given" / "llama"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
        for file in (str(folder), str(folder / "config.json")):
            self.rejected("import", file, says=["LlamaForCausalLM", "--model", "config.json"])
        own = self.given(json.dumps({"model": "22B", "tensor_parallel_size": 8, "microbatchs": 4}), "own.json")
        self.rejected("import", own, says=["frugal's own configuration", f"frugal measure --config {own}"])
        self.rejected("import", self.given("# YAML\n{\n  \"num_layers\": 8,\n  \"hidden_size\": 1024\n}\n", "braces.yml"),
                      says=["braces.yml", "GPT-NeoX"])

    def test_a_model_with_keys_that_change_nothing(self):
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
                  "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
                  "tie_word_embeddings": True, "is_llama_config": True, "rope_interleaved": False}
        file = self.given(json.dumps(config), "config.json")
        self.run_frugal("measure", "--model", file, "--on", "virtual", "--steps", "1")
        self.assertEqual(self.records()[0]["configuration"]["model"]["mlp"], "swiglu")
        wrong = self.given(json.dumps({**config, "rope_interleaved": True}), "other.json")
        self.assertIn("rope_interleaved", self.run_frugal("measure", "--model", wrong, "--on", "virtual", status=2).stderr)
