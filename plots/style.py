"""The look that all plots share: colours and hatches that survive grey print and colour blindness,
and files that come out the same byte for byte."""

import math
import pathlib

import drawn
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

# Okabe and Ito's palette, in an order that grey print keeps: white, light, middle, dark.
PAPER = {"facecolor": "#FFFFFF", "edgecolor": "#000000", "label": "paper"}
FORMULA = {"facecolor": "#56B4E9", "edgecolor": "#000000", "hatch": "...", "label": "formula"}
VIRTUAL = {"facecolor": "#E69F00", "edgecolor": "#000000", "hatch": "///", "label": "virtual"}
MEASURED = {"facecolor": "#0072B2", "edgecolor": "#000000", "label": "measured"}

# Further devices or sizes of one source. Measured ones have no hatch: that is a lone rank's.
MORE = {
    "formula": [FORMULA],
    "virtual": [VIRTUAL, {**VIRTUAL, "facecolor": "#F0E442", "hatch": "---"}],
    "measured": [MEASURED] + [{**MEASURED, "facecolor": colour}
                              for colour in ("#009E73", "#CC79A7", "#D55E00")],
}
LONE_RANK = "xxx"

# Keeps grid lines and hatches out of numbers.
BEHIND_TEXT = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
APART = "#F0F0F0"  # behind rows that are not the paper's

plt.rcParams.update({
    "font.size": 10,
    "axes.titlesize": 11,
    "figure.titlesize": 12,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": "#DDDDDD",
    "hatch.linewidth": 0.6,
    "patch.linewidth": 0.8,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.1,
    "savefig.dpi": 160,
    "svg.hashsalt": "frugal",
    "svg.fonttype": "path",
})


def looks(origins):
    """For each of some origins (reproduction.Origin) of one source its look, with its label."""
    series = []
    for i, origin in enumerate(origins):
        known = MORE[origin.source]
        if i == len(known):
            raise SystemExit(f"{len(origins)} series of {origin.source} numbers are more than a figure "
                             f"can show ({len(known)}); keep some of the results in another folder: "
                             + "; ".join(o.label() for o in origins))
        look = {**known[i], "label": origin.label()}
        series.append(({**look, "hatch": LONE_RANK} if origin.lone_rank else look, origin))
    return series


def height(usual, series):
    """Of a figure, in inches, that usually has at most three series in a row."""
    return usual * max(1, series / 3)


def panels(count, height, title, labels, widths=None):
    """A figure with panels of horizontal bars side by side; the labels of their rows, top down."""
    figure, axes = plt.subplots(1, count, figsize=(11, height), sharey=True, squeeze=False,
                                gridspec_kw={"width_ratios": widths or [1] * count})
    axes = axes[0]
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    for panel in axes:
        panel.tick_params(axis="y", length=0)
    figure.suptitle(title)
    return figure, axes


def set_apart(axes, first, why):
    """Shades the rows from `first` on, which are not the paper's, and says so in the last panel."""
    for panel in axes:
        panel.axhspan(first - 0.5, panel.get_ylim()[0], facecolor=APART, zorder=0)
        panel.axhline(first - 0.5, color="#000000", linewidth=0.8, linestyle="--")
    axes[-1].annotate(why, (1, first - 0.47), xycoords=("axes fraction", "data"), ha="right", va="top",
                      fontsize=8.5, fontstyle="italic", bbox={**BEHIND_TEXT, "facecolor": APART})


def bars(panel, series, number="{:.3g}"):
    """Groups of horizontal bars. `series` is a list of (look, cells), one cell or None for each
    row of the panel: (value, interval), where the interval is [low, high] or None, or a word that
    stands where there is no bar."""
    height = 0.8 / len(series)
    for i, (look, cells) in enumerate(series):
        for row, cell in enumerate(cells):
            y = row - 0.4 + (i + 0.5) * height
            if isinstance(cell, str):
                panel.annotate(f"{look['label'].split()[0]}: {cell}", (0, y), xytext=(3, 0),
                               textcoords="offset points", va="center", fontsize=8.5,
                               bbox=BEHIND_TEXT)
                continue
            if cell is None or cell[0] is None:
                continue
            value, interval = cell
            panel.barh(y, value, height, **look)
            end = value
            if interval:
                panel.errorbar(value, y, xerr=[[value - interval[0]], [interval[1] - value]],
                               fmt="none", ecolor="#000000", capsize=2.5, linewidth=1.2)
                end = interval[1] if value >= 0 else interval[0]
            text = number.format(value).rstrip(".")  # "{:#.3g}" writes 122 as "122."
            panel.annotate(text, (end, y), xytext=(3 if value >= 0 else -3, 0),
                           textcoords="offset points", va="center", fontsize=8.5,
                           ha="left" if value >= 0 else "right", bbox=BEHIND_TEXT)
    low, high = panel.get_xlim()
    room = 0.18 * (high - low)  # for the numbers at the ends of the bars
    panel.set_xlim(low - room if low < 0 else 0, high + room)


def in_lines(names):
    """Labels: what is added to something stands on a line of its own."""
    return [name.replace(" + ", "\n+ ") for name in names]


def legend(figure, looks):
    """One legend below all panels, in a strip that the layout leaves free."""
    columns = min(len(looks), 3)
    lines = math.ceil(len(looks) / columns)
    strip = (0.4 + 0.22 * (lines - 1)) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    handles = [plt.Rectangle((0, 0), 1, 1, **look) for look in looks]
    figure.legend(handles, [look["label"] for look in looks], loc="lower center", ncol=columns)


def save(figure, folder, name):
    """Writes folder/name.png and .svg, without dates, and says where. The PNG's description has what is drawn, in
    numbers and words (drawn.py)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", pil_kwargs={"pnginfo": drawn.description(figure)})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    for suffix in ("png", "svg"):
        print(folder / f"{name}.{suffix}")
    plt.close(figure)
