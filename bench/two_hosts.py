#!/usr/bin/env python3
"""Two hosts made of this machine (scripts/hosts.py), with a link of limited rate: are the losses those of threads, and
is a step as long as the virtual machine says, which has what was measured of one host and of the link?

  bench/two_hosts.py BUILD OUT [RATE...]     1gbit and 200mbit otherwise

One processor of each host is used. First both hosts time their operations, at the same time, as in a step; then they
send messages to each other. From these alone a machine is made, OUT/machine-RATE.json, before any step is run. Steps
and messages leave records in OUT, and the table is OUT/table.md."""

import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))
import hosts  # noqa: E402

STEPS = 12
# How a step's ranks share its work, and the model.
LAYOUTS = {
    "data-parallel 2": ["--model", "gpt-3m", "--data-parallel", "2"],
    "data-parallel 2, 4 microbatches": ["--model", "gpt-3m", "--data-parallel", "2", "--microbatches", "4"],
    "tensor-parallel 2": ["--model", "gpt-3m", "--tensor-parallel", "2"],
    "tensor-parallel 2, sequence-parallel": ["--model", "gpt-3m", "--tensor-parallel", "2", "--sequence-parallel"],
    "pipeline-parallel 2, 4 microbatches": ["--model", "gpt-3m", "--pipeline-parallel", "2", "--microbatches", "4"],
    "pipeline-parallel 2, 2bw, 4 microbatches": ["--model", "gpt-3m", "--pipeline-parallel", "2", "--microbatches", "4",
                                                 "--schedule", "2bw", "--clip", "0"],
}
MESSAGES = ("1KiB", "4MiB")


def run(command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"two_hosts.py: `{' '.join(map(str, command))}` ended with status {done.returncode}")
    return done.stdout


def records(folder):
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


class Link:
    """Two hosts with a link of this rate."""

    def __init__(self, two, frugal, out):
        self.two, self.frugal, self.out = two, frugal, out

    def frugal_on_both(self, *arguments):
        command = self.two.command("mpirun", "-n", "2", self.frugal, *arguments)
        return run(command, cwd=self.out, env=self.two.variables())

    def operations(self, name):
        """How long the first host's take while the second one does the same."""
        peak = [self.frugal, "peak", "--on", "cpu", "--threads", "1", "--force", "--machine"]
        second = subprocess.Popen(self.two.command_on("host1", *peak, self.out / "other.json"), cwd=self.out,
                                  stdout=subprocess.DEVNULL)
        run(self.two.command(*peak, self.out / name), cwd=self.out)
        if second.wait() != 0:
            sys.exit("two_hosts.py: the second host could not time its operations")
        (self.out / "other.json").unlink()
        return json.loads((self.out / name).read_text())

    def one_way(self, rate):
        """Seconds of a message to the other host, by its bytes."""
        folder = self.out / f"messages-{rate}"
        for size in MESSAGES:
            self.frugal_on_both("bench", "processes", "--threads", "2", "--case", f"message/{size}/processes", "--out",
                                folder.name)
        times = {}
        for record in records(folder):
            if record["options"]["by"] == "processes":
                both = record["metrics"]["work"]["samples"][0]  # there and back
                times[both / 2] = statistics.median(record["metrics"]["time"]["samples"]) / 2
        return times


def with_link(machine, times, rate):
    """The machine of one host, twice, with the link that messages saw."""
    (small, latency), (large, long) = sorted(times.items())
    measured = f"frugal bench processes: messages over a link of {rate}"
    bandwidth = (large - small) / (long - latency)

    def value(number, unit, source=measured):
        return {"value": number, "unit": unit, "source": source}

    within = "there is one device in a node"
    nothing = "part of what messages take"
    machine["network"] = {
        "devices_per_node": value(1, "1", "one processor of each host"),
        "host_memory": machine["network"]["host_memory"],
        "link_bandwidth": value(bandwidth, "B/s", within), "link_fraction": value(1, "1", within),
        "gather_fraction": value(1, "1", within), "link_latency": value(latency, "s", within),
        "network_bandwidth": value(bandwidth, "B/s"), "network_fraction": value(1, "1", nothing),
        "network_latency": value(latency, "s"), "collective_latency": value(1e-9, "s", nothing),
        "collective_share": value(0.5, "1", "nothing is computed beside")}
    machine["name"] = f"two-hosts-{rate}"
    machine["description"] = f"two hosts with one processor each, and a link of {rate}"
    return machine, latency, bandwidth


def step_time(record):
    samples = record["metrics"]["step_time"]["samples"]
    return statistics.median(samples)


def measure(link, rate, rows):
    times = link.one_way(rate)
    machine, latency, bandwidth = with_link(link.operations("host.json"), times, rate)
    file = link.out / f"machine-{rate}.json"
    file.write_text(json.dumps(machine, indent=1) + "\n")
    for name, layout in LAYOUTS.items():
        common = ["measure", *layout, "--steps", STEPS, "--format", "json", "--out"]
        predicted = json.loads(run([link.frugal, *common, f"virtual-{rate}", "--on", f"virtual:{file}"], cwd=link.out))
        threads = json.loads(run([link.frugal, *common, "threads", "--on", "cpu", "--threads", 2], cwd=link.out))
        both = json.loads(link.frugal_on_both(*common, f"steps-{rate}", "--on", "cpu", "--threads", 2))
        error = step_time(predicted) / step_time(both) - 1
        same = both["losses"] == threads["losses"]
        rows.append(f"| {rate} | {name} | {1e3 * step_time(both):.1f} | {1e3 * step_time(predicted):.1f} | "
                    f"{100 * error:+.1f} | {1e3 * step_time(threads):.1f} | {'the same' if same else 'OTHERS'} |")
        print(rows[-1], flush=True)
    return f"{rate}: a message takes {1e6 * latency:.0f} µs and {bandwidth / 1e6:.1f} MB/s"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    frugal, out = pathlib.Path(sys.argv[1]).resolve() / "frugal", pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True)
    rows, links = [], []
    for rate in sys.argv[3:] or ["1gbit", "200mbit"]:
        try:
            with hosts.Hosts(count=2, rate=rate) as two:
                links.append(measure(Link(two, frugal, out), rate, rows))
        except hosts.Unable as error:
            sys.exit(f"two_hosts.py: {error}")
    table = ["| link | step | measured, ms | predicted, ms | error, % | 2 threads, ms | losses |",
             "|---|---|---|---|---|---|---|", *rows]
    (out / "table.md").write_text("\n".join([*links, "", *table]) + "\n")
    print("\n".join(links))


if __name__ == "__main__":
    main()
