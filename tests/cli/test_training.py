"""What is trained, on what, and by which optimizer."""

from program import TINY, Cli


class Training(Cli):
    def test_parallel_equals_serial(self):
        losses = []
        for t, out in (("1", "a"), ("2", "b")):
            self.run_frugal(*TINY, "--steps", "3", "--tensor-parallel", t, "--out", out)
            losses.append(self.records(out)[0]["losses"])
        for serial, parallel in zip(*losses):
            self.assertAlmostEqual(serial, parallel, places=4)

    def test_text_is_learned_and_evaluated(self):
        (self.folder / "text").write_text("to be or not to be, that is the question. " * 200)
        self.run_frugal(*TINY, "--steps", "40", "--micro-batch", "4", "--learning-rate", "0.01", "--text", "text",
                        "--eval-every", "20")
        (record,) = self.records()
        self.assertLess(record["losses"][-1], record["losses"][0] - 1)
        self.assertEqual([point["step"] for point in record["held_out"]], [20, 40])
        self.assertIn("--text text", record["command"])
        self.assertEqual(record["options"]["held_out_bytes_evaluated"], str(840 // 32 // 4 * 4 * 32))
        self.assertRegex(record["options"]["text"], "hash [0-9a-f]{16}")

    def test_weights_are_predicted_with_2bw_only(self):
        late = [*TINY, "--schedule", "2bw", "--steps", "3", "--clip", "0"]
        self.rejected(*TINY, "--weight-prediction", "1", says=["--weight-prediction", "1f1b", "--schedule 2bw"])
        self.run_frugal(*late)
        self.run_frugal(*late, "--weight-prediction", "1")
        plain, predicted = self.records()
        self.assertEqual(plain["losses"][:2], predicted["losses"][:2])  # both by the initial weights
        self.assertNotEqual(plain["losses"][2], predicted["losses"][2])
        self.assertNotIn("weight_prediction", plain["options"])
        self.assertEqual(predicted["options"]["weight_prediction"], "1")
        self.assertIn(" --weight-prediction 1", predicted["command"])
        peaks = [record["memory"]["peak"] for record in (plain, predicted)]  # exact weights beside those that are read
        self.assertEqual(peaks[1]["optimizer"] - peaks[0]["optimizer"], peaks[0]["parameter"] // 2)

    def test_a_step_says_what_it_moves(self):
        run = ["measure", "--model", "gpt2-124m", "--type", "bf16", "--attention", "fused"]
        shown = self.run_frugal(*run).stdout
        for line in ("bytes that they move", "least bytes of the step", "kernel launches of the step"):
            self.assertIn(line, shown)
        self.assertNotIn("layer-norm-backward", shown)
        self.assertRegex(self.run_frugal(*run, "--operations").stdout, r"layer-norm-backward +25 ")
        less = self.run_frugal(*run, "--narrow-logits", "--overwrite-gradients").stdout
        self.assertNotEqual(less, shown)
        usual, narrow = self.records()
        self.assertIn(" --narrow-logits --overwrite-gradients", narrow["command"])
        for name in ("narrow_logits", "overwrite_gradients"):
            self.assertNotIn(name, usual["configuration"])
            self.assertTrue(narrow["configuration"][name])
        usual, narrow = usual["work"], narrow["work"]
        self.assertLess(usual["least"]["total"], usual["bytes"])
        self.assertLess(narrow["bytes"], usual["bytes"])
        logits = 1024 * 50304  # bytes of each: 4 twice and 2, or 2 twice
        for work, each in ((usual, 10), (narrow, 4)):
            moved = sum(row["bytes"] for name, row in work["operations"].items() if name.startswith("cross-entropy"))
            self.assertAlmostEqual(moved / logits, each, places=2)
        self.assertEqual(usual["calls"]["launches"], sum(row["count"] for row in usual["operations"].values()))
        self.run_frugal(*run, "--program", "megatron-lm-2022")  # which has several kernels for some operations
        more = self.records()[-1]["work"]
        self.assertGreater(more["calls"]["launches"], usual["calls"]["launches"])

    def test_last_words_are_of_a_text(self):
        (self.folder / "given").mkdir()
        (self.folder / "given/text").write_text("to be or not to be, that is the question. " * 200)
        task = ["--last-words", "30", "--steps", "2"]
        self.rejected(*TINY, *task, says=["--last-words", "--text"])
        self.rejected("measure", "--model", "gpt-3m", "--text", "given/text", *task, says=["--last-words", "virtual", "cpu"])
        self.rejected(*TINY, "--text", "given/text", "--last-words", "1000", says=["1000 are needed", "ask for fewer"])
        self.run_frugal(*TINY, "--text", "given/text", *task)
        (record,) = self.records()
        for name in ("last_word_accuracy", "last_word_letter_accuracy"):
            self.assertTrue(0 <= record["metrics"][name]["median"] <= 1)
        self.assertIn("--last-words 30", record["command"])

    def test_hidden_tokens_are_learned(self):
        (self.folder / "given").mkdir()
        (self.folder / "given/text").write_text("to be or not to be, that is the question. " * 200)
        small = ["measure", "--model", "bert-3m", "--on", "cpu", "--threads", "1", "--layers", "1", "--hidden", "64",
                 "--sequence", "32", "--text", "given/text"]
        self.rejected(*small, "--vocabulary", "256", says=["vocabulary size (256)", "at least 257", "mask token"])
        shown = self.run_frugal(*small, "--steps", "40", "--micro-batch", "4", "--learning-rate", "0.01").stdout
        self.assertIn("masked-token", shown)
        (record,) = self.records()
        self.assertLess(record["losses"][-1], record["losses"][0] - 1)
        model = record["configuration"]["model"]
        self.assertEqual((model["causal"], model["objective"]), (False, "masked-token"))

    def test_optimizers_are_recorded_and_hold_their_state(self):
        self.rejected(*TINY, "--momentum", "0.5", says=["--momentum", "adamw", "--optimizer momentum"])
        self.rejected(*TINY, "--optimizer", "adamax", says=["--optimizer", "sgd, momentum, adam, adamw"])
        ways = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
        for optimizer in ways:
            own = ["--momentum", "0.5"] if optimizer == "momentum" else []
            self.run_frugal(*TINY, "--steps", "2", "--optimizer", optimizer, "--weight-decay", "0.125", *own)
        for (optimizer, moments), record in zip(ways.items(), self.records(), strict=True):
            options = record["options"]
            self.assertEqual((options["optimizer"], options["weight_decay"]), (optimizer, "0.125"))
            self.assertEqual(options.get("momentum"), "0.5" if optimizer == "momentum" else None)
            self.assertIn(f"--optimizer {optimizer} ", record["command"])
            self.assertEqual("--momentum 0.5" in record["command"], optimizer == "momentum")
            peak = record["memory"]["peak"]
            self.assertEqual(peak["optimizer"], moments * peak["parameter"])
