"""Weights and configurations of models in files."""

import json
import struct

from program import TINY, Cli, SOURCE

LLAMA = ["measure", "--model", "llama-tiny", "--on", "cpu", "--threads", "1"]


def read(path):
    """Metadata, and of each tensor its type, shape and bytes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return metadata, {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items()}


def write(path, tensors, metadata=None):
    header, body = {"__metadata__": metadata or {}}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


class Weights(Cli):
    def setUp(self):
        super().setUp()
        (self.folder / "given").mkdir()

    def saved(self, flags, name="given/model.safetensors"):
        self.run_frugal(*flags, "--save-weights", name, "--out", "given/made")
        return self.folder / name

    def test_training_goes_on_where_it_was_saved(self):
        plain = ["--optimizer", "sgd", "--dropout", "0"]
        for flags in (LLAMA, TINY):
            folder = flags[2]
            saved = self.saved([*flags, *plain, "--steps", "2", "--warm-up", "0"], f"given/{folder}.safetensors")
            start = ["--learning-rate", "0", "--load-weights", str(saved)]
            self.run_frugal(*flags, *plain, *start, "--save-weights", "again", "--tensor-parallel", "2",
                            "--pipeline-parallel", "2", "--out", folder)
            self.assertEqual(read(self.folder / "again")[1], read(saved)[1])
            (self.folder / "again").unlink()
            (record,) = self.records(folder)
            self.assertIn(f"--load-weights {folder}.safetensors", record["command"])
            self.assertRegex(record["options"]["weights"], "hash [0-9a-f]{16}")
            self.run_frugal(*flags, *plain, "--seed", "9", *start, "--out", folder)
            self.run_frugal(*flags, *plain, "--seed", "9", "--out", folder)
            loaded, random = (record["losses"] for record in self.records(folder)[1:])
            self.assertNotEqual(loaded, random)

    def test_names_are_hugging_faces_and_the_configuration_is_there(self):
        metadata, tensors = read(self.saved([*LLAMA, "--type", "bf16"]))
        self.assertEqual(metadata["format"], "pt")
        self.assertEqual(tensors["model.layers.1.self_attn.k_proj.weight"][:2], ("BF16", [32, 64]))
        self.assertEqual(tensors["lm_head.weight"][:2], ("BF16", [256, 64]))
        config = self.folder / "given/config.json"
        config.write_text(metadata["config"])
        self.run_frugal("measure", "--model", "given", *LLAMA[3:], "--load-weights", "given")
        (record,) = self.records()
        self.assertEqual(record["configuration"]["model"]["name"], "given")
        changed = json.loads(metadata["config"]) | {"rope_theta": 500000.0}
        config.write_text(json.dumps(changed))
        for folder in ("out",):
            for file in (self.folder / folder).iterdir():
                file.unlink()
            (self.folder / folder).rmdir()
        self.rejected(*LLAMA, "--load-weights", "given", says=["--load-weights", "rope_theta", "500000", "10000"])

    def test_what_does_not_fit_is_refused(self):
        saved = self.saved(LLAMA)
        _, tensors = read(saved)
        bad = self.folder / "given/bad.safetensors"
        attempt = [*LLAMA, "--load-weights", "given/bad.safetensors"]
        self.rejected(*attempt, says=["given/bad.safetensors", "cannot be read"])
        for name in ("model.norm.weight", "model.layers.0.mlp.up_proj.weight"):
            write(bad, {n: t for n, t in tensors.items() if n != name})
            self.rejected(*attempt, says=["given/bad.safetensors", name, "missing"])
            write(bad, tensors | {name: ("F32", [1], bytes(4))})
            self.rejected(*attempt, says=[name, "shape [1]"])
        write(bad, tensors | {"model.layers.0.self_attn.q_proj.bias": ("F32", [64], bytes(256))})
        self.rejected(*attempt, says=["no tensor model.layers.0.self_attn.q_proj.bias"])
        bad.write_bytes(saved.read_bytes()[:-1])
        self.rejected(*attempt, says=["given/bad.safetensors", "bytes"])
        self.rejected(*TINY, "--load-weights", str(saved), says=["embedding.position", "missing", "gpt-tiny"])
        self.rejected(*LLAMA[:3], "--load-weights", str(saved), says=["--load-weights", "virtual", "--on cpu"])
        self.rejected(*LLAMA, "--save-weights", str(saved), says=["--save-weights", "exists already"])

    def test_files_that_would_replace_each_other_are_refused(self):
        save = [*LLAMA, "--save-weights", "x"]
        for other in ("x", "./x", str(self.folder / "x")):
            self.rejected(*save, "--save-tensors", other, says=["--save-tensors", "--save-weights", f"both {other}"])
        self.rejected(*LLAMA, "--save-tensors", "out/../out/records.jsonl", says=["--save-tensors", "--out"])
        text = self.given("words " * 1000)
        self.rejected(*LLAMA, "--text", text, "--save-weights", text, says=["--save-weights", "exists already"])

    def test_configurations_of_other_models_are_refused(self):
        config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
                  "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 32, "vocab_size": 256}
        run = ["measure", "--model", "given/config.json", "--on", "cpu", "--threads", "1"]
        for change, says in (({"architectures": ["GPT2LMHeadModel"]}, ["architectures", "GPT2LMHeadModel"]),
                             ({"rope_scaling": {"type": "yarn", "factor": 2}}, ["rope_scaling.type", "yarn"]),
                             ({"hidden_act": "relu"}, ["hidden_act", "relu"]),
                             ({"quantization_config": {"bits": 4}}, ["quantization_config"]),
                             ({"hidden_size": None}, ["hidden_size", "null"])):
            self.given(json.dumps(config | change), "config.json")
            self.rejected(*run, says=["given/config.json", *says])
        self.given(json.dumps(config), "config.json")
        self.run_frugal(*run)

    def test_the_files_of_pytorch_can_be_compared_again(self):
        """What --save-tensors writes has the tensors that pytorch_llama.py compares."""
        self.run_frugal(*LLAMA, "--save-tensors", "tensors")
        metadata, ours = read(self.folder / "tensors")
        golden, theirs = read(SOURCE / "tests/golden/llama_small.safetensors")
        self.assertEqual(ours.keys(), theirs.keys())
        self.assertEqual(metadata.keys() | {"made_by"}, golden.keys())
