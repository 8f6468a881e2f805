#!/usr/bin/env python3
"""The numbers and words of a figure, read from its artists; style.save() writes them into its files.

drawn.py FIGURE.png...   prints those of a figure, as JSON"""

import json
import pathlib
import sys

import matplotlib.collections
import matplotlib.ticker
import numpy as np
from PIL import Image, PngImagePlugin  # which matplotlib depends on

DIGITS = 6  # significant ones
MOST_CORNERS = 100


def rounded(values):
    """Floats as they are written; None for what matplotlib leaves out, such as a logarithm of 0."""
    return [None if value is None or value != value else float(f"{float(value):.{DIGITS}g}") for value in values]


def name_of(artist):
    """Its label; empty where matplotlib numbered it."""
    label = artist.get_label()
    return "" if label.startswith("_") else label


def bars_of(panel):
    """[left, bottom, width, height] of each bar, in the units of the axes."""
    return [rounded((*patch.get_xy(), patch.get_width(), patch.get_height())) for patch in panel.patches
            if hasattr(patch, "get_height")]


def lines_of(panel):
    """What each line is called, and its points."""
    return [{"label": name_of(line), "x": rounded(line.get_xdata(orig=False)), "y": rounded(line.get_ydata(orig=False))}
            for line in panel.lines]


def points_of(collection):
    """Points of a scatter, else the corners of areas and error bars; of an area with many its least, mean and most."""
    if isinstance(collection, matplotlib.collections.PathCollection):
        return [rounded(point) for point in collection.get_offsets()]
    corners = np.array([point for path in collection.get_paths() for point in path.vertices])
    if len(corners) > MOST_CORNERS:
        corners = np.array([corners.min(0), corners.mean(0), corners.max(0)])
    return [rounded(point) for point in corners]


def ticks_of(axis):
    """Those that are set; numbers that matplotlib chose depend on its version."""
    chosen = not isinstance(axis.get_major_formatter(), matplotlib.ticker.FixedFormatter | matplotlib.ticker.FuncFormatter)
    return [] if chosen else [label.get_text() for label in axis.get_ticklabels()]


def panel_of(panel):
    return {"title": panel.get_title(), "x_label": panel.get_xlabel(), "y_label": panel.get_ylabel(),
            "x_ticks": ticks_of(panel.xaxis), "y_ticks": ticks_of(panel.yaxis),
            "x_scale": panel.get_xscale(), "y_scale": panel.get_yscale(),
            "bars": bars_of(panel), "lines": lines_of(panel),
            "points": [{"label": name_of(one), "at": points_of(one)} for one in panel.collections],
            "texts": [text.get_text() for text in panel.texts]}


def of_figure(figure):
    """Titles, legends, and of each panel its labels, ticks, bars, lines, points and texts."""
    legends = [*figure.legends, *(legend for panel in figure.axes if (legend := panel.get_legend()))]
    return {"panels": [panel_of(panel) for panel in figure.axes],
            "texts": [text.get_text() for text in figure.texts],  # its title, too
            "legend": [text.get_text() for legend in legends for text in legend.get_texts()]}


def description(figure):
    """The same as a PNG has it: JSON as its description, compressed."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", json.dumps(of_figure(figure)), zip=True)
    return info


def of_png(path):
    """The description that style.save() wrote into a figure's PNG; None where there is none."""
    with Image.open(path) as image:
        text = image.text.get("Description")
    return json.loads(text) if text else None


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for path in sys.argv[1:]:
        print(json.dumps(of_png(pathlib.Path(path)), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
