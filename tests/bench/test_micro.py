"""frugal_micro's rates are of what one call did."""

import collections
import json
import os
import pathlib
import subprocess
import unittest

from sources import InFolder

FRUGAL = os.environ["FRUGAL"]
MICRO = pathlib.Path(FRUGAL).parent / "bench/micro/frugal_micro"
EMULATED = pathlib.Path(FRUGAL).parent / "tests/frugal_micro_emulated"
KINDS = {"gemm": 32, "attention": 8, "launch": 2, "small-gemm": 2, "all-reduce": 5, "all-gather": 5, "reduce-scatter": 5}


@unittest.skipUnless(MICRO.exists(), "built without FRUGAL_BUILD_BENCH")
class Rates(unittest.TestCase):
    def test_a_plans_rate_counts_all_configurations_that_the_planner_considers(self):
        arguments = ["--benchmark_filter=^plan_trillion/512$", "--benchmark_min_time=0.01", "--benchmark_format=json"]
        (one,) = json.loads(subprocess.run([MICRO, *arguments], check=True, capture_output=True).stdout)["benchmarks"]
        plan = [FRUGAL, *("plan --model 1T --devices 512 --batch 512 --hardware a100-selene --type bf16 --attention separate "
                          "--schedule 1f1b --context-parallel 1 --shard none --stage-layers equal --recompute-layers all "
                          "--recompute-modules core-attention --offload-modules none --validate-steps before --within 1.5 "
                          "--format json").split()]
        considered = json.loads(subprocess.run(plan, check=True, capture_output=True).stdout)["considered"]
        self.assertEqual(one["time_unit"], "ms")
        self.assertAlmostEqual(one["items_per_second"] * one["cpu_time"] / 1e3, considered, delta=0.01)


def of_device(program, folder, *arguments, seconds="0.0000001", **variables):
    """Benchmarks of a device by their names, each timed once or little more; and the file of them."""
    file = pathlib.Path(folder) / "micro.json"
    subprocess.run([program, "--benchmark_filter=^device/", f"--benchmark_min_time={seconds}", f"--benchmark_out={file}", *arguments],
                   check=True, capture_output=True, env={**os.environ, **variables})
    return {one["name"].removesuffix("/manual_time"): one for one in json.loads(file.read_text())["benchmarks"]}, file


def records_of(file, folder):
    shown = subprocess.run([FRUGAL, "bench", "--read", file, "--out", folder, "--format", "json"], check=True, capture_output=True)
    return {record["case"].removesuffix("/manual_time"): record for record in json.loads(shown.stdout)}


class OfADevice(InFolder):
    def is_complete(self, found, ranks, but=()):
        kinds = collections.Counter(name.split("/")[1] for name in found)
        self.assertEqual(kinds, {kind: count - (kind in but) for kind, count in KINDS.items()})
        for name, one in found.items():
            self.assertGreater(one["real_time"], 0, name)
            self.assertNotIn("error_occurred", one)
        self.assertIn(f"device/all-reduce/{ranks}/4096", found)

    @unittest.skipUnless(EMULATED.exists(), "built without FRUGAL_BUILD_BENCH or an emulated GPU")
    def test_calls_of_a_gpu(self):
        """All are issued and timed, on two that do not compute; and read as records of the GPU."""
        found, file = of_device(EMULATED, self.folder, FRUGAL_EMULATED_COMPUTE="0", FRUGAL_EMULATED_GPUS="2", FRUGAL_CACHE="")
        self.is_complete(found, 2)
        records = records_of(file, self.folder)
        self.assertEqual(set(records), set(found))
        for name, record in records.items():
            self.assertEqual((record["on"], record["source"]), ("cuda", "measured"))
            self.assertIn("emulated GPU", record["device"])
            self.assertEqual(len(record["environment"]["gpus"]), 2)
            seconds = record["metrics"]["time"]["samples"]
            self.assertAlmostEqual(found[name]["real_time"] * 1e-9 / seconds[0], 1, delta=1e-6)

    @unittest.skipUnless(MICRO.exists(), "built without FRUGAL_BUILD_BENCH")
    def test_a_virtual_machine_predicts_them(self):
        """Products take what frugal peak says; causal attention has 2 products forward of visible pairs, 5 backward."""
        found, file = of_device(MICRO, self.folder, "--on=virtual:h100-dgx")
        self.is_complete(found, 8, but=("launch", "small-gemm"))
        for record in records_of(file, self.folder).values():
            self.assertEqual((record["on"], record["source"]), ("virtual:h100-dgx", "virtual"))
        peak = json.loads(subprocess.run([FRUGAL, "peak", "--on", "virtual:h100-dgx", "--format", "json"], check=True,
                                         capture_output=True).stdout)
        for each in peak["linear"]:
            one = found[f"device/gemm/{each['type']}/{each['product']}/{each['m']}x{each['n']}x{each['k']}"]
            flops = 2 * each["m"] * each["n"] * each["k"]
            beside_peak = one["real_time"] * 1e-9 * each["flops_per_second"] / flops
            self.assertTrue(0.95 < beside_peak <= 1, (each, beside_peak))  # whose single call has a launch before it
            self.assertAlmostEqual(one["items_per_second"] * one["real_time"] * 1e-9 / flops, 1, delta=1e-6)
        for direction, products in (("forward", 2), ("backward", 5)):
            one = found[f"device/attention/{direction}/32x8192x128"]
            flops = 2 * products * 32 * 128 * 8192 * 8193 / 2
            self.assertAlmostEqual(one["items_per_second"] * one["real_time"] * 1e-9 / flops, 1, delta=1e-6)
        one = found["device/all-gather/8/268435456"]
        self.assertAlmostEqual(one["bytes_per_second"] * one["real_time"] * 1e-9 / 2**28, 1, delta=1e-6)

    @unittest.skipUnless(MICRO.exists(), "built without FRUGAL_BUILD_BENCH")
    def test_bad_places(self):
        for on, says in (("moon", "moon"), ("cpu", "give cuda or virtual:MACHINE")):
            done = subprocess.run([MICRO, f"--on={on}"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
