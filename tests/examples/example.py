"""Worked examples of HACKING.md: patches that are applied to a copy of the sources, which is compiled."""

import os
import shutil
import subprocess

from sources import SOURCE, InFolder

COMPILER = os.environ.get("CXX", "c++")
FLAGS = ["-std=c++20", "-O0", "-fopenmp", "-DFRUGAL_SIMD=baseline", "-I."]
LIBRARIES = ["-ldnnl", "-lfmt", "-lpthread"]


class Example(InFolder):
    folders = ()  # of the sources

    def setUp(self):
        super().setUp()
        for name in self.folders:
            shutil.copytree(SOURCE / name, self.folder / name)

    def run_in(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def patch(self, name):
        """Applies a patch, and returns how many files it changes or adds."""
        done = self.run_in("patch", "-p1", "-i", SOURCE / f"tests/examples/{name}.patch")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return len(done.stdout.splitlines())

    def sources(self, folder, pattern="*.cpp", without=()):
        return [path.relative_to(self.folder) for path in sorted((self.folder / folder).glob(pattern))
                if path.name not in without]

    def compile(self, name, *sources):
        """Compiles sources as one."""
        (self.folder / f"{name}.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
        done = self.run_in(COMPILER, *FLAGS, "-c", f"{name}.cpp", "-o", f"{name}.o")
        self.assertEqual(done.returncode, 0, done.stderr)

    def link(self, *names, libraries=()):
        return self.run_in(COMPILER, "-fopenmp", *(f"{name}.o" for name in names), "-o", "example", *libraries,
                           *LIBRARIES)
