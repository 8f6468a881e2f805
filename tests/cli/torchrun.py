"""Processes as torchrun starts them: each with its variables, and when one ends with an error the others are told to end.
Real ones are started where there is a program torchrun."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time


def variables(rank, size, port, *, host="localhost", agent_listens=True, run="none"):
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": host, "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": run,
            "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_USE_AGENT_STORE": str(agent_listens)}


@contextlib.contextmanager
def port_of_agent(listens):
    """A free one, at which torchrun's store listens, or nobody."""
    with socket.socket() as agent:
        agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        agent.bind(("", 0))
        if listens:
            agent.listen()
            yield agent.getsockname()[1]
            return
        port = agent.getsockname()[1]
    yield port


def run(size, *command, folder, environment=None, agent_listens=True, limit=120):
    """A CompletedProcess of all: the first error's status, and what they have printed."""
    with port_of_agent(agent_listens) as port, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        all_ = [subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, text=True, env={
            **os.environ, **(environment or {}), **variables(rank, size, port, agent_listens=agent_listens)})
            for rank in range(size)]
        end = time.monotonic() + limit
        first = None
        while any(process.poll() is None for process in all_):
            failed = [process for process in all_ if process.poll() not in (None, 0)]
            if failed and first is None:
                first = failed[0].returncode
                for process in all_:
                    process.terminate()
            if time.monotonic() > end:
                for process in all_:
                    process.kill()
            time.sleep(0.02)
        failed = [process.returncode for process in all_ if process.returncode != 0]
        for file in (out, err):
            file.seek(0)
        status = first if first is not None else failed[0] if failed else 0
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


def program():
    return shutil.which("torchrun")


def command(size, *arguments):
    """Of the real one, on this host alone."""
    return [program(), "--standalone", "--nproc-per-node", str(size), "--no-python", *arguments]
