"""bench/gpu.sh as it is run on a machine with a GPU, from its bundle, with an emulated GPU's programs in it:
each group, stopped at random moments. CTest sets EMULATED, EMULATED_TESTS, EMULATED_RANKS (the
programs) and FRUGAL_SOURCE_DIR. FRUGAL_REHEARSAL_KILLS=10 stops each group ten times and not twice; FRUGAL_TEST_SEED repeats the moments, as far as a machine repeats anything."""

import csv
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])
PROGRAMS = {"frugal": "EMULATED", "tests/tests_cuda": "EMULATED_TESTS", "tests/tests_nccl_real": "EMULATED_RANKS"}
KILLS = int(os.environ.get("FRUGAL_REHEARSAL_KILLS", "2"))
SEED = int(os.environ.get("FRUGAL_TEST_SEED", random.SystemRandom().randrange(10**6)))
sys.path[:0] = [str(SOURCE / "plots"), str(SOURCE / "bench/gpu")]

import check_predictions  # noqa: E402  (the paths come first)
import libraries  # noqa: E402
import parts  # noqa: E402
import profile_tables  # noqa: E402
import reproduction  # noqa: E402
import run  # noqa: E402

# Until when a group is stopped: seconds from its start, and lines of its log.
WINDOWS = {"smoke": (10, 25), "correctness": (10, 100), "combinations": (6, 20), "speed": (6, 360),
           "profile": (6, 30), "rivals": (4, 20), "long-rivals": (4, 20), "papers": (20, 80), "techniques": (6, 40),
           "lone-stages": (6, 40), "nccl": (6, 60), "node": (6, 60), "first-call": (6, 90), "second-call": (6, 40),
           "third-call": (6, 40)}
PATIENCE = 4  # times as long as a GPU may take
MOST_FILES, MOST_BYTES = 8, 16 << 20  # that come back from a lent machine
# Wrong without computing; all of them take the emulator minutes.
TESTS = """#!/bin/sh
case $1 in
  '--gtest_filter=Rows/*' | --gtest_filter=Small* | --gtest_filter=Training* | --gtest_filter=Combinations* | --gtest_filter=-*)
    set -- '--gtest_filter=CudaDeviceTest.*' ;;
esac
FRUGAL_EMULATED_COMPUTE=1 exec "$0.emulated" "$@"
"""
RANKS = """#!/bin/sh
FRUGAL_EMULATED_COMPUTE=1 exec "$0.emulated" '--gtest_filter=Nccl*-*Order*:*RingOfStages*' "$@"
"""
SANITIZER = """#!/bin/sh
shift 8
echo "========= COMPUTE-SANITIZER"
exec "$@"
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Script.top = pathlib.Path(folder.name)
    Script.bundle, Script.build = Script.top / "bundle", Script.top / "build"
    for program, variable in PROGRAMS.items():
        path = Script.build / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.environ[variable])
    # What is carried as NCCL beside the emulated one: any library.
    said = subprocess.run(["ldd", os.environ["EMULATED"]], capture_output=True, text=True, check=True).stdout
    (Script.top / "nccl").mkdir()
    shutil.copy(re.search(r"libfmt\S* => (/\S+)", said)[1], Script.top / "nccl/libnccl.so.2")
    packed = Script.top / "bundle.tar.xz"
    subprocess.run([SOURCE / "bench/gpu/bundle.sh", Script.build, packed], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "XZ_OPT": "-0"})
    subprocess.run(["tar", "xf", packed], cwd=Script.top, check=True)
    packed.unlink()
    for name, text in (("tests_cuda", TESTS), ("tests_nccl_real", RANKS)):
        tests = Script.bundle / "tests" / name
        tests.rename(f"{tests}.emulated")
        write_program(tests, text)
    tools = Script.top / "tools"
    tools.mkdir()
    write_program(tools / "compute-sanitizer", SANITIZER)
    Script.environment = {**os.environ, "FRUGAL_EMULATED_COMPUTE": "0", "FRUGAL_TEST_SMALL": "1",
                          "FRUGAL_GPU_PATIENCE": str(PATIENCE),
                          "FRUGAL_CACHE": str(Script.top / "cache"),
                          "PATH": f"{tools}:{os.environ['PATH']}"}


def for_group(group):
    """A node has eight GPUs."""
    return {**Script.environment, "FRUGAL_EMULATED_GPUS": "8" if group == "node" else "1"}


def of_session(session):
    """The processes that a session has, and their names."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, stat = path.read_text().split("(", 1)[1].rsplit(")", 1)
            state, _, _, of = stat.split()[:4]
        except OSError:
            continue  # it has ended
        if int(of) == session and state != "Z":
            found[int(path.parent.name)] = name
    return found


def rows_of(path):
    """Of a table with a header; none where there is no file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=self.top)
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"

    def start(self, *groups, build=None, environment=None):
        self.said = self.out.with_name("said.txt")
        with open(self.said, "w") as said:
            return subprocess.Popen([self.bundle / "gpu.sh", build or self.bundle, self.out, *groups],
                                    stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                                    env=environment or self.environment)

    def finished(self, *groups, status=0, **options):
        self.assertEqual(self.start(*groups, **options).wait(), status, self.said.read_text())
        return (self.out / "summary.txt").read_text()

    def lines(self, name):
        return reproduction.lines(self.out / name) if (self.out / name).exists() else []

    def check_files(self):
        """Every file is readable, and has what was said to have ended; returns how much that was."""
        files = [path for path in self.out.rglob("*") if path.is_file()]
        self.assertLessEqual(len(files), MOST_FILES)
        for path in files:
            self.assertEqual(path.parent, self.out)
            self.assertLess(path.stat().st_size, MOST_BYTES)
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".jsonl":
                self.lines(path.name)
        summary, log = ((self.out / name).read_text() if (self.out / name).exists() else ""
                        for name in ("summary.txt", "log.txt"))
        self.assertLessEqual({line for line in self.said.read_text().splitlines() if not line.startswith("gpu.sh:")},
                             set(summary.splitlines()))
        records = self.lines("records.jsonl")
        recorded = {(record["artifact"], record["case"]) for record in records}
        cases = re.findall(r"^\[\d+/\d+\] (\S+) (.*?) on .*: (?:ok|already recorded)$", log, re.MULTILINE)
        self.assertLessEqual(set(cases), recorded)
        measured = re.findall(r"^(?:gpt|llama)(?!.* and ).*,.* ok ", summary, re.MULTILINE)
        self.assertLessEqual(len(measured), len([r for r in records if r["artifact"] == "measure"]))
        rows = re.findall(r"^(\w+)(?:check|) (Rows\S+): (\w+)$", log, re.MULTILINE)
        tested = {(row["tool"].removesuffix("check"), row["test"], row["outcome"])
                  for row in rows_of(self.out / "sanitizer.csv")}
        self.assertLessEqual({(tool.removesuffix("check"), *row) for tool, *row in rows}, tested)
        if re.search(r"^peak +ok", summary, re.MULTILINE):
            self.assertIn("peak.json", [path.name for path in files])
        if records:
            done = subprocess.run([self.bundle / "frugal", "report", self.out, "--format", "json"], check=True,
                                  capture_output=True, env=self.environment)
            json.loads(done.stdout)
        return len(cases) + len(measured) + len(rows) + summary.count(" ok ")


class Killed(Script):
    def lines_of_log(self):
        path = self.out / "log.txt"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def stop(self, process, number):
        """Returns when nothing of it is left."""
        if number == signal.SIGKILL:  # as a machine that is taken away
            while left := of_session(process.pid):
                for one in left:
                    try:
                        os.kill(one, number)
                    except ProcessLookupError:
                        pass
            process.wait()
            return
        begun = (self.out / "log.txt").exists()
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        status = process.wait(30)
        if begun and status not in (0, 1):  # it may have ended by itself
            self.assertEqual(status, 130)
        self.assertEqual(of_session(process.pid), {})

    def kill(self, group, turn):
        draw = random.Random(f"{SEED} {group} {turn}")
        seconds, lines = (draw.uniform(0, most) for most in WINDOWS[group])
        if turn % 2:  # by what was said, which is not said evenly
            seconds = 60
        else:
            lines = 10**9
        number = draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        process = self.start(group, environment=for_group(group))
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.lines_of_log() < lines and process.poll() is None:
            time.sleep(0.01)
        with self.subTest(group=group, seed=SEED, turn=turn, signal=number, log=self.lines_of_log()):
            self.stop(process, number)
            ended = self.check_files()
            print(f"{group}, seed {SEED}, turn {turn}: {number.name}, {ended} ended", flush=True)
        shutil.rmtree(self.out, ignore_errors=True)

    def test_what_has_ended_is_on_the_disk(self):
        for turn in range(KILLS):
            for group in WINDOWS:
                self.kill(group, turn)


class Groups(Script):
    def test_programs_find_what_is_packed_with_them(self):
        packed = {path.name for path in (self.bundle / "lib").iterdir()}
        self.assertTrue(packed)
        for program in ("frugal", "tests/tests_cuda.emulated", "tests/tests_nccl_real.emulated"):
            said = subprocess.run(["ldd", self.bundle / program], capture_output=True, text=True, check=True).stdout
            found = {name: pathlib.Path(path).resolve() for name, path in re.findall(r"(\S+) => (/\S+)", said)}
            for name in packed:
                self.assertEqual(found[name].parent, self.bundle / "lib", program)

    def test_limits_add_up_to_less_than_a_call(self):
        done = subprocess.run([self.bundle / "gpu.sh", "--limits"], capture_output=True, text=True, check=True)
        table = re.findall(r"^([\w-]+) +(.*\S) +(\d+) s$", done.stdout, re.MULTILINE)
        limits = {name: [int(seconds) for of, _, seconds in table if of == name] for name, _, _ in table}
        self.assertEqual(set(limits), {"check", *WINDOWS})
        begin = sum(limits.pop("check")) + max(limits["smoke"])  # its parts are run at the same time
        self.assertLessEqual(max(limits.pop("smoke")), 60)
        # What a lent machine's quarter of an hour has for them, where to start it and to give it back takes 80 s.
        calls = {group: sum(limits.pop(group)) for group in ("first-call", "second-call")}
        self.assertLess(begin + sum(calls.values()), 15 * 60 - 80)
        self.assertLess(calls["first-call"], 590 - 30)
        self.assertLess(calls["second-call"], 230 - 30 + 1)
        self.assertLess(sum(limits.pop("third-call")), 290 - 30 + 1)  # in what these leave
        for group, seconds in limits.items():
            self.assertLess(begin + sum(seconds), 9 * 60, group)

    def check_predicted(self, *groups):
        """Every number has a prediction, and counts are as predicted."""
        folder = self.out.with_name("predicted")
        subprocess.run([SOURCE / "bench/gpu.sh", "--predict", "h200-hgx", self.build, folder, *groups], check=False,
                       stdout=subprocess.DEVNULL, env=self.environment)  # it fails where there is no PyTorch
        predicted = check_predictions.numbers_of(folder)
        for what, (value, unit) in check_predictions.numbers_of(self.out).items():
            if unit in check_predictions.EXACT:
                self.assertEqual((what, *predicted[what]), (what, value, unit))
            elif unit != "status":
                self.assertIn(what, predicted)

    def test_papers(self):
        summary = self.finished("papers")
        self.assertNotIn("failed", summary)
        self.assertGreater(self.check_files(), 80)
        records = self.lines("records.jsonl")
        self.assertGreater(len(records), 80)
        for record in records:
            self.assertIn("emulated GPU", record["device"])
            if record["status"] != "ok":
                self.assertEqual(record["status"], "skipped")
                self.assertIn("no file of hardware/ names this GPU", record["reason"])
        report = subprocess.run([self.bundle / "frugal", "report", self.out, "--format", "json"], check=True,
                                capture_output=True, env=self.environment)
        cells = json.loads(report.stdout)["cells"]
        for artifact in ("korthikanti2022/table4", "mst2024/table14"):
            self.assertTrue(any(cell["value"] for cell in cells if cell["artifact"] == artifact), artifact)
        self.check_predicted()

    def test_techniques(self):
        self.assertNotRegex(self.finished("combinations", "techniques"), "failed|limit|skipped")
        self.check_files()
        cases = [record["case"] for record in self.lines("records.jsonl") if record["artifact"] == "bench/recompute"]
        self.assertEqual({case.split("/")[0] for case in cases}, {"llama3-8b", "22B"})
        divided = {record["configuration"]["shard"] for record in self.lines("records.jsonl")
                   if record["artifact"] == "measure"}
        self.assertEqual(divided, {"optimizer", "gradients", "weights"})
        self.check_predicted()

    def test_lone_stages(self):
        environment = {**self.environment, "FRUGAL_EMULATED_NAME": "NVIDIA H100 80GB HBM3"}
        self.assertNotRegex(self.finished("lone-stages", environment=environment), "failed|limit|skipped")
        self.check_files()
        ran = [(record["configuration"]["model"]["name"], record["options"]["collective_load"],
                len(record.get("lone_stages", {"stages": [0]})["stages"])) for record in self.lines("records.jsonl")]
        self.assertEqual(ran, [("22B", "none", 1), ("22B", "all", 1), ("175B", "none", 3), ("175B", "all", 3),
                               ("530B", "none", 3), ("1T", "none", 3), ("530B", "none", 3), ("530B", "none", 3)])
        self.check_predicted()

    def test_speed(self):
        """PyTorch has no emulated GPU."""
        status = 1 if importlib.util.find_spec("torch") else 0
        summary = self.finished("speed", status=status)
        self.assertGreater(self.check_files(), 150)
        self.assertEqual({path.name for path in self.out.iterdir()} - {"steps.jsonl"},
                         {"summary.txt", "log.txt", "peak.json", "records.jsonl"})
        well = re.findall(r"^(.*?)  +ok ", summary, re.MULTILINE)
        self.assertEqual(well, ["the GPU works", "peak", "memory-bound operations"])
        self.check_predicted()

    def test_profile(self):
        """Of each model every operation that a step makes, and steps with and without events."""
        self.assertNotRegex(self.finished("profile"), "failed|limit|skipped")
        self.check_files()
        profiles = {profile_tables.name_of(document): document for document in self.lines("profile.jsonl")}
        self.assertEqual(set(profiles), {"gpt2-124m", "gpt2-1.5b", "llama3-8b of 1 layer", "22B of 1 layer"})
        for document in profiles.values():
            self.assertEqual((document["on"], document["source"]), ("cuda", "measured"))
            self.assertEqual([len(document[key]) for key in ("step_seconds", "plain_step_seconds")], [10, 10])
        self.check_predicted()
        predicted = profile_tables.read(self.out.with_name("predicted"))
        for document in predicted:
            ours = profile_tables.operations_of(profiles[profile_tables.name_of(document)])
            self.assertEqual({what: count for what, (count, _) in ours.items()},
                             {what: count for what, (count, _) in profile_tables.operations_of(document).items()})

    def test_nccl(self):
        """Of two ranks on one GPU memory is a result, and no time is."""
        self.assertNotRegex(self.finished("nccl"), "failed|limit|skipped")
        self.check_files()
        records = self.lines("records.jsonl")
        self.assertEqual(len(records), 4)
        for record in records:
            self.assertEqual((record["options"]["shared_gpus"], record["options"]["ranks"]), ("allowed", "threads"))
            self.assertIn("up to 2 ranks share a GPU", record["device"])
            self.assertTrue(record["command"].startswith("NCCL_MULTI_RANK_GPU_ENABLE=1 frugal measure"))
        self.assertEqual({unit for _, unit in check_predictions.numbers_of(self.out).values()}, {"bytes", "FLOPs"})
        log = (self.out / "log.txt").read_text()
        self.assertRegex(log, "sequence: communicators of a rank take .* of the .* that are reserved")
        self.assertIn(f"LD_PRELOAD={self.bundle}/nccl/libnccl.so.2", log)

    def test_node(self):
        """Ranks are processes, a GPU each; all that is measured has a prediction."""
        summary = self.finished("node", environment=for_group("node"))
        self.assertNotRegex(summary, "failed|limit|skipped")
        limits = subprocess.run([self.bundle / "gpu.sh", "--limits"], capture_output=True, text=True, check=True).stdout
        of_node = map(int, re.findall(r"^node +(?!in all).* (\d+) s$", limits, re.MULTILINE))
        self.assertIn(f"--- node, at most {PATIENCE * sum(of_node)} s\n", summary)
        self.check_files()
        records = self.lines("records.jsonl")
        measured = [record for record in records if record["artifact"] in ("measure", "bench/collectives")]
        self.assertEqual(len(measured), 7 + 3 * 5)
        for record in measured:
            self.assertEqual((record["options"]["ranks"], record["options"]["transport"]), ("processes", "nccl"))
            self.assertEqual([place["gpu"]["index"] for place in record["environment"]["ranks"]], list(range(8)))
        table = [record for record in records if record["artifact"] == "korthikanti2022/table4"]
        self.assertTrue(any(record["configuration"]["tensor_parallel_size"] == 8 and record["status"] == "ok"
                            for record in table))
        for record in table:
            self.assertIsNone(record.get("modelled"))
        self.check_predicted("node")

    def test_rivals_that_fail_leave_what_frugal_measured(self):
        summary = self.finished("rivals", "long-rivals", status=1)  # PyTorch has no emulated GPU
        self.check_files()
        failed = re.findall(r"^(.*?)  +(?:failed|limit) ", summary, re.MULTILINE)
        self.assertEqual(failed, ["gpt2-124m and PyTorch", "gpt2-1.5b and PyTorch", "gpt2-1.5b and PyTorch, bf16",
                                  "gpt2-124m and PyTorch, max-autotune", "llama3-8b and transformers"])
        ours = [record for record in self.lines("steps.jsonl") if record["options"]["by"] == "frugal"]
        self.assertEqual([record["options"]["model"] for record in ours],
                         ["gpt2-124m", "gpt2-1.5b", "gpt2-1.5b", "gpt2-124m", "llama3-8b"])
        for record in ours:
            self.assertGreater(len(record["metrics"]["step_time"]["samples"]), 2)


class Lost(Script):
    def test_another_process_goes_on(self):
        """Where the one before it lost its GPU, and until there is no time left."""
        self.out.mkdir()
        runner = parts.Runner(self.out, self.environment)
        self.addCleanup(runner.log.close)
        self.addCleanup(runner.summary.close)
        again = f"test -e {self.out}/first && exit $0; touch {self.out}/first; echo lost; exit 7"
        shell = ["sh", "-c", again]
        self.assertTrue(runner.run([parts.Part("resumed", 60, [*shell, "0"], resumes=True)]))
        self.assertIn("another process after status 7: lost", (self.out / "summary.txt").read_text())
        self.assertFalse(runner.run([parts.Part("failed", 60, [*shell, "1"], resumes=True)]))
        self.assertFalse(runner.run([parts.Part("not resumed", 60, [*shell, "7"])]))
        self.assertFalse(runner.run([parts.Part("no time", 9, [*shell, "7"], resumes=True)]))
        self.assertFalse(runner.run([parts.Part("always lost", 60, [*shell, "7"], resumes=True)]))
        self.assertEqual((self.out / "log.txt").read_text().count("=== "), 5 + parts.PROCESSES)


# Says a row of what it is asked for, and a header where it may; then it goes on until it is ended.
SMI = """#!/usr/bin/env python3
import sys, time
query, form = sys.argv[1].split("=")[1], sys.argv[2]
if "noheader" not in form:
    print(query, flush=True)
print(",".join("7" for _ in query.split(",")), flush=True)
time.sleep(1000)
"""


class Clocks(Script):
    def test_are_kept_under_one_header(self):
        self.out.mkdir()
        write_program(self.out / "nvidia-smi", SMI)
        kept = self.out / "clocks.csv"
        with unittest.mock.patch.dict(os.environ, {"PATH": f"{self.out}:{os.environ['PATH']}"}):
            for rows in (1, 2):
                with run.clocks_kept(self.out):
                    while len(rows_of(kept)) < rows:
                        time.sleep(0.01)
        self.assertEqual([row["power.limit"] for row in rows_of(kept)], ["7", "7"])

    def test_are_none_without_a_driver(self):
        self.out.mkdir()
        with unittest.mock.patch.object(shutil, "which", return_value=None), run.clocks_kept(self.out):
            pass
        self.assertEqual(list(self.out.iterdir()), [])


class Refuses(Script):
    def test_bad_arguments(self):
        for arguments, says in ((["build"], "usage"), (["build", "out", "peaks"], "no group peaks"),
                                (["--predict", "h300", self.build, "out"], "no file of hardware/ has this name"),
                                (["build", "out"], "not found: first run")):
            done = subprocess.run([self.bundle / "gpu.sh", *arguments], cwd=self.out.parent, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
        self.assertEqual(list(self.out.parent.iterdir()), [])

    def test_a_patience_that_is_no_number(self):
        for text in ("", "0", "-1", "2.5", "long"):
            process = self.start("papers", environment={**self.environment, "FRUGAL_GPU_PATIENCE": text})
            self.assertEqual(process.wait(), 2)
            self.assertEqual(self.said.read_text(),
                             f'gpu.sh: FRUGAL_GPU_PATIENCE is "{text}", and must be a whole number from 1\n')

    def test_a_gpu_that_fails_its_check(self):
        """There is none; or it computes what is wrong."""
        without = {**self.environment, "FRUGAL_EMULATED_GPUS": "0"}
        for build, environment, outcome in ((self.bundle, without, "skipped"), (self.build, self.environment, "failed")):
            start = time.monotonic()
            summary = self.finished("papers", build=build, environment=environment, status=3)
            self.assertLess(time.monotonic() - start, 60)
            self.assertRegex(summary, f"the GPU works +{outcome}")
            self.assertIn("nothing else is run", self.said.read_text())
            self.assertNotIn("papers", summary)
            self.assertEqual(self.lines("records.jsonl"), [])
            shutil.rmtree(self.out)

    def test_cudas_libraries_are_found_behind_what_is_named(self):
        place = self.out.parent / "cuda"
        place.mkdir()
        program = place / "frugal"
        # A library that the loader finds nowhere by itself.
        program.write_bytes((self.bundle / "frugal").read_bytes().replace(b"libfmt.so", b"libfmX.so"))
        program.chmod(0o755)
        (name,) = libraries.missing([program], self.environment)
        (place / name).write_bytes((self.bundle / "lib" / name.replace("fmX", "fmt")).read_bytes())
        named = {**self.environment, "LD_LIBRARY_PATH": "/of/others"}
        found = libraries.with_libraries([program], named, lambda: [self.out.parent, place])
        self.assertEqual(found["LD_LIBRARY_PATH"], f"/of/others:{place}")
        self.assertEqual(libraries.missing([program], found), [])
        self.assertNotIn("LD_LIBRARY_PATH", libraries.with_libraries([self.bundle / "frugal"], {}))
