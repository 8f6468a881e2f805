"""bench/gpu/: what is said of the time that parts may take, and of the time that they took."""

import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
from unittest import mock

from sources import SOURCE, scripts_of

scripts_of("bench/gpu", "bench")
import groups  # noqa: E402  (the path comes first)
import parts  # noqa: E402
import ranks  # noqa: E402
import run  # noqa: E402
import sanitize  # noqa: E402


class Parts(unittest.TestCase):
    def test_limits_are_those_of_the_parts_with_the_check_and_the_smoke_group_before_them(self):
        """Parts of the smoke group run at the same time."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertTrue(run.limits(groups.Groups(*[SOURCE] * 4)))
        rows = re.findall(r"^(\w+) +(.*\S) +(\d+) s( of 540)?$", out.getvalue(), re.MULTILINE)
        of = {name: [int(seconds) for group, _, seconds, total in rows if group == name and not total] for name, *_ in rows}
        totals = {name: int(seconds) for name, _, seconds, total in rows if total}
        begin = sum(of["check"]) + max(of["smoke"])
        self.assertEqual(totals, {name: begin + (0 if name == "smoke" else sum(seconds)) for name, seconds in of.items() if name != "check"})

    def test_a_summary_has_seconds(self):
        code = "import sys, time; print('[       OK ] A.B (1500 ms)'); print('[  FAILED  ] C.D, where (20 ms)'); time.sleep(0.4); sys.exit(%d)"
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            runner = parts.Runner(pathlib.Path(folder), dict(os.environ))
            good = runner.run([parts.Part("good", 30, [sys.executable, "-c", code % 0], shows=("ok", "failed"))])
            bad = runner.run([parts.Part("bad", 30, [sys.executable, "-c", code % 3]), parts.Part("no", 30, [], skip="why")])
            said = (pathlib.Path(folder) / "summary.txt").read_text()
            for file in (runner.log, runner.summary):
                file.close()
        self.assertEqual((good, bad, runner.outcomes), (True, False, {"good": "ok", "bad": "failed", "no": "skipped"}))
        rows = {name: (outcome, float(seconds), why.strip()) for name, outcome, seconds, why in re.findall(r"(\S+) +(\w+) +([\d.]+) s(.*)", said)}
        self.assertEqual((rows["A.B"], rows["C.D"]), (("ok", 1.5, ""), ("failed", 0.0, "")))
        self.assertEqual((rows["bad"][0], rows["bad"][2]), ("failed", "status 3: [  FAILED  ] C.D, where (20 ms)"))
        self.assertTrue(0.4 <= rows["good"][1] < 20, said)
        self.assertEqual(rows["no"][2], "why")

    def test_a_sanitizers_findings_are_those_of_the_test_that_they_stand_in(self):
        said = ("[ RUN      ] A.B", "========= COMPUTE-SANITIZER", "========= Invalid read", "=========     at x", "[       OK ] A.B (5 ms)",
                "[ RUN      ] C.D", "========= ERROR SUMMARY: 1 error", "[       OK ] C.D (5 ms)", "[ RUN      ] E.F", "[  SKIPPED ] E.F (0 ms)",
                "[ RUN      ] G.H", "[  FAILED  ] G.H (0 ms)", "[ RUN      ] I.J")
        found, watch = [], sanitize.Watch.__new__(sanitize.Watch)
        watch.tool, watch.add, watch.left = "memcheck", lambda *of: found.append(of), ["A.B", "C.D", "E.F", "G.H", "I.J"]
        watch.current, watch.findings, watch.process = None, 0, mock.Mock(stdout=said)
        with mock.patch.object(time, "monotonic", iter(range(100, 200, 7)).__next__), contextlib.redirect_stdout(io.StringIO()):
            watch.read()
        self.assertEqual(found, [("memcheck", name, outcome, 7) for name, outcome in
                                 (("A.B", "found"), ("C.D", "ok"), ("E.F", "skipped"), ("G.H", "failed"))])
        self.assertEqual((watch.left, watch.current), (["I.J"], "I.J"))


class Ranks(unittest.TestCase):
    """As many processes as ranks, each told what torchrun tells it."""

    def started(self, size, code):
        with tempfile.TemporaryDirectory() as folder:
            status = ranks.run(size, [sys.executable, "-c", f"import os, sys, time, signal\n{code}", folder])
            return status, {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}

    def test_are_told_apart_and_where_the_first_one_is(self):
        status, told = self.started(3, "e = os.environ\nwith open(sys.argv[1] + '/' + e['RANK'], 'w') as f: f.write(' '.join(e[k] for k in "
                                       "('LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT', 'TORCHELASTIC_RUN_ID')))")
        self.assertEqual((status, set(told)), (0, {"0", "1", "2"}))
        words = {rank: text.split() for rank, text in told.items()}
        self.assertEqual({rank: of[:3] for rank, of in words.items()}, {rank: [rank, "3", "localhost"] for rank in "012"})
        self.assertEqual(len({tuple(of[3:]) for of in words.values()}), 1)

    def test_one_that_fails_ends_the_others(self):
        start = time.monotonic()
        status, told = self.started(3, "if os.environ['RANK'] == '1': sys.exit(6)\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                                       "time.sleep(60)")
        self.assertEqual((status, told), (6, {}))
        self.assertLess(time.monotonic() - start, 50)

    def test_one_that_is_killed_has_a_shells_status(self):
        self.assertEqual(self.started(1, "os.kill(os.getpid(), signal.SIGKILL)")[0], 128 + 9)

    def test_bad_use(self):
        for arguments in ([], ["3"], ["0", "true"], ["x", "true"]):
            with mock.patch.object(sys, "argv", ["ranks.py", *arguments]), contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(ranks.main(), 2)
            self.assertIn("usage: ranks.py PROCESSES COMMAND", said.getvalue())


class Groups(unittest.TestCase):
    def test_two_ranks_have_the_carried_library_where_there_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder) / "release"
            (build.parent / "nccl").mkdir()
            words = lambda: [word for part in groups.Groups(build, SOURCE, SOURCE, SOURCE).nccl() for word in part.command]
            self.assertFalse(any(str(word).startswith("LD_PRELOAD") for word in words()))
            (build.parent / "nccl/libnccl.so.2").touch()
            self.assertEqual(words().count(f"LD_PRELOAD={build.parent}/nccl/libnccl.so.2"), 5)
            self.assertEqual(words().count("NCCL_MULTI_RANK_GPU_ENABLE=1"), 5)

    def test_a_node_is_run_by_eight_processes_and_predicted_by_one(self):
        real = groups.Groups(SOURCE, SOURCE, SOURCE, SOURCE)
        self.assertNotIn("node", real.by_topic())
        by_ranks = [part.name for part in real.node() if part.command[:4] == [sys.executable, "-B", SOURCE / "gpu/ranks.py", "8"]]
        predicted = groups.Groups(SOURCE, SOURCE, SOURCE, SOURCE, "h100-dgx")
        self.assertEqual([part.name for part in predicted.predicted(["node"])], [*by_ranks, "table 4"])
        for part in predicted.predicted(["node"]):
            self.assertTrue({"virtual:h100-dgx", "h100-dgx"} & set(part.command), part.name)
            self.assertNotIn(SOURCE / "gpu/ranks.py", part.command)
        self.assertFalse({part.name for part in predicted.predicted([])} & set(by_ranks))
