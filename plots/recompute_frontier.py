#!/usr/bin/env python3
"""Step time against peak memory of every way to recompute that no other beats, and of those without modules."""

import json
import pathlib

import reproduction
import style

GIB = 2**30
LOOKS = {"frontier": ("#0072B2", "-", "sets of modules, any number of layers"),
         "frontier_without_modules": ("#E69F00", "--", "none, selective and full, any number of layers")}


def draw(panel, case):
    for key, (colour, line, label) in LOOKS.items():
        ways = case[key]
        panel.step([way["peak_bytes"] / GIB for way in ways], [way["step_seconds"] for way in ways], where="pre",
                   color=colour, linestyle=line, label=label)
    panel.axvline(case["memory"] / GIB, color="#000000", linewidth=0.8, linestyle=":", label="the machine's memory")
    panel.set(title=f"{case['model']}, {case['machine']}", xlabel="peak memory of a rank, GiB",
              ylabel="step time, virtual s")
    panel.grid(True)


def figure_of(folder):
    cases = json.loads((pathlib.Path(folder) / "recompute-frontier.json").read_text(encoding="utf-8"))["cases"]
    figure, axes = style.plt.subplots(2, 2, figsize=(10, 7.4))
    for panel, case in zip(axes.flat, cases):
        draw(panel, case)
    figure.suptitle("Recomputation by module: what memory costs in time (virtual machines, not calibrated)")
    strip = 0.4 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncol=3)
    return figure


def main():
    args = reproduction.arguments(__doc__)
    style.save(figure_of(args.input), args.output, "recompute-frontier")


if __name__ == "__main__":
    main()
