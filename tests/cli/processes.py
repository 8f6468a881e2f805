"""Programs whose ranks are processes, as mpirun starts them. CTest sets FRUGAL_MPIRUN; without MPI it does not."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

from program import FRUGAL, SOURCE

sys.path.append(str(SOURCE / "bench"))
import artifact_costs  # noqa: E402

MPIRUN = shlex.split(os.environ.get("FRUGAL_MPIRUN", ""))
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def command(ranks, program, *arguments):
    return [*MPIRUN, "-n", str(ranks), program, *arguments]


def run(ranks, program, *arguments, folder, variables=None, limit=120):
    return subprocess.run(command(ranks, program, *arguments), cwd=folder, capture_output=True, text=True, check=False,
                          timeout=limit, env={**os.environ, **AS_ROOT, **(variables or {})})


def children(launcher):
    """The processes that mpirun has started, by rank."""
    ranks = {}
    for process in pathlib.Path("/proc").iterdir():
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (process / "environ").read_bytes().split(b"\0") if parent == launcher else []
        except (OSError, IndexError):
            continue
        ranks.update({int(each.partition(b"=")[2]): int(process.name) for each in variables
                      if each.startswith(b"OMPI_COMM_WORLD_RANK=")})
    return ranks


def ours(stderr):
    """What frugal says; mpirun says more."""
    return [line for line in stderr.splitlines() if line.startswith("frugal: ")]


def exported(variables):
    """Arguments of mpirun with which processes on other hosts have these variables too."""
    return [argument for name in variables for argument in ("-x", name)]


def keep(folder, what, content):
    """Writes what was measured here into a folder of results/."""
    content = {"schema": f"frugal.{what}/1", "source": "measured", "machine": artifact_costs.machine(FRUGAL), **content}
    (pathlib.Path(folder) / f"{what}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
