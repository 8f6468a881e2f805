"""Runs programs, for scripts that make results of what frugal prints."""

import pathlib
import subprocess
import sys

NAME = pathlib.Path(sys.argv[0]).name


def run(*command, good=(0,)):
    """What it prints. Ends this script, and says why, where it cannot be started or ends with another status than these."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        print(f"{NAME}: {error}; give frugal's program, such as build/release/frugal", file=sys.stderr)
        sys.exit(2)
    if done.returncode not in good:
        sys.exit(f"{NAME}: status {done.returncode}: {' '.join(command)}\n{done.stderr}")
    return done.stdout
