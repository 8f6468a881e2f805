"""frugal_micro's rates are of what one call did."""

import json
import os
import pathlib
import subprocess
import unittest

FRUGAL = os.environ["FRUGAL"]
MICRO = pathlib.Path(FRUGAL).parent / "bench/micro/frugal_micro"


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


if __name__ == "__main__":
    unittest.main()
