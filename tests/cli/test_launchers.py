"""What docs/cluster.md says of starting frugal on several machines: its hostfile and its job for Kubernetes. The
machines are this one, under several names (host_names.py)."""

import json
import math
import os
import subprocess
import unittest

import documented
import host_names
import jsonschema
import processes
from program import FRUGAL, SOURCE, Cli

try:
    import yaml
except ImportError:
    yaml = None


class Launched(Cli):
    def launch(self, command, variables=None):
        """Runs it as it stands, mpirun's ssh reaching any host. The record and what was printed; the losses are those
        of threads."""
        self.assertEqual(command[0], "mpirun")
        words = [*processes.MPIRUN[:1], *command[1:]]
        (self.folder / "bin").mkdir()
        (self.folder / "bin/frugal").symlink_to(FRUGAL)
        environment = {**os.environ, **processes.AS_ROOT, **host_names.ssh(self.folder),
                       "OMPI_MCA_hwloc_base_binding_policy": "none",
                       "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **(variables or {})}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        record, = self.records()
        self.run_frugal(*words[words.index("frugal") + 1:], "--out", "threads")
        self.assertEqual(record["losses"], self.records("threads")[0]["losses"])
        return record, done.stdout

    def hosts_of(self, record):
        return [rank["host"] for rank in record["environment"]["ranks"]]


@unittest.skipUnless(host_names.POSSIBLE, host_names.WHY_NOT)
class Hostfile(Launched):
    def test_the_command_of_the_documentation(self):
        (self.folder / "docs").symlink_to(SOURCE / "docs")
        record, _ = self.launch(documented.command("mpirun --hostfile"))
        self.assertEqual(self.hosts_of(record), ["node1", "node1", "node2", "node2"])


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class MpiJob(Launched):
    def setUp(self):
        super().setUp()
        self.job = yaml.safe_load((SOURCE / "docs/cluster/mpijob.yaml").read_text())
        replicas = self.job["spec"]["mpiReplicaSpecs"]
        self.workers = replicas["Worker"]["replicas"]
        self.slots = self.job["spec"]["slotsPerWorker"]
        launcher, = replicas["Launcher"]["template"]["spec"]["containers"]
        self.worker, = replicas["Worker"]["template"]["spec"]["containers"]
        self.command = launcher["command"] + launcher["args"]

    def test_is_a_job_that_the_operator_accepts(self):
        schema = json.loads((SOURCE / "tests/cli/mpijob.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.validate(self.job, schema)

    def test_starts_as_many_ranks_as_there_are_slots(self):
        ranks = self.workers * self.slots
        self.assertEqual(self.command[self.command.index("-n") + 1], str(ranks))
        sizes = [int(size) for flag, size in zip(self.command, self.command[1:]) if flag.endswith("-parallel")]
        self.assertEqual(math.prod(sizes), ranks)
        self.assertEqual(self.command[self.command.index("--map-by") + 1], f"ppr:{self.slots}:node")
        self.assertEqual(self.command[self.command.index("--threads") + 1],
                         str(self.worker["resources"]["limits"]["cpu"]))

    def test_fits_the_image(self):
        """What it needs of the image, as the image's file has it."""
        image = (SOURCE / "docs/cluster/Dockerfile").read_text()
        home = os.path.dirname(self.job["spec"]["sshAuthMountPath"])
        self.assertIn(f"HostKey {self.job['spec']['sshAuthMountPath']}/id_rsa", image)
        self.assertIn(f">{self.worker['args'][-1]} ", image)
        self.assertEqual(image.count(f"'Port {self.worker['readinessProbe']['tcpSocket']['port']}'"), 2)
        self.assertIn(f"--uid {self.worker['securityContext']['runAsUser']} {os.path.basename(home)} ", image)
        self.assertIn(f"WORKDIR {home}\n", image)

    @unittest.skipUnless(host_names.POSSIBLE, host_names.WHY_NOT)
    def test_its_command_runs(self):
        """With the hostfile and the variables that the operator gives the launcher, which is no worker."""
        names = [f"{self.job['metadata']['name']}-worker-{i}" for i in range(self.workers)]
        lines = [f"{name}.frugal.default.svc slots={self.slots}\n" for name in names]
        (self.folder / "hostfile").write_text("".join(lines))
        record, printed = self.launch(documented.smaller(self.command), {
            "OMPI_MCA_orte_default_hostfile": str(self.folder / "hostfile"),
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_set_default_slots": str(self.slots),
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"})
        self.assertEqual(self.hosts_of(record), [name for name in names for _ in range(self.slots)])
        self.assertEqual(json.loads(printed), record)
