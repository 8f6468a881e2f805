#!/usr/bin/env python3
"""Tables of docs/modern-hardware.md, from bench/modern_hardware.sh's results.

modern_hardware_tables.py OUT PAGE   writes them between the page's marks, <!-- table NAME --> and <!-- end -->"""

import pathlib
import re
import sys

from modern_hardware_cases import GIB, MACHINES, SHAPES, TECHNIQUES, case, cases, microbatches, read, shape_name

# What is compared: the first technique with the second.
GAINS = {"selective for full recomputation, both SP": ("selective + SP", "full + SP"),
         "none for selective, both SP": ("none + SP", "selective + SP"),
         "fused attention for selective, both SP": ("fused + SP", "selective + SP"),
         "SP, with fused attention": ("fused + SP", "fused")}
CONCLUSIONS = {"SP, fused": ("fused + SP", "fused"), "selective + SP for full": ("selective + SP", "full"),
               "fused for selective, SP": ("fused + SP", "selective + SP"), "zb-h1 for 1f1b, m = 16": ("zb-h1, m = 16", "1f1b, m = 16"),
               "the same, m = 64": ("zb-h1, m = 64", "1f1b, m = 64"),
               "interleaved for zb-h1, m = 16": ("interleaved, m = 16", "zb-h1, m = 16"),
               "2bw for interleaved, m = 16": ("2bw, m = 16", "interleaved, m = 16")}
GROUPS = {"products": "products", "memory": "memory bandwidth", "links": "NVLink bandwidth",
          "gathers": "`gather_fraction`", "network": "network bandwidth", "share": "`collective_share`",
          "latencies": "latencies and launches"}


def table(header, rows, left=1):
    """Markdown; the first `left` columns are words."""
    lines = [header, ["---"] * left + ["---:"] * (len(header) - left), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def needs(r):
    return f"needs {r['peak_bytes'] / GIB:.0f} GiB"


def hours(r):
    return f"{r['gpu_hours_per_billion_tokens']:.{1 if r['gpu_hours_per_billion_tokens'] < 100 else 0}f}"


def cost(r):
    """GPU-hours per billion tokens and MFU, or what it needs."""
    return f"{hours(r)} ({100 * r['mfu']:.1f} %)" if r["status"] == "ok" else needs(r)


def percent(ours, other):
    return f"{100 * (ours['step_seconds'] / other['step_seconds'] - 1):+.1f}"


def technique(results, name, shape, machine):
    return case(results, set="techniques", case=name, model=shape[0], sequence=shape[1], machine=machine)


def machines(results):
    rows = []
    for name, gpu in MACHINES.items():
        m = case(results, set="machines", machine=name)
        rows.append([f"`{name}`", f"{gpu}, `{m['base']}`", f"{m['memory_capacity'] / GIB:.1f}", f"{m['flops_bf16'] / 1e12:.0f}",
                     f"{m['flops_bf16'] * m['gemm_sustained'] / 1e12:.0f}"])
    return table(["machine", "of", "GiB", "bf16 peak, TFLOP/s", "sustained"], rows, 2)


def techniques(results):
    shape = ("175B", 2048)
    rows = [[name, f"{technique(results, name, shape, 'b200-dgx')['peak_bytes'] / GIB:.1f}"] +
            [cost(technique(results, name, shape, machine)) for machine in MACHINES] for name in TECHNIQUES]
    return table(["175B, s = 2048", "GiB", *(f"`{m}`" for m in MACHINES)], rows)


def cheapest(results):
    rows = []
    for shape in SHAPES:
        row = [shape_name(shape)]
        for machine in MACHINES:
            best = min((r for name in TECHNIQUES if (r := technique(results, name, shape, machine))["status"] == "ok"),
                       key=lambda r: r["step_seconds"])
            row.append(f"{best['case']}: {cost(best)}")
        rows.append(row)
    return table(["", *(f"`{m}`" for m in MACHINES)], rows)


def gains(results):
    rows = []
    for name, (ours, other) in GAINS.items():
        for shape in SHAPES if other == "fused" else (("175B", 2048), ("1T", 2048), ("175B", 8192)):
            rows.append([name, shape_name(shape)] + [percent(technique(results, ours, shape, m), technique(results, other, shape, m))
                                                     for m in MACHINES])
        if other == "fused":
            for model in ("175B", "530B", "1T"):
                found = {m: [technique(results, c, (model, 2048), f"{m}-sharded") for c in (ours, other)]
                         for m in ("h100-dgx", "b200-dgx")}
                rows.append([name + ", messages divided anyway", model] +
                            [percent(*found[m]) if m in found else "" for m in MACHINES])
    return table(["time, %", "", *(f"`{m}`" for m in MACHINES)], rows, 2)


def attention(results):
    """How many times what its products take fused attention may take before selective recomputation is as
    fast: seven products of b s² h / 2 visible pairs, 2 FLOPs each, for each layer, at the sustained rate."""
    shapes = {("175B", 2048): (96, 12288, 8, 64), ("530B", 2048): (105, 20480, 35, 280), ("1T", 2048): (128, 25600, 64, 512),
              ("175B", 8192): (96, 12288, 8, 64)}
    rows = []
    for (model, tokens), (layers, hidden, stages, count) in shapes.items():
        row = [shape_name((model, tokens))]
        for machine in MACHINES:
            m = case(results, set="machines", machine=machine)
            flops = 7 * tokens**2 * hidden * layers / stages / 8 * (count + stages - 1)
            seconds = flops / (m["flops_bf16"] * m["gemm_sustained"])
            ours, other = (technique(results, c, (model, tokens), machine)["step_seconds"] for c in ("fused + SP", "selective + SP"))
            row.append(f"{1 + (other - ours) / seconds:.0f}")
        rows.append(row)
    return table(["times", *(f"`{m}`" for m in MACHINES)], rows)


def small(results):
    rows = [[f"`{machine}`", recompute] + [cost(case(results, set="small", machine=machine, case=f"t = {t}, {recompute}"))
                                          for t in (1, 2, 4, 8)] for machine in MACHINES for recompute in ("none", "full")]
    return table(["llama3-8b, 8 GPUs", "recompute", "t = 1", "t = 2", "t = 4", "t = 8"], rows, 2)


def schedules(results):
    rows = []
    for suffix in (" + SP", ""):
        for name in ("1f1b", "interleaved", "zb-h1", "zb-h2", "2bw"):
            found = cases(results, set="schedules", machine="b200-dgx", case=name + suffix)
            rows.append([name, "on" if suffix else "off", f"{max(r['peak_bytes'] for r in found) / GIB:.1f}"] +
                        [f"{100 * r['mfu']:.1f}" for r in sorted(found, key=microbatches)])
    return table(["`b200-dgx`, MFU in %", "SP", "GiB", *(f"m = {m}" for m in (8, 16, 32, 64, 128))], rows, 2)


def scale(results):
    """Of H100s only what fits: they are as fast as H200s."""
    rows = []
    for machine in ("h100-dgx", "h200-hgx", "b200-dgx"):
        for name in ("1f1b, full", "1f1b", "1f1b, 16-bit sums", "zb-h1", "interleaved", "2bw"):
            found = {r["devices"]: r for r in cases(results, set="scale", machine=machine, case=name)}
            if any(r["status"] != "ok" for r in found.values()):
                continue
            rows.append([f"`{machine}`", name, f"{max(r['peak_bytes'] for r in found.values()) / GIB:.0f}"] +
                        [cost(found[n]) for n in (1024, 4096, 8192, 16384)])
    return table(["405B", "", "GiB", "1,024", "4,096", "8,192", "16,384 GPUs"], rows, 2)


def published(results):
    rows = []
    for name in ("interleaved", "1f1b"):
        found = {r["devices"]: r for r in cases(results, set="scale", machine="h100-dgx", case=name)}
        rows.append(["`h100-dgx`", name] + [f"{100 * found[n]['mfu']:.1f} ({theirs})"
                                            for n, theirs in ((8192, 43), (16384, 41))])
    return table(["405B, MFU in % (published), as if it fitted", "", "8,192", "16,384 GPUs"], rows, 2)


def plan(results):
    rows = [[r["model"], f"`{r['machine']}`", f"{r['devices']:,}", f"t {r['t']}, w {r['w']}, d {r['d']}, b {r['b']}, m {r['m']}, "
             f"{r['recompute']}", f"{r['step_seconds']:.3f}", f"{100 * (r['predicted_seconds'] / r['step_seconds'] - 1):+.2f}",
             f"{r['peak_bytes'] / GIB:.0f}", hours(r), f"{100 * r['seconds_by_part']['bubble'] / r['predicted_seconds']:.0f}"]
            for r in cases(results, set="plan")]
    return table(["model", "machine", "GPUs", "first choice", "executed, s", "predicted, %", "GiB", "GPU-hours", "bubble, %"],
                 rows, 2)


def sensitivity(results):
    def row(label, machine, names):
        found = [{r["case"]: r for r in cases(results, set="sensitivity", machine=name)} for name in names]
        return [label, f"`{machine}`"] + [" … ".join(percent(f[ours], f[other]) for f in found)
                                          for ours, other in CONCLUSIONS.values()]
    rows = [row("as it is", machine, [machine]) for machine in ("h100-dgx", "b200-dgx")]
    rows += [row(label, "b200-dgx", [f"b200-dgx-{group}-{factor}" for factor in (0.8, 1.2)]) for group, label in GROUPS.items()]
    return table(["a fifth less … more", "machine", *CONCLUSIONS], rows, 2)


TABLES = (machines, techniques, cheapest, gains, attention, small, schedules, scale, published, plan, sensitivity)


def with_tables(page, tables):
    """The page with these tables, by name."""
    for name, text in tables.items():
        mark = f"<!-- table {name} -->"
        if page.count(mark) != 1:
            raise SystemExit(f"{mark} is there {page.count(mark)} times, not once")
        made = f"{mark}\n{text}\n<!-- end -->".replace("-0.0", "0.0")
        page = re.sub(re.escape(mark) + ".*?<!-- end -->", lambda _: made, page, flags=re.DOTALL)
    return page


def filled(page, results):
    return with_tables(page, {make.__name__: make(results) for make in TABLES})


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    path = pathlib.Path(sys.argv[2])
    path.write_text(filled(path.read_text(), read(sys.argv[1])))


if __name__ == "__main__":
    main()
