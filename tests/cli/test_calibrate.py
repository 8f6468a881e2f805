"""frugal calibrate: what fitting a machine's parameters again gives, and what it says of the file."""

import json

from program import SOURCE, Cli

NAME = "a100-selene"
CELL = {"artifact": "korthikanti2022/table4", "row": "selective recompute", "column": "backward"}


class Calibrate(Cli):
    def machine(self, change=None, name="machine.json"):
        """A file with the machine's values but for a change, in a folder that rejected() allows."""
        machine = json.loads((SOURCE / f"hardware/{NAME}.json").read_text())
        if change:
            change(machine)
        return self.given(json.dumps(machine), name)

    def calibrate(self, hardware, *flags, status=0):
        return json.loads(self.run_frugal("calibrate", "--hardware", hardware, *flags, "--format", "json",
                                          status=status).stdout)

    def fitted(self, found):
        """A file with the values that fitting gave."""
        def change(machine):
            for p in found["refit"]["parameters"]:
                group, key = p["key"].split(".")
                machine[group][key]["value"] = p["refitted"]
        return change

    def test_the_fit(self):
        found = self.calibrate(NAME)
        self.assertEqual(found["schema"], "frugal.calibration/1")
        self.assertEqual(found["command"], f"frugal calibrate --hardware {NAME}")
        machine = json.loads((SOURCE / f"hardware/{NAME}.json").read_text())
        self.assertEqual([p["key"] for p in found["refit"]["parameters"]], machine["fit"]["parameters"])
        self.assertLessEqual(found["refit"]["rms_percent"]["refitted"], found["refit"]["rms_percent"]["file"] * 1.001)
        self.assertTrue(all(c["unit"] == "ms" and c["paper"] for c in found["refit"]["cells"]))
        self.assertIsNone(found["held_out"])
        self.assertIsNone(found["sensitivity"])
        self.assertEqual(list(self.folder.iterdir()), [], "nothing is written")

    def test_the_start_does_not_matter(self):
        def change(machine):
            machine["network"]["gather_fraction"]["value"] = 0.5
            machine["network"]["compute_share"]["value"] = 0.3
        found, again = self.calibrate(NAME), self.calibrate(self.machine(change))
        for one, other in zip(found["refit"]["parameters"], again["refit"]["parameters"]):
            self.assertAlmostEqual(one["refitted"] / other["refitted"], 1, delta=0.003, msg=one["key"])
        self.assertGreater(again["refit"]["rms_percent"]["file"], 2 * again["refit"]["rms_percent"]["refitted"])

    def test_check(self):
        fitted = self.fitted(self.calibrate(NAME))
        self.calibrate(self.machine(fitted), "--check")

        def other(machine):
            fitted(machine)
            machine["network"]["gather_fraction"]["value"] *= 1.05
        done = self.run_frugal("calibrate", "--hardware", self.machine(other), "--check", status=1)
        self.assertIn("(differs)", done.stdout)
        self.assertIn("not what fitting gives", done.stderr)
        self.run_frugal("calibrate", "--hardware", self.machine(other))

        def seen(machine):
            fitted(machine)
            machine["fit"]["held_out"] = ["korthikanti2022/table4"]
        found = self.calibrate(self.machine(seen), "--check", status=1)
        self.assertEqual(len(found["violations"]), 1)
        self.assertIn("korthikanti2022/table4", found["violations"][0])

    def test_held_out(self):
        def change(machine):
            machine["fit"]["held_out"] = ["korthikanti2022/figure8"]
        found = self.calibrate(self.machine(change), "--held-out")
        (figure,) = found["held_out"]
        kept = json.loads(self.run_frugal("reproduce", "korthikanti2022/figure8", "--on", "virtual", "--programs", "paper",
                                          "--format", "json").stdout)["cells"]
        self.assertEqual([(c["row"], c["column"], c["error_points"]) for c in figure["cells"]],
                         [(c["row"], c["column"], c["error_points"]) for c in kept])
        # The paper's figure has the layer of its table 4 once more.
        self.assertEqual({c["row"].split(",")[0] for c in figure["cells"] if c["seen"]}, {"22B"})
        unseen = [abs(c["error_points"]) for c in figure["cells"] if not c["seen"]]
        self.assertAlmostEqual(figure["errors_unseen"]["points"]["mean"], sum(unseen) / len(unseen))
        self.assertAlmostEqual(figure["errors_unseen"]["points"]["worst"], max(unseen))
        self.assertIsNone(figure["errors"]["percent"])

    def test_sensitivity(self):
        def change(machine):
            machine["fit"]["held_out"] = ["korthikanti2022/figure9"]
        file = self.machine(change)
        found = self.calibrate(file, "--sensitivity")["sensitivity"]
        self.assertEqual(found["untimed"], ["korthikanti2022/figure9"])
        effects = [p["effect_percent"] for p in found["parameters"]]
        self.assertEqual(effects, sorted(effects, reverse=True))
        by_key = {p["key"]: p for p in found["parameters"]}
        self.assertTrue(by_key["network.compute_share"]["fitted"])
        self.assertEqual(by_key["device.multiprocessors"]["less"]["value"], 97)
        self.assertIn("more than 1", by_key["network.network_fraction"]["more"]["reason"])
        (table4,) = by_key["device.memory_bandwidth"]["less"]["artifacts"]
        self.assertGreater(table4["time_percent"], 1)
        self.assertLess(table4["time_percent"], 100 / 9)

    def test_published(self):
        found = self.calibrate(NAME, "--published")["published"]
        machine = json.loads((SOURCE / f"hardware/{NAME}.json").read_text())
        others = {f"{group}.{key}": [o["value"] for o in entry["others"]] for group in ("device", "network")
                  for key, entry in machine[group].items() if "others" in entry}
        tried = [one["values"] for one in found if one["source"]]
        self.assertEqual(len(tried), sum(map(len, others.values())))
        for one in tried:
            ((key, value),) = one.items()
            self.assertIn(value, others[key])

        def longer(one):
            return one["held_out"][0]["longer_percent"]
        by_name = {one["machine"]: one for one in found}
        for errors, mean in ((one["errors"]["percent"], one["longer_percent"]) for of in found for one in of["held_out"]):
            self.assertLessEqual(abs(mean), errors["mean"] * (1 + 1e-9), "means of errors and of their magnitudes")
        self.assertLessEqual(longer(by_name["the shortest times"]), min(map(longer, found)))
        self.assertGreaterEqual(longer(by_name["the longest times"]), max(map(longer, found)))

    def test_bad_input(self):
        def rejected(change, *says):
            self.rejected("calibrate", "--hardware", self.machine(change), says=says)

        def fit(**values):
            return lambda machine: machine["fit"].update(values)

        self.rejected("calibrate", says=["--hardware is missing", NAME])
        self.rejected("calibrate", "--hardware", "a100-selen", says=["a100-selen", "did you mean a100-selene"])
        self.rejected("calibrate", "--hardware", "a100-80gb", says=["a100-80gb", "fit", NAME, "docs/calibration.md"])
        self.rejected("calibrate", "--hardware", NAME, "--format", "csv", says=["--format", "table, json"])
        rejected(fit(to=[{"artifact": "korthikanti2022/tabel4"}]), "fit.to", "did you mean korthikanti2022/table4")
        rejected(fit(held_out=["table5"]), "fit.held_out", "table5", "frugal list")
        rejected(fit(to=[{**CELL, "row": "none"}]), "fit.to", "row none", "frugal reproduce")
        rejected(fit(to=[{**CELL, "column": "overhead"}]), "column overhead", "time or throughput")
        rejected(fit(parameters=["device.multiprocessors"]), "device.multiprocessors", "whole number")
        rejected(fit(parameters=["device.flops_f64"]), "device.flops_f64", "none of the cells", "take it out")
