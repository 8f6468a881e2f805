"""What of the recorded cases is run again: what failed, all, one; and what another program or machine recorded."""

import json
import pathlib
import signal
import subprocess

from program import FRUGAL, Cli

# Ten cases on the paper's machine, one of which does not fit it. That is a result, and the exit status 0.
SOME_FAIL = ["reproduce", "pipedream2bw2021/figure7", "--on", "virtual"]
TABLE = ["reproduce", "korthikanti2022/table2", "--on", "virtual"]


class Rerun(Cli):
    def path(self):
        return self.folder / "out/records.jsonl"

    def added(self, *arguments, **others):
        """The records that a command adds to those there are, and what it said."""
        before = self.path().read_text()
        done = self.run_frugal(*arguments, **others)
        after = self.path().read_text()
        self.assertTrue(after.startswith(before), "an earlier record was rewritten")
        return [json.loads(line) for line in after[len(before):].splitlines()], done

    def test_what_failed_is_run_again_and_nothing_else(self):
        first = self.run_frugal(*SOME_FAIL)
        failed = [r["case"] for r in self.records() if r["status"] != "ok"]
        self.assertTrue(0 < len(failed) < len(self.records()))
        added, done = self.added(*SOME_FAIL, "--rerun", "failed")
        self.assertEqual([r["case"] for r in added], failed)
        self.assertEqual(done.stdout, first.stdout)
        added, done = self.added(*SOME_FAIL)
        self.assertEqual(added, [])
        self.assertEqual(done.stderr.count("already recorded; --rerun all"), len(self.records()) - 2 * len(failed))
        self.assertEqual(done.stderr.count("already recorded as oom; --rerun failed"), len(failed))

    def test_one_case_or_all(self):
        first = self.run_frugal(*TABLE)
        cases = [r["case"] for r in self.records()]
        added, done = self.added(*TABLE, "--rerun", cases[3])
        self.assertEqual([r["case"] for r in added], [case for case in cases if case == cases[3]])
        self.assertEqual(done.stdout, first.stdout)
        added, done = self.added(*TABLE, "--rerun", "all")
        self.assertEqual([r["case"] for r in added], cases)
        self.assertEqual(done.stdout, first.stdout)

    def test_bad_input(self):
        self.rejected("reproduce", "korthikanti2022/table4", "--on", "virtual", "--rerun", "22B/baselin",
                      says=['--rerun: there is no case "22B/baselin"', "did you mean 22B/baseline",
                            "failed, all, or one of 22B/baseline, "])
        self.rejected(*TABLE, "--rerun", "al", says=["did you mean all?"])
        self.rejected(*TABLE, "--rerun", "", says=["--rerun", "not empty"])
        self.rejected(*TABLE, "--rerun", "failed", "--force", says=["--rerun failed and --force", "leave one of them"])
        self.rejected("bench", "--read", "x.json", "--rerun", "all", says=["--rerun and --read", "leave --rerun out"])
        self.rejected("bench", "gemm", "--rerun", "f32", says=["no case \"f32\" here", "and "])

    def test_a_mistake_leaves_the_records_as_they_are(self):
        self.run_frugal(*TABLE)
        self.path().write_text(self.path().read_text()[:-100])  # what a run would take away
        self.assertEqual(self.added(*TABLE, "--rerun", "none", status=2)[0], [])

    def test_configurations_of_ones_own(self):
        run = ["measure", "--model", "22B", "--layers", "12", "--type", "bf16", "--tensor-parallel", "1,8"]
        self.run_frugal(*run, status=3)
        statuses = {r["configuration"]["tensor_parallel_size"]: r["status"] for r in self.records()}
        self.assertEqual(statuses, {1: "oom", 8: "ok"})
        added = self.added(*run, "--rerun", "failed", status=3)[0]
        self.assertEqual([r["configuration"]["tensor_parallel_size"] for r in added], [1])
        added = self.added(*run, "--rerun", "tensor_parallel_size 8", status=3)[0]
        self.assertEqual([r["configuration"]["tensor_parallel_size"] for r in added], [8])

    def test_what_another_build_recorded_is_kept_and_run_again(self):
        other = self.folder / "other"
        other.write_bytes(pathlib.Path(FRUGAL).read_bytes() + b"\n")
        other.chmod(0o755)
        subprocess.run([other, *TABLE], cwd=self.folder, check=True, capture_output=True)
        # It measured twice the bytes: which record is taken shows.
        old = self.records()
        for record in old:
            kept = record["memory"]["after_forward"]
            record["memory"]["after_forward"] = {kind: 2 * held for kind, held in kept.items()}
        self.path().write_text("".join(json.dumps(record) + "\n" for record in old))
        added, done = self.added(*TABLE, "--format", "json")
        self.assertEqual([r["case"] for r in added], [r["case"] for r in old])
        said = [line for line in done.stderr.splitlines() if line.startswith("frugal: ")]
        self.assertEqual(len(said), 1, done.stderr)
        commit = old[0]["environment"]["build"]["commit"]
        self.assertIn(f"recorded by another build (commit {commit[:12] if commit else 'unknown'}", said[0])
        self.assertIn("those records are kept", said[0])
        self.assertEqual(done.stdout, self.run_frugal(*TABLE, "--format", "json", "--out", "alone").stdout)
        self.assertEqual(done.stdout, self.run_frugal("report", "out", "--format", "json").stdout)
        added, again = self.added(*TABLE, "--format", "json")
        self.assertEqual(added, [])
        self.assertEqual(again.stdout, done.stdout)
        self.assertNotIn("another build", again.stderr)

    def test_what_a_killed_run_has_recorded_is_not_run_again(self):
        run = ["reproduce", "korthikanti2022/table2", "--on", "cpu", "--scale", "1/32", "--threads", "1"]
        with subprocess.Popen([FRUGAL, *run], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as program:
            for _ in range(3):
                program.stderr.readline()
            program.kill()
            self.assertEqual(program.wait(), -signal.SIGKILL)
        before = [line for line in self.path().read_text().splitlines(keepends=True) if line.endswith("\n")]
        self.assertGreaterEqual(len(before), 3)
        done = self.run_frugal(*run)
        lines = self.path().read_text().splitlines(keepends=True)
        self.assertEqual(lines[:len(before)], before)
        self.assertEqual(done.stderr.count("already recorded"), len(before))
        cases = [r["case"] for r in self.records()]
        self.assertGreater(len(cases), len(before))
        self.assertEqual(len(cases), len(set(cases)), "a case was run twice")
        listed = json.loads(self.run_frugal("list", "korthikanti2022/table2", "--format", "json").stdout)
        self.assertEqual(set(cases), {c["id"] for c in listed["artifacts"][0]["cases"] if c["on"] == "cpu"})
