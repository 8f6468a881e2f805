#!/usr/bin/env python3
"""Starts processes of a command on this machine, each with what torchrun would tell it, where there is neither
torchrun nor mpirun:

  ranks.py PROCESSES COMMAND...

When one of them fails the others are told to end. The exit status is the first failure's, else 0."""

import os
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 10  # seconds for the others to end when one has failed


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def variables(rank, size, port):
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": f"{os.getpid()}"}


def run(size, command):
    port = free_port()
    processes = [subprocess.Popen(command, env={**os.environ, **variables(rank, size, port)}) for rank in range(size)]
    status, until = 0, float("inf")
    while any(process.poll() is None for process in processes):
        for process in processes:
            if status == 0 and process.poll():
                status, until = process.returncode, time.monotonic() + PATIENCE
                for other in processes:
                    other.terminate()
        if time.monotonic() > until:
            for process in processes:
                process.kill()
        time.sleep(0.02)
    failed = [process.returncode for process in processes if process.returncode]
    first = status or next(iter(failed), 0)
    return 128 - first if first < 0 else first


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal() or int(sys.argv[1]) < 1:
        print("usage: ranks.py PROCESSES COMMAND...", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, lambda *_: None)  # the processes have it too, and end
    return run(int(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
