"""results/virtual: what the program computes for the papers' machines is what is kept there."""

import json

from test_cli import SOURCE, Cli


class Results(Cli):
    def test_virtual_results_are_what_the_program_computes(self):
        kept = sorted((SOURCE / "results/virtual").glob("*.json"))
        self.assertTrue(kept)
        for path in kept:
            printed = self.run_frugal("reproduce", f"{path.stem}/*", "--on", "virtual", "--format", "json").stdout
            self.compare(json.loads(path.read_text()), json.loads(printed), path.stem)

    def compare(self, kept, computed, where):
        """Numbers up to rounding, which another compiler may do elsewhere."""
        again = f"{where}: make results/virtual again as results/README.md says"
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
