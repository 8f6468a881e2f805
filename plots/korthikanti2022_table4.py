#!/usr/bin/env python3
"""Table 4 of korthikanti2022: forward and backward time of one layer of the 22B model."""

import matplotlib.colors

import reproduction
import style

ROWS = {
    "baseline": "baseline",
    "sequence parallel": "sequence parallel",
    "full recompute": "full recompute",
    "selective recompute": "selective recompute",
    "selective recompute + sequence parallel": "selective recompute\n+ sequence parallel",
}
# In results of programs that have them.
NOT_THE_PAPERS = {
    "fused attention": "fused attention",
    "fused attention + sequence parallel": "fused attention\n+ sequence parallel",
}


def stacked(panel, look, rows, offset, height, fitted=()):
    """Forward, and behind it, paler, backward; the sum at the end, marked in rows that are fitted."""
    pale = matplotlib.colors.to_rgba(look["facecolor"], 0.45)
    for row, (forward, backward) in enumerate(rows):
        if forward is None or backward is None:
            continue
        y = row + offset
        panel.barh(y, forward[0], height, **look)
        panel.barh(y, backward[0], height, left=forward[0], **{**look, "facecolor": pale})
        total = forward[0] + backward[0]
        for x, text in ((forward[0] / 2, forward[0]), (forward[0] + backward[0] / 2, backward[0])):
            panel.annotate(f"{text:.1f}", (x, y), ha="center", va="center", fontsize=8.5,
                           bbox=style.BEHIND_TEXT)
        mark = " fitted" if row in fitted else ""
        panel.annotate(f"{total:.1f}{mark}", (total, y), xytext=(3, 0), textcoords="offset points",
                       va="center", fontsize=8.5, bbox=style.BEHIND_TEXT)


def times(panel, data, rows, virtual):
    """Milliseconds on the paper's machine: printed, and on its virtual likeness."""
    stacked(panel, style.PAPER,
            [(data.paper(row, "forward"), data.paper(row, "backward")) for row in rows], -0.2, 0.4)
    stacked(panel, virtual,
            [(data.ours(row, "forward", "virtual", scale="1"),
              data.ours(row, "backward", "virtual", scale="1"))
             for row in rows], 0.2, 0.4,
            [i for i, row in enumerate(rows) if data.fitted(row, "combined", "virtual")])
    panel.set_xlim(0, 1.12 * panel.get_xlim()[1])
    panel.set(title="forward (left) and backward (right) time", xlabel="ms")


def overheads(panel, data, rows, looks):
    """Ratios, which a smaller layer on another machine can be compared by."""
    series = [(looks["paper"], [data.paper(row, "overhead") for row in rows])]
    series += [(looks[source], [data.ours(row, "overhead", source) for row in rows])
               for source in ("virtual", "measured") if source in looks]
    style.bars(panel, series, "{:+.3g}")
    panel.axvline(0, color="#000000", linewidth=0.8)
    panel.spines["left"].set_visible(False)
    panel.set(title="overhead over the baseline", xlabel="%")


def main():
    args = reproduction.arguments(__doc__)
    data = reproduction.read(args.input, "korthikanti2022/table4", "virtual")
    looks = {"paper": style.PAPER}
    for look, source in ((style.VIRTUAL, "virtual"), (style.MEASURED, "measured")):
        if data.origin(source):
            looks[source] = {**look, "label": data.origin(source)}
    more = {row: label for row, label in NOT_THE_PAPERS.items() if data.has(row)}
    rows = ROWS | more
    figure, axes = style.panels(2, len(rows), "Table 4: one layer of the 22B model on 8 devices",
                                rows.values(), widths=[1.25, 1])
    times(axes[0], data, rows, looks["virtual"])
    overheads(axes[1], data, rows, looks)
    if more:
        style.set_apart(axes, len(ROWS), "not the paper's")
    style.legend(figure, looks.values())
    style.save(figure, args.output, "korthikanti2022-table4")


if __name__ == "__main__":
    main()
