"""How often a verdict is right, for paper_tables.py: from what bench/compare_trials.py and bench/validate_trials.py
have seen."""

from evaluation_tables import read, table

KINDS = ("compare-trials", "validate-trials")


def compare_trials(path):
    """Of each true change, what every script says of the same samples."""
    result = read(path)
    tools = {"frugal": "frugal compare", "google": "Google Benchmark's compare.py", "nvbench": "nvbench_compare.py"}
    tools = {key: name for key, name in tools.items() if key in result["trials"][0]}

    def said(trial, tool):
        return trial["frugal"]["change"] if tool == "frugal" else trial.get(tool)
    rows = []
    for slower_by in sorted({trial["slower_by"] for trial in result["trials"]}):
        trials = [trial for trial in result["trials"] if trial["slower_by"] == slower_by]
        row = [f"{100 * slower_by:.0f} % slower" if slower_by else "none", str(len(trials))]
        for tool in tools:
            words = [said(trial, tool) for trial in trials]
            row += [f"{words.count(word)} ({100 * words.count(word) / len(words):.1f} %)" for word in ("slower", "faster")]
        rows.append(row)
    columns = ["true change", "trials"] + [f"{name}: {word}" for name in tools.values() for word in ("slower", "faster")]
    return table(columns, len(columns) - 1, rows)


def validate_trials(path):
    """Of each fault, in how many runs the check that has to fail failed."""
    rows = []
    for name, group in read(path)["trials"].items():
        if not group["runs"]:
            continue
        runs, check = group["runs"], group["check"]
        seconds = [run["seconds"] for run in runs]
        others = [100 * (run["others"]["processes"] + run["others"]["steal"]) for run in runs if run["others"]]
        if check:
            result = f"{sum(check in run['failed'] for run in runs)} of {len(runs)} found"
        else:
            result = f"{sum(run['status'] == 0 for run in runs)} of {len(runs)} pass"
        skipped = [run["skipped"] for run in runs]
        rows.append([name, check or "all", result, f"{min(skipped)} to {max(skipped)}",
                     f"{min(seconds):.0f} to {max(seconds):.0f}",
                     f"{min(others):.0f} to {max(others):.0f} %" if others else ""])
    return table(["fault", "check that has to fail", "runs", "not judged", "seconds of one", "others' share of the processors"], 0, rows)
