#!/usr/bin/env python3
"""Two hosts made of this machine (scripts/hosts.py), with a link of limited rate: are the losses those of threads, and
is a step as long as the virtual machine says, which has what was measured of one host and of the link?

  bench/two_hosts.py BUILD OUT [RATE...]     1gbit and 200mbit otherwise

One processor of each host is used. First both hosts time their operations, at the same time, as in a step; then they
send messages to each other. From these alone a machine is made, OUT/machine-RATE.json, before any step is run. Steps
of two hosts and of two threads are run by turns. Steps and messages leave records in OUT, and the table is
OUT/table.md: medians, and of the ratios 95 % intervals over the turns."""

import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))
import hosts  # noqa: E402
from step_results import ratio  # noqa: E402

STEPS, TURNS = 12, 5
# A backward pass that takes about as long as summing its gradients over 1 Gb/s.
REPLICAS_OF_4 = ["--model", "gpt-3m", "--data-parallel", "2", "--micro-batch", "4"]
# How a step's ranks share its work, and the model.
LAYOUTS = {
    "data-parallel 2": ["--model", "gpt-3m", "--data-parallel", "2"],
    "data-parallel 2, 4 microbatches": ["--model", "gpt-3m", "--data-parallel", "2", "--microbatches", "4"],
    "data-parallel 2, microbatch of 4": [*REPLICAS_OF_4],
    "data-parallel 2, microbatch of 4, overlapped": [*REPLICAS_OF_4, "--overlap-grad-reduce", "--bucket-size", "200000"],
    "data-parallel 2, microbatch of 4, ZeRO-1": [*REPLICAS_OF_4, "--shard", "optimizer"],
    "data-parallel 2, microbatch of 4, ZeRO-1, overlapped": [*REPLICAS_OF_4, "--shard", "optimizer",
                                                             "--overlap-grad-reduce"],
    "tensor-parallel 2": ["--model", "gpt-3m", "--tensor-parallel", "2"],
    "tensor-parallel 2, sequence-parallel": ["--model", "gpt-3m", "--tensor-parallel", "2", "--sequence-parallel"],
    "pipeline-parallel 2, 4 microbatches": ["--model", "gpt-3m", "--pipeline-parallel", "2", "--microbatches", "4"],
    "pipeline-parallel 2, 2bw, 4 microbatches": ["--model", "gpt-3m", "--pipeline-parallel", "2", "--microbatches", "4",
                                                 "--schedule", "2bw", "--clip", "0"],
}
# From which latency and bandwidth follow.
MESSAGES = ("1KiB", "4MiB")


def fail(why):
    print(f"two_hosts.py: {why}", file=sys.stderr)
    sys.exit(2)


def run(command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        fail(f"`{' '.join(map(str, command))}` ended with status {done.returncode}")
    return done.stdout


def samples(record, name):
    return record["metrics"][name]["samples"]


def records(folder):
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


class Link:
    """Two hosts with a link of this rate."""

    def __init__(self, two, frugal, out):
        self.two, self.frugal, self.out = two, frugal, out

    def frugal_on_both(self, *arguments):
        command = self.two.command("mpirun", "-n", "2", self.frugal, *arguments)
        return run(command, cwd=self.out, env=self.two.variables())

    def time_operations(self, name):
        """How long the first host's take while the second one does the same, as a machine in this file."""
        peak = [self.frugal, "peak", "--on", "cpu", "--threads", "1", "--force", "--machine"]
        second = subprocess.Popen(self.two.command_on("host1", *peak, self.out / "other.json"), cwd=self.out,
                                  stdout=subprocess.DEVNULL)
        run(self.two.command(*peak, self.out / name), cwd=self.out)
        if second.wait() != 0:
            fail("the second host could not time its operations")
        (self.out / "other.json").unlink()

    def one_way(self, rate):
        """Seconds of a message to the other host, by its bytes."""
        folder = self.out / f"messages-{rate}"
        for size in MESSAGES:
            self.frugal_on_both("bench", "processes", "--threads", "2", "--case", f"message/{size}/processes", "--out",
                                folder.name)
        return {samples(record, "work")[0]: statistics.median(samples(record, "time"))
                for record in records(folder) if record["options"]["by"] == "processes"}


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
        "collective_share": value(1e-9, "1", "what the processor does for a message is not measured")}
    machine["name"] = f"two-hosts-{rate}"
    machine["description"] = f"two hosts with one processor each, and a link of {rate}"
    return machine, latency, bandwidth


def steps_of_turns(link, layout, rate):
    """Records of two hosts and of two threads, one of each for each turn."""
    common = ["measure", *layout, "--steps", STEPS, "--format", "json", "--on", "cpu", "--threads", 2, "--rerun", "all",
              "--out"]
    both, threads = [], []
    for _ in range(TURNS):
        both.append(json.loads(link.frugal_on_both(*common, f"steps-{rate}")))
        threads.append(json.loads(run([link.frugal, *common, f"threads-{rate}"], cwd=link.out)))
    return both, threads


def step_times(turns):
    return [samples(record, "step_time") for record in turns]


def row_of(link, name, layout, rate, file):
    predicted = json.loads(run([link.frugal, "measure", *layout, "--steps", STEPS, "--format", "json", "--out",
                                f"virtual-{rate}", "--on", f"virtual:{file}"], cwd=link.out))
    both, threads = steps_of_turns(link, layout, rate)
    measured, seconds = step_times(both), statistics.median(samples(predicted, "step_time"))
    error, over_threads = ratio([[seconds]] * TURNS, measured), ratio(measured, step_times(threads))
    same = all(record["losses"] == threads[0]["losses"] for record in both + threads)
    low, high = (100 * (bound - 1) for bound in error["interval"])
    return (f"| {rate} | {name} | {1e3 * statistics.median(x for turn in measured for x in turn):.1f} | "
            f"{1e3 * seconds:.1f} | {100 * (error['value'] - 1):+.1f} [{low:+.1f}, {high:+.1f}] | "
            f"{over_threads['value']:.2f} [{over_threads['interval'][0]:.2f}, {over_threads['interval'][1]:.2f}] | "
            f"{'the same' if same else 'DIFFERENT'} |")


def measure(link, rate, host, rows):
    machine, latency, bandwidth = with_link(json.loads(host.read_text()), link.one_way(rate), rate)
    file = link.out / f"machine-{rate}.json"
    file.write_text(json.dumps(machine, indent=1) + "\n")
    for name, layout in LAYOUTS.items():
        rows.append(row_of(link, name, layout, rate, file))
        print(rows[-1], flush=True)
    return f"{rate}: a message takes {1e6 * latency:.0f} µs and {bandwidth / 1e6:.1f} MB/s"


def main():
    if len(sys.argv) < 3:
        fail("usage: bench/two_hosts.py BUILD OUT [RATE...]")
    frugal, out = pathlib.Path(sys.argv[1]).resolve() / "frugal", pathlib.Path(sys.argv[2]).resolve()
    if not frugal.is_file():
        fail(f"{frugal} not found; first run scripts/build.sh release")
    if out.exists():
        fail(f"{out} exists; give a folder that does not")
    out.mkdir(parents=True)
    rows, links = [], []
    try:
        with hosts.Hosts(count=2) as two:
            Link(two, frugal, out).time_operations("host.json")
        for rate in sys.argv[3:] or ["1gbit", "200mbit"]:
            with hosts.Hosts(count=2, rate=rate) as two:
                links.append(measure(Link(two, frugal, out), rate, out / "host.json", rows))
    except hosts.Unable as error:
        fail(error)
    table = ["| link | step | measured, ms | predicted, ms | error, % | time over 2 threads' | losses |",
             "|---|---|---|---|---|---|---|", *rows]
    (out / "table.md").write_text("\n".join([*links, "", *table]) + "\n")
    print("\n".join(links))


if __name__ == "__main__":
    main()
