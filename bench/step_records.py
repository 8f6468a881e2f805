"""Training steps beside PyTorch's as records (docs/records.md): how they are made.

A row (a model, a type, …) has a record of each side: `step_time`, and what memory the side took. Its turns follow one
another, so all have the same `rounds`; a turn is as many samples of `step_time` as the option `steps` says. Records
with an option `operation` are of one operation of frugal's step, or of the same product by PyTorch. Those without a
model are of the machine, and hold for the rows after them. step_results.py says what they mean together.

`weights` is what PyTorch's are: float32 below autocast, "bf16" beside float32 masters, or "bf16-alone". `against` is
whose model it trains, where that is no model of ours. `turns` that are "sustained" last seconds and leave their
beginning out."""

import datetime
import json
import pathlib
import statistics

ARTIFACT = "bench/steps"
KEYS = ("model", "type", "attention", "dropout", "micro_batch", "flags")  # options that are a row
MORE_KEYS = ("weights", "against", "modes", "turns")  # others, which a record leaves out where they are as usual
SIDES = ("eager", "compiled")


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new(about, case, options, **more):
    """A record without metrics, on the device that `about` describes, which frugal printed."""
    shared = {key: about[key] for key in ("source", "on", "device", "environment")}
    return shared | {
        "schema": "frugal.record/1", "artifact": ARTIFACT, "case": case, "what": "benchmark",
        "communication": about.get("communication", {"kind": "real"}), "scale": "1", "configuration": None,
        "options": {key: str(value) for key, value in options.items()}, "machine": about.get("machine", ""),
        "program": "", "rounds": "", "fingerprint": "", "status": "ok", "reason": "", "metrics": {}, "memory": None,
        "flops": None, "work": None, "utilization": None, "losses": [], "held_out": [], "command": "",
        "started": now(), "ended": now()} | more


def add(record, name, unit, *values):
    """Samples of a metric. They have no interval: those of one turn share its luck (step_results.ratio)."""
    metric = record["metrics"].setdefault(name, {"unit": unit, "samples": [], "median": None, "interval": None})
    metric["samples"] += values
    metric["median"] = statistics.median(metric["samples"])


def count(record, name, unit, value):
    """A number that is the same in every turn."""
    if name not in record["metrics"]:
        add(record, name, unit, value)


def line(record):
    return json.dumps(record, sort_keys=True) + "\n"


def of_machine(resident, peak, command):
    """What the program itself occupies, and what a copy and products take, of which frugal peak printed `peak`."""
    def record(case):
        records.append(new(peak, f"machine/{case}", {"threads": peak["threads"]}, command=command))
        return records[-1]

    def timed(case, seconds, unit, work):
        add(record(case), "time", "s", *seconds)
        count(records[-1], "work", unit, work)
    records, copy = [], peak["copy"]
    add(record("program"), "resident_memory", "bytes", resident)
    timed("copy", copy["seconds"], "bytes", copy["bytes"])
    for gemm in peak["gemm"]:
        m, n, k = (gemm[key] for key in "mnk")
        timed(f"gemm/{gemm['type']}/{m}x{n}x{k}", gemm["seconds"], "FLOP", 2 * m * n * k)
    return records


class Measured:
    """The records of one row, which grow turn by turn."""

    def __init__(self, row, options, sides=SIDES, **shared):
        # A file without its folder, because no result names a machine's paths.
        self.row = row | {"model": pathlib.PurePath(row["model"]).name, "dropout": f"{row['dropout']:g}"}
        self.sides = sides
        self.options = {key: self.row[key] for key in KEYS} | options
        self.options |= {key: self.row[key] for key in MORE_KEYS if self.row.get(key)}
        self.shared, self.records, self.about = {"started": now()} | shared, {}, None

    def begin(self, about):
        """With the first record of frugal's. A side that will fail has a record from then on, too."""
        self.about = about
        for side in ("frugal", *self.sides):
            self.record(by=side, configuration=about["configuration"])
        self.record(by="frugal").update({key: about[key] for key in ("program", "command")})

    def record(self, *words, by, **more):
        """The one of a side, or of an operation: `words` are its form and its size."""
        case = "/".join([*(str(self.row[key]) for key in (*KEYS, *MORE_KEYS) if self.row.get(key, "") != ""), *words, by])
        if case not in self.records:
            options = self.options | {"by": by} | dict(zip(("operation", "size"), words))
            self.records[case] = new(self.about, case, options, **(self.shared | more))
        return self.records[case]

    def frugal(self, said, resident):
        """A turn of which `said` is frugal's own record."""
        if not self.records:
            self.begin(said)
        ours, held = self.record(by="frugal"), said["memory"]["peak"]
        rate = said["utilization"]["peak_flops"]["measured"]
        add(ours, "step_time", "s", *said["metrics"]["step_time"]["samples"])
        add(ours, "resident_memory", "bytes", resident)
        if rate:
            add(ours, "product_rate", "FLOP/s", rate)
        count(ours, "ledger_memory", "bytes", said["memory"]["peak_total"])
        count(ours, "state_memory", "bytes", held["parameter"] + held["gradient"] + held["optimizer"])
        count(ours, "work", "FLOP", said["flops"]["hardware"]["value"])
        # Weights are read forward and backward and written; all else is written and read once.
        count(ours, "least_bytes", "bytes",
              3 * held["parameter"] + 2 * (held["gradient"] + held["optimizer"] + held["activation"]))

    def operations(self, operations, **said):
        """A turn of frugal's operations, each timed on its own."""
        for each in operations:
            ours = self.record(each["operation"], size_of(each), by="frugal", **said)
            add(ours, "time", "s", *each["seconds"])
            for name, key, unit in (("count", "count", "1"), ("work", "flops", "FLOP"), ("bytes", "bytes", "bytes")):
                count(ours, name, unit, each[key])

    def pytorch(self, side, seconds, peak_bytes, reserved_bytes=None, **versions):
        theirs = self.record(by=side)
        add(theirs, "step_time", "s", *seconds)
        add(theirs, "peak_memory", "bytes", peak_bytes)
        if reserved_bytes is not None:
            add(theirs, "reserved_memory", "bytes", reserved_bytes)
        theirs["options"] |= texts(versions)

    def failed(self, side, reason):
        """A side that cannot, while the others go on."""
        self.record(by=side).update(status="failed", reason=reason)

    def products(self, products, **versions):
        for each in products:
            theirs = self.record(each["operation"], size_of(each), by="PyTorch")
            add(theirs, "time", "s", *each["seconds"])
            theirs["options"] |= texts(versions)


def size_of(operation):
    """Batch, m, n and k of a product; otherwise bytes."""
    product = operation["product"]
    return "x".join(map(str, product)) if product else f"{operation['bytes']:.0f} bytes"


def texts(versions):
    return {key: "; ".join(value) if isinstance(value, list) else str(value) for key, value in versions.items()}
