"""Settings besides the configuration: kernel threads, and variables of the environment."""

import unittest

from program import GPU, TINY, Cli


class Settings(Cli):
    def test_threads_are_the_processors(self):
        says = ["--threads is 2", "leave --threads out", "--on cpu"]
        for on in ("cuda", "virtual"):
            self.rejected("reproduce", "korthikanti2022/table2", "--on", on, "--threads", "2", says=[*says, on])
        for on in ("cuda", "virtual", "virtual:h200-hgx"):
            self.rejected(*TINY[:3], "--on", on, "--threads", "2", says=[*says, on])
        self.rejected("peak", "--on", "cuda", "--threads", "2", says=says)

    def test_variables(self):
        simd = {"FRUGAL_SIMD": "nonsense"}
        says = ["FRUGAL_SIMD=nonsense", "choose baseline"]
        for on in ("cpu", "both"):
            self.rejected("reproduce", "korthikanti2022/table2", "--on", on, "--scale", "1/32", says=says,
                          variables=simd)
        self.rejected(*TINY, says=says, variables=simd)
        self.rejected("peak", says=says, variables=simd)

    @unittest.skipUnless(GPU, "there is no GPU")
    def test_what_gpus_cannot_do_is_refused_before_anything_is_written(self):
        run = [*TINY[:3], "--on", "cuda"]
        self.rejected(*run, "--attention", "fused", "--type", "f32", says=["use "])
        self.rejected(*run, "--tensor-parallel", "4096", says=["or "])

    def test_instructions_that_are_asked_for_are_recorded(self):
        shown = self.run_frugal(*TINY, variables={"FRUGAL_SIMD": "baseline"})
        self.run_frugal(*TINY, variables={"FRUGAL_SIMD": "baseline"})
        (record,) = self.records()
        self.assertIn("baseline", shown.stdout)
        self.assertEqual((record["options"]["simd"], record["environment"]["kernels"]), ("baseline", "baseline"))
        self.assertTrue(record["command"].startswith("FRUGAL_SIMD=baseline frugal measure "), record["command"])
        self.run_frugal(*TINY)
        best = self.records()[1]
        self.assertNotEqual(best["fingerprint"], record["fingerprint"])
        self.assertNotIn("simd", best["options"])
        self.assertIn(best["environment"]["kernels"], ["baseline", "avx2", "avx512", "avx512bf16"])
