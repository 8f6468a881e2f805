#!/usr/bin/env python3
"""How good a100-selene is on what it was not fitted to, and which of its numbers matter. Reads what
'frugal calibrate --held-out --sensitivity --published --format json' printed."""

import json
import pathlib

import reproduction
import style

MACHINE = "a100-selene"
SCHEMA = "frugal.calibration/1"
COMMAND = f"frugal calibrate --hardware {MACHINE} --held-out --sensitivity --published --format json"
TABLE5, FIGURE8 = "korthikanti2022/table5", "korthikanti2022/figure8"

# Isaev et al., "Calculon" (SC 2023): mean and worst magnitude of its errors on the eight times of
# table 5, for which its efficiencies were tuned. Percent.
CALCULON = {"mean": (3.65, "--"), "worst": (8.87, ":")}

# Of figure 8's bars; their parts are the paper's stack.
PARTS = {"forward": {**style.FORMULA, "label": "forward"},
         "backward": {**style.VIRTUAL, "label": "backward"},
         "recompute": {**style.MEASURED, "label": "recompute"},
         "total": {**style.PAPER, "label": "total"}}
LESS = {**style.FORMULA, "label": "a tenth less"}
MORE = {**style.VIRTUAL, "label": "a tenth more"}


def read(folder):
    path = pathlib.Path(folder) / f"calibration-{MACHINE}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reproduction.fail(f"{path}: {error}; make it with: {COMMAND} > {path}")
    whole = document.get("schema") == SCHEMA and document["held_out"] and document["sensitivity"]
    if not whole:
        reproduction.fail(f"{path}: not a calibration with what was held out and the sensitivity; make it with: "
                          f"{COMMAND} > {path}")
    return document


def held_out(document, artifact, unit):
    """Its cells of a unit."""
    for one in document["held_out"]:
        if one["artifact"] == artifact:
            return [cell for cell in one["cells"] if cell["unit"] == unit]
    reproduction.fail(f"calibration-{MACHINE}.json: {artifact} is not among what is held out")


def rows(panel, labels):
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.axvline(0, color="#000000", linewidth=0.8)


def around_zero(panel):
    """The same room on either side, as errors of both signs have."""
    reach = max(abs(end) for end in panel.get_xlim())
    panel.set_xlim(-reach, reach)


def table5(panel, document):
    cells = held_out(document, TABLE5, "s")
    style.bars(panel, [(style.VIRTUAL, [(cell["error_percent"], None) for cell in cells])], "{:+.1f}")
    lines = {}
    for what, (size, line) in CALCULON.items():
        for sign in (-1, 1):
            lines[f"Calculon's {what}, {size} %: tuned on this table"] = panel.axvline(
                sign * size, color="#D55E00", linewidth=1.3, linestyle=line)
    panel.set_xlim(-10.5, 10.5)
    short = {"sequence parallel + selective recompute": "present work"}
    rows(panel, [f"{cell['row']}, {short.get(cell['column'], cell['column'])}" for cell in cells])
    mean = sum(abs(cell["error_percent"]) for cell in cells) / len(cells)
    panel.set(title=f"Table 5: seconds of an iteration\nmean magnitude {mean:.2f} %", xlabel="error, %")
    panel.legend(lines.values(), lines.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.07), fontsize=9)


def figure8(panel, document):
    cells = held_out(document, FIGURE8, "%")
    names = list(dict.fromkeys(cell["row"] for cell in cells))
    seen = [name for name in names if all(cell["seen"] for cell in cells if cell["row"] == name)]
    names = [name for name in names if name not in seen] + seen
    found = {(cell["row"], cell["column"]): cell["error_points"] for cell in cells}
    style.bars(panel, [(look, [(found[name, part], None) for name in names]) for part, look in PARTS.items()],
               "{:+.1f}")
    around_zero(panel)
    rows(panel, names)
    if seen:
        first = len(names) - len(seen) - 0.5
        panel.axhspan(first, len(names) - 0.5, facecolor=style.APART, zorder=0)
        panel.axhline(first, color="#000000", linewidth=0.8, linestyle="--")
        panel.annotate("table 4's layer again:\nthe fit has seen it", (0.99, len(names) - 0.55),
                       xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9, fontstyle="italic")
    unseen = [abs(cell["error_points"]) for cell in cells if cell["row"] not in seen]
    panel.set(title="Figure 8: a layer's time, % of the baseline's\n"
              f"mean magnitude {sum(unseen) / len(unseen):.2f} points where it was not seen",
              xlabel="error, points")
    panel.legend(handles=[style.plt.Rectangle((0, 0), 1, 1, **look) for look in PARTS.values()],
                 labels=list(PARTS), loc="upper center", bbox_to_anchor=(0.5, -0.07), ncol=4, fontsize=9)


def errors(document):
    figure, (left, right) = style.plt.subplots(1, 2, figsize=(12, 9.5))
    figure.suptitle("What no parameter was fitted to: errors of the virtual Selene")
    table5(left, document)
    figure8(right, document)
    return figure


def name_of(parameter):
    """Without its group; with the values tried where whole numbers are far from a tenth more and less."""
    name = parameter["key"].split(".")[1] + (" (fitted)" if parameter["fitted"] else "")
    less, more = parameter["less"]["value"], parameter["more"]["value"]
    return name if abs(less / parameter["value"] - 0.9) < 0.01 else f"{name}: {less:g} or {more:g}"


def sensitivity(document, most=14):
    """A tornado: the parameters that move any artifact's mean time most, the largest on top."""
    found = document["sensitivity"]
    artifacts = [one["artifact"] for one in found["unchanged"]]
    largest = [one for one in found["parameters"] if one["effect_percent"] > 0.05][:most]
    figure, axes = style.plt.subplots(1, len(artifacts), figsize=(3.4 * len(artifacts), 6.6), sharey=True)
    figure.suptitle("Mean time where one number of the machine is a tenth less or more")
    reach = 1.25 * max(one["effect_percent"] for one in largest)
    for i, (artifact, panel) in enumerate(zip(artifacts, (axes if len(artifacts) > 1 else [axes]))):
        def changes(way, i=i):
            percents = [one[way]["artifacts"][i]["time_percent"] if one[way]["artifacts"] else 0 for one in largest]
            return [(percent, None) if abs(percent) >= 0.05 else None for percent in percents]
        style.bars(panel, [(LESS, changes("less")), (MORE, changes("more"))], "{:+.1f}")
        panel.set(title=artifact.removeprefix("korthikanti2022/"), xlabel="change of mean time, %",
                  xlim=(-reach, reach))
        rows(panel, [name_of(one) for one in largest])
    style.legend(figure, [LESS, MORE])
    return figure


def main():
    args = reproduction.arguments(__doc__)
    document = read(args.input)
    style.save(errors(document), args.output, "korthikanti2022-calibration")
    style.save(sensitivity(document), args.output, "korthikanti2022-sensitivity")


if __name__ == "__main__":
    main()
