"""frugal trace, and the flags that it shares with frugal measure."""

import collections
import json
import pickle
import signal
import xml.etree.ElementTree as tree

from program import TINY, Cli

RUN = ["--model", "gpt-tiny", "--layers", "4", "--pipeline-parallel", "2", "--microbatches", "4"]
TRACE = ["trace", *RUN]


class Trace(Cli):
    def test_bad_input(self):
        self.rejected(*TRACE, says=["--out-file is missing", "trace.json"])
        self.rejected("trace", "--out-file", "x", says=["--model is missing"])
        self.rejected(*TRACE, "--out-file", "absent/x", says=["--out-file", "absent/x", "No such file"])
        self.rejected(*TRACE, "--out-file", "x", "--svg", "absent/x", says=["--svg", "absent/x", "No such file"])
        self.rejected(*TRACE, "--out-file", "x", "--svg", "x", says=["--svg", "--out-file", "both x"])
        self.rejected(*TRACE, "--out-file", "x", "--memory-file", "x", says=["--memory-file", "--out-file", "both x"])
        (self.folder / "given").mkdir()
        (self.folder / "given/link").symlink_to(self.folder)
        for other in ("./x", "given/../x", str(self.folder / "x"), "given/link/x"):
            self.rejected(*TRACE, "--out-file", "x", "--memory-file", other, says=["--memory-file", "--out-file", f"both {other}"])
        self.rejected(*TRACE, "--memory-snapshot", "x", "--memory-file", "x", says=["--memory-file", "--memory-snapshot", "both x"])
        self.rejected(*TRACE, "--memory-file", "absent/x", says=["--memory-file", "absent/x", "No such file"])
        self.rejected(*TRACE[:-2], "--out-file", "x", "--schedule", "2bw", says=["2bw", "microbatches"])

    def test_files_are_not_overwritten(self):
        (self.folder / "given").mkdir()
        there = self.folder / "given/x"
        there.write_text("mine")
        for flag, other in (("--out-file", "--svg"), ("--svg", "--out-file")):
            self.rejected(*TRACE, flag, str(there), other, "new", says=[flag, "exists already", "--force"])
        self.rejected(*TRACE, "--out-file", str(self.folder / "given"), "--force", says=["--out-file", "is a folder"])
        self.assertEqual(there.read_text(), "mine")
        self.run_frugal(*TRACE, "--out-file", str(there), "--force")
        json.loads(there.read_text())

    def test_paths_that_lead_nowhere(self):
        (self.folder / "given").mkdir()
        loop = self.folder / "given/loop"
        loop.symlink_to("loop")
        long = "x" * 300
        for name in (long, "given/loop/x"):
            for force in ([], ["--force"]):
                self.rejected(*TRACE, "--out-file", name, *force, says=["--out-file", name, "cannot be written"])
        self.rejected(*TRACE, "--out-file", "given/loop", says=["given/loop exists already", "--force"])
        self.rejected("trace", "--model", long, "--out-file", "x", says=["--model", long, "known are"])
        for name in (f"{long}.json", "given/loop"):
            self.rejected("trace", "--model", name, "--out-file", "x", says=[name, "cannot be read"])
            self.rejected(*TINY, "--load-weights", name, says=[name, "cannot be read"])
            self.rejected("report", name, says=[name, "there is no such folder or file"])
        self.run_frugal(*TRACE, "--out-file", "given/loop", "--force")
        json.loads(loop.read_text())

    def test_what_is_read_is_not_overwritten(self):
        model = json.dumps({"layers": 2, "hidden_size": 64, "attention_heads": 4, "sequence_length": 32,
                            "vocabulary_size": 256, "dropout": 0, "name": "x"})
        path = self.given(model, "config.json")
        for named in (path, str(self.folder / "given")):
            self.rejected("trace", "--model", named, "--memory-file", "given/./config.json", "--force",
                          says=["--memory-file", "--model", "given/./config.json"])
        text = self.given("words " * 1000)
        self.rejected(*TRACE, "--text", text, "--memory-file", "given/../given/mine.txt", "--force",
                      says=["--memory-file", "--text"])

    def test_virtual_and_measured(self):
        places = [["--on", "virtual:v100-p3-16xlarge"], ["--on", "cpu", "--threads", "2"]]
        for number, place in enumerate(places):
            trace, svg = f"{number}.json", f"{number}.svg"
            shown = self.run_frugal(*TRACE, *place, "--schedule", "2bw", "--steps", "3", "--out-file", trace,
                                    "--svg", svg).stdout
            self.assertIn("perfetto", shown)
            document = json.loads((self.folder / trace).read_text())
            passes = [e for e in document["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
            self.assertEqual(len(passes), 2 * (2 * 12 + 3))
            self.assertIn("frugal trace --model gpt-tiny --layers 4 --on " + place[1], document["otherData"]["command"])
            text = "".join(tree.parse(self.folder / svg).getroot().itertext())
            self.assertIn("planned", text)
            self.assertIn(place[1], text)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["0.json", "0.svg", "1.json", "1.svg"])


    def test_memory_alone(self):
        shown = self.run_frugal("trace", "--model", "llama-tiny", "--on", "virtual:a100-80gb", "--step-in-backward",
                                "--recompute", "full", "--offload", "--memory-file", "m.json").stdout
        self.assertNotIn("perfetto", shown)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["m.json"])
        document = json.loads((self.folder / "m.json").read_text())
        self.assertEqual((document["schema"], document["about"]["on"]), ("frugal.memory/1", "virtual:a100-80gb"))
        self.assertIn("--memory-file m.json", document["about"]["command"])
        rows = document["stages"][0]["rows"]
        self.assertEqual({row[1] for row in rows}, {"forward", "backward", "step"})
        self.assertTrue(all(len(row) == len(document["columns"]) for row in rows))
        self.assertGreater(max(row[-1] for row in rows), 0)

    def snapshot(self, *arguments):
        shown = self.run_frugal("trace", *arguments, "--memory-snapshot", "s.pickle", "--force").stdout
        self.assertIn("pytorch.org/memory_viz", shown)
        return pickle.loads((self.folder / "s.pickle").read_bytes())

    def is_the_ledgers(self, snapshot, *arguments):
        """Taken and given back as a viewer adds it up, each device's peak is that of its stage, to the byte."""
        self.run_frugal("measure", *arguments, "--out", "ledger", "--force")
        stages = self.records("ledger")[-1]["memory"]["stages"]
        self.assertEqual(len(snapshot["device_traces"]), len(stages))
        for number, (events, stage) in enumerate(zip(snapshot["device_traces"], stages)):
            live, peak, segments = {}, 0, {}
            for event in events:
                if event["action"] == "alloc":
                    self.assertNotIn(event["addr"], live)
                    live[event["addr"]] = event["size"]
                    peak = max(peak, sum(live.values()))
                elif event["action"] == "free_completed":
                    self.assertEqual(live.pop(event["addr"]), event["size"])
                elif event["action"] == "segment_alloc":
                    segments[event["addr"]] = event["size"]
                elif event["action"] == "segment_free":
                    self.assertEqual(segments.pop(event["addr"]), event["size"])
            self.assertEqual(peak, stage["peak"])
            of_device = [segment for segment in snapshot["segments"] if segment["device"] == number]
            self.assertEqual({s["address"]: s["total_size"] for s in of_device}, live)
            self.assertEqual(segments, live)
            self.assertEqual({b["address"]: b["size"] for s in of_device for b in s["blocks"]}, live)
            times = [event["time_us"] for event in events]
            self.assertEqual(times, sorted(times))
        parts = sorted((s["address"], s["address"] + s["total_size"]) for s in snapshot["segments"])
        self.assertTrue(all(end <= begin for (_, end), (begin, _) in zip(parts, parts[1:])), "they lie apart")

    def test_memory_snapshot(self):
        for run in ([*RUN, "--on", "virtual:a100-selene", "--recompute", "selective", "--steps", "2"],
                    [*RUN, "--on", "cpu", "--threads", "1", "--optimizer", "sgd"],
                    ["--model", "gpt-tiny", "--on", "virtual", "--tensor-parallel", "2", "--step-in-backward",
                     "--type", "bf16"]):
            snapshot = self.snapshot(*run)
            self.is_the_ledgers(snapshot, *run)
            self.assertIn("--memory-snapshot s.pickle", snapshot["about"]["command"])

    def test_frames_of_a_memory_snapshot(self):
        snapshot = self.snapshot(*RUN, "--on", "virtual")
        frames = {tuple((f["filename"], f["line"], f["name"]) for f in event["frames"])
                  for events in snapshot["device_traces"] for event in events}
        self.assertIn((("module", 0, "mlp"), ("microbatch", 3, "microbatch 3"), ("layer", 1, "layer 1"),
                       ("kind", 3, "activation")), frames)
        self.assertEqual({frame[-1][2] for frame in frames},
                         {"parameter", "gradient", "optimizer", "activation", "statistics", "workspace", "communication"})

    def test_a_large_memory_snapshot_is_written_in_parts(self):
        """Some readers hold all items of a list that are written at once."""
        snapshot = self.snapshot("--model", "gpt-tiny", "--on", "virtual", "--microbatches", "64")
        self.assertGreater(len(snapshot["device_traces"][0]), 10000)
        sizes = []

        class Reader(pickle._Unpickler):  # pylint: disable=protected-access
            dispatch = dict(pickle._Unpickler.dispatch)

            def load_appends(self):
                sizes.append(len(self.stack))
                super().load_appends()

            dispatch[pickle.APPENDS[0]] = load_appends

        with (self.folder / "s.pickle").open("rb") as file:
            self.assertEqual(Reader(file).load(), snapshot)
        self.assertEqual(max(sizes), 1000)


class Operations(Cli):
    def test_bad_input(self):
        self.rejected("operations", says=["--model is missing"])
        self.rejected("operations", "--model", "gpt-tiny", "--on", "nowhere", says=["--on", "nowhere"])
        self.rejected("operations", *RUN, "--format", "xml", says=["--format", "xml", "table, json"])

    def test_table_and_json(self):
        arguments = ["operations", *RUN, "--on", "cpu", "--threads", "1", "--steps", "3"]
        shown = self.run_frugal(*arguments).stdout
        self.assertRegex(shown, r"a step: [0-9.]+ ms, with every operation timed: [0-9.]+ ms\n")
        self.assertIn("stage 1\n", shown)
        document = json.loads(self.run_frugal(*arguments, "--format", "json").stdout)
        self.assertEqual((document["schema"], document["on"], document["source"]),
                         ("frugal.operations/1", "cpu", "measured"))
        self.assertIn("frugal operations --model gpt-tiny", document["command"])
        self.assertEqual([len(document[key]) for key in ("step_seconds", "plain_step_seconds", "stages")], [3, 3, 2])
        self.assertEqual(list(self.folder.iterdir()), [])
        self.is_what_a_step_does(document["stages"], *arguments[1:])

    def is_what_a_step_does(self, stages, *arguments):
        self.run_frugal("measure", *arguments)
        work = self.records()[-1]["work"]
        counts = collections.Counter()
        for operation in stages[work["stage"]]["operations"]:
            counts[operation["operation"].split()[0]] += operation["count"]
        for name, done in work["operations"].items():
            self.assertAlmostEqual(counts.pop(name), done["count"], msg=name)
        self.assertEqual(counts, {})

    def test_steps_that_are_trained_in_one_go(self):
        arguments = [*RUN, "--on", "cpu", "--threads", "1", "--schedule", "2bw", "--clip", "0", "--steps", "4"]
        document = json.loads(self.run_frugal("operations", *arguments, "--format", "json").stdout)
        self.assertEqual([len(document[key]) for key in ("step_seconds", "plain_step_seconds")], [4, 4])
        self.is_what_a_step_does(document["stages"], *arguments)

    def test_ctrl_c(self):
        self.interrupt(["operations", *TINY[1:], "--steps", "1000000"], signal.SIGINT, 3)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_schedule_file_is_named(self):
        shown = self.run_frugal("schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--format", "text").stdout
        file = self.given(shown, "own.txt")
        document = json.loads(self.run_frugal("operations", *RUN[:4], "--schedule-file", file, "--format", "json").stdout)
        self.assertIn("hash ", document["schedule_file"])


class Ranks(Cli):
    def test_bad_input(self):
        self.rejected(*TINY[:3], "--on", "virtual", "--pin", says=["--pin", "virtual", "--on cpu"])
        self.rejected(*TRACE, "--out-file", "x", "--pin", says=["--pin", "virtual", "--on cpu"])
        self.rejected(*TINY, "--tensor-parallel", "2", "--lone-rank", "h200-hgx", "--pin",
                      says=["--pin", "--lone-rank"])
        self.rejected(*TINY[:5], "--threads", "4096", "--pin", says=["4096 cores", "do not pin"])
        self.rejected(*TINY, "--deadline", "0", says=["--deadline", "0", "at least 0.001"])
        self.rejected(*TINY, "--deadline", "soon", says=["--deadline", "soon"])

    def test_are_pinned_and_it_is_recorded(self):
        self.run_frugal(*TINY, "--pin", "--deadline", "60")
        self.run_frugal(*TINY)
        pinned, free = self.records()
        self.assertEqual((pinned["options"]["pinned"], pinned["options"]["deadline"]), ("yes", "60"))
        self.assertIn("--threads 1 --pin --deadline 60", pinned["command"])
        self.assertNotEqual(pinned["fingerprint"], free["fingerprint"])
        self.assertFalse({"pinned", "deadline"} & free["options"].keys())
