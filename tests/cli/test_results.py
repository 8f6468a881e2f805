"""results/virtual: what the program computes for the papers' machines is what is kept there."""

import json
import subprocess
import sys

from program import FRUGAL, SOURCE, Cli


FOLDER = SOURCE / "results/virtual"
#: Those of `frugal reproduce`.
PAPERS = [FOLDER / f"{path.parent.name}.json" for path in sorted((SOURCE / "experiments").glob("*/paper.json"))]


def reference(number):
    return number["formula"] if number["paper"] is None else number["paper"]


def without_verdict(cells):
    return [c for c in cells if (reference(c) is not None or c["paper_oom"]) and c["verdict"] is None]


def passing_without_effect(numbers):
    """Those that a run would meet in which what they are about has no effect; also where none is named."""
    def passes(number):
        beside, without = reference(number), number["no_effect"]
        if beside is None or without is None:
            return beside is not None
        below = number["relation"] == "at most" or without >= beside - number["tolerance"]
        above = number["relation"] == "at least" or without <= beside + number["tolerance"]
        return below and above
    return [n for n in numbers if passes(n)]


class Results(Cli):
    def test_virtual_results_are_what_the_program_computes(self):
        self.assertTrue(PAPERS)
        for path in PAPERS:
            printed = self.run_frugal("reproduce", f"{path.stem}/*", "--on", "virtual", "--format", "json").stdout
            self.compare(json.loads(path.read_text()), json.loads(printed), path.stem)
            self.reasons_are_executed(json.loads(printed)["cells"], path.stem)

    def test_every_number_beside_a_papers_has_a_verdict_that_no_effect_would_not_have(self):
        self.assertEqual(len(PAPERS), 3)
        for path in PAPERS:
            kept = json.loads(path.read_text())
            self.assertEqual(without_verdict(kept["cells"]), [], path.stem)
            self.assertEqual(passing_without_effect(kept["claims"]), [], path.stem)
            self.assertEqual(passing_without_effect(kept["cells"]), [], path.stem)
            cell = next(c for c in kept["cells"] if c["paper"] is not None)
            self.assertEqual(len(without_verdict([{**cell, "verdict": None}])), 1)
            claim = next(c for c in kept["claims"] if c["relation"] == "about" and c["paper"] is not None)
            wide = abs(claim["paper"] - claim["no_effect"])
            self.assertEqual(len(passing_without_effect([{**claim, "tolerance": wide}])), 1)
            self.assertEqual(len(passing_without_effect([{**claim, "no_effect": None}])), 1)

    def reasons_are_executed(self, cells, paper):
        """What is far from the paper says what it is as the paper's program, which is nearer, or that this does not explain
        it; so in less than a quarter of the paper's own cells, and farther away in less than a fifth of all, among which
        are another paper's, of whose program little is known."""
        as_program = {(c["artifact"], c["row"], c["column"]): c for c in cells if c["program"]}
        off, own, not_explained, farther = 0, 0, 0, 0
        for cell in cells:
            other = as_program.get((cell["artifact"], cell["row"], cell["column"]))
            if cell["program"] or cell["source"] != "virtual" or cell["value"] is None or cell["paper"] is None:
                continue
            far = abs(cell["error_percent"] or 0) > 10 or abs(cell["error_points"] or 0) > 3
            if not far or other is None or other["value"] is None:
                continue
            papers_own = not cell["read"].startswith("arXiv:")
            off += 1
            own += papers_own
            self.assertTrue(cell["reason"], cell)
            if " as " + other["program"] not in cell["reason"]:
                continue
            nearer = abs(other["value"] - cell["paper"]) < abs(cell["value"] - cell["paper"])
            self.assertEqual(nearer, "does not explain" not in cell["reason"], cell)
            not_explained += papers_own and not nearer
            farther += not nearer and other["value"] != cell["value"]
        self.assertGreater(off, 5, paper)
        self.assertLess(not_explained, own / 4, paper)
        self.assertLess(farther, off / 5, paper)

    def test_terms_are_those_of_the_programs(self):
        kept = sorted(FOLDER.glob("explain-*.json"))
        self.assertTrue(kept)
        for path in kept:
            _, paper, artifact = path.stem.split("-", 2)
            printed = self.run_frugal("explain", f"{paper}/{artifact}", "--format", "json").stdout
            self.compare(json.loads(path.read_text()), json.loads(printed), path.stem)

    def test_long_sequences_are_divided_as_is_kept(self):
        printed = subprocess.run([sys.executable, "-B", SOURCE / "bench/long_sequences.py", FRUGAL], cwd=self.folder,
                                 stdout=subprocess.PIPE, check=True).stdout
        self.compare(json.loads((FOLDER / "long-sequences.json").read_text()), json.loads(printed), "long-sequences")

    def test_two_dimensions_are_as_is_kept_and_fastest_as_predicted(self):
        printed = subprocess.run([sys.executable, "-B", SOURCE / "bench/two_dimensions.py", FRUGAL], cwd=self.folder,
                                 stdout=subprocess.PIPE, check=True).stdout
        kept = json.loads((FOLDER / "two-dimensions.json").read_text())
        self.compare(kept, json.loads(printed), "two-dimensions")
        for sequence in {case["sequence"] for case in kept["cases"]}:
            cases = [case for case in kept["cases"] if case["sequence"] == sequence]
            fastest = min(cases, key=lambda case: case["step_seconds"])
            self.assertEqual(fastest, min(cases, key=lambda case: case["predicted"]["step_seconds"]))
            self.assertEqual(fastest["case"], "zigzag of 8 x 2")

    def test_what_is_published_of_a_machine_does_what_is_kept(self):
        kept = json.loads((FOLDER / "calibration-a100-selene.json").read_text())["published"]
        printed = self.run_frugal("calibrate", "--hardware", "a100-selene", "--published", "--format", "json").stdout
        self.compare(kept, json.loads(printed)["published"], "calibration-a100-selene published")

    def test_calibrations_are_of_the_machines_and_the_results_that_are_kept(self):
        """Fits are computed again; errors held out are those of the kept reproductions; that times with other values
        are what such a machine takes is tested elsewhere, with fewer."""
        reproduced = {}
        for path in PAPERS:
            for cell in json.loads(path.read_text())["cells"]:
                if cell["source"] == "virtual" and cell["program"]:  # a machine is fitted with the paper's program
                    reproduced[cell["artifact"], cell["row"], cell["column"]] = cell
        paths = sorted(FOLDER.glob("calibration-*.json"))
        self.assertTrue(paths)
        for path in paths:
            kept = json.loads(path.read_text())
            printed = self.run_frugal("calibrate", "--hardware", kept["machine"], "--format", "json").stdout
            self.compare(kept["refit"], json.loads(printed)["refit"], path.stem)
            for artifact in kept["held_out"]:
                for cell in artifact["cells"]:
                    name = (cell["artifact"], cell["row"], cell["column"])
                    self.compare(cell["value"], reproduced[name]["value"], f"{path.stem} {name}")
            machine = json.loads((SOURCE / f"hardware/{kept['machine']}.json").read_text())
            for parameter in kept["sensitivity"]["parameters"]:
                group, key = parameter["key"].split(".")
                self.assertEqual(parameter["value"], machine[group][key]["value"], path.stem)

    def compare(self, kept, computed, where):
        """Numbers up to rounding, which another compiler may do elsewhere."""
        again = f"{where}: make results/virtual again, by bench/virtual_results.sh"
        self.assertEqual(type(kept), type(computed), again)
        if isinstance(kept, dict):
            self.assertEqual(sorted(kept), sorted(computed), again)
            for key, value in kept.items():
                self.compare(value, computed[key], f"{where} {key}")
        elif isinstance(kept, list):
            self.assertEqual(len(kept), len(computed), again)
            for i, value in enumerate(kept):
                self.compare(value, computed[i], f"{where} {i}")
        elif isinstance(kept, float):
            self.assertAlmostEqual(kept, computed, delta=1e-9 * max(1, abs(kept)), msg=again)
        else:
            self.assertEqual(kept, computed, again)
