"""What the records of training steps (step_records.py) say of frugal beside PyTorch: medians, ratios and bounds."""

import collections
import contextlib
import json
import pathlib
import random
import statistics

from step_records import ARTIFACT, KEYS, MORE_KEYS

TOLERANCES = {"f32": 1e-5, "bf16": 1e-4}  # of the first loss, as a share of it


def read(path):
    """results() of a file; a line that was cut off is left out."""
    records = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return results(records)


def rows(records):
    """Those of each row that has a whole round, and of the machine as it was measured before it. Of a row that was
    measured again the last."""
    found, machine = {}, {}
    for record in records:
        if record.get("artifact") != ARTIFACT:
            continue
        options = record["options"]
        if "model" not in options:
            machine = machine | {record["case"]: record}
            continue
        key = (record["on"], *(options[key] for key in KEYS), *(options.get(key, "") for key in MORE_KEYS))
        found.setdefault((key, record["rounds"]), Row(machine)).add(record)
    return list({key: row for (key, _), row in found.items() if row.whole}.values())


def samples(record, name):
    return record["metrics"].get(name, {"samples": []})["samples"]


def turns(record, name, of_turn):
    """The samples of each whole turn, of which one has `of_turn`."""
    values = samples(record, name)
    return [values[i:i + of_turn] for i in range(0, len(values) - of_turn + 1, of_turn)]


class Row:
    def __init__(self, machine):
        self.machine = machine
        self.sides, self.operations = {}, collections.defaultdict(dict)

    def add(self, record):
        options = record["options"]
        of_row = self.operations[options["operation"], options["size"]] if "operation" in options else self.sides
        of_row[options["by"]] = record

    @property
    def rivals(self):
        """Those that frugal is held against; not one that could not take a step."""
        return [side for side, record in self.sides.items() if side != "frugal"
                and (record["status"] != "failed" or samples(record, "step_time"))]

    def seconds(self, side):
        """The samples of each turn."""
        record = self.sides.get(side)
        return turns(record, "step_time", int(record["options"]["steps"])) if record else []

    @property
    def whole(self):
        """How many rounds are whole."""
        return min(len(self.seconds(side)) for side in ("frugal", *self.rivals)) if self.rivals else 0


def ratio(ours, theirs, draws=2000):
    """Median time of ours over theirs, with a 95 % bootstrap interval over rounds: samples of one turn
    share its luck, so rounds are drawn, not samples."""
    def of(rounds):
        return (statistics.median(x for i in rounds for x in ours[i])
                / statistics.median(x for i in rounds for x in theirs[i]))
    rounds, generator = range(len(ours)), random.Random(1)
    all_draws = sorted(of(generator.choices(rounds, k=len(ours))) for _ in range(draws))
    return {"value": of(rounds), "interval": [all_draws[draws // 40], all_draws[-draws // 40]]}


def results(records):
    """What each row says that has a whole round."""
    return [result(row) for row in rows(records)]


def result(row):
    """What was not recorded is left out."""
    ours, seconds = row.sides["frugal"], {side: row.seconds(side)[:row.whole] for side in ("frugal", *row.rivals)}
    said = {"on": ours["on"], **{key: ours["options"][key] for key in KEYS}, "rounds": row.whole,
            "dropout": float(ours["options"]["dropout"]), "micro_batch": int(ours["options"]["micro_batch"]),
            "medians": {side: statistics.median(x for turn in taken for x in turn) for side, taken in seconds.items()},
            "time_over": {side: ratio(seconds["frugal"], seconds[side]) for side in row.rivals},
            "memory": memory(row), "least": least(row)}
    said |= {key: ours["options"][key] for key in MORE_KEYS if key in ours["options"]}
    said |= two_cudnns(row)
    own = said["memory"].get("frugal", said["memory"].get("ledger"))
    said["memory_over"] = {side: own / said["memory"][side] for side in row.rivals if side in said["memory"]}
    if all(row.sides[side]["losses"] for side in seconds):
        said["losses"] = {side: row.sides[side]["losses"][0] for side in seconds}
        said["same_loss"] = all(abs(said["losses"][side] / said["losses"]["frugal"] - 1) <= TOLERANCES[said["type"]]
                                for side in row.rivals)
    return said | own_products(row, seconds, said["least"])


def version_numbers(version):
    """(9, 19, 0) of "9.19.0", and of 91900 as PyTorch says it."""
    if "." in version:
        return tuple(int(number) for number in version.split("."))
    return (int(version) // 10000, int(version) // 100 % 100, int(version) % 100)


def two_cudnns(row):
    """The versions of both sides where they are not the same: what is compared is two of these, too."""
    libraries = row.sides["frugal"]["environment"].get("libraries") or {}
    found = {"frugal": libraries.get("cuDNN")} | {side: row.sides[side]["options"].get("cudnn") for side in row.rivals}
    numbers = {side: version_numbers(version) for side, version in found.items() if version}
    if len(set(numbers.values())) < 2:
        return {}
    return {"two_cudnns": {side: ".".join(map(str, each)) for side, each in numbers.items()}}


def memory(row):
    """Bytes of each side; of frugal what its ledger and its state have, too."""
    ours = row.sides["frugal"]
    held = {side: statistics.median(found) for side in row.rivals if (found := samples(row.sides[side], "peak_memory"))}
    held |= {f"{side}, reserved": statistics.median(found) for side in row.rivals
             if (found := samples(row.sides[side], "reserved_memory"))}
    held |= {name: found[0] for name in ("ledger", "state") if (found := samples(ours, f"{name}_memory"))}
    if "machine/program" in row.machine:
        (program,) = samples(row.machine["machine/program"], "resident_memory")
        held["frugal"] = max(max(samples(ours, "resident_memory")) - program,
                             held["ledger"])  # parts of libraries may be gone
    return held


def least(row):
    """Seconds that the step's products take at the best rate that was measured, and that its bytes take
    at a copy's."""
    ours, copy = row.sides["frugal"], row.machine.get("machine/copy")
    rate = max(samples(ours, "product_rate"), default=None)
    needed = {"flops": samples(ours, "work")[0] / rate if rate else None, "gemm_rate": rate}
    if copy:
        (moved,) = samples(copy, "work")
        needed["bytes"] = samples(ours, "least_bytes")[0] / statistics.median(moved / x for x in samples(copy, "time"))
    return needed


def own_products(row, seconds, needed):
    """What the step's own products take: at their fastest among what it needs at least, and as they usually are over
    PyTorch's time, each by the faster library; their share of frugal's operations. Nothing where they were not timed
    on their own in each round.

    A product of frugal's includes the bias, the activation and the sum that it is fused with; PyTorch's has none of
    them. What multiplies and is no single product, which is fused attention, takes its FLOPs at `gemm_rate`."""
    steps, rate = int(row.sides["frugal"]["options"]["steps"]), needed["gemm_rate"]
    products, others, attention = [], [], 0
    for by in row.operations.values():
        (count,), (flops,) = samples(by["frugal"], "count"), samples(by["frugal"], "work")
        timed = [turns(by["frugal"], "time", round(count * steps))]
        if "PyTorch" in by:
            timed.append(turns(by["PyTorch"], "time", steps))
        elif rate:
            attention += count * flops / rate
        if min(map(len, timed)) < row.whole:
            return {}
        (products if "PyTorch" in by else others).append((count, flops, timed))
    if not products or not rate:
        return {}

    def usual(i):
        return attention + sum(count * min(statistics.median(taken[i]) for taken in timed)
                               for count, _, timed in products)

    def share(i):
        took = [(flops > 0, count * statistics.median(timed[0][i])) for count, flops, timed in products + others]
        return sum(x for multiplies, x in took if multiplies) / sum(x for _, x in took)
    all_usual = [[usual(i)] for i in range(row.whole)]
    fastest = sum(count * min(x for taken in timed for turn in taken[:row.whole] for x in turn)
                  for count, _, timed in products)
    return {"least": needed | {"products": attention + fastest},
            "products": {"usual": statistics.median(x for (x,) in all_usual),
                         "over": {side: ratio(all_usual, seconds[side]) for side in row.rivals},
                         "share": statistics.median(share(i) for i in range(row.whole))}}
