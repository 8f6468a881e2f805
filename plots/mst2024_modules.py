#!/usr/bin/env python3
"""Tables 13 to 16 of mst2024: memory and time of the output layer and of the MLP alone, by the number of
mini-sequences M and the length of the sequence."""

import reproduction
import style

PANELS = {"output layer": ("table14", "table13"), "MLP": ("table16", "table15")}
LOOKS = [("#000000", "o"), ("#0072B2", "v"), ("#56B4E9", "^"), ("#009E73", "D"), ("#E69F00", "X"), ("#D55E00", "P")]
TICKS = [0.5, 1, 2, 5, 10, 20, 50]


def rows_of(data):
    """"standard", "M=2", …, as they stand in the table."""
    return list(dict.fromkeys(cell["row"] for cell in data.cells))


def lengths_of(data):
    return sorted({int(cell["column"]) for cell in data.cells if cell["column"].isdigit()})


def draw_memory(panel, data, origin):
    for row, (colour, marker) in zip(rows_of(data), LOOKS):
        points = [(s, found[0]) for s in lengths_of(data) if (found := data.ours(row, str(s), origin))]
        panel.plot(*zip(*points), color=colour, marker=marker, markersize=5, label=row)
        theirs = [(s, paper[0]) for s in lengths_of(data) if (paper := data.paper(row, str(s)))]
        if theirs:
            panel.plot(*zip(*theirs), color=colour, marker="s", markersize=11, linestyle="none", fillstyle="none")
    panel.set(xscale="log", yscale="log", ylabel="GiB")
    low, high = panel.get_ylim()
    panel.set_yticks([tick for tick in TICKS if low < tick < high], [f"{t:g}" for t in TICKS if low < t < high])


def draw_time(panel, data, origin):
    for row, (colour, marker) in list(zip(rows_of(data), LOOKS))[1:]:
        points = [(s, found[0]) for s in lengths_of(data) if (found := data.ours(row, f"{s} / standard", origin))]
        panel.plot(*zip(*points), color=colour, marker=marker, markersize=5)
    panel.axhline(1, color="#000000", linewidth=0.8, linestyle="--")
    panel.set(xscale="log", ylabel="times standard's time", xlabel="tokens", ylim=(0, None))


def figure_of(folder):
    figure, axes = style.plt.subplots(2, len(PANELS), figsize=(11, 7.4), sharex=True)
    for (title, (memory, time)), column in zip(PANELS.items(), axes.T):
        for table, draw, panel in ((memory, draw_memory, column[0]), (time, draw_time, column[1])):
            data = reproduction.read(folder, f"mst2024/{table}", "virtual")
            columns = [cell["column"] for cell in data.cells]
            origin, *_ = data.origins("virtual", rows_of(data), columns, "1")
            draw(panel, data, origin)
            panel.grid(True)
            lengths = lengths_of(data)
            panel.set_xticks(lengths, [str(s) for s in lengths])
            panel.minorticks_off()
        column[0].set(title=f"{title} of Llama3-8B, {origin.label()}")
    figure.suptitle("Tables 13 to 16: a module alone, forward and backward, in M mini-sequences (squares: the paper's memory)")
    longest = max(axes[0], key=lambda panel: len(panel.get_legend_handles_labels()[0]))
    strip = 0.4 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    figure.legend(*longest.get_legend_handles_labels(), loc="lower center", ncol=6)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(figure_of(args.input), args.output, "mst2024-modules")


if __name__ == "__main__":
    main()
