#!/usr/bin/env python3
"""Runs a command on hosts made of this machine: scripts/hosts.py [OPTIONS] -- COMMAND...

Each host has a name, a network of its own and a link to a switch, whose rate can be limited. The command runs on the
first one, host0. There, `mpirun -n 2 …` starts processes on all of them, as on a cluster. They share the files of this
machine, and each has a part of its processors. Nothing of it is left when the command ends. Needs Linux, `ip`, and root
or user namespaces."""

import argparse
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

# A host lives as long as its first process, which ends with the program that reads its output. Its connections do not
# last long where nobody answers.
FIRST_PROCESS = """set -e
mount --make-rprivate / && mount --bind "$1/hosts" /etc/hosts
hostname "$0"
ip link set lo up
echo 3 > /proc/sys/net/ipv4/tcp_retries2
echo ready
exec cat"""
# What Open MPI calls in place of ssh: NAME COMMAND...
AGENT = """#!/bin/sh
host=$1; shift
exec taskset --cpu-list "$(cat '{folder}'/"$host".processors)" \\
  nsenter --target "$(cat '{folder}'/"$host")" --net --uts --mount --wd="$PWD" sh -c "$*"
"""


class Unable(Exception):
    """Why this machine cannot be several hosts, in one line."""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"`{' '.join(map(str, command))}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Hosts:
    """A context: what it is called with runs on its first host."""

    def __init__(self, count=2, slots=1, rate=None, delay=None):
        self.count, self.slots, self.rate, self.delay = count, slots, rate, delay
        self.context = contextlib.ExitStack()

    def __enter__(self):
        for program in ("ip", "tc", "unshare", "nsenter", "taskset"):
            if shutil.which(program) is None:
                raise Unable(f"there is no program {program}; install the packages iproute2 and util-linux")
        self.folder = pathlib.Path(self.context.enter_context(tempfile.TemporaryDirectory()))
        try:
            self.begin()
        except BaseException:
            self.context.close()
            raise
        return self

    def __exit__(self, *error):
        self.context.close()

    def begin(self):
        names = [f"host{i}" for i in range(self.count)]
        addresses = {name: f"10.77.0.{i + 1}" for i, name in enumerate(names)}
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" +
                                           "".join(f"{address} {name}\n" for name, address in addresses.items()))
        (self.folder / "slots").write_text("".join(f"{name} slots={self.slots}\n" for name in names))
        agent = self.folder / "agent"
        agent.write_text(AGENT.format(folder=self.folder))
        agent.chmod(0o755)
        self.start("switch")
        self.on("switch", "ip", "link", "add", "switch", "type", "bridge")
        self.on("switch", "ip", "link", "set", "switch", "up")
        processors = sorted(os.sched_getaffinity(0))
        for i, name in enumerate(names):
            self.start(name)
            self.connect(name, addresses[name])
            own = processors[i % len(processors)::self.count]
            (self.folder / f"{name}.processors").write_text(",".join(map(str, own)))

    def start(self, name):
        """The first process of a host, whose number is in the file of that name."""
        process = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", FIRST_PROCESS, name, self.folder],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.context.callback(self.end, process)
        if process.stdout.readline() != "ready\n":
            process.stdin.close()
            raise Unable(f"a host cannot be made: {process.stderr.read().strip()}")
        (self.folder / name).write_text(str(process.pid))

    @staticmethod
    def network_of(process):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            return os.readlink(f"/proc/{process}/ns/net")
        return None

    def end(self, process):
        """With all that still runs on the host."""
        network = self.network_of(process.pid)
        if network != self.network_of("self"):
            for other in filter(str.isdigit, os.listdir("/proc")):
                if self.network_of(other) == network:
                    with contextlib.suppress(OSError):
                        os.kill(int(other), signal.SIGKILL)
        process.kill()
        process.communicate()

    def pid(self, name):
        return (self.folder / name).read_text()

    def on(self, name, *command):
        return run("nsenter", "--target", self.pid(name), "--net", *command)

    def connect(self, name, address):
        """A link between the host's eth0 and the switch; each end limits what it sends."""
        self.on("switch", "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.pid(name))
        self.on("switch", "ip", "link", "set", name, "master", "switch", "up")
        self.on(name, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.on(name, "ip", "link", "set", "eth0", "up")
        if self.delay:
            try:
                rate = ["rate", self.rate] if self.rate else []
                self.on(name, "tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", self.delay, *rate)
            except Unable as error:
                raise Unable(f"{error}; this kernel may lack netem, which delays packets: leave --delay out") from None
        elif self.rate:
            self.on(name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "128kb",
                    "latency", "100ms")

    def command(self, *command):
        """The same command as a process of this machine, which puts it on the first host."""
        return self.command_on("host0", *command)

    def command_on(self, host, *command):
        """The same on this host."""
        return [self.folder / "agent", host, "exec " + shlex.join(map(str, command))]

    def variables(self):
        """With which `mpirun` starts processes on all hosts."""
        return {**os.environ, "OMPI_MCA_plm_rsh_agent": str(self.folder / "agent"),
                "OMPI_MCA_orte_default_hostfile": str(self.folder / "slots"), "OMPI_MCA_plm": "rsh",
                "OMPI_MCA_hwloc_base_binding_policy": "none",  # a host has its processors already
                # mpirun misses a host that is not heard after five seconds, too.
                "OMPI_MCA_oob_tcp_keepalive_time": "2", "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
                "OMPI_MCA_oob_tcp_keepalive_probes": "3", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2, help="how many (2)")
    parser.add_argument("--slots", type=int, default=1, help="processes that mpirun starts on each (1)")
    parser.add_argument("--rate", help="of each link in each direction: 1gbit, 200mbit, …; unlimited otherwise")
    parser.add_argument("--delay", help="of each packet that a host sends: 50us, 1ms, …; none otherwise")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    asked = parser.parse_args()
    if not 1 <= asked.hosts <= 200 or asked.slots < 1:
        parser.error("--hosts is 1 to 200, and --slots at least 1")
    if os.geteuid() != 0:  # root of the hosts is enough
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", sys.executable, *sys.argv])
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the hosts end, too
    try:
        with Hosts(asked.hosts, asked.slots, asked.rate, asked.delay) as hosts:
            sys.exit(subprocess.run(hosts.command(*asked.command), env=hosts.variables(), check=False).returncode)
    except Unable as error:
        print(f"hosts.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
