"""bench/gpu/sanitize.py with tests that end in all ways, and a compute-sanitizer that says what they say."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import test_gpu_script  # adds the path of what follows

import sanitize  # noqa: E402  (the path comes first)

# Says what GoogleTest says; one test has a finding, one hangs, one takes the program with it.
TESTED = """#!/usr/bin/env python3
import os, sys, time
names = ["copy", "gelu", "rotary", "softmax", "column_sum"]
if "--gtest_list_tests" in sys.argv:
    print("Rows/OnTheGpu.", *[f"  AgreesWithFloat64/{name}  # GetParam() = {name!r}" for name in names], sep="\\n")
    sys.exit()
wanted = sys.argv[1].split("=")[1].split(":")
for name in [f"Rows/OnTheGpu.AgreesWithFloat64/{name}" for name in names]:
    if name not in wanted:
        continue
    print(f"[ RUN      ] {name}", flush=True)
    if name.endswith("gelu"):
        print("========= Invalid __global__ write of size 4 bytes")
    if name.endswith("rotary"):
        time.sleep(1000)
    if name.endswith("column_sum"):
        os.abort()
    print(f"[       OK ] {name} (1 ms)", flush=True)
print("========= ERROR SUMMARY: 1 error")
"""


class Sanitizers(unittest.TestCase):
    def test_go_on_after_what_does_not_end(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tests, results = (pathlib.Path(folder.name) / name for name in ("tests", "results.csv"))
        test_gpu_script.write_program(tests, TESTED)
        test_gpu_script.write_program(pathlib.Path(folder.name) / "compute-sanitizer", test_gpu_script.SANITIZER)
        results.write_text("tool,tes")  # of a run that was killed
        with unittest.mock.patch.dict(os.environ, PATH=f"{folder.name}:{os.environ['PATH']}"), \
                unittest.mock.patch.object(sanitize, "LONGEST", 3), \
                unittest.mock.patch.object(sanitize, "TOOLS", sanitize.TOOLS[:2]), \
                unittest.mock.patch.object(sys, "argv", ["", tests, results, "100"]), \
                contextlib.redirect_stdout(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
            sanitize.main()
        self.assertEqual(ended.exception.code, 1)
        self.assertTrue(said.getvalue().endswith("2 died, 2 found, 2 limit, 4 ok\n"))
        outcomes = {"softmax": "ok", "column_sum": "died", "copy": "ok", "gelu": "found", "rotary": "limit"}
        said_of = [(row["tool"], row["test"].rsplit("/")[-1], row["outcome"]) for row in test_gpu_script.rows_of(results)]
        tools, shared, others = ("memcheck", "racecheck"), ("softmax", "column_sum"), ("copy", "gelu", "rotary")
        self.assertEqual(said_of, [(tool, name, outcomes[name]) for names in (shared, others)
                                 for tool in tools for name in names])
