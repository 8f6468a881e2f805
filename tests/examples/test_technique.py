"""technique.patch, HACKING.md's example of a technique whole: its eleven files are all that it takes."""

import os
import pathlib
import re
from concurrent.futures import ThreadPoolExecutor

from example import Example
from sources import SOURCE

EMBEDDED = pathlib.Path(os.environ.get("FRUGAL_EMBEDDED", SOURCE / "build/release/embedded"))
FLAG = "--partition-activations"
COMMANDS = 6  # that take a configuration: sections of docs/cli.md


class Technique(Example):
    folders = ("kernels", "engine", "tests/engine", "tests/combinations", "tests/main", "tests/support", "docs")

    def test_eleven_files_are_a_field_a_rule_its_layers_plans_draws_pages_and_tests(self):
        self.assertEqual(self.patch("technique"), 11)
        machines = [path for pattern in ("hardware_*", "programs_*") for path in sorted(EMBEDDED.glob(pattern))]
        self.assertTrue(machines, EMBEDDED)
        (self.folder / "example.cpp").write_text((SOURCE / "tests/examples/technique.cpp").read_text())
        units = {
            "kernels": ["kernels/operations.cpp", *self.sources("kernels/support"), *self.sources("kernels/virtual"),
                        *self.sources("kernels/cpu"), "kernels/cuda/none.cpp", *machines],
            "simd": self.sources("kernels/cpu/simd"),
            "engine": [source for source in self.sources("engine", "**/*.cpp")
                       if not re.search(r"/(nccl/nccl|processes/mpi)[^/]*$", str(source))],
            "tests": [*self.sources("tests/combinations"), "tests/engine/partition_activations_test.cpp",
                      "example.cpp"],
        }
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(self.compile, name, *sources) for name, sources in units.items()]:
                done.result()
        linked = self.link(*units, libraries=["-lgtest", "-lboost_context"])
        self.assertEqual(linked.returncode, 0, linked.stderr)

        done = self.run_in("./example")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("10 combinations from seed 1 are the serial run", done.stdout)
        described = re.search(rf"^{FLAG} (.*)$", done.stdout, re.M)[1]
        self.assertEqual((self.folder / "docs/cli.md").read_text().count(f"| `{FLAG}` | {described} |\n"), COMMANDS)
