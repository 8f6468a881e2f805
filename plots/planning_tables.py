"""What each technique adds to the papers', and published utilizations, for paper_tables.py: of what
bench/planned_training.py found."""

from evaluation_tables import read, table

KINDS = ("planned-training", "published-training")
GIB = 2**30


def planned_training(path):
    rows, before = [], None
    for case in read(path)["planned"]:
        found = case["choice"]
        where = [case["model"], f"`{case['machine']}`", case["step"]]
        if found is None:
            rows.append([*where, "nothing fits", *[""] * 5])
            continue
        is_same = before is not None and found["command"] == before
        before = found["command"]
        rows.append([*where, "the same" if is_same else found["name"], f"{found['considered']:,}",
                     f"{found['seconds']:.3f}", f"{100 * found['mfu']:.1f}", f"{found['peak_bytes'] / GIB:.0f}",
                     f"{found['gpu_hours_per_billion_tokens']:.4g}"])
    return table(["model", "machine", "searched", "first choice", "considered", "executed, s", "MFU, %", "GiB",
                  "GPU-hours per 1e9 tokens"], 5, rows)


def published_training(path):
    rows = [[f"{case['devices']:,}", f"{case['tokens']:,}", str(case["context_parallel_size"]),
             f"{100 * case['published_mfu']:.0f}", f"{100 * case['mfu']:.1f}",
             f"{100 * (case['mfu'] - case['published_mfu']):+.1f}", f"{case['peak_bytes'] / GIB:.0f}"]
            for case in read(path)["published"]]
    return table(["GPUs", "tokens of a sequence", "c", "published MFU, %", "executed, %", "error, points", "GiB"], 7, rows)
