"""operation.patch, HACKING.md's example of one more operation: its four files are all that it takes."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
PATCH = SOURCE / "tests/examples/operation.patch"
FLAGS = ["-std=c++20", "-O0", "-fopenmp", "-DFRUGAL_SIMD=baseline", "-I."]


class Operation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(SOURCE / "kernels", self.root / "kernels")
        shutil.copy(SOURCE / "tests/examples/operation.cpp", self.root)

    def run_in(self, *command):
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True)

    def compile(self, name, *sources):
        """Compiles sources as one."""
        (self.root / f"{name}.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
        done = self.run_in(os.environ.get("CXX", "c++"), *FLAGS, "-c", f"{name}.cpp", "-o", f"{name}.o")
        self.assertEqual(done.returncode, 0, done.stderr)

    def link(self, *names):
        return self.run_in(os.environ.get("CXX", "c++"), "-fopenmp", *(f"{name}.o" for name in names),
                           "-o", "example", "-ldnnl", "-lfmt", "-lpthread")

    def sources(self, folder, *without):
        return [path.relative_to(self.root) for path in sorted((self.root / folder).glob("*.cpp"))
                if path.name not in without]

    def test_takes_four_files_and_the_linker_names_a_missing_one(self):
        before = (self.root / "kernels/cpu/simd/activations.cpp").read_text()
        done = self.run_in("patch", "-p1", "-i", PATCH)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 4, done.stdout)
        self.compile("program", "operation.cpp", "kernels/table/operation_table.cpp")
        self.compile("rows", *self.sources("kernels/table", "operation_table.cpp"))
        self.compile("cpu", *self.sources("kernels/cpu", "gemm.cpp"), "kernels/operations.cpp",
                     "kernels/support/scratch.cpp")
        self.compile("gemm", "kernels/cpu/gemm.cpp")
        self.compile("simd", *self.sources("kernels/cpu/simd", "activations.cpp", "table.cpp"))
        self.compile("table", "kernels/cpu/simd/table.cpp")
        self.compile("added", "kernels/cpu/simd/activations.cpp")
        (self.root / "kernels/cpu/simd/activations.cpp").write_text(before)
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


if __name__ == "__main__":
    unittest.main()
