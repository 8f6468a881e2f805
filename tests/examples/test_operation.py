"""operation.patch, HACKING.md's example of one more operation: its four files are all that it takes."""

import shutil

from example import Example
from sources import SOURCE


class Operation(Example):
    folders = ("kernels",)

    def test_takes_four_files_and_the_linker_names_a_missing_one(self):
        shutil.copy(SOURCE / "tests/examples/operation.cpp", self.folder)
        before = (self.folder / "kernels/cpu/simd/activations.cpp").read_text()
        self.assertEqual(self.patch("operation"), 4)
        self.compile("program", "operation.cpp", "kernels/table/operation_table.cpp")
        self.compile("rows", *self.sources("kernels/table", without=["operation_table.cpp"]))
        self.compile("cpu", *self.sources("kernels/cpu", without=["gemm.cpp"]), "kernels/operations.cpp",
                     "kernels/support/scratch.cpp")
        self.compile("gemm", "kernels/cpu/gemm.cpp")
        self.compile("simd", *self.sources("kernels/cpu/simd", without=["activations.cpp", "table.cpp"]))
        self.compile("table", "kernels/cpu/simd/table.cpp")
        self.compile("added", "kernels/cpu/simd/activations.cpp")
        (self.folder / "kernels/cpu/simd/activations.cpp").write_text(before)
        self.compile("missing", "kernels/cpu/simd/activations.cpp")

        objects = ("program", "rows", "cpu", "gemm", "simd", "table")
        refused = self.link(*objects, "missing")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("undefined reference to `void frugal::kernels::baseline::run<frugal::kernels::SquaredRelu>",
                      refused.stderr)
        linked = self.link(*objects, "added")
        self.assertEqual(linked.returncode, 0, linked.stderr)
        done = self.run_in("./example")
        self.assertEqual((done.returncode, done.stdout.count(": right\n")), (0, 6), done.stdout)
