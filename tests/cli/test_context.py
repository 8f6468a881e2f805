"""Ranks that share every sequence."""

from program import TINY, Cli


class Context(Cli):
    def test_bad_input(self):
        shared = ["--attention", "fused", "--dropout", "0", "--context-parallel"]
        self.rejected(*TINY, *shared, "3", says=["sequence length (32)", "context-parallel size (3)"])
        self.rejected(*TINY, *shared, "8", says=["heads / tensor-parallel size (4)", "context=ring"])
        self.rejected(*TINY, *shared, "2", "--context", "rings", says=["rings", "ulysses, ring, zigzag"])
        self.rejected(*TINY, *shared, "32", "--context", "zigzag",
                      says=["sequence length (32)", "twice the context-parallel size (64)", "context=ring"])
        self.rejected(*TINY, *shared[2:], "2", says=["attention is separate", "choose attention=fused"])
        zigzag = ["--context", "zigzag", "--ulysses-size"]
        self.rejected(*TINY, *shared, "4", *zigzag, "3", says=["context-parallel size (4)", "Ulysses size (3)"])
        self.rejected(*TINY, *shared, "4", "--ulysses-size", "2", says=["ulysses_size is 2", "needs context=ring or zigzag"])
        self.rejected(*TINY, *shared, "8", *zigzag, "8", says=["heads / tensor-parallel size (4)", "(8)"])
        self.rejected(*TINY, *shared, "4", *zigzag, "0", says=["--ulysses-size", "1 to 65536", "none"])
        self.rejected(*TINY, *shared[:2], *shared[4:], "2", says=["dropout is 0.1", "dropout 0"])

    def test_kinds_are_of_ranks_that_share(self):
        for kind in ("ulysses", "ring", "zigzag"):
            self.rejected(*TINY, "--context", kind, says=["--context", "--context-parallel"])

        self.rejected(*TINY, "--context", "ring", "--ulysses-size", "1", says=["--context", "--context-parallel"])
        self.rejected(*TINY, "--context", "ring", "--ulysses-size", "2", says=["context-parallel size (1)"])

    def test_shares_of_a_sequence(self):
        run = [*TINY, "--attention", "fused", "--dropout", "0", "--type", "f64"]
        self.run_frugal(*run, "--out", "serial")
        (serial,) = self.records("serial")
        for kind, more in (("ulysses", []), ("ring", []), ("zigzag", []), ("zigzag", ["--ulysses-size", "2"])):
            shared = ["--context-parallel", "4", "--context", kind, *more]
            folder = "-".join([kind, *more])
            self.run_frugal(*run, *shared, "--out", folder)
            self.run_frugal(*run, *shared, "--lone-rank", "h200-hgx", "--out", "lone-" + folder)
            (whole,), (lone,) = self.records(folder), self.records("lone-" + folder)
            self.assertEqual(whole["configuration"].get("ulysses_size"), 2 if more else None)
            self.assertAlmostEqual(whole["losses"][0], serial["losses"][0], places=12)
            self.assertIn(" ".join(shared), whole["command"])
            self.assertEqual((whole["configuration"]["context_parallel_size"], whole["configuration"]["context"]),
                             (4, kind))
            self.assertLess(whole["memory"]["peak"]["activation"], serial["memory"]["peak"]["activation"])
            for key in ("peak", "peak_total"):
                self.assertEqual(lone["memory"][key], whole["memory"][key])
            self.assertEqual(lone["flops"], whole["flops"])
