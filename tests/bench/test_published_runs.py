"""Published runs: what their rows become, and how predictions of them are judged, on rows worked out by hand."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import tomllib
import unittest

from sources import SOURCE, scripts_of

scripts_of("bench")
import published  # noqa: E402  (the path comes first)
import published_errors as judging  # noqa: E402

RESULTS = SOURCE / "results/virtual/published"


def line(predicted, measured=100, **more):
    """Of a time, in a group and with nothing special."""
    return {"group": "g", "name": "run", "used_for": [], "techniques": {}, "alike": ["m"], "per_token": 1, "machine": "a", "program": "p",
            "seconds_per_launch": 1e-3, "share_of_memory": 0.97, "sequence": 4096, "nodes": 1,
            "time": {"predicted": predicted, "published": measured}, **more}


class Data(unittest.TestCase):
    def documents(self):
        found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (SOURCE / "published").glob("*.json")}
        self.assertEqual(sorted(found), sorted(published.SETS))
        return found

    def test_files_have_their_schema(self):
        for name, document in self.documents().items():
            self.assertEqual(document["schema"], "frugal.published/1")
            self.assertEqual(document["name"], name)
            self.assertTrue(document["source"] and document["commit"] and document["licence"].startswith("facts only"))
            self.assertTrue(all(document["columns"].values()))
            for row in document["rows"]:
                self.assertEqual(len(row), len(document["columns"]), f"{name}: {row}")
            for use in document["used_for"]:
                self.assertEqual(set(use), {"for", "of", "rows"})
                self.assertIn(use["of"], judging.WHAT)
                self.assertLessEqual({key.partition(".")[0] for key in use["rows"]}, set(document["columns"]))

    def test_rows_that_a_number_was_fitted_to_are_named(self):
        """Of machines and programs: what was fitted says to which set, which says which number."""
        names = {"llm-foundry": "llm-foundry", "torchtitan": "torchtitan", "simumax": "simumax", "megatron-ci": "functional test", "others": "llmq"}
        documents = self.documents()

        def check(value, key, where):
            said = value.get("source", value.get("evidence", "")) if isinstance(value, dict) else ""
            for name, words in names.items():
                if "fitted" in said and words in said.lower():
                    self.assertTrue(any(key in use["for"] for use in documents[name]["used_for"]), f"{where}: {key}: {name} has no used_for")
            for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
                check(part, name if isinstance(name, str) else key, where)
        for path in (*(SOURCE / "hardware").glob("*.json"), *(SOURCE / "programs").glob("*.json")):
            check(json.loads(path.read_text(encoding="utf-8")), path.stem, path.name)

    def test_derived_times_are_those_of_published_throughputs(self):
        """Within the digits that are printed."""
        for name, gpus, replicas, local in (("llm-foundry", "gpus", None, None), ("torchtitan", "world", "dp_shard", "local_batch")):
            document = self.documents()[name]
            for row in (dict(zip(document["columns"], values)) for values in document["rows"]):
                sequences = row[local] * row[replicas] if local else row["gpus"] * row["micro"] * row["accum"]
                self.assertEqual(sequences, row["global_batch"])
                time = sequences * row["seq"] / row["tokens_per_s_per_gpu"] / row[gpus]
                self.assertAlmostEqual(row["step_time_s"] / time, 1, delta=1e-5)

    def test_configurations_of_megatron_agree_with_their_arguments(self):
        document = self.documents()["megatron-ci"]
        for row in (dict(zip(document["columns"], values)) for values in document["rows"]):
            arguments = document["cases"][row["args"]]["args"]
            self.assertEqual(row["tp"], arguments.get("--tensor-model-parallel-size", 1))
            if row["world"]:
                self.assertEqual(row["world"], row["tp"] * row["pp"] * row["cp"] * row["dp"])


class Rows(unittest.TestCase):
    def test_torchtitans_file(self):
        compiled = published.rows_of("torchtitan")[1]
        name, text, flags = compiled["given"]
        said = tomllib.loads(text)
        self.assertEqual((name, flags), ("torchtitan.toml", ["--world-size", 8]))
        self.assertEqual(said["model"], {"name": "llama3", "flavor": "8B"})
        self.assertEqual(said["training"], {"batch_size": 2, "seq_len": 8192, "max_norm": 1.0, "compile": True,
                                            "data_parallel_shard_degree": 8, "tensor_parallel_degree": 1})
        self.assertEqual(said["activation_checkpoint"], {"mode": "selective", "selective_ac_option": "op"})
        self.assertIs(tomllib.loads(published.rows_of("torchtitan")[2]["given"][1])["float8"]["enable_float8_linear"], True)

    def test_rows_that_set_a_number(self):
        row = {"gpu": "a", "model": {"layers": 12}}
        self.assertEqual([published.is_of(row, rows) for rows in ({"gpu": ["a", "b"], "model.layers": [6, 12]}, {"gpu": ["b"]}, {"model.layers": [6]}, {})],
                         [True, False, False, True])

    def test_arguments_as_lines(self):
        self.assertEqual(published.yaml({"--a": True, "--b": False, "--c": 3, "--d": "x", "--e": "(0 1)", "--f": 1e-5}),
                         'MODEL_ARGS:\n  --a: true\n  --c: 3\n  --d: x\n  --e: "(0 1)"\n  --f: 1e-05\n')

        self.assertEqual(published.script("x.py", {"--a": True, "--b": False, "--c": 3, "--e": "(0 1)"}), "python x.py --a --c 3 --e '(0 1)'\n")

    def test_behaviours_of_a_program(self):
        self.assertEqual(published.behaviours_of("mini-s-modules+rotary-tables~separate-activation+score-mask:memory"),
                         ["log-probabilities", "rotary-tables", "score-mask"])
        self.assertEqual(published.behaviours_of("frugal"), [])
        self.assertEqual([judging.base_of(text) for text in ("a", "a-b+c~d", "a~b+c", "a:time")], ["a", "a-b", "a", "a"])

    def test_results_are_what_the_program_predicts(self):
        """Of some rows of each set."""
        runner = published.Runner(os.environ["FRUGAL"], [])
        for name in published.SETS:
            lines = judging.read(RESULTS)[name]
            rows = published.rows_of(name)
            self.assertEqual([kept["row"] for kept in lines], [row["row"] for row in rows])
            for kept, row in list(zip(lines, rows))[:: max(1, len(rows) // 5)]:
                again = json.loads(json.dumps(runner.line(row, kept.get("program"))))
                for what in judging.WHAT:
                    if kept.get(what):
                        self.assertAlmostEqual(again[what]["predicted"] / kept[what]["predicted"], 1, delta=2e-6, msg=row["name"])
                for values in (kept, again):
                    values.pop("memory", None), values.pop("time", None)
                self.assertEqual(kept, again, f"{row['name']}: make results/virtual/published again, by bench/published.sh")

    def test_unsteady_steps_have_no_time(self):
        """The median and the shortest of each run, as the file has them."""
        document = json.loads((SOURCE / "published/megatron-ci.json").read_text(encoding="utf-8"))
        said = [dict(zip(document["columns"], row)) for row in document["rows"]]
        ratios = [row["iteration_time"] / row["iteration_time_min"] for row in said]
        self.assertEqual({(row["gpu"], row["world"]) for row, ratio in zip(said, ratios) if ratio > 1.25}, {("gb200", 4)})
        self.assertLess(max(ratio for row, ratio in zip(said, ratios) if row["world"] != 4), 1.25)
        for row, ratio in zip(published.rows_of("megatron-ci"), ratios, strict=True):
            self.assertEqual((row["time"] is None, row["without_time"] is None), (ratio > 1.25, ratio <= 1.25))

    def test_flags_that_change_nothing_are_no_technique(self):
        """Two orders of ranks differ where there are replicas, and Megatron-Core is what any run is."""
        document = json.loads((SOURCE / "published/megatron-ci.json").read_text(encoding="utf-8"))
        row = next(row for values in document["rows"] if (row := dict(zip(document["columns"], values)))["dp"] == 1)
        more = {"--use-tp-pp-dp-mapping": True, "--use-mcore-models": True}
        document["cases"] = {"with": {"args": document["cases"][row["args"]]["args"] | more}}
        for replicas, said in ((1, False), (2, True)):
            found = published.megatron_ci(row | {"args": "with", "dp": replicas}, document)["techniques"]
            self.assertEqual("use-tp-pp-dp-mapping" in found["parallel sizes"], said)
            self.assertNotIn("use-mcore-models", json.dumps(found))

    def test_bands_are_those_of_the_lines(self):
        lines = [one for several in judging.read(RESULTS).values() for one in several]
        self.assertEqual((RESULTS / "bands.json").read_text(), judging.json_of_bands(judging.bands(lines)))

    def test_import_prints_the_errors_that_runs_like_it_have(self):
        """Of llm-foundry's and the functional tests' short runs on one node of A100s, counted here."""
        lines = [one for several in judging.read(RESULTS).values() for one in several if "program" in one]
        asked = next(row for row in published.rows_of("megatron-ci") if row["name"] == "bert_mcore_tp1_pp2, dev" and row["gpu"] == "a100")
        mine = next(one for one in lines if one["set"] == "megatron-ci" and one["row"] == asked["row"])
        sizes = sorted(abs(one["time"]["predicted"] - one["time"]["published"]) / one["time"]["published"] for one in lines
                       if one["machine"] == mine["machine"] and one["program"].startswith("megatron-core") and one["time"] and not one["left_out"] and "time" not in one["used_for"]
                       and one["sequence"] < 8192 and one["nodes"] == 1 and one["seconds_per_launch"] < 50e-6)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / asked["given"][0]
            path.write_text(asked["given"][1])
            command = [os.environ["FRUGAL"], "import", path, *map(str, asked["given"][2]), "--on", f"virtual:{mine['machine']}"]
            text, said = (subprocess.run([*command, "--format", form], capture_output=True, text=True, check=True, cwd=folder).stdout
                          for form in ("table", "json"))
        half = len(sizes) // 2
        band = json.loads(said)["band"]
        self.assertEqual(band["count"], len(sizes))
        self.assertAlmostEqual(band["median"], (sizes[half] + sizes[-half - 1]) / 2, delta=6e-5)
        self.assertAlmostEqual(band["largest"], sizes[-1], delta=6e-5)
        self.assertIn(f"How far off that is: predicted times of {len(sizes)} published runs like it", text)

    def test_some_rows_do_not_replace_results(self):
        said = io.StringIO()
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(said):
            published.main([os.environ["FRUGAL"], "--every", "100"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("give --out FOLDER", said.getvalue())


class Judging(unittest.TestCase):
    def test_summary(self):
        """20 errors: -1, +2, -3 … -19, +40 %. Nineteen of twenty are within 19."""
        one = judging.summary([(-1) ** n * n / 100 for n in (*range(1, 20), 40)])
        self.assertAlmostEqual(one["mean"], 0.115)
        self.assertAlmostEqual(one["median"], 0.105)
        self.assertAlmostEqual(one["bias"], 0.005)  # between -1 and +2
        self.assertEqual((one["count"], one["95 %"], one["largest"]), (20, 0.19, 0.40))
        self.assertEqual(one["within"], {2: 0.1, 5: 0.25, 10: 0.5, 20: 0.95})
        self.assertEqual([judging.quantile(range(1, 22), share) for share in (0.95, 1)], [20, 21])
        self.assertEqual(judging.quantile([3, 1, 2], 0.5), 2)

    def test_groups_leave_out_what_has_no_error(self):
        lines = [line(110), line(80), line(105, group="h"), line(900, left_out="odd"), {**line(1), "time": None}]
        found = judging.groups(lines, "time")
        self.assertEqual([(group, one["count"]) for group, one in found.items()], [("g", 2), ("h", 1), ("all", 3)])
        self.assertAlmostEqual(found["g"]["mean"], 0.15)
        self.assertAlmostEqual(found["all"]["largest"], -0.2)
        self.assertEqual(judging.groups(lines, "memory"), {})
        check = judging.groups([*lines, line(103, used_for=["time"]), line(104, used_for=["memory"])], "time")
        self.assertEqual([(group, one["count"]) for group, one in check.items()], [("g", 4), ("h", 1), ("all", 5), ("that set no number", 4)])

    def test_the_worst_have_a_reason_by_what_the_row_is(self):
        lines = [line(100.1), line(50, techniques={"float8": {"recipe": "r"}}), line(70, seconds_per_launch=4.9e-5), line(160),
                 line(65, share_of_memory=0.981)]
        self.assertEqual([(round(e, 2), why) for e, _, why in judging.worst(lines, "time", 4)],
                         [(0.6, "not explained"), (-0.5, "products in 8 bits, which are not imitated"),
                          (-0.35, "fills its GPU: PyTorch's allocator gives blocks back and asks for others"),
                          (-0.3, "bound by the host, which launches longer than the device computes")])

    def test_orders_are_of_pairs_that_differ_in_one_technique(self):
        """Published a : b : c = 100 : 120 : 101. Between a and c there is no order, b and c differ in two techniques."""
        a = line(100, 100, techniques={"compile": False, "batch": 1})
        b = line(105, 120, techniques={"compile": True, "batch": 1})
        c = line(90, 101, techniques={"compile": False, "batch": 2})
        other = line(1, 1, alike=["another"], techniques={"compile": True, "batch": 1})
        self.assertEqual(judging.orders([a, b, c, other], "time"), {
            "compile": {"pairs": 1, "ordered": 1, "right_sign": 1, "within_10": 0},  # 1.05 for 1.2
            "batch": {"pairs": 1, "ordered": 0, "right_sign": None, "within_10": 0},  # 0.9 for 1.01
            "all": {"pairs": 2, "ordered": 1, "right_sign": 1, "within_10": 0}})
        wrong = judging.orders([a, line(99, 104, techniques={"compile": True, "batch": 1})], "time")["compile"]
        self.assertEqual((wrong["right_sign"], wrong["within_10"]), (0, 1))
        # What was run twice has no order to find, and is in no other count.
        again = line(100, 115, techniques={"compile": False, "batch": 1})
        self.assertEqual(judging.orders([a, again], "time"), {
            judging.NOTHING: {"pairs": 1, "ordered": 1, "right_sign": None, "within_10": 0}})
        # Twice the tokens in 2.2 times the time take 1.1 times as long each; a technique that only one has differs, too.
        half = line(210, 220, techniques={"compile": False, "batch": 1, "overlap": {"x": True}}, per_token=0.5)
        self.assertEqual([[round(value, 3) for value in pair[1:]] for pair in judging.pairs([a, half], "time")], [[1.1, 1.05]])

    def test_what_a_behaviour_moves(self):
        lines = [line(90), line(110), line(100, left_out="odd")]
        found = judging.moved(lines, [line(81), line(110), line(1)])
        self.assertEqual(found, {"time": {"rows": 1, "change": 0.05, "mean_error": 0.145, "moves": 0.045}})
        gone = {**line(1), "time": None}
        self.assertEqual(judging.moved(lines, [gone, line(110), gone]),
                         {"time": {"rows": 0, "change": 0.0, "mean_error": 0.1, "moves": 0.0, "lost": 1}})
        self.assertEqual(judging.moved(lines, [gone] * 3), {"time": {"rows": 0, "lost": 2}})

    def test_bands_by_machine_program_and_class(self):
        lines = [line(90), line(130), line(95), line(80, sequence=8192), line(70, nodes=2), line(50, seconds_per_launch=1e-6),
                 line(1, used_for=["time"]), line(1, techniques={"float8": {}}, left_out="x"), line(1, techniques={"precision": ", fp8"})]
        found = {(one["host_bound"], one["long"], one["several_nodes"]): (one["count"], one["median"], one["largest"])
                 for one in judging.bands(lines)}
        self.assertEqual(found, {(False, False, False): (3, 0.1, 0.3), (False, True, False): (1, 0.2, 0.2),
                                 (False, False, True): (1, 0.3, 0.3), (True, False, False): (1, 0.5, 0.5)})
