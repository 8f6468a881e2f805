"""What the plots of pipedream2bw2021 share: panels with the paper's bars and ours."""

import reproduction
import style

SYSTEMS = ["Inter-layer MP", "Tensor MP", "GPipe", "PipeDream-Flush", "PipeDream-2BW"]


def counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


def number_in(column):
    """64 of "batch 64"."""
    return int(column.split()[1])


def artifact(folder, name):
    return reproduction.read(folder, f"pipedream2bw2021/{name}", "virtual")


def not_calibrated(look, notes):
    """A look whose label says so where the notes of its cells do."""
    said = any("not calibrated" in note for note in notes)
    return {**look, "label": look["label"] + ", not calibrated"} if said else look


def compare(panel, data, keys, number):
    """Bars of the paper and of the paper's machine, virtually, for each (row, column): as the paper's program first.
    Returns the looks that were used, and in words how far that is from the paper."""
    rows, columns = {row for row, _ in keys}, {column for _, column in keys}
    series = [(not_calibrated(look, data.notes(rows, columns, origin)), origin)
              for look, origin in style.looks(data.origins("virtual", rows, columns, "1"))]
    style.bars(panel, [(style.PAPER, [data.paper_or_oom(*key) for key in keys])] +
               [(look, [data.ours_or_oom(*key, origin) for key in keys]) for look, origin in series],
               number)
    mean, count = data.mean_error(rows, columns, series[0][1])
    looks = [style.PAPER] + [look for look, _ in series]
    return looks, f"mean error {mean:.0f} %, {counted(count, 'bar')}"


def by_system(folder, names, titles, heading, unit, number):
    """A panel for each artifact: the five systems at its smaller batch, and below at its larger."""
    figure, axes = style.panels(len(names), 5.8, heading, 2 * SYSTEMS)
    for name, title, panel in zip(names, titles, axes):
        data = artifact(folder, name)
        batches = sorted({cell["column"] for cell in data.cells}, key=number_in)
        keys = [(system, batch) for batch in batches for system in SYSTEMS]
        looks, errors = compare(panel, data, keys, number)
        panel.axhline(len(SYSTEMS) - 0.5, color="#000000", linewidth=0.8, linestyle="--")
        for half, batch in enumerate(batches):
            panel.annotate(batch, (1, half * len(SYSTEMS) - 0.42), ha="right", va="top",
                           xycoords=("axes fraction", "data"), fontsize=9, fontstyle="italic",
                           bbox=style.BEHIND_TEXT)
        panel.set(title=f"{title}\n{errors}", xlabel=unit)
    style.legend(figure, looks)
    return figure
