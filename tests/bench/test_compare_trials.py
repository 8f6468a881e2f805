"""bench/compare_trials.py: what it hands to the scripts of others, and what it makes of what they say."""

import json
import statistics
from unittest import mock

from sources import InFolder, scripts_of

scripts_of("bench")
import compare_trials  # noqa: E402  (the path comes first)

#: Says a fixed p of Google's, or nvbench's word, whatever the samples are.
GOOGLE = """import json, sys
json.dump([{"run_type": "aggregate"}, {"run_type": "iteration", "utest": {"time_pvalue": %s}}], open(sys.argv[3], "w"))
"""
NVBENCH = 'print("| case | 1 | %s |")\n'


def side(*processes):
    return [{"case": "c", "device": "d", "environment": {}, "metrics": {"time": {"samples": list(samples)}}} for samples in processes]


class CompareTrials(InFolder):
    def setUp(self):
        super().setUp()
        self.both = side((1.0, 2.0), (6.0,)), side((3.0, 4.0), (3.5, 0.5))  # the medians 2 and 3.25, the means 3 and 2.75

    def script(self, text):
        (self.folder / "script.py").write_text(text)
        return self.folder / "script.py"

    def test_google_has_all_samples_in_nanoseconds(self):
        for p, words in (("0.049", ["slower", "faster"]), ("0.05", ["same"] * 2), ("None", ["same"] * 2)):
            found = [compare_trials.judged_by_google(self.script(GOOGLE % p), both, self.folder) for both in (self.both, self.both[::-1])]
            self.assertEqual(found, words)
        runs = json.loads((self.folder / "google-candidate.json").read_text())["benchmarks"]
        self.assertEqual([(run["real_time"], run["cpu_time"], run["time_unit"], run["repetitions"], run["repetition_index"]) for run in runs],
                         [(1e9, 1e9, "ns", 3, 0), (2e9, 2e9, "ns", 3, 1), (6e9, 6e9, "ns", 3, 2)])

    def test_nvbench_has_the_mean_and_the_noise(self):
        for word, meant in (("SLOW", "slower"), ("FAST", "faster"), ("SAME", "same")):
            self.assertEqual(compare_trials.judged_by_nvbench(self.script(NVBENCH % word), self.both, self.folder), meant)
        (state,) = json.loads((self.folder / "nvbench-0.json").read_text())["benchmarks"][0]["states"]
        values = {summary["tag"]: float(summary["data"][0]["value"]) for summary in state["summaries"]}
        self.assertEqual(values, {"nv/cold/time/gpu/mean": 3.0, "nv/cold/time/gpu/stdev/relative": statistics.stdev([1, 2, 6]) / 3})

    def test_so_many_trials_of_each_change(self):
        """A command has two cases, and a copy, which nothing slows down: it counts as a trial only where nothing is slowed."""
        asked = mock.Mock(frugal="good", faulty="bad", processes=14, same=4, slower=3, google=None, nvbench=None, out=self.folder / "trials.json")
        seeds = []

        def pairs(programs, glob, processes, seed, _folder):
            seeds.append((str(programs[1]), glob, processes, seed))
            return {f"{glob}/{by}": self.both for by in ("frugal", "backward", "copy")}
        with mock.patch.object(compare_trials, "run_pairs", pairs), mock.patch.object(compare_trials, "slowed", lambda *of: f"{of[1]} of {of[0]}"), \
                mock.patch.object(compare_trials, "judged_by_frugal", lambda *_: {"change": "same"}):
            compare_trials.run(asked)
        globs = compare_trials.GLOBS
        self.assertEqual(seeds, [(program, globs[seed - 1], 14, seed) for program in ("good", "0.1 of bad", "0.05 of bad") for seed in (1, 2)])
        trials = json.loads(asked.out.read_text())["trials"]
        self.assertEqual([(trial["slower_by"], trial["case"].rsplit("/", 1)[-1]) for trial in trials],
                         [(0, "frugal"), (0, "backward"), (0, "copy"), (0, "frugal"),
                          *((by, case) for by in (0.1, 0.05) for case in ("frugal", "backward", "frugal"))])
        self.assertEqual(trials[0]["samples"], [[[1.0, 2.0], [6.0]], [[3.0, 4.0], [3.5, 0.5]]])

    def test_frugal_judges_the_records_of_a_case_alone(self):
        program = self.script("""#!/usr/bin/env python3
import json, pathlib, sys
base, candidate = (pathlib.Path(side, "records.jsonl").read_text().splitlines() for side in sys.argv[2:4])
of_time = {"quantity": "time", "change": "slower", "ratio": len(base) / len(candidate), "interval": [1, 2], "p": 0.01, "by_turns": True, "more": 1}
print(json.dumps({"quantities": [{"quantity": "work"}, of_time]}))
""")
        program.chmod(0o755)
        self.assertEqual(compare_trials.judged_by_frugal(program, (side((1,), (2,), (3,)), side((4,), (5,))), self.folder),
                         {"change": "slower", "ratio": 1.5, "interval": [1, 2], "p": 0.01, "by_turns": True})
