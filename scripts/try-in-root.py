#!/usr/bin/env python3
"""Tries in a fresh Debian 12 what its users do there, without containers: in a root of debootstrap's, as root.

    try-in-root.py clone FOLDER      a clone, and nothing installed but git: install, build, ./reproduce.sh --quick, the rest
    try-in-root.py container FOLDER  every step of packaging/Containerfile, in its order
    try-in-root.py package FOLDER    the packages of scripts/package.sh: installed, used, removed
    try-in-root.py user FOLDER       a clone of a user who is not root and has a compiler and no libraries

The roots are made in FOLDER, which may be removed afterwards. What is committed is tried. --mirror says where packages come
from; --costs FILE.json keeps what each step took. The last line begins with OK or FAILED, and the exit status is 0 or 1;
where something that this needs is missing, it is 2.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import containerfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import costs  # pylint: disable=wrong-import-position

# In a file system of its own, as a container has it: nothing stays mounted.
ENTER = ('mount -t proc proc "$0/proc" && mkdir -p "$0/dev/shm" && mount -t tmpfs shm "$0/dev/shm" && '
         'root=$0 user=$1 folder=$2 && shift 2 && '
         'exec chroot --userspec="$user" "$root" /bin/sh -c \'cd "$0" && exec "$@"\' "$folder" "$@"')
MADE_HERE = "etc/made-by-try-in-root"
HOME = {"root": "/root", "tester": "/home/tester", "frugal": "/home/frugal"}


class Failed(Exception):
    """What went wrong, in one line."""


class Tried:
    """A root, and steps in it, each measured."""

    def __init__(self, given, name, base=None):
        self.given, self.root = given, given.folder / name
        remove(self.root)
        subprocess.run(["cp", "--archive", base or fresh(given), self.root], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")

    def run(self, what, command, user="root", folder=None, variables=None, status=0, shell="bash"):
        """A step: a command of a shell's. What it says, of both streams."""
        before = costs.disk(self.root)
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME[user],
                       "LANG": "C.UTF-8", "USER": user, "DEBIAN_FRONTEND": "noninteractive", **(variables or {})}
        said = self.given.folder / "said"
        with open(said, "wb") as file:
            cost = costs.run(["unshare", "--mount", "--pid", "--fork", "bash", "-c", ENTER, self.root, user,
                              folder or HOME[user], f"/bin/{shell}", "-c", command], env=environment,
                             stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        text = said.read_text(encoding="utf-8", errors="replace")
        if cost["status"] != status:
            raise Failed(f"{what}: status {cost['status']} instead of {status}; it said:\n{text[-2000:]}")
        self.given.steps.append({"what": what, **cost, "disk_bytes": costs.disk(self.root) - before,
                                 "load_average": round(os.getloadavg()[0], 1)})
        if self.given.costs:  # what was measured is kept, whatever comes after it
            self.given.costs.write_text(json.dumps({"schema": "frugal.costs/1", "steps": self.given.steps}, indent=1) +
                                        "\n", encoding="utf-8")
        print(f"{cost['seconds']:7.1f} s  {what}", flush=True)
        return text

    def clone(self, folder, owner="root"):
        """What is committed."""
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, f"{self.root}{folder}"], check=True)
        self.run("a clone of its own", f"chown -R {owner}: {folder}")


def remove(root):
    """A root that an earlier try made, and nothing else."""
    if root.exists() and not (root / MADE_HERE).exists():
        raise Failed(f"{root} is there and is no root that this made; name another folder")
    shutil.rmtree(root, ignore_errors=True)


def fresh(given):
    """A Debian 12 with what every Debian has, from the mirror."""
    base = given.folder / "base"
    if not base.exists() or (base / MADE_HERE).read_text(encoding="utf-8") != given.mirror:
        remove(base)
        made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", base, given.mirror], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            said = (made.stdout + made.stderr).strip().splitlines() or ["it said nothing"]
            raise Failed(f"debootstrap from {given.mirror}: {said[-1]}")
        (base / MADE_HERE).write_text(given.mirror, encoding="utf-8")
    return base


def clone(given):
    tried = Tried(given, "clone")
    tried.run("git, which a clone needs", "apt-get -qq update && apt-get -qq install --no-install-recommends git")
    tried.clone("/srv/frugal")
    for what, command in (("install", "scripts/install.sh"), ("build", "scripts/build.sh release frugal"),
                          ("quick", "./reproduce.sh --quick"), ("all", "./reproduce.sh --on virtual"),
                          ("analysis", "./reproduce.sh --on virtual")):
        said = tried.run(what, command, folder="/srv/frugal")
        if what == "quick":
            print(said.splitlines()[-1])
            if not said.splitlines()[-1].startswith("OK: "):
                raise Failed("./reproduce.sh --quick does not end with OK")


def container(given):
    stages = {}
    arguments = {"DEBIAN": given.mirror, "SECURITY": given.mirror + "-security"}
    for stage in containerfile.read(ROOT / "packaging/Containerfile", arguments):
        base = stages.get(stage.base)
        tried = Tried(given, stage.name, base and base.root)
        stages[stage.name] = tried
        for step in stage.steps:
            if step.kind == "RUN":
                tried.run(step.text, step.text, user=step.user, folder=step.folder, variables=step.variables,
                          shell="sh")
            elif step.source:
                place = f"{tried.root}{step.target}"
                os.makedirs(place, exist_ok=True)
                subprocess.run(["cp", "--archive", f"{stages[step.source].root}{step.text}/.", place], check=True)
            else:
                tried.clone(step.target)
            os.makedirs(f"{tried.root}{step.folder}", exist_ok=True)
    for words in (stage.command, ["reproduce", "korthikanti2022/table4", "--on", "virtual"]):
        said = tried.run(" ".join([*stage.entry, *words]), " ".join([*stage.entry, *words]), user=stage.user,
                         folder=stage.folder)
        if "korthikanti2022/table4" not in said:
            raise Failed(f"it said: {said[-500:]}")


def package(given):
    tried = Tried(given, "package")
    packages = sorted((ROOT / "build/package").glob("*.deb"))
    if len(packages) != 2:
        raise Failed("build/package has not two packages; first run scripts/package.sh")
    for path in packages:
        shutil.copy(path, tried.root / "root")
    shutil.copytree(ROOT / "tests/consumer", tried.root / "root/consumer")
    tried.run("both packages, with all that they depend on",
              "apt-get -qq update && apt-get -qq install --no-install-recommends ./*.deb")
    said = tried.run("frugal list", "frugal list")
    said += tried.run("an artifact", "frugal reproduce korthikanti2022/table4 --on virtual")
    if "virtual:a100-selene" not in said:
        raise Failed(f"it said: {said[-500:]}")
    tried.run("a project that finds the libraries",
              "apt-get -qq install --no-install-recommends cmake g++ make && cmake -S consumer -B built && "
              "cmake --build built && built/consumer")
    tried.run("removed", "apt-get -qq purge frugal libfrugal-dev && ! find /usr -iname '*frugal*' | grep .")


def user(given):
    tried = Tried(given, "user")
    tried.run("what a cluster has: git, a compiler, CMake, Ninja and Python",
              "apt-get -qq update && apt-get -qq install --no-install-recommends git g++ cmake ninja-build python3 && "
              "useradd --create-home --shell /bin/bash tester")
    tried.clone("/home/tester/frugal", "tester")
    here = {"user": "tester", "folder": "/home/tester/frugal"}
    said = tried.run("install.sh says what is missing", "scripts/install.sh", **here, status=2)
    print("   ", said.strip())
    if len(said.strip().splitlines()) != 1 or "libdnnl-dev" not in said or "--into" not in said:
        raise Failed("that is not one line with what is missing and how to get it")
    tried.run("install.sh --into", "scripts/install.sh --into ~/packages", **here)
    said = tried.run("./reproduce.sh --quick", ". ~/packages/environment && ./reproduce.sh --quick", **here)
    print(said.splitlines()[-1])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["clone", "container", "package", "user"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    parser.add_argument("--costs", type=pathlib.Path)
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.exit(2, "try-in-root.py: only root may make a root; run it as root\n")
    for program in ("debootstrap", "unshare", "git"):
        if shutil.which(program) is None:
            parser.exit(2, f"try-in-root.py: {program} not found; install the package that has it\n")
    given.folder, given.steps = given.folder.resolve(), []
    given.folder.mkdir(parents=True, exist_ok=True)
    return given


def main():
    given = arguments()
    try:
        {"clone": clone, "container": container, "package": package, "user": user}[given.what](given)
    except (Failed, OSError, subprocess.CalledProcessError) as failure:
        print(f"FAILED: {failure}")
        return 1
    print(f"OK: {given.what}, {sum(step['seconds'] for step in given.steps):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
