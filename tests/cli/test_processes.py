"""frugal as mpirun starts it: one process for each rank."""

import json
import unittest

import processes
from program import FRUGAL, Cli

TINY = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--steps", "3"]


class Processes(Cli):
    def start(self, ranks, *arguments, status=0):
        done = processes.run(ranks, FRUGAL, *arguments, folder=self.folder)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, ranks, *arguments, says):
        """One line, of one process, and status 2; nothing is written."""
        done = self.start(ranks, *arguments, status=2)
        lines = processes.ours(done.stderr)
        self.assertEqual(len(lines), 1, done.stderr)
        for part in says:
            self.assertIn(part, lines[0])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_record_says_where_each_rank_ran(self):
        layout = ["--tensor-parallel", "2", "--data-parallel", "2", "--microbatches", "2"]
        done = self.start(4, *TINY, *layout, "--format", "json")
        record = json.loads(done.stdout)
        self.assertEqual(self.records(), [record])  # and it fits the schema
        self.assertEqual(record["options"]["ranks"], "processes")
        self.assertTrue(record["command"].startswith("mpirun -n 4 frugal measure --model gpt-tiny "))
        self.assertIn("; 4 processes on 1 host", record["device"])
        environment = record["environment"]
        self.assertIn("Open MPI", environment["mpi"])
        self.assertEqual(len(environment["ranks"]), 4)
        self.assertEqual(len({rank["host"] for rank in environment["ranks"]}), 1)
        self.assertEqual([rank["stage"] for rank in record["ranks"]["ranks"]], [0, 0, 0, 0])
        for rank in record["ranks"]["ranks"]:
            self.assertLess(rank["waiting"]["median"], rank["step_time"]["median"])
        # Threads say the same, but for what is theirs.
        self.run_frugal(*TINY, *layout, "--out", "threads")
        of_threads = self.records("threads")[0]
        for key in ("losses", "memory", "flops", "work", "configuration"):
            self.assertEqual(record[key], of_threads[key], key)
        self.assertNotEqual(record["fingerprint"], of_threads["fingerprint"])

    def test_what_is_recorded_is_not_run_again(self):
        sweep = [*TINY, "--tensor-parallel", "2", "--seed", "1,2"]
        self.start(2, *sweep)
        done = self.start(2, *sweep)
        self.assertEqual(done.stderr.count("already recorded"), 2)
        self.assertEqual(len(self.records()), 2)
        self.start(2, *sweep, "--force")
        self.assertEqual(len(self.records()), 2)
        self.assertTrue((self.folder / "out/records.1.jsonl").exists())

    def test_weights_and_tensors_are_written_once_and_whole(self):
        layout = ["--tensor-parallel", "2", "--pipeline-parallel", "2", "--microbatches", "2"]
        for name, start in (("processes", lambda *a: self.start(4, *a)), ("threads", self.run_frugal)):
            start(*TINY, *layout, "--out", name, "--save-weights", f"{name}.safetensors",
                  "--save-tensors", f"{name}.tensors")
        for name in ("safetensors", "tensors"):
            self.assertEqual((self.folder / f"processes.{name}").read_bytes(),
                             (self.folder / f"threads.{name}").read_bytes())

    def test_a_checkpoint_of_processes_is_read_by_threads_and_back(self):
        long = [*TINY[:-1], "6", "--tensor-parallel", "2"]
        whole = json.loads(self.run_frugal(*long, "--format", "json", "--out", "whole").stdout)["losses"]
        self.start(2, *long, "--checkpoint", "k", "--every", "2")
        for number in (1, 2):
            (self.folder / f"again{number}").mkdir()
        self.run_frugal(*long, "--resume", "k/step-00000004", "--out", "a")
        self.start(2, *long, "--resume", "k/step-00000004", "--out", "b")
        self.assertEqual(self.records("a")[0]["losses"], whole)
        self.assertEqual(self.records("b")[0]["losses"], whole)

    def test_as_many_processes_as_ranks(self):
        self.refused(3, *TINY, "--tensor-parallel", "2",
                     says=["the configuration has 2 ranks (tensor-parallel 2 x ", "and 3 processes were started"])
        self.refused(2, *TINY, says=["has 1 ranks"])

    def test_what_is_one_process(self):
        self.refused(2, "reproduce", "korthikanti2022/table2",
                     says=["frugal reproduce runs its ranks as threads of one process, and 2 processes were started"])
        self.refused(2, "measure", "--model", "22B", "--tensor-parallel", "2",
                     says=["2 processes were started, and a virtual run is one", "or give --on cpu"])
        self.refused(2, *TINY, "--tensor-parallel", "2", "--ranks", "threads", says=["a run whose --ranks are threads"])
        self.refused(2, *TINY, "--tensor-parallel", "2", "--pin", says=["--pin: processes run where"])
        self.rejected(*TINY, "--ranks", "processes", says=["--ranks is processes, and this one was started alone",
                                                           "mpirun -n 8 frugal measure"])

    def test_a_users_mistake_is_said_once(self):
        self.refused(2, *TINY, "--tensor-parallel", "2", "--stpes", "3", says=['there is no "--stpes"'])
        self.refused(2, *TINY, "--tensor-parallel", "2", "--heads", "3", says=["must be divisible by"])

    def test_processes_that_another_mpi_started_do_not_know_each_other(self):
        """srun without PMIx does the same: test_slurm.py."""
        run = [*TINY, "--tensor-parallel", "2"]
        self.rejected(*run, variables={"PMI_SIZE": "2", "PMI_RANK": "0"},
                      says=["2 processes were started that do not know each other", "Open MPI's mpirun"])
        done = self.run_frugal(*run, variables={"PMI_SIZE": "2", "PMI_RANK": "1"}, status=2)
        self.assertEqual(done.stdout + done.stderr, "")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_processes_that_were_not_started_alike(self):
        def together(*second):
            first = [FRUGAL, *TINY, "--tensor-parallel", "2"]
            done = processes.run(1, *first, ":", "-n", "1", *second, folder=self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(processes.ours(done.stderr)), 1, done.stderr)
            self.assertFalse((self.folder / "out").exists())
            return processes.ours(done.stderr)[0]

        same = [FRUGAL, *TINY, "--tensor-parallel", "2"]
        self.assertIn("was started with seed 7, and rank 0 on ", together(*same, "--seed", "7"))
        self.assertIn("was started with learning_rate ", together(*same, "--learning-rate", "0.5"))
        self.assertIn("was started with model ", together(FRUGAL, "measure", "--model", "gpt-3m", *TINY[3:],
                                                          "--tensor-parallel", "2"))
        other = self.folder / "other"
        other.write_bytes(open(FRUGAL, "rb").read() + b"\n")
        other.chmod(0o755)
        self.assertIn("was started with program ", together(str(other), *same[1:]))


if __name__ == "__main__":
    unittest.main()
