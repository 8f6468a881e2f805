"""What each technique adds to the papers', and published utilizations, for paper_tables.py: of what
bench/planned_training.py found."""

from evaluation_tables import read, table

KINDS = ("planned-training", "published-training")
GIB = 2**30


def sizes(layers):
    return f", layers {layers}" if layers else ""


def choice_of(found):
    again = found["recompute"]
    if again == "selective":
        again = found["recompute_modules"] or again
    if found.get("recompute_layers"):
        again += f" of {found['recompute_layers']} layers"
    shard = f", shard {found['shard']}" if found["shard"] else ""
    alone = ", passes alone" if found.get("overlap_passes") == "off" else ""
    late = ", steps validated after" if found.get("validate_steps") == "after" else ""
    shared = found.get("context_parallel_size") or 1
    context = f"c {shared} {found.get('context') or 'ulysses'}, " if shared > 1 else ""
    chunks = f" v {found['chunks']}" if found["chunks"] > 1 else ""
    return (f"t {found['tensor_parallel_size']}, {context}w {found['data_parallel_size']}, p {found['pipeline_parallel_size']}, "
            f"b {found['microbatch_size']}, m {found['microbatches']}, {found['schedule']}{chunks}, {again}{alone}{late}{shard}"
            f"{sizes(found['stage_layers'])}")


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
        rows.append([*where, "the same" if is_same else choice_of(found), f"{found['considered']:,}",
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
