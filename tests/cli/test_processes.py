"""frugal as mpirun starts it: one process for each rank."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import processes
import torchrun
from program import FRUGAL, SOURCE, Cli

sys.path.append(str(SOURCE / "scripts"))
import hosts  # noqa: E402

EMULATED = os.environ.get("FRUGAL_EMULATED", "")
TINY = ["measure", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1", "--steps", "3"]


def several_hosts(test, slots):
    """Two, or the test is skipped with the reason why this machine cannot be two."""
    try:
        with hosts.Hosts(count=2):
            pass
    except hosts.Unable as error:
        test.skipTest(str(error))
    return hosts.Hosts(count=2, slots=slots)


class Started(Cli):
    program = FRUGAL
    variables = {}

    def start(self, ranks, *arguments, status=0, variables=None):
        done = processes.run(ranks, self.program, *arguments, folder=self.folder,
                             variables={**self.variables, **(variables or {})})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, ranks, *arguments, says, variables=None):
        """One line, of one process, and status 2; nothing is written."""
        done = self.start(ranks, *arguments, status=2, variables=variables)
        lines = processes.ours(done.stderr)
        self.assertEqual(len(lines), 1, done.stderr)
        for part in says:
            self.assertIn(part, lines[0])
        self.assertEqual(list(self.folder.iterdir()), [])


class Processes(Started):
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
        self.start(2, *sweep, "--rerun", "seed 2")
        self.assertEqual([r["configuration"]["seed"] for r in self.records()], [1, 2, 2])
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
        self.run_frugal(*long, "--resume", "k/step-00000004", "--out", "a")
        self.start(2, *long, "--resume", "k/step-00000004", "--out", "b")
        self.assertEqual(self.records("a")[0]["losses"], whole)
        self.assertEqual(self.records("b")[0]["losses"], whole)

    def interrupted(self, arguments, send):
        """What the first of two processes says when `send` has signalled them, or their mpirun, behind some steps."""
        with subprocess.Popen(processes.command(2, self.program, *arguments), cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, env={**os.environ, **processes.AS_ROOT}) as started:
            said = [started.stderr.readline() for _ in range(3)]
            send(started.pid)
            rest = started.communicate(timeout=120)[1]
        lines = [line for line in processes.ours(rest) if "interrupted behind step" in line]
        self.assertEqual(len(lines), 1, "".join(said) + rest)
        return int(lines[0].split("behind step ")[1].split(",")[0])

    def test_all_stop_behind_the_same_step_and_go_on(self):
        long = [*TINY[:-1], "400", "--pipeline-parallel", "2", "--microbatches", "2", "--checkpoint", "k"]
        whole = json.loads(self.run_frugal(*long[:-2], "--format", "json", "--out", "whole").stdout)["losses"]
        last = 0
        for ranks, number in (([1], signal.SIGINT), ([0], signal.SIGTERM), ([0, 1], signal.SIGINT)):
            def send(launcher, ranks=ranks, number=number):
                started = processes.children(launcher)
                for rank in ranks:
                    os.kill(started[rank], number)
            step = self.interrupted([*long, "--resume", "k"] if last else long, send)
            self.assertLess(last, step)
            last = step
            manifest = json.loads((self.folder / f"k/step-{step:08}/manifest.json").read_text())
            self.assertEqual(manifest["losses"], whole[:step])
            self.assertEqual(self.records()[-1]["status"], "interrupted")
            self.assertIn(f"behind step {step},", self.records()[-1]["reason"])
        self.start(2, *long, "--resume", "k")
        self.assertEqual(self.records()[-1]["losses"], whole)

    def test_a_record_of_processes_is_run_again_by_as_many(self):
        self.start(2, *TINY, "--tensor-parallel", "2")
        done = self.start(2, "rerun", "out", "--out", "again", "--format", "json")
        self.assertEqual([r["verdict"] for r in json.loads(done.stdout)["records"]], ["equal"])
        self.assertEqual(self.records("again")[0]["fingerprint"], self.records()[0]["fingerprint"])
        done = self.start(3, "rerun", "out", status=2)
        self.assertIn("and 3 processes were started", done.stderr)
        done = self.run_frugal("rerun", "out", status=2)
        self.assertIn("its ranks were processes; start as many: mpirun -n 2 frugal rerun", done.stderr)

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

    def test_benchmarks_agree_before_they_begin(self):
        self.refused(2, "bench", "gemm", says=["frugal bench gemm runs its ranks as threads"])
        bench = [FRUGAL, "bench", "processes", "--case", "message/1KiB/*"]
        done = processes.run(1, *bench, ":", "-n", "1", *bench, "--samples", "12", folder=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("was started with command ", processes.ours(done.stderr)[0])
        self.start(3, *bench[1:], "--samples", "10", "--threads", "3")
        self.assertEqual([record["options"]["by"] for record in self.records()], ["threads", "processes"])

    def test_a_message_takes_the_time_of_the_ranks_that_exchange_it(self):
        """The third rank has nothing to do; no memory moves 4 MiB at a terabyte a second."""
        self.start(3, "bench", "processes", "--case", "message/4MiB/*", "--samples", "10", "--threads", "3")
        for record in self.records():
            self.assertGreater(min(record["metrics"]["time"]["samples"]), 4 * 2**20 / 1e12, record["options"])

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
        self.assertIn("was started with rerun ", together(*same, "--rerun", "all"))
        self.assertIn("was started with learning_rate ", together(*same, "--learning-rate", "0.5"))
        self.assertIn("was started with model ", together(FRUGAL, "measure", "--model", "gpt-3m", *TINY[3:],
                                                          "--tensor-parallel", "2"))
        other = self.folder / "other"
        other.write_bytes(pathlib.Path(FRUGAL).read_bytes() + b"\n")
        other.chmod(0o755)
        self.assertIn("was started with program ", together(str(other), *same[1:]))


@unittest.skipUnless(EMULATED, "a sanitizer does not know the emulated GPU's fibers")
class Gpus(Started):
    """On emulated GPUs. They train, and a measured peak, which comes last, is not computed."""
    program = EMULATED
    variables = {"FRUGAL_EMULATED_GPUS": "4", "FRUGAL_EMULATED_LARGEST": "33", "FRUGAL_CACHE": ""}
    RUN = ["measure", "--model", "gpt-tiny", "--on", "cuda", "--steps", "3", "--microbatches", "2",
           "--tensor-parallel", "2"]

    def alone(self, *arguments):
        """Without a launcher."""
        return subprocess.run([EMULATED, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **self.variables})

    def test_without_a_launcher_ranks_are_threads_by_name_alone(self):
        for arguments in (self.RUN, ["longest", *self.RUN[1:5], "--tensor-parallel", "2"]):
            done = self.alone(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, "^frugal: [^\n]*2 ranks on GPUs are a process each; start as many: "
                             "mpirun -n 2 frugal measure [^\n]*torchrun[^\n]*--ranks threads[^\n]*\n$")
            self.assertEqual(list(self.folder.iterdir()), [])
        done = self.alone(*self.RUN, "--ranks", "threads", "--pin")
        self.assertEqual(done.returncode, 0, done.stderr)
        record, = self.records()
        self.assertEqual((record["options"]["ranks"], record["options"]["pinned"]), ("threads", "yes"))
        self.assertIn("--ranks threads", record["command"])
        rerun = self.alone("rerun", "out/records.jsonl", "--out", "again")
        self.assertEqual(rerun.returncode, 0, rerun.stderr)

    def test_losses_are_those_of_threads(self):
        layout = [*self.RUN, "--pipeline-parallel", "2", "--schedule", "1f1b"]
        self.start(4, *layout)
        self.start(4, *layout, "--transport", "host")
        by_nccl, by_host = self.records()  # and they fit the schema
        self.assertGreater(by_nccl["losses"][0], 5)
        self.assertEqual(by_nccl["options"]["transport"], "nccl")
        self.assertEqual(by_host["options"]["transport"], "host")
        self.assertIn("--transport host", by_host["command"])
        self.assertIsNone(by_nccl["ranks"])  # nobody knows when a GPU waits
        self.assertEqual(len(by_host["ranks"]["ranks"]), 4)
        of_threads = self.alone(*layout, "--ranks", "threads", "--out", "threads")
        self.assertEqual(of_threads.returncode, 0, of_threads.stderr)
        for record in (by_nccl, by_host):
            self.assertEqual(record["options"]["ranks"], "processes")
            self.assertIn("; 4 processes on 1 host", record["device"])
            gpus = [rank["gpu"] for rank in record["environment"]["ranks"]]
            self.assertEqual([gpu["index"] for gpu in gpus], [0, 1, 2, 3])
            self.assertEqual(len({gpu["uuid"] for gpu in gpus}), 4)
            threads = self.records("threads")[0]
            for key in ("losses", "flops"):
                self.assertEqual(record[key], threads[key], key)
            # Each process reserves memory to time algorithms in, and of threads the one that times them.
            self.assertEqual({**record["memory"], "reserved": None}, {**threads["memory"], "reserved": None})

    def test_a_process_takes_what_it_is_shown(self):
        """Whatever a launcher's variables say of local ranks."""
        shown = [[f"CUDA_VISIBLE_DEVICES={number}", "OMPI_COMM_WORLD_LOCAL_RANK=0", EMULATED, *self.RUN]
                 for number in (2, 1)]
        done = processes.run(1, "env", *shown[0], ":", "-n", "1", "env", *shown[1], folder=self.folder,
                             variables={**self.variables, "FRUGAL_EMULATED_COMPUTE": "0"})
        self.assertEqual(done.returncode, 0, done.stderr)
        gpus = [rank["gpu"] for rank in self.records()[0]["environment"]["ranks"]]
        self.assertEqual([gpu["index"] for gpu in gpus], [0, 0])
        self.assertEqual([gpu["uuid"][-1] for gpu in gpus], ["2", "1"])

    def test_each_host_has_its_own(self):
        with several_hosts(self, slots=2) as two:
            variables = {**self.variables, "FRUGAL_EMULATED_GPUS": "2"}
            command = two.command("mpirun", "-n", "4", "--map-by", "ppr:2:node", *processes.exported(variables), EMULATED,
                                  *self.RUN, "--data-parallel", "2")
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False,
                                  env={**two.variables(), **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = self.records()[0]["environment"]["ranks"]
        self.assertEqual([rank["host"] for rank in ranks], ["host0", "host0", "host1", "host1"])
        self.assertEqual([rank["gpu"]["index"] for rank in ranks], [0, 1, 0, 1])

    def test_as_many_gpus_as_processes(self):
        self.refused(4, *self.RUN, "--data-parallel", "2", variables={"FRUGAL_EMULATED_GPUS": "3"},
                     says=["4 processes were started on ", "rank 3 finds no GPU", "of 3 that it may use"])
        self.refused(2, *self.RUN, variables={"CUDA_VISIBLE_DEVICES": "3"}, says=["rank 1 finds no GPU", "of 1 that it"])
        self.rejected(*TINY, "--transport", "host", says=["--transport is host: ", "GPUs of several processes alone"])
        self.refused(2, *self.RUN, variables={"CUDA_VISIBLE_DEVICES": ""}, says=["rank 0 on ", "no GPU that this program may"])


@unittest.skipUnless(EMULATED, "a sanitizer does not know the emulated GPU's fibers")
class Torchrun(Started):
    """As torchrun starts it, without MPI; on emulated GPUs."""
    program = EMULATED
    variables = Gpus.variables
    RUN = Gpus.RUN

    def start_by_torchrun(self, *arguments, status=0, **how):
        done = torchrun.run(2, EMULATED, *arguments, folder=self.folder, environment=self.variables, **how)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_records_are_those_of_mpirun(self):
        self.start(2, *self.RUN, "--out", "mpirun")
        by_mpi = self.records("mpirun")[0]
        for number, agent_listens in enumerate((True, False)):  # the store's port is taken, or rank 0's to take
            self.start_by_torchrun(*self.RUN, "--out", f"torchrun{number}", agent_listens=agent_listens)
            record = self.records(f"torchrun{number}")[0]
            self.assertEqual(record["losses"], by_mpi["losses"])
            self.assertEqual(record["fingerprint"], by_mpi["fingerprint"])
            self.assertTrue(record["command"].startswith("torchrun --nproc-per-node 2 --no-python frugal measure "))
            self.assertNotIn("mpi", record["environment"])
            self.assertEqual([rank["gpu"]["index"] for rank in record["environment"]["ranks"]], [0, 1])

    @unittest.skipUnless(torchrun.program(), "there is no torchrun")
    def test_by_torchrun_itself(self):
        done = subprocess.run(torchrun.command(2, EMULATED, *self.RUN), cwd=self.folder, capture_output=True, text=True,
                              check=False, env={**os.environ, **self.variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.records()), 1)

    def test_on_several_hosts(self):
        """Rank 0's is known by its name."""
        with several_hosts(self, slots=1) as two:
            started = [subprocess.Popen(
                two.command_on(f"host{rank}", "env", *(f"{name}={value}" for name, value in torchrun.variables(
                    rank, 2, 29500, host="host0").items()), EMULATED, *self.RUN), cwd=self.folder,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **self.variables})
                for rank in (1, 0)]
            for process in started:
                _, said = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, said)
        ranks = self.records()[0]["environment"]["ranks"]
        self.assertEqual([(rank["host"], rank["gpu"]["index"]) for rank in ranks], [("host0", 0), ("host1", 0)])
        self.assertTrue(self.records()[0]["command"].startswith("torchrun --nnodes 2 --nproc-per-node 1 "))

    def test_what_needs_mpi(self):
        for arguments, says in ((TINY, "--on cpu has MPI carry"), ([*self.RUN, "--transport", "host"], "--transport host has")):
            done = self.start_by_torchrun(*arguments, status=2)
            self.assertEqual(len(processes.ours(done.stderr)), 1, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertIn("start them with mpirun -n 2 frugal", done.stderr)

    def test_variables_that_torchrun_does_not_set(self):
        for name, value, says in (("RANK", "2", "from 0 to 1"), ("WORLD_SIZE", "two", "from 1 to "), ("MASTER_PORT", "0", "to 65534")):
            self.rejected(*TINY, variables={**torchrun.variables(0, 2, 29500), name: value}, says=[f'{name} is "{value}"', says])

    def test_variables_of_others(self):
        """A job of Kubernetes has some of them, and who starts by mpirun may set all."""
        some = torchrun.variables(0, 2, 29500)
        del some["LOCAL_RANK"]
        self.run_frugal(*TINY, "--out", "alone", variables=some)
        self.run_frugal(*TINY, "--out", "one", variables=torchrun.variables(0, 1, 29500))
        both = ["sh", "-c", 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=0 '
                'MASTER_ADDR=nowhere MASTER_PORT=1 exec "$@"', "sh", FRUGAL, *TINY, "--tensor-parallel", "2"]
        done = processes.run(2, *both, folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mpi", self.records()[0]["environment"])

    def test_a_process_that_is_killed_is_named(self):
        done = torchrun.run(2, "sh", "-c", '[ $RANK = 1 ] && exec timeout -s KILL 3 "$@" || exec "$@"', "sh", EMULATED,
                            *self.RUN[:5], "--tensor-parallel", "2", "--steps", "100000", folder=self.folder,
                            environment=self.variables)
        self.assertIn(done.returncode, (5, -9, 137), done.stderr)
        self.assertIn("rank 1: lost: its process was killed", done.stderr)
        self.assertEqual(self.records()[0]["status"], "peer_lost")
