"""Where CUDA's libraries are on a machine that has them for its own programs."""

import importlib.util
import pathlib
import re
import subprocess


def missing(programs, environment):
    """The libraries that the loader does not find."""
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True, check=False).stdout
        found.update(re.findall(r"(\S+) => not found", said))
    return sorted(found)


def folders():
    """Those of this Python's packages, which PyTorch has its own from, then the toolkits'."""
    spec = importlib.util.find_spec("nvidia")
    for package in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(pathlib.Path(package).glob("*/lib"))
    yield from sorted(pathlib.Path("/usr/local").glob("cuda*/lib64"), reverse=True)


def with_libraries(programs, environment, places=folders):
    """The environment in which programs find them. What it names already comes first, so other programs keep
    theirs."""
    environment = dict(environment)
    for folder in places():
        lacking = missing(programs, environment)
        if not lacking:
            break
        if any((folder / name).exists() for name in lacking):
            before = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = f"{before}:{folder}" if before else str(folder)
    return environment
