#!/usr/bin/env python3
"""Memory over one training step, as figure 11 of mst2024 has it. Draws the files timeline-TOKENS-NAME.json
of a folder, which `frugal trace --memory-file` wrote (./reproduce.sh has the commands), and the paper's peaks
beside those of its length."""

import pathlib

import memory_timeline
import reproduction
import style

PANELS = {"standard": "standard",
          "recompute": "activation recomputation",
          "mini-sequence": "mini-sequence",
          "offload": "mini-sequence,\nlayers' inputs on the host"}
# From the bottom up: what stays, then what comes and goes.
KINDS = {"parameter": ("weights", "#0072B2", ""),
         "optimizer": ("optimizer state", "#56B4E9", "..."),
         "gradient": ("gradients", "#CC79A7", "xxx"),
         "activation": ("activations kept for backward", "#E69F00", "///"),
         "workspace": ("intermediate", "#F0E442", ""),
         "statistics": ("statistics", "#009E73", ""),
         "communication": ("communication", "#D55E00", "")}
BINS = 150
VISIBLE = 0.002  # of the peak
PAPERS_TOKENS = 4096


def draw(panel, timeline):
    rows = timeline.thinned(BINS)
    times = [timeline.times[i] for i in rows]
    base = [0.0] * len(rows)
    for kind, (label, colour, hatch) in KINDS.items():
        top = [low + timeline.bytes[kind][i] / memory_timeline.GIB for low, i in zip(base, rows)]
        if max(timeline.bytes[kind]) > VISIBLE * timeline.peak():
            panel.fill_between(times, base, top, step="post", facecolor=colour, edgecolor="#000000",
                               linewidth=0, hatch=hatch, label=label)
        base = top
    panel.step(times, base, where="post", color="#000000", linewidth=0.5)
    if any(timeline.host):
        panel.step(times, [timeline.host[i] / memory_timeline.GIB for i in rows], where="post", color="#000000",
                   linewidth=1.6, linestyle="--", label="on the host")
    # It may last for too short a time to be seen.
    peak = timeline.peak() / memory_timeline.GIB
    panel.plot(timeline.times[timeline.first_peak()], peak, "v", color="#000000", markersize=5, linestyle="none",
               label="peak")
    panel.annotate(f"{peak:.1f} GiB", (0.02, peak), xycoords=("axes fraction", "data"), xytext=(0, 5),
                   textcoords="offset points", fontsize=9, bbox=style.BEHIND_TEXT)
    for phase, begin, end in timeline.spans():
        if end - begin > 0.05 * timeline.times[-1]:
            panel.axvline(end, color="#000000", linewidth=0.6)
            panel.annotate(phase, ((begin + end) / 2, 0.985), xycoords=("data", "axes fraction"), ha="center",
                           va="top", fontsize=9, bbox=style.BEHIND_TEXT)
    panel.set(xlabel="seconds", xlim=(0, timeline.times[-1]))
    panel.grid(False)


def files(folder):
    """{tokens: {name: path}}, what there is."""
    found = {}
    for path in pathlib.Path(folder).glob("timeline-*-*.json"):
        _, tokens, name = path.stem.split("-", 2)
        if name in PANELS and tokens.isdigit():
            found.setdefault(int(tokens), {})[name] = path
    if not found:
        reproduction.fail(f"{folder}: no timeline-TOKENS-NAME.json; ./reproduce.sh makes them, with frugal trace "
                          "--memory-file")
    return dict(sorted(found.items()))


def draw_papers_peak(panel, folder, name):
    figure = reproduction.read(folder, "mst2024/figure11")
    if found := figure.paper(name, "peak"):
        panel.axhline(found[0], color="#D55E00", linewidth=1.2, linestyle=":", label="the paper's peak")
        panel.annotate(f"paper: {found[0]:g} GiB", (0.98, found[0]), xycoords=("axes fraction", "data"),
                       xytext=(0, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9)


def draw_row(axes, folder, tokens, paths):
    """The panels of one length."""
    devices = set()
    for (name, title), panel in zip(PANELS.items(), axes):
        panel.set(title=title)
        if name not in paths:
            panel.set_axis_off()
            continue
        timeline, about = memory_timeline.read(paths[name])
        devices.add(about["on"])
        draw(panel, timeline)
        if tokens == PAPERS_TOKENS:
            draw_papers_peak(panel, folder, name)
    top = max(panel.get_ylim()[1] for panel in axes)
    for panel in axes:
        panel.set_ylim(0, 1.12 * top)
    axes[0].set(ylabel=f"{tokens} tokens on {', '.join(sorted(devices))}\nGiB")


def figure_of(folder):
    found = files(folder)
    figure, axes = style.plt.subplots(len(found), len(PANELS), figsize=(11, 1 + 3.6 * len(found)), sharey="row",
                                      squeeze=False)
    for row, (tokens, paths) in zip(axes, found.items()):
        draw_row(row, folder, tokens, paths)
    figure.suptitle("Memory over one training step of Llama3-8B, as in figure 11")
    handles = {}
    for panel in axes.flat:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels())))
    strip = 0.62 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=4)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(figure_of(args.input), args.output, "mst2024-figure11")


if __name__ == "__main__":
    main()
