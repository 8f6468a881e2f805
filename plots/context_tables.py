"""Ways of dividing a sequence among two nodes beside what was predicted, for paper_tables.py: of what
bench/two_dimensions.py found."""

from evaluation_tables import read, table

KINDS = ("two-dimensions",)


def two_dimensions(path):
    cases = read(path)["cases"]
    ulysses = {case["sequence"]: case for case in cases if case["case"] == "Ulysses"}

    def both(case, of, digits):
        return [f"{of(each):.{digits}f}" for each in (case["predicted"], case)]

    def sent(collective):
        return lambda each: 1e3 * each["communication_seconds"].get(collective, 0)
    rows = []
    for case in cases:
        base = ulysses[case["sequence"]]
        relative = [case["predicted"]["step_seconds"] / base["predicted"]["step_seconds"],
                    case["step_seconds"] / base["step_seconds"]]
        rows.append([f"{case['sequence'] // 1024}k", case["case"], *both(case, lambda each: each["step_seconds"], 3),
                     *(f"{each:.3f}" for each in relative), *both(case, sent("all-to-all"), 0),
                     *both(case, sent("shift"), 0)])
    return table(["tokens", "", "step, s: predicted", "executed", "of Ulysses's: predicted", "executed",
                  "all-to-alls, ms: predicted", "executed", "shifts, ms: predicted", "executed"], 8, rows)
