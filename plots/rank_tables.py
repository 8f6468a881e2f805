"""What several ranks of a processor took, for paper_tables.py: memory beside PyTorch's FSDP2, of bench/pytorch_fsdp.py,
the time of a ring beside a balanced one, of bench/balanced_ring.py, and how runs end in which something goes wrong, of
tests/cli/test_faults.py and tests/cli/test_kills.py."""

import pathlib
import textwrap

from evaluation_tables import read, table

KINDS = ("pytorch-fsdp", "balanced-ring", "faults", "kills")
MB = 1e6


def pytorch_fsdp(path):
    """Of each case the peak of one rank, in total and by what its bytes are for."""
    said = read(path)
    kinds = list(said["cases"][0]["executed"]["at_peak"])
    rows = []
    for case in said["cases"]:
        step = case["step"]
        most = max(case["counted"], key=lambda rank: rank["peak"])
        model = (f"{step['family']}, L {step['layers']}, h {step['hidden']}, s {step['sequence']}, "
                 f"v {step['vocabulary']}, b {step['batch']}, m {case['microbatches']}")
        rows.append([model, "full" if step["recompute"] != "none" else "none", "yes" if case["reshard"] else "no",
                     f"{most['peak'] / MB:.1f}", f"{case['executed']['peak'] / MB:.1f}", f"{case['error_percent']:+.3f}",
                     *(f"{most['at_peak'][kind] / MB:.1f}, {case['executed']['at_peak'][kind] / MB:.1f}" for kind in kinds)])
    return (f"{said['agree']} of {len(said['cases'])} peaks are within {said['within_percent']:g} % (PyTorch "
            f"{said['pytorch']}, {said['ranks']} processes, float32).\n\n"
            + table(["model", "recomputation", "reshard after forward", "FSDP2, MB", "frugal, MB", "error, %", *kinds],
                    3 + len(kinds), rows))


def balanced_ring(path):
    """Of each length the seconds of a step, their ratio with its interval, and what the ratio should be."""
    if not pathlib.Path(path).exists():
        return "No run has been stored yet.\n"
    rows = []
    for case in read(path)["cases"]:
        time, interval = case["time"], case["time"]["interval"]
        rows.append([str(case["tokens"]), f"{time['candidate']:.3f}", f"{time['base']:.3f}", f"{time['ratio']:.3f}",
                     f"{interval['low']:.3f} to {interval['high']:.3f}" if interval else "", f"{case['predicted_ratio']:.3f}",
                     f"{100 * case['attention_share']:.0f} %", str(time["base_processes"])])
    return table(["tokens", "ring, s", "zigzag, s", "ring / zigzag", "95 % interval", "predicted", "attention's share",
                  "turns"], 8, rows)


def faults(path):
    """Of each fault, where ranks are threads or processes, and of each moment the exit status and the seconds to the end."""
    said = read(path)
    rows = []
    for fault in said["faults"]:
        ends = [fault["moments"].get(moment) for moment in said["moments"]]
        rows.append([fault["what"], fault["ranks"], fault["whose"],
                     *(f"{end['status']}, {end['seconds']:.1f} s" if end else "" for end in ends)])
    return table(["what goes wrong", "ranks are", "said to be whose fault", *said["moments"]], 0, rows)


def kills(path):
    """How many runs were killed, and how many of them left a checkpoint half written or half removed."""
    said = read(path)
    by = {kind: sum(kill["ranks_are"] == kind for kill in said["kills"]) for kind in ("threads", "processes")}
    half = sum(kill["left_half"] for kill in said["kills"])
    return textwrap.fill(f"This held for all {len(said['kills'])} kills, {by['threads']} of runs whose ranks are threads and {by['processes']} of "
                         f"runs of {said['ranks']} processes; {half} of them left a checkpoint half written or half removed beside it.",
                         120) + "\n"
