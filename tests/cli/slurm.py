"""Slurm on this machine, for as long as a test lasts: a controller and two nodes, in a folder of their own. Nothing of
the machine's own Slurm is used or changed, and any user may start it."""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import time

import host_names

NODES = ("node1", "node2")
DAEMONS = ("slurmctld", "slurmd")
# Each node is to have room for more ranks than this machine may have cores; none is bound to one. Nodes have folders of
# their own: PMIx's of one job would collide.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
"""


def missing():
    """What is not installed, of the programs that a cluster takes."""
    paths = os.environ["PATH"] + ":/usr/sbin"
    return [name for name in (*DAEMONS, "srun", "sbatch", "salloc") if not shutil.which(name, path=paths)]


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    def __init__(self):
        self._temporary = tempfile.TemporaryDirectory(prefix="slurm-")
        self.folder = pathlib.Path(self._temporary.name)
        self._daemons = []
        machine = socket.gethostname()
        controller, *ports = free_ports(1 + len(NODES))
        text = CONFIGURATION.format(machine=machine, controller=controller, folder=self.folder,
                                    user=pwd.getpwuid(os.geteuid()).pw_name)
        for node, port in zip(NODES, ports):
            text += f"NodeName={node} NodeHostname={machine} NodeAddr=127.0.0.1 Port={port} CPUs=4\n"
            for name in ("spool", "tmp"):
                (self.folder / f"{name}-{node}").mkdir()
        text += f"PartitionName=all Nodes={','.join(NODES)} Default=YES\n"
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(text)
        self.variables = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                          "PATH": os.environ["PATH"] + ":/usr/sbin"}

    def start(self):
        """Returns when both nodes wait for work; raises RuntimeError with what the daemons said where they do not."""
        self._daemon("slurmctld", "slurmctld", "-D", "-c")
        for node in NODES:
            command = ["slurmd", "-D", "-N", node]
            self._daemon(node, *(host_names.on(node, *command) if host_names.POSSIBLE else command))
        deadline = time.monotonic() + 30
        while self._states() != ["idle"] * len(NODES):
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self._daemons):
                said = "".join(log.read_text() for log in sorted(self.folder.glob("*.log")))
                self.stop()
                raise RuntimeError(f"Slurm did not start:\n{said}")
            time.sleep(0.05)

    def run(self, *command, folder, variables=None):
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120,
                              env={**self.variables, **(variables or {})})

    def batch(self, *words, folder, variables=None):
        """The exit status of the job that is submitted, at its end, sooner than by sbatch --wait, which asks after 2, 8
        and 32 seconds."""
        submitted = self.run("sbatch", "--parsable", *words, folder=folder, variables=variables)
        job = submitted.stdout.strip()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            shown = self.run("scontrol", "--oneliner", "show", "job", job, folder=folder).stdout
            told = dict(word.split("=", 1) for word in shown.split() if "=" in word)
            if told.get("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL"):
                return int(told["ExitCode"].split(":")[0])
            time.sleep(0.2)
        raise RuntimeError(f"the job has not ended: {submitted.stdout}{submitted.stderr}{shown}")

    def stop(self):
        deadline = time.monotonic() + 30
        # Asked to end while a job is still being completed, the controller waits for ten seconds.
        while self.run("squeue", "--noheader", folder=self.folder).stdout and time.monotonic() < deadline:
            time.sleep(0.05)
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(timeout=30)
        self._temporary.cleanup()

    def _states(self):
        return self.run("sinfo", "--noheader", "--Node", "--format=%t", folder=self.folder).stdout.split()

    def _daemon(self, name, *command):
        with open(self.folder / f"{name}.log", "w") as log:
            self._daemons.append(subprocess.Popen(command, env=self.variables, stdout=log, stderr=subprocess.STDOUT,
                                                  stdin=subprocess.DEVNULL, start_new_session=True))
