"""Programs whose ranks are processes, as mpirun starts them. CTest sets FRUGAL_MPIRUN; without MPI it does not."""

import os
import shlex
import subprocess

MPIRUN = shlex.split(os.environ.get("FRUGAL_MPIRUN", ""))
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def command(ranks, program, *arguments):
    return [*MPIRUN, "-n", str(ranks), program, *arguments]


def run(ranks, program, *arguments, folder, variables=None, limit=120):
    return subprocess.run(command(ranks, program, *arguments), cwd=folder, capture_output=True, text=True, check=False,
                          timeout=limit, env={**os.environ, **AS_ROOT, **(variables or {})})


def ours(stderr):
    """What frugal says; mpirun says more."""
    return [line for line in stderr.splitlines() if line.startswith("frugal: ")]


def exported(variables):
    """Arguments of mpirun with which processes on other hosts have these variables too."""
    return [argument for name in variables for argument in ("-x", name)]
