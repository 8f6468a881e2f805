"""Programs of the Python package index that tests run, each in an environment of its own in build/."""

import subprocess
import sys
import unittest

from sources import SOURCE


def installed(package, version):
    """Its folder, with bin/ in it. Raises SkipTest with the reason where the package cannot be had."""
    place = SOURCE / f"build/{package}-{version}"
    if (place / "whole").exists():
        return place
    for command in ([sys.executable, "-m", "venv", "--clear", place],
                    [place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     "--retries", "1", "--timeout", "10", f"{package}=={version}"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
            raise unittest.SkipTest(f"{package} {version} could not be installed: {said[-1]}")
    (place / "whole").touch()
    return place
