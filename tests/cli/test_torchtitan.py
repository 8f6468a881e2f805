"""What frugal import executes of torchtitan's configurations, in bytes."""

from program import Cli


class Torchtitan(Cli):
    LLAMA = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n{}" \
        "[parallelism]\ndata_parallel_shard_degree = 8\n[activation_checkpoint]\nmode = {}\n[optimizer]\nname = \"AdamW\"\n{}"

    def titan(self, mode='"full"', training="", optimizer=""):
        report = self.imported(self.given(self.LLAMA.format(training, mode, optimizer), "job.toml"), "--on", "virtual:b200-dgx")
        self.assertEqual(report["unknown"], [])
        return report["configuration"], report["records"][0]["memory"]["peak"]

    def test_what_torchtitan_keeps_of_each_weight(self):
        """Bytes of a rank's part: the weight, its gradient, two moments, and the root of one while a step is made."""
        parameters = 8030261248
        for training, optimizer, weight, gradient, state in (("", "", 4, 4, 8 + 4), ('dtype = "bfloat16"\n', "", 2, 2, 4 + 2),
                                                             ("", "early_step_in_backward = true\n", 4, 0, 8)):
            _, peak = self.titan(training=training, optimizer=optimizer)
            self.assertAlmostEqual(peak["parameter"] / (weight * parameters / 8), 1, delta=1e-3)
            if gradient:
                self.assertAlmostEqual(peak["optimizer"] / (state * parameters / 8), 1, delta=1e-3)
                self.assertAlmostEqual(peak["gradient"] / (gradient * parameters / 8), 1, delta=1e-3)
            else:
                self.assertLess(peak["optimizer"], (state + 2) * parameters / 8)  # and of one unit's roots
                self.assertLess(peak["gradient"], 2 * parameters / 8)  # one layer's, not all

    def test_what_torchtitan_recomputes(self):
        """Bytes of a layer that nothing is recomputed of, in bf16 beside what is kept of full recomputation, its input."""
        tokens, h, kv, inner = 8192, 4096, 1024, 14336
        norms = 2 * (4 + 2 + 2) * h  # each its input in float32, what it gives before its gain, and behind it
        whole = tokens * (2 * ((h + 2 * kv) + h + 4 * inner) + norms)  # of the MLP w1, w3, silu and their product
        kept = tokens * 2 * h
        peaks = {mode: self.titan(mode)[1]["activation"] for mode in
                 ('"none"', '"full"', '"selective"', '"selective"\nselective_ac_option = "4"')}
        self.assertAlmostEqual(peaks['"none"'] - peaks['"selective"'], 16 * (whole - kept), delta=whole)
        self.assertAlmostEqual(peaks['"none"'] - peaks['"selective"\nselective_ac_option = "4"'], 8 * (whole - kept), delta=whole)

    def test_torchtitan_recomputes_operations(self):
        """Its policy (torchtitan/distributed/activation_checkpoint.py) keeps of a layer: the input, attention's output and
        statistics, and the first, third, fifth and seventh product: queries, values, the gate, the layer's output."""
        tokens, h, kv, inner, heads, layers = 8192, 4096, 1024, 14336, 32, 32
        theirs = tokens * (2 * (h + h + kv + h + inner + h) + 4 * heads)
        option = '"selective"\nselective_ac_option = "op"'
        given, peak = self.titan(option)
        self.assertEqual(given["recompute_modules"], "norm+activation+up+keys+attention-output")
        ours = layers * (theirs - tokens * 4 * heads)
        others = self.titan('"full"')[1]["activation"] - layers * tokens * 2 * h  # of the model's ends
        self.assertEqual(peak["activation"], ours + others)

    def test_torchtitans_loss_has_twelve_bytes_a_logit(self):
        """Behind its loss, log-probabilities and two gradients in float32."""
        text = self.LLAMA.format("", '"full"', "")
        peaks = {}
        for tokens in (16384, 32768):
            file = self.given(text.replace("8192", str(tokens)), "job.toml")
            report = self.imported(file, "--on", "virtual:b200-dgx")
            memory = report["records"][0]["memory"]["peak"]
            peaks[tokens] = memory["peak_total"] if "peak_total" in memory else report["records"][0]["memory"]["peak_total"]
        layers = 32 * 4096 * 2 + 4096 * 2  # inputs of layers, and of the head
        self.assertAlmostEqual((peaks[32768] - peaks[16384]) / 16384 / (12 * 128256 + layers), 1, delta=0.02)
