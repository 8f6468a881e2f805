"""Several hosts on one machine: processes that see a host name of their own. It takes a UTS namespace, which root, and
on most machines every user, may make."""

import os
import shlex
import shutil
import subprocess

UNSHARE = ["unshare", "--uts"] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--keep-caps",
                                                           "--uts"]


def on(host, *command):
    """The command, as it is to be started to run on a host of that name."""
    return [*UNSHARE, "sh", "-c", 'hostname "$0" && exec "$@"', host, *command]


def possible():
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(on("another", "hostname"), capture_output=True, text=True, check=False)
    return done.stdout == "another\n"


POSSIBLE = possible()
WHY_NOT = "the kernel gives no process a host name of its own (unshare --uts)"


def ssh(folder):
    """A program that mpirun can use as ssh: it starts commands on hosts of this machine. Returns mpirun's variables."""
    program = folder / "ssh"
    program.write_text(f"""#!/bin/sh
# ssh [-x] [-o OPTION]... HOST COMMAND...
while getopts xo: _; do :; done
shift $((OPTIND - 1))
host=${{1%%.*}}
shift
exec {shlex.join(UNSHARE)} sh -c 'hostname "$0" && eval "$@"' "$host" "$*"
""")
    program.chmod(0o755)
    return {"OMPI_MCA_plm_rsh_agent": str(program)}
