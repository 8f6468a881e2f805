"""Schedules since 1F1B beside what their papers say, for paper_tables.py: of what bench/schedule_family.py found."""

from evaluation_tables import read, table

KINDS = ("schedule-family", "validated-family", "together-family")
GIB = 2**30

#: Of p stages and m microbatches, m ≥ 2p, T_F = T_B = T_W = 1: what a stage holds and how long it waits, as printed;
#: None: not printed.
PRINTED = {
    "1f1b": (lambda p: p, lambda p: 3 * (p - 1)),
    "interleaved": (None, lambda p: 3 * (p - 1) / 2),
    "zb-h1": (lambda p: p, lambda p: p - 1),
    "zb-h2": (lambda p: 2 * p - 1, lambda p: 0),
    "zb-v": (lambda p: p, lambda p: 0),
    "v-half": (lambda p: (p + 2) // 2, lambda p: 3 * p / 2),
    "v-min": (lambda p: (p + 4) // 3, lambda p: 2 * p),
    "dualpipe-v": (lambda p: p + 0.5, lambda p: p - 1),
}


def printed(kind, which, stages):
    of = PRINTED.get(kind, (None, None))[which]
    return "" if of is None else f"{of(stages):g}"


TIMES = (1, 2, 4, 8)  # microbatches over stages


def validated_family(path):
    """Steps' times over those of 1f1b whose stages meet, where stages meet and where they validate later."""
    cases = {(c["schedule"], c["stages"], c["microbatches"]): c for c in read(path)["cases"]}
    rows = []
    for kind, stages in dict.fromkeys((kind, stages) for kind, stages, _ in cases):
        row = [kind, str(stages)]
        for times in TIMES:
            case, flat = cases.get((kind, stages, stages * times)), cases["1f1b", stages, stages * times]
            for how in ("executed", "validated"):
                seconds = None if case is None else case[how]["step_seconds"]
                row.append("" if seconds is None else f"{seconds / flat['executed']['step_seconds']:.3f}")
        rows.append(row)
    return table(["schedule", "p", *(title for times in TIMES
                                     for title in (f"m = {times if times > 1 else ''}p", "after"))], 9, rows)


def together_family(path):
    """Steps' times over those of 1f1b with as many tensor-parallel ranks and stages."""
    cases = {(c["tensor"], c["stages"], c["schedule"], c["microbatches"]): c["executed"]
             for c in read(path)["together"]}
    rows = []
    for tensor, stages, kind in dict.fromkeys(key[:3] for key in cases):
        row = [kind.replace("--", "`--", 1) + ("`" if "--" in kind else ""), str(tensor), str(stages)]
        for times in TIMES[1:]:
            seconds, flat = (cases[tensor, stages, each, stages * times]["step_seconds"] for each in (kind, "1f1b"))
            row.append(f"{seconds / flat:.3f}")
        rows.append([*row, f"{cases[tensor, stages, kind, stages * TIMES[-1]]['peak_bytes'] / GIB:.1f}"])
    return table(["schedule", "t", "p", "m = 2p", "m = 4p", "m = 8p", "GiB"], 6, rows)


def schedule_family(path):
    cases = {(c["schedule"], c["stages"], c["microbatches"]): c for c in read(path)["cases"]}
    rows = []
    for kind, stages in dict.fromkeys((kind, stages) for kind, stages, _ in cases):
        at = [cases.get((kind, stages, stages * times)) for times in (1, 2, 4, 8)]
        flat = [cases["1f1b", stages, stages * times]["executed"]["step_seconds"] for times in (1, 2, 4, 8)]
        full = at[3]
        rows.append([kind, str(stages), f"{full['planned']['held']:g}", printed(kind, 0, stages),
                     f"{full['planned']['waits']:g}", printed(kind, 1, stages),
                     f"{full['executed']['peak_bytes'] / GIB:.1f}",
                     *("" if case is None else f"{case['executed']['step_seconds'] / other:.3f}"
                       for case, other in zip(at, flat))])
    return table(["schedule", "p", "held", "printed", "waits", "printed", "GiB", "m = p", "m = 2p", "m = 4p", "m = 8p"],
                 10, rows)
