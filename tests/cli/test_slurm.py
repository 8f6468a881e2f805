"""frugal as Slurm starts it: one process for each task, on two nodes, which are this machine (slurm.py)."""

import json
import socket
import subprocess
import unittest

import documented
import host_names
import processes
import slurm
from program import FRUGAL, SOURCE, TINY, Cli

LAYOUT = [*TINY[1:], "--steps", "3", "--tensor-parallel", "2", "--data-parallel", "2"]
RUN = [FRUGAL, "measure", *LAYOUT]
TWO_EACH = ["--nodes=2", "--ntasks-per-node=2"]
NODES = ["node1", "node1", "node2", "node2"] if host_names.POSSIBLE else [socket.gethostname()] * 4


class Slurm(Cli):
    of_threads = None  # the same trained by threads

    @classmethod
    def setUpClass(cls):
        if slurm.missing():
            raise unittest.SkipTest(f"Slurm is not installed: {', '.join(slurm.missing())}")
        cls.cluster = slurm.Slurm()
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.stop)

    def start(self, *command, status=0, variables=None):
        done = self.cluster.run(*command, folder=self.folder, variables=variables)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def refused(self, *options):
        """What frugal says, which is one line; nothing is written."""
        done = self.start("srun", *options, *RUN, status=2)
        lines = processes.ours(done.stderr)
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])
        return lines[0]

    def is_that_of_threads(self, folder):
        """A record of four processes, but for how long it took."""
        of_processes, = self.records(folder)
        self.assertEqual(of_processes["options"]["ranks"], "processes")
        self.assertEqual([rank["host"] for rank in of_processes["environment"]["ranks"]], NODES)
        if not Slurm.of_threads:
            Slurm.of_threads = json.loads(self.run_frugal(*RUN[1:], "--out", "threads", "--format", "json").stdout)
        self.assertNotIn("ranks", Slurm.of_threads["options"])
        for key in ("losses", "memory", "flops", "configuration"):
            self.assertEqual(of_processes[key], Slurm.of_threads[key], key)

    def test_srun_trains_what_threads_train(self):
        self.start("srun", "--mpi=pmix", *TWO_EACH, *RUN)
        self.is_that_of_threads("out")

    def test_the_script_of_the_documentation(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/frugal").symlink_to(FRUGAL)
        (self.folder / "docs").symlink_to(SOURCE / "docs")
        path = f"{self.folder}/bin:{self.cluster.variables['PATH']}"
        _, *words = documented.command("sbatch docs/cluster/frugal.sbatch")
        status = self.cluster.batch(*words, "--threads", "1", folder=self.folder, variables={"PATH": path})
        log, = self.folder.glob("frugal-*.log")
        self.assertEqual(status, 0, log.read_text())
        self.assertIn("4 processes on", log.read_text())
        self.is_that_of_threads("out")

    def test_the_script_fails_as_frugal_does(self):
        script = str(SOURCE / "docs/cluster/frugal.sbatch")
        status = self.cluster.batch(script, *LAYOUT, "--heads", "3", folder=self.folder, variables={"FRUGAL": FRUGAL})
        log, = self.folder.glob("frugal-*.log")
        self.assertEqual(status, 2, log.read_text())
        self.assertEqual(len(processes.ours(log.read_text())), 1, log.read_text())
        self.assertIn("must be divisible by", log.read_text())

    def test_mpirun_in_an_allocation(self):
        mpirun = processes.MPIRUN[0] if processes.MPIRUN else "mpirun"
        self.start("salloc", "--nodes=2", "--ntasks-per-node=1", mpirun, FRUGAL, "measure", *TINY[1:], "--steps", "1",
                   "--data-parallel", "2", variables=processes.AS_ROOT)
        record, = self.records()
        self.assertEqual([rank["host"] for rank in record["environment"]["ranks"]], NODES[1:3])

    def test_processes_that_srun_does_not_connect(self):
        for mpi in ("none", "pmi2"):
            with self.subTest(mpi):
                said = self.refused(f"--mpi={mpi}", *TWO_EACH)
                self.assertIn("4 processes were started that do not know each other; start them with srun --mpi=pmix",
                              said)

    def test_a_task_that_is_alone_needs_no_pmix(self):
        self.assertIn("frugal ", self.start("srun", "--mpi=none", "--ntasks=1", FRUGAL, "--version").stdout)

    def test_what_is_cancelled_is_recorded(self):
        long = [FRUGAL, "measure", *TINY[1:], "--steps", "1000000", "--data-parallel", "2"]
        with subprocess.Popen(["srun", "--mpi=pmix", "--nodes=2", "--ntasks-per-node=1", "--job-name=long", *long],
                              cwd=self.folder, env=self.cluster.variables, stderr=subprocess.PIPE, text=True) as srun:
            said = srun.stderr.readline()
            self.start("scancel", "--name=long")
            said += srun.communicate(timeout=120)[1]
        self.assertEqual(srun.returncode, 130, said)
        self.assertEqual(self.records()[0]["status"], "interrupted", said)

    @unittest.skipUnless(host_names.POSSIBLE, host_names.WHY_NOT)
    def test_ranks_that_share_layers_belong_on_one_node(self):
        said = self.refused("--mpi=pmix", *TWO_EACH, "--distribution=cyclic")
        self.assertIn("rank 0 is on node1 but rank 1 on node2; start srun with --ntasks-per-node=2 "
                      "--distribution=block", said)
