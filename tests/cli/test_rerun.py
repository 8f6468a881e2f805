"""What of the recorded cases is run again: what failed, all, one; and what another program or machine recorded. And
records that are run again from what they hold."""

import json
import pathlib
import signal
import subprocess

from program import FRUGAL, GPU, SOURCE, TINY, Cli

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


class Recorded(Cli):
    """`frugal rerun`: what again.py does to every test's records, and what these do not have."""

    MACHINE = {"schema": "frugal.machine/1", "name": "mine", "base": "a100-selene", "description": "half the link",
               "network": {"link_bandwidth": {"value": 150e9, "unit": "B/s", "source": "a guess"}}}
    VIRTUAL = ["measure", "--model", "gpt-tiny", "--on", "virtual"]

    def elsewhere(self, records="out/records.jsonl", name="elsewhere"):
        """A folder with these records and nothing else."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "records.jsonl").write_text((self.folder / records).read_text())
        return folder

    def rerun(self, *arguments, status=0, folder=None):
        done = subprocess.run([FRUGAL, "rerun", *arguments, "--format", "json"], cwd=folder or self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["records"], done.stderr

    def change(self, change, records="out/records.jsonl"):
        """Changes the last record, as if another program had recorded something else."""
        path = self.folder / records
        lines = path.read_text().splitlines()
        record = {**json.loads(lines[-1]), "program": "0" * 16}
        change(record)
        path.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")

    def test_a_described_machine_is_in_the_record(self):
        (self.folder / "machines").mkdir()
        (self.folder / "machines/mine.json").write_text(json.dumps(self.MACHINE))
        self.run_frugal(*self.VIRTUAL[:-1], "virtual:machines/mine.json", "--tensor-parallel", "1,2")
        self.run_frugal(*self.VIRTUAL, "--tensor-parallel", "2", "--out", "named")
        records, named = self.records(), self.records("named")[0]
        self.assertNotIn("files", named)
        self.assertGreater(records[1]["metrics"]["step_time"]["median"], named["metrics"]["step_time"]["median"])
        held = json.loads(records[1]["files"]["machine"])
        self.assertEqual(held["network"]["link_bandwidth"]["value"], 150e9)
        # From the record alone, as the record's command says.
        folder = self.elsewhere()
        self.assertEqual(records[0]["command"], "frugal rerun records.jsonl#gpt-tiny")
        said, _ = self.rerun("records.jsonl#gpt-tiny", "--out", "new", folder=folder)
        self.assertEqual([r["verdict"] for r in said], ["equal", "equal"])
        new = self.records("elsewhere/new")
        for key in ("metrics", "memory", "work", "utilization", "fingerprint", "files", "command", "on", "device"):
            self.assertEqual([r[key] for r in new], [r[key] for r in records], key)
        # What it holds is a machine's file, of the same machine.
        (folder / "held.json").write_text(records[1]["files"]["machine"])
        self.run_frugal(*self.VIRTUAL[:-1], "virtual:elsewhere/held.json", "--tensor-parallel", "2", "--out", "held")
        self.assertEqual(self.records("held")[0]["fingerprint"], records[1]["fingerprint"])
        # compare --repeat runs such a record's command, wherever the machine's file is.
        (self.folder / "machines/mine.json").unlink()
        self.run_frugal("compare", "out", "elsewhere/new", "--repeat", "1")
        self.assertEqual([len(self.records(name)) for name in ("out", "elsewhere/new")], [4, 4])

    def test_other_files_that_decide(self):
        mine = self.folder / "mine.json"
        mine.write_text(json.dumps(self.MACHINE))
        schedule = self.folder / "own.txt"
        schedule.write_text(self.run_frugal("schedule", "gpipe", "--stages", "2", "--microbatches", "4", "--format",
                                            "text").stdout)
        model = self.folder / "own.json"
        model.write_text(json.dumps({"layers": 2, "hidden_size": 64, "attention_heads": 4, "sequence_length": 32,
                                     "vocabulary_size": 128, "mlp": "swiglu"}))
        self.run_frugal(*TINY, "--tensor-parallel", "2", "--lone-rank", "mine.json")
        self.run_frugal(*TINY, "--hardware", "mine.json", "--steps", "2", "--pin")
        self.run_frugal(*TINY, "--layers", "4", "--schedule-file", "own.txt", "--deadline", "30")
        self.run_frugal("measure", "--model", "own.json", "--on", "virtual", "--program", "megatron-lm-2022")
        records = self.records()
        self.assertEqual([sorted(r.get("files", {})) for r in records], [["links"], ["machine"], ["schedule"], []])
        for file in (mine, schedule, model):
            file.unlink()
        said, _ = self.rerun("records.jsonl", "--out", "new", folder=self.elsewhere())
        self.assertEqual([r["verdict"] for r in said], ["equal"] * 4)
        new = self.records("elsewhere/new")
        self.assertEqual([r["fingerprint"] for r in new], [r["fingerprint"] for r in records])
        # The command of a model in a file spells it out.
        words = records[3]["command"].removeprefix("frugal ")
        subprocess.run(["bash", "-c", f"exec '{FRUGAL}' {words} --out spelt"], cwd=self.folder, check=True,
                       capture_output=True)
        self.assertEqual(self.records("spelt")[0]["fingerprint"], records[3]["fingerprint"])

    def test_layers_and_benchmarks_on_a_described_machine(self):
        (self.folder / "mine.json").write_text(json.dumps(self.MACHINE))
        self.run_frugal("bench", "memory-bound", "--on", "virtual:mine.json", "--case", "f32/gelu/*")
        self.run_frugal("predict", "korthikanti2022/section4.1", "--hardware", "mine.json")
        records = self.records()
        self.assertEqual({r["what"] for r in records}, {"benchmark", "layer_memory"})
        self.assertEqual({r["command"].split("#")[0] for r in records}, {"frugal rerun records.jsonl"})
        (self.folder / "mine.json").unlink()
        said, _ = self.rerun("records.jsonl", "--out", "new", folder=self.elsewhere())
        self.assertEqual([r["verdict"] for r in said], ["equal"] * len(records))
        self.assertEqual([r["fingerprint"] for r in self.records("elsewhere/new")], [r["fingerprint"] for r in records])

    def test_a_value_that_differs_is_found(self):
        self.run_frugal(*self.VIRTUAL, "--steps", "2")
        whole = self.records()[0]
        peak = whole["memory"]["peak_total"]

        def halve(record):
            record["memory"]["peak_total"] = peak // 2
        self.change(halve)
        (said,), noted = self.rerun("out", status=1)
        self.assertIn("recorded by another build", noted)
        self.assertEqual(said["verdict"], "differs")
        (value,) = said["values"]
        self.assertEqual((value["value"], value["recorded"], value["now"]), ("memory.peak_total", str(peak // 2), str(peak)))
        self.assertAlmostEqual(float(value["change"].removesuffix(" %")), 100 * (peak / (peak // 2) - 1), delta=0.5)
        self.assertGreater(said["equal"], 50)
        table = self.run_frugal("rerun", "out", status=1).stdout
        self.assertRegex(table, r"memory\.peak_total +\d+ +\d+ +differs by \+100 %")

        def fail(record):
            record.update(status="oom", reason="too much", metrics={}, memory=None)
        self.change(fail)
        (said,), _ = self.rerun("out", status=1)
        self.assertEqual([(v["value"], v["recorded"], v["now"]) for v in said["values"]], [("status", "oom", "ok")])

    def test_times_of_a_real_device_are_not_judged(self):
        self.run_frugal(*TINY, "--steps", "4")

        def slow(record):
            record["metrics"]["step_time"]["samples"] = [1000, 1001, 1002]
        self.change(slow)
        (said,), _ = self.rerun("out")
        by_name = {value["value"]: value for value in said["values"]}
        self.assertEqual({value["verdict"] for value in said["values"]}, {"not judged"})
        self.assertTrue(by_name["step_time, s"]["recorded"].startswith("1001"), by_name)
        self.assertLess(float(by_name["step_time, s"]["now"].split()[0]), 100)

        def lose(record):
            record["losses"][-1] *= 1.5
        self.change(lose)
        (said,), _ = self.rerun("out", status=1)
        self.assertEqual([v["value"] for v in said["values"] if v["verdict"] == "differs"], ["losses.3"])

    def lacks(self, *says, flags=(), status=2):
        (said,), noted = self.rerun("out", *flags, status=status)
        self.assertEqual(said["verdict"], "not run")
        (line,) = [line for line in noted.splitlines() if line.startswith("frugal: ")]
        for part in says:
            self.assertIn(part, line)
            self.assertIn(part, said["reason"])

    def test_what_a_record_lacks_is_said(self):
        text = self.folder / "book.txt"
        text.write_text("To be, or not to be: that is the question. " * 200)
        self.run_frugal(*TINY, "--text", "book.txt", "--save-weights", "w.safetensors")
        self.lacks("book.txt, hash ", "give --text FILE")
        self.assertEqual(self.rerun("out", "--text", "book.txt")[0][0]["verdict"], "equal")
        other = self.folder / "other.txt"
        other.write_text(text.read_text().replace("not", "yes"))
        self.lacks("other.txt is not the file that it had", flags=["--text", "other.txt"])

        def from_weights():
            (self.folder / "out/records.jsonl").unlink()
            self.run_frugal(*TINY, "--load-weights", "w.safetensors", "--save-weights", "v.safetensors", "--steps", "2")
        from_weights()
        self.lacks("weights that it began with", "give --load-weights FILE")
        self.assertEqual(self.rerun("out", "--load-weights", "w.safetensors")[0][0]["verdict"], "equal")
        self.lacks("v.safetensors is not the file that it had", flags=["--load-weights", "v.safetensors"])

        (self.folder / "out/records.jsonl").unlink()
        self.run_frugal(*TINY, "--steps", "2", "--checkpoint", "k", "--out", "first")
        self.run_frugal(*TINY, "--steps", "3", "--resume", "k")
        self.lacks("went on from a checkpoint (--resume)")
        self.run_frugal(*TINY, "--out", "out", "--force", variables={"FRUGAL_SIMD": "baseline"})
        self.lacks("it was made with FRUGAL_SIMD=baseline")

        def processes(record):
            record["options"]["ranks"] = "processes"
        self.change(processes)
        self.lacks("its ranks were processes; start as many: FRUGAL_SIMD=baseline frugal rerun")
        self.change(lambda record: record.update(on="virtual:mine#12345678"))
        self.change(lambda record: record["options"].pop("ranks"))
        self.lacks("did not record the machine virtual:mine#12345678")
        self.change(lambda record: record.update(status="skipped", reason="there are 2 GPUs", on="cpu"))
        self.lacks("it was skipped: there are 2 GPUs")
        if not GPU:
            self.change(lambda record: record.update(status="ok", on="cuda"))
            self.lacks("use cpu or virtual")
        self.change(lambda record: record.update(status="ok", artifact="bench/none", what="benchmark"))
        self.lacks("this program runs no bench/none")

    def test_which_are_run(self):
        some = [*SOME_FAIL, "--programs", "frugal"]
        self.run_frugal(*some)
        records = self.records()
        failed = next(i for i, r in enumerate(records) if r["status"] == "oom")
        (said,), _ = self.rerun(f"out#{records[failed]['case']}")
        self.assertEqual((said["record"], said["verdict"]), (failed, "equal"))
        (said,), _ = self.rerun("out/records.jsonl#0")
        self.assertEqual(said["case"], records[0]["case"])
        self.run_frugal(*some, "--rerun", records[1]["case"])
        said, _ = self.rerun("out")
        self.assertEqual([r["record"] for r in said], [0, *range(2, len(records) + 1)])
        self.assertEqual({r["verdict"] for r in said}, {"equal"})
        done = self.run_frugal("rerun", "out#" + records[0]["case"][:-1], status=2)
        self.assertIn(f"did you mean {records[0]['case']}", done.stderr)
        self.assertIn("nowhere#3: there is no such folder or file; give a", self.run_frugal("rerun", "nowhere#3", status=2).stderr)

    def test_records_that_are_kept(self):
        """Those that are made with every program are equal; of an earlier one all kinds are run."""
        said, _ = self.rerun(str(SOURCE / "results/virtual/step-work/records.jsonl"))
        self.assertEqual({r["verdict"] for r in said}, {"equal"})
        by_kind = {}
        for line in (SOURCE / "results/virtual/h100-dgx/records.jsonl").read_text().splitlines():
            record = json.loads(line)
            by_kind.setdefault((record["what"], record["artifact"]), []).append(line)
        self.assertGreater(len(by_kind), 10)
        some = [line for kind in by_kind.values() for line in kind[::max(1, len(kind) // 3)]]
        (self.folder / "kept.jsonl").write_text("\n".join(some) + "\n")
        done = subprocess.run([FRUGAL, "rerun", "kept.jsonl", "--format", "csv"], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertNotIn("not run", done.stdout)
        self.assertEqual({line.split(",")[0] for line in done.stdout.splitlines()[1:]},
                         {str(number) for number in range(len(some))})
