#!/usr/bin/env python3
"""What the papers' techniques buy on machines of today: bench/modern_hardware.sh's results.

modern_hardware.py OUT FIGURES   OUT has modern-hardware.jsonl; the tables are modern_hardware_tables.py's"""

import sys

import style
from modern_hardware_cases import GIB, MACHINES, SHAPES, TECHNIQUES, case, cases, microbatches, read, shape_name

NOT_CALIBRATED = "virtual, not calibrated"
# Colour, marker and line of what a curve shows, the same in all figures.
CURVES = {
    "2bw": ("#0072B2", "v", "-"), "interleaved": ("#009E73", "D", "-"), "zb-h2": ("#CC79A7", "P", "--"),
    "zb-h1": ("#D55E00", "X", "-"), "1f1b": ("#000000", "o", "-"), "1f1b, 16-bit sums": ("#000000", "s", ":"),
    "1f1b, full": ("#E69F00", "^", "-"),
}
BARS = {  # techniques beside full recomputation without sequence parallelism
    "full + SP": {"facecolor": "#FFFFFF"},
    "selective + SP": {"facecolor": "#56B4E9", "hatch": "..."},
    "none + SP": {"facecolor": "#E69F00", "hatch": "///"},
    "fused + SP": {"facecolor": "#0072B2"},
}
# Grattafiori et al. 2024 (arXiv:2407.21783), table 4: MFU of 405B on H100s, sequences of 8192 tokens.
PUBLISHED = [(8192, 0.43), (16384, 0.41)]


def techniques(results):
    """Time saved by each technique, of full recomputation's."""
    figure, axes = style.panels(len(MACHINES), 6.2, "Time of a step that techniques save of that with full recomputation "
                                f"and no sequence parallelism (SP); {NOT_CALIBRATED}", [shape_name(s) for s in SHAPES])
    series = [(name, {**look, "edgecolor": "#000000", "label": name}) for name, look in BARS.items()]
    for machine, panel in zip(MACHINES, axes):
        found = []
        for name, look in series:
            cells = []
            for model, tokens in SHAPES:
                of = {"set": "techniques", "model": model, "sequence": tokens, "machine": machine}
                ours, full = case(results, case=name, **of), case(results, case="full", **of)
                saved = 100 * (1 - ours["step_seconds"] / full["step_seconds"])
                cells.append((saved, None) if ours["status"] == "ok"
                             else f"does not fit: {ours['peak_bytes'] / GIB:.0f} GiB")
            found.append((look, cells))
        style.bars(panel, found, "{:.1f}")
        panel.set(title=f"{machine} ({MACHINES[machine]})", xlabel="%")
        panel.set_xlim(-17, 49)
    style.legend(figure, [look for _, look in series])
    return figure


def memory(results):
    """What each technique needs, and what the GPUs have."""
    names = TECHNIQUES
    figure, axes = style.panels(len(SHAPES), 4.6, "Memory of the largest rank, GiB, and what each GPU has (dashed); virtual, "
                                "the same on all machines", names)
    capacities = {r["machine"]: r["memory_capacity"] / GIB for r in cases(results, set="machines")}
    for (model, tokens), panel in zip(SHAPES, axes):
        cells = [(case(results, set="techniques", model=model, sequence=tokens, machine="b200-dgx", case=name)
                  ["peak_bytes"] / GIB, None) for name in names]
        style.bars(panel, [(style.VIRTUAL, cells)], "{:.0f}")
        for machine in ("h100-dgx", "h200-hgx", "b200-dgx"):
            panel.axvline(capacities[machine], color="#000000", linewidth=0.9, linestyle="--")
        panel.set_xlim(0, max(210, 1.15 * max(value for value, _ in cells)))
        panel.set(title=shape_name((model, tokens)), xlabel="GiB")
    figure.text(0.5, 0.0, "dashed: H100 " + ", H200 ".join(f"{capacities[m]:.0f}" for m in ("h100-dgx", "h200-hgx"))
                + f", B200 {capacities['b200-dgx']:.0f} GiB", ha="center", va="bottom", fontsize=9)
    figure.get_layout_engine().set(rect=(0, 0.05, 1, 0.95))
    return figure


def curve(panel, found, x, name, label):
    """A line of MFU in percent; hollow markers where a case does not fit."""
    colour, marker, line = CURVES[name]
    panel.plot([x(r) for r in found], [100 * r["mfu"] for r in found], color=colour, linestyle=line, linewidth=1.4,
               marker=marker, markersize=6, markevery=[r["status"] == "ok" for r in found], label=label)
    panel.plot([x(r) for r in found if r["status"] != "ok"], [100 * r["mfu"] for r in found if r["status"] != "ok"],
               color=colour, linestyle="none", marker=marker, markersize=6, fillstyle="none")


def powers(panel, values, label):
    panel.set(xscale="log", xlabel=label)
    panel.set_xticks(values, [f"{v:,}" if v < 1024 else f"{v // 1024}k" for v in values])
    panel.minorticks_off()
    panel.grid(True)


def legend(figure, panel):
    handles, labels = panel.get_legend_handles_labels()
    strip = 0.45 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    figure.legend(handles, labels, loc="lower center", ncol=len(labels))


def schedules(results):
    """MFU of one pipeline by the number of its microbatches."""
    figure, axes = style.plt.subplots(2, 2, figsize=(11, 7.4), sharex=True, sharey=True)
    for row, machine in zip(axes, ("h100-dgx", "b200-dgx")):
        for panel, suffix in zip(row, ("", " + SP")):
            for name in ("2bw", "interleaved", "zb-h2", "zb-h1", "1f1b"):
                curve(panel, cases(results, set="schedules", machine=machine, case=name + suffix), microbatches, name, name)
            powers(panel, [8, 16, 32, 64, 128], "microbatches of a step")
            panel.set(title=f"{machine}, sequence parallelism {'on' if suffix else 'off'}", ylabel="MFU, %", ylim=(20, 55))
    figure.suptitle("175B in 8 stages of 8 tensor-parallel GPUs, fused attention; hollow: does not fit; " + NOT_CALIBRATED)
    legend(figure, axes[0][0])
    return figure


def scale(results):
    """MFU of a batch that is divided among more and more replicas."""
    figure, axes = style.plt.subplots(1, 3, figsize=(11, 4.9), sharey=True)
    for machine, panel in zip(("h100-dgx", "h200-hgx", "b200-dgx"), axes):
        for name in ("2bw", "interleaved", "zb-h1", "1f1b", "1f1b, 16-bit sums", "1f1b, full"):
            curve(panel, cases(results, set="scale", machine=machine, case=name), lambda r: r["devices"], name, name)
        powers(panel, [1024, 2048, 4096, 8192, 16384], "GPUs")
        panel.set(title=f"{machine} ({MACHINES[machine]})", ylabel="MFU, %", ylim=(15, 65))
    axes[0].plot([x for x, _ in PUBLISHED], [100 * y for _, y in PUBLISHED], linestyle="none", marker="*", markersize=13,
                 color="#FFFFFF", markeredgecolor="#000000", label="Llama 3, published")
    figure.suptitle("Llama 3 405B (128 layers), 2048 sequences of 8192 tokens, 16 stages of 8 GPUs, SP; hollow: does not fit; "
                    + NOT_CALIBRATED, fontsize=11)
    legend(figure, axes[0])
    return figure


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    results = read(sys.argv[1])
    for draw in (techniques, memory, schedules, scale):
        style.save(draw(results), sys.argv[2], f"modern-hardware-{draw.__name__}")


if __name__ == "__main__":
    main()
