"""frugal predict: the cases of a GPU, on its machine."""

import json

from program import SOURCE, Cli

TABLE = "korthikanti2022/table4"


class Predict(Cli):
    def test_is_what_that_machine_reproduces(self):
        """A machine that the paper's artifacts run on: there both commands run the same."""
        self.run_frugal("predict", TABLE, "--hardware", "a100-selene", "--out", "predicted")
        self.run_frugal("reproduce", TABLE, "--on", "virtual", "--out", "reproduced")
        predicted = {r["case"]: r for r in self.records("predicted")}
        reproduced = {r["case"]: r for r in self.records("reproduced")}
        self.assertTrue(set(reproduced) < set(predicted))
        for case, record in reproduced.items():
            self.assertEqual(record["fingerprint"], predicted[case]["fingerprint"], case)
            self.assertEqual(record["metrics"], predicted[case]["metrics"], case)
        self.assertIn("22B/fused/t1", predicted)  # a GPU's alone
        self.assertIn(f"frugal predict {TABLE} --hardware a100-selene", predicted["22B/fused/t1"]["command"])

    def test_says_what_it_predicts_and_for_which_machine(self):
        done = self.run_frugal("predict", TABLE, "mst2024/table14", "--hardware", "h200-hgx", "--out", "out")
        records = self.records("out")
        for record in records:
            self.assertEqual((record["source"], record["on"], record["status"]), ("virtual", "virtual:h200-hgx", "ok"))
        self.assertEqual({r["artifact"] for r in records}, {TABLE, "mst2024/table14"})
        forward = next(r for r in records if r["case"] == "22B/full/t1")["metrics"]["forward_time"]["median"]
        line = next(x for x in done.stdout.splitlines() if x.split()[1:3] == ["22B/full/t1", "forward_time"])
        self.assertAlmostEqual(float(line.split()[3]), forward, delta=1e-3 * forward)
        before = (self.folder / "out/records.jsonl").read_text()
        self.run_frugal("predict", TABLE, "--hardware", "h200-hgx", "--out", "out")
        self.assertEqual((self.folder / "out/records.jsonl").read_text(), before)

    def test_a_file_of_another_machine_is_named_by_its_values(self):
        machine = json.loads((SOURCE / "hardware/h200-hgx.json").read_text())
        machine["device"]["memory_bandwidth"]["value"] *= 2
        (self.folder / "fast.json").write_text(json.dumps(machine))
        self.run_frugal("predict", TABLE, "--hardware", "fast.json", "--out", "out")
        self.assertRegex(self.records("out")[0]["on"], "^virtual:h200-hgx#[0-9a-f]{8}$")

    def test_mistakes(self):
        for arguments, says in (([TABLE], "--hardware is missing"),
                                ([TABLE, "--hardware", "h300"], "h300"),
                                (["pipedream2bw2021/figure1a", "--hardware", "h200-hgx"], "there is nothing to predict"),
                                (["korthikanti2022/table44", "--hardware", "h200-hgx"], "table44")):
            done = self.run_frugal("predict", *arguments, status=2)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(list(self.folder.iterdir()), [])
        for flag in ("--write", "--machine"):
            done = self.run_frugal("peak", "--on", "virtual:h200-hgx", flag, "out.json", status=2)
            self.assertIn(f"{flag} is given with --on virtual:h200-hgx", done.stderr)

    def test_peaks_of_a_machine_are_its_rates(self):
        peaks = json.loads(self.run_frugal("peak", "--on", "virtual:h200-hgx", "--format", "json").stdout)
        self.assertEqual((peaks["source"], peaks["on"]), ("virtual", "virtual:h200-hgx"))
        base, own = (json.loads((SOURCE / f"hardware/{name}.json").read_text()) for name in ("h100-dgx", "h200-hgx"))
        self.assertEqual(own["base"], "h100-dgx")
        machine = {**base["device"], **own["device"]}
        bandwidth = machine["memory_bandwidth"]["value"] * machine["memory_fraction"]["value"]
        self.assertLess(peaks["copy"]["bytes_per_second"], bandwidth)
        self.assertGreater(peaks["copy"]["bytes_per_second"], 0.98 * bandwidth)
        highest = machine["flops_bf16"]["value"] * machine["gemm_fraction"]["value"]
        for rate in peaks["gemm"]:
            if rate["type"] == "bf16":
                self.assertLessEqual(rate["flops_per_second"], highest)
