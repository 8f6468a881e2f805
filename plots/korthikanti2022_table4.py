#!/usr/bin/env python3
"""Table 4 of korthikanti2022: forward and backward time of one layer of the 22B model."""

import matplotlib.colors

import reproduction
import style

COLUMNS = ("forward", "backward", "overhead")


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


def times(panel, data, rows, series):
    """Milliseconds on the paper's machine: printed, and on its virtual likeness at full size."""
    virtual = [(look, origin) for look, origin in series
               if (origin.source, origin.scale) == ("virtual", "1")]
    height = 0.8 / (1 + len(virtual))
    stacked(panel, style.PAPER,
            [(data.paper(row, "forward"), data.paper(row, "backward")) for row in rows],
            -0.4 + height / 2, height)
    for i, (look, origin) in enumerate(virtual):
        stacked(panel, look,
                [(data.ours(row, "forward", origin), data.ours(row, "backward", origin))
                 for row in rows], -0.4 + (i + 1.5) * height, height,
                [n for n, row in enumerate(rows) if data.fitted(row, "combined", origin)])
    panel.set_xlim(0, 1.12 * panel.get_xlim()[1])
    panel.set(title="forward (left) and backward (right) time", xlabel="ms")


def overheads(panel, data, rows, series):
    """Ratios, which a smaller layer on another machine can be compared by."""
    style.bars(panel, [(style.PAPER, [data.paper(row, "overhead") for row in rows])] +
               [(look, [data.ours(row, "overhead", origin) for row in rows])
                for look, origin in series], "{:+.3g}")
    panel.axvline(0, color="#000000", linewidth=0.8)
    panel.spines["left"].set_visible(False)
    panel.set(title="overhead over the baseline", xlabel="%")


def main():
    args = reproduction.arguments(__doc__)
    data = reproduction.read(args.input, "korthikanti2022/table4", "virtual")
    theirs, more = data.names("row"), data.names("row", False)
    rows = theirs + more
    # Milliseconds of a measurement stand beside none of the paper's, and are not drawn.
    series = (style.looks(data.origins("virtual", rows, COLUMNS)) +
              style.looks(data.origins("measured", rows, ["overhead"])))
    figure, axes = style.panels(2, style.height(len(rows), 1 + len(series)),
                                "Table 4: one layer of the 22B model on 8 devices",
                                style.in_lines(rows), widths=[1.25, 1])
    times(axes[0], data, rows, series)
    overheads(axes[1], data, rows, series)
    if more:
        style.set_apart(axes, len(theirs), "not the paper's")
    style.legend(figure, [style.PAPER] + [look for look, _ in series])
    style.save(figure, args.output, "korthikanti2022-table4")


if __name__ == "__main__":
    main()
