"""Ranks that share every sequence."""

from program import TINY, Cli


class Context(Cli):
    def test_bad_input(self):
        shared = ["--attention", "fused", "--dropout", "0", "--context-parallel"]
        self.rejected(*TINY, *shared, "3", says=["sequence length (32)", "context-parallel size (3)"])
        self.rejected(*TINY, *shared, "8", says=["heads / tensor-parallel size (4)", "--context ring"])
        self.rejected(*TINY, *shared, "2", "--context", "rings", says=["rings", "ulysses, ring, zigzag"])
        self.rejected(*TINY, *shared, "32", "--context", "zigzag",
                      says=["sequence length (32)", "twice the context-parallel size (64)", "--context ring"])
        self.rejected(*TINY, *shared[2:], "2", says=["attention is separate", "choose fused"])
        self.rejected(*TINY, *shared[:2], *shared[4:], "2", says=["dropout is 0.1", "dropout 0"])

    def test_kinds_are_of_ranks_that_share(self):
        for kind in ("ulysses", "ring", "zigzag"):
            self.rejected(*TINY, "--context", kind, says=["--context", "--context-parallel"])

    def test_shares_of_a_sequence(self):
        run = [*TINY, "--attention", "fused", "--dropout", "0", "--type", "f64"]
        self.run_frugal(*run, "--out", "serial")
        (serial,) = self.records("serial")
        for kind in ("ulysses", "ring", "zigzag"):
            shared = ["--context-parallel", "4", "--context", kind]
            self.run_frugal(*run, *shared, "--out", kind)
            self.run_frugal(*run, *shared, "--lone-rank", "h200-hgx", "--out", "lone-" + kind)
            (whole,), (lone,) = self.records(kind), self.records("lone-" + kind)
            self.assertAlmostEqual(whole["losses"][0], serial["losses"][0], places=12)
            self.assertIn(" ".join(shared), whole["command"])
            self.assertEqual((whole["configuration"]["context_parallel_size"], whole["configuration"]["context"]),
                             (4, kind))
            self.assertLess(whole["memory"]["peak"]["activation"], serial["memory"]["peak"]["activation"])
            for key in ("peak", "peak_total"):
                self.assertEqual(lone["memory"][key], whole["memory"][key])
            self.assertEqual(lone["flops"], whole["flops"])
