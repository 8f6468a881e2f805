"""What the scripts in bench/ make of what programs say, each with answers that are made up: every number differs, so none
can stand for another."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from sources import SOURCE, scripts_of

scripts_of("bench", "scripts")
import artifact_costs  # noqa: E402  (the path comes first)
import balanced_ring  # noqa: E402
import costs  # noqa: E402
import long_sequences  # noqa: E402
import modern_hardware  # noqa: E402
import plan_decisions  # noqa: E402
import planned_training  # noqa: E402
import recompute_frontier  # noqa: E402
import schedule_family  # noqa: E402
import step_work  # noqa: E402
import two_dimensions  # noqa: E402
import two_hosts  # noqa: E402

OUT = "--out"
#: One of frugal's records, in which the median is no mean, and the peak of a rank not the sum of its kinds'.
RECORD = {"status": "ok", "reason": "", "machine": "hash", "command": "frugal measure",
          "metrics": {"step_time": {"unit": "s", "samples": [2.0, 3.0, 7.0], "median": 3.0}},
          "memory": {"peak_total": 1100, "peak": {"parameter": 100, "gradient": 200, "optimizer": 400, "activation": 1000},
                     "stages": [{"peak": 900, "peak_per_kind": {"activation": 600}}, {"peak": 1100, "peak_per_kind": {"activation": 500}},
                                {"peak": 700, "peak_per_kind": {"activation": 800}}]},
          "utilization": {"mfu": {"data_sheet": {"value": 0.25}, "measured": {"value": 0.3}},
                          "hfu": {"data_sheet": {"value": 0.5}, "measured": {"value": 0.6}}},
          "configuration": {"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "data_parallel_size": 5, "global_batch": 8,
                            "microbatch_size": 11, "microbatches": 13, "recompute": "full", "model": {"sequence_length": 2000}}}
#: Of `frugal trace`: three streams and the host, in microseconds.
TRACE = {"traceEvents": [{"ph": "M", "name": "thread_name", "tid": tid, "args": {"name": f"stream: {name}"}}
                         for tid, name in ((1, "computation"), (2, "communication"), (3, "sequences"))]
         + [{"ph": kind, "name": name, "tid": tid, "ts": 0, "dur": dur} for kind, name, tid, dur in (
             ("X", "shift", 1, 1e6), ("X", "shift", 2, 2e6), ("X", "all-reduce", 2, 3e6), ("X", "shift", 3, 5e5), ("i", "shift", 2, 9e6))]}
SENT = {"shift": 2.5, "all-reduce": 3.0}


def said_of(words):
    """The word behind a flag of a command."""
    return lambda flag: words[words.index(flag) + 1]


def printed(main, *arguments):
    """The output of a script's main function, as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(*arguments)
    return json.loads(out.getvalue())


class Divided(unittest.TestCase):
    """bench/long_sequences.py and bench/two_dimensions.py."""

    @staticmethod
    def program(_frugal, kind, *words):
        if kind == "trace":
            pathlib.Path(said_of(words)("--out-file")).write_text(json.dumps(TRACE))
        return json.dumps(RECORD)

    def test_long_sequences(self):
        with mock.patch.object(long_sequences, "run", self.program):
            cases = printed(long_sequences.main, ["frugal"])["cases"]
        kept = json.loads((SOURCE / "results/virtual/long-sequences.json").read_text())["cases"]
        for case, there in zip(cases, kept, strict=True):
            self.assertEqual(case, {"case": there["case"], "command": there["command"], "step_seconds": 3.0, "peak_bytes": 1100,
                                    "peak_bytes_of": RECORD["memory"]["peak"], "communication_seconds": SENT})

    def test_two_dimensions(self):
        with mock.patch.object(two_dimensions, "run", self.program):
            cases = printed(two_dimensions.main, ["frugal"])["cases"]
        kept = json.loads((SOURCE / "results/virtual/two-dimensions.json").read_text())["cases"]
        for case, there in zip(cases, kept, strict=True):
            self.assertEqual({key: case[key] for key in ("case", "sequence", "command")},
                             {key: there[key] for key in ("case", "sequence", "command")})
            self.assertEqual([case[key] for key in ("step_seconds", "peak_bytes", "communication_seconds")], [3.0, 1100, SENT])
            self.equal(case["predicted"], there["predicted"])

        machine = two_dimensions.Machine("h100-dgx")
        machine.compute_speed, machine.collective_speed = 0.5, 0.25  # beside each other
        self.assertEqual((machine.together(10, 100), machine.together(100, 1)), (10 + 100 * 0.5 / 0.25, 1 + 100 * 0.75 / 0.5))

    def equal(self, one, other):
        if isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys())
            return [self.equal(one[key], other[key]) for key in one]
        return self.assertAlmostEqual(one, other, delta=1e-12)


class Planned(unittest.TestCase):
    """bench/planned_training.py, bench/plan_decisions.py and what bench/modern_hardware.py has of plans."""

    @staticmethod
    def plan(seconds, executed):
        config = {**RECORD["configuration"], "recompute": "stage"}
        best = {"executed": {"seconds": executed, "memory_per_stage": [3, 8, 6]}, "mfu": 0.2, "seconds": seconds, "name": f"of {executed}",
                "device_hours_per_billion_tokens": 100.0, "config": config, "seconds_by_part": {"bubble": 0.5}}
        return json.dumps({"fitting": [best, {**best, "name": "second"}], "considered": 17, "command": "frugal measure"})

    def test_first_choice_is_the_faster_of_the_schedules_as_executed(self):
        """Two schedules of the papers; the faster as predicted is the slower one. Then those since, of which nothing fits."""
        found = {"1f1b": self.plan(4.0, 5.0), "interleaved": self.plan(3.0, 6.0), "searched": None}
        commands = []

        def program(_frugal, *words):
            commands.append(words)
            return found[said_of(words)("--schedule")]
        with mock.patch.object(planned_training, "frugal_output", program), contextlib.redirect_stderr(io.StringIO()):
            cases = planned_training.planned_on("frugal", "folder", "Llama 3 70B", "h200-hgx")
        self.assertEqual([case["choice"] is None for case in cases], [False] * 4 + [True] * 3)
        self.assertEqual({key: cases[0][key] for key in ("model", "machine", "devices", "batch", "step")},
                         {"model": "Llama 3 70B", "machine": "h200-hgx", "devices": 512, "batch": 512, "step": "the papers'"})
        self.assertEqual(cases[0]["choice"], {"seconds": 5.0, "mfu": 0.2 * 4 / 5, "predicted_seconds": 4.0, "peak_bytes": 8,
                                              "considered": 17, "gpu_hours_per_billion_tokens": 125.0,
                                              "command": "frugal measure", "name": "of 5.0"})
        searched = [sum(word == "searched" for word in words) for words in commands]
        self.assertEqual(searched, [0, 0, 1, 1, 2, 2, 3, 3, 4, 6, 7])  # flags, and the schedule in the last three
        self.assertEqual([said_of(commands[0])(flag) for flag in ("--devices", "--batch", "--execute", "--within")], [512, 512, 10, 1.5])

    def test_models_are_those_of_their_paper(self):
        """Grattafiori et al. 2024, table 3: layers, hidden size, heads, size of the MLP; 8 groups, and 128,256 words."""
        with tempfile.TemporaryDirectory() as folder:
            for name, (*sizes, devices, batch) in {"8B": (32, 4096, 32, 14336, 128, 512), "70B": (80, 8192, 64, 28672, 512, 512),
                                                   "405B": (126, 16384, 128, 53248, 16384, 2048)}.items():
                path = planned_training.described(pathlib.Path(folder), f"Llama 3 {name}")
                config = json.loads((path / "config.json").read_text())
                keys = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "num_key_value_heads", "vocab_size",
                        "max_position_embeddings", "rope_theta", "rms_norm_eps", "tie_word_embeddings")
                self.assertEqual([config[key] for key in keys], [*sizes, 8, 128256, 8192, 5e5, 1e-5, False])
                self.assertEqual(planned_training.MODELS[f"Llama 3 {name}"][1:], (devices, batch))

    def test_published_utilizations_are_those_of_the_same_batches(self):
        """Grattafiori et al. 2024, table 4: 16 stages of 8 tensor-parallel ranks; a replica's sequences are its microbatches."""
        commands = []

        def program(_frugal, *words):
            commands.append(words)
            (pathlib.Path(said_of(words)(OUT)) / "records.jsonl").write_text(json.dumps(RECORD))
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(planned_training, "frugal_output", program):
            cases = list(planned_training.published("frugal", pathlib.Path(folder)))
        table4 = [(8192, 16 * 2**20, 8192, 1, 43, 64), (16384, 16 * 2**20, 8192, 1, 41, 128), (16384, 16 * 2**20, 131072, 16, 38, 8)]
        for case, words, (devices, tokens, length, context, mfu, replicas) in zip(cases, commands, table4, strict=True):
            self.assertEqual([case[key] for key in ("devices", "tokens", "context_parallel_size", "published_mfu")],
                             [devices, length, context, mfu / 100])
            self.assertEqual(case["batch"] * length, tokens)
            self.assertEqual([case[key] for key in ("seconds", "mfu", "hfu", "peak_bytes")], [3.0, 0.25, 0.5, 1100])
            sizes = {flag: said_of(words)(f"--{flag}-parallel") for flag in ("tensor", "pipeline", "data", "context")}
            self.assertEqual(sizes, {"tensor": 8, "pipeline": 16, "data": replicas, "context": context})
            self.assertEqual(said_of(words)("--microbatches") * replicas * length, tokens)

    def test_a_plan_of_modern_hardware(self):
        (line,) = self.compacted("plan", "70B", "h100-dgx", "30", "7", self.plan(4.0, 4.8))
        self.assertEqual(line, {"set": "plan", "model": "70B", "machine": "h100-dgx", "source": "virtual", "batch": 7, "t": 2, "w": 5,
                                "d": 3, "b": 11, "m": 13, "recompute": "stage", "predicted_seconds": 4.0,
                                "seconds_by_part": {"bubble": 0.5}, "peak_bytes": 8, "devices": 30, "tokens": 16000,
                                "step_seconds": 4.8, "gpu_hours_per_billion_tokens": 2500.0})

    @staticmethod
    def compacted(*fields):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            modern_hardware.compact(["\t".join(fields) + "\n"])
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def test_a_case_that_did_not_fit_has_the_numbers_of_endless_memory(self):
        failed = {**RECORD, "status": "oom", "reason": "why", "machine": "small", "metrics": {}}
        for records, status, machine in (([RECORD], "ok", "hash"), ([failed, RECORD], "oom", "small")):
            (line,) = self.compacted("measure", "scale", "1f1b", "405B", "b200-dgx", "--some options", *map(json.dumps, records))
            self.assertEqual(line, {
                "set": "scale", "case": "1f1b", "model": "405B", "machine": "b200-dgx", "source": "virtual", "sequence": 2000,
                "status": status, "reason": records[0]["reason"], "options": "--some options", "machine_hash": machine,
                "devices": 30, "tokens": 16000, "step_seconds": 3.0, "gpu_hours_per_billion_tokens": 1562.5,
                "mfu": 0.25, "hfu": 0.5, "peak_bytes": 1100, "activation_bytes": 1000, "state_bytes": 700})

    def test_machines_differ_by_a_fifth_of_what_their_names_say(self):
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            modern_hardware.machines(SOURCE / "hardware", pathlib.Path(folder))
            found = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")}
        lines = {(line := json.loads(text.split("\t")[1]))["machine"]: line for text in out.getvalue().splitlines()}
        self.assertEqual(set(found), {name + suffix for name in lines for suffix in ("", "-roomy")})

        def values(name):
            return {f"{part}.{key}": entry["value"] for part in ("device", "network") for key, entry in found[name][part].items()}
        for name, line in lines.items():
            here, base = values(name), values(line["base"] if line["base"] in found else name)
            factor = float(name.rsplit("-", 1)[-1]) if line["changed"] else 1
            self.assertEqual({key for key in here if here[key] != base[key]}, set(line["changed"]))
            for key, (before, after) in line["changed"].items():
                self.assertEqual((before, after, here[key]), (base[key], before * factor, after))
            self.assertEqual([line[key] for key in ("flops_bf16", "gemm_sustained", "memory_capacity")],
                             [here[f"device.{key}"] for key in ("flops_bf16", "gemm_sustained", "memory_capacity")])
            self.assertEqual(values(f"{name}-roomy"), {**here, "device.memory_capacity": 10**15})
        self.assertEqual({factor for name in lines if (factor := name.rsplit("-", 1)[-1]).startswith(("0", "1"))}, {"0.8", "1.2"})
        self.assertEqual(lines["b200-dgx-links-0.8"]["changed"].keys(), {"network.link_bandwidth"})

    def test_frontiers_are_of_the_machines_and_the_ranks_that_they_name(self):
        def run(_frugal, *words, good):
            flags = {flag: said_of(words)(flag) for flag in ("--on", "--model", "--tensor-parallel", "--micro-batch")}
            return json.dumps({"flags": list(flags.values()), "good": list(good)})
        with mock.patch.object(recompute_frontier, "run", run):
            cases = printed(recompute_frontier.main, ["frugal"])["cases"]
        self.assertEqual([[case["model"], case["machine"], *case["flags"]] for case in cases], [
            [f"Llama 3 {size}", gpu, f"virtual:{machine}", f"llama3-{size.lower()}", ranks, sequences]
            for size, ranks, sequences in (("8B", "4", "4"), ("70B", "8", "2")) for gpu, machine in (("H100", "h100-dgx"), ("H200", "h200-hgx"))])
        self.assertEqual(cases[0]["good"], [0, 3])

    def test_decisions_are_the_first_and_the_first_of_the_papers_depth(self):
        def plans(_frugal, model, batch, _recompute):
            return [{"config": {**RECORD["configuration"], "pipeline_parallel_size": depth}, "sequences_per_second": rate}
                    for depth, rate in ((4, batch / 8 + 0.26), (16, 50.0), (8, 70.0), (16, 60.0)) if (depth, batch) != (8, 512)]
        out = io.StringIO()
        with mock.patch.object(plan_decisions, "plans", plans), contextlib.redirect_stdout(out):
            plan_decisions.main([])
        lines = out.getvalue().splitlines()
        self.assertEqual(lines[2], "| gpt-2.2b, 512 | searched | w 5, d 4, b 11, full: 64.3 | none fits |")
        self.assertEqual(lines[6], "| gpt-2.2b, 2048 | full | w 5, d 4, b 11, full: 256.3 | w 5, d 8, b 11, full: 70.0 |")
        self.assertEqual(lines[-1], "| gpt-3.8b, 2048 | stage | w 5, d 4, b 11, full: 256.3 | w 5, d 16, b 11, full: 50.0 |")


class Schedules(unittest.TestCase):
    """bench/schedule_family.py."""
    TEXT = """chunks 2
stage 0
F0.0@0 F0.0>
<F0.1 F0.1@0
F1.0@0 F1.0>
<B0.1 I0.1@0
W0.1@0
F1.1@0
F2.0@0
B0.0@0
stage 1
<F0.0 F0.0@0
B0.0@0
"""
    TABLE = """stage  in flight  versions  busy  start-up  stalls  messages  drain  idle %
    0          2         1     9        20       1       0.5     30    10.0
    1          1         1     9         2       2      0.25      0    10.0
"""

    def program(self, _frugal, *words):
        if words[0] == "schedule":
            return self.TEXT if "text" in words else self.TABLE
        (pathlib.Path(said_of(words)(OUT)) / "records.jsonl").write_text(json.dumps(RECORD))
        return ""

    def test_cases(self):
        with mock.patch.object(schedule_family, "run", self.program):
            made = printed(schedule_family.main, [__file__])
        kept = json.loads((SOURCE / "results/virtual/schedule-family.json").read_text())
        self.assertEqual(made["machine"], kept["machine"])
        for cases in ("cases", "together"):
            for case, there in zip(made[cases], kept[cases], strict=True):
                for key, value in case.items():
                    if key == "planned":  # stage 0 holds four parts of two; stage 1 waits longest
                        self.assertEqual(value, {"held": 2.0, "waits": 2.25})
                    elif key in ("executed", "validated"):
                        self.assertEqual(value, {"step_seconds": 3.0, "peak_bytes": 1100, "activation_bytes": 800, "mfu": 0.25,
                                                 "command": there[key]["command"]})
                    else:
                        self.assertEqual(value, there[key])


class Costs(unittest.TestCase):
    def test_of_a_step(self):
        """bench/step_work.py: of a second layer what it adds, each number its own."""
        def work(base):
            operations = {name: {"count": base + i, "bytes": (base + i) * 1e9} for i, name in enumerate(
                ("gemm f32", "gemm bf16", "cross-entropy", "fill", "gelu"))}
            return {"operations": operations, "bytes": base * 7e9, "least": {"total": base * 3e9},
                    "calls": {"launches": base + 50, "synchronisations": base + 60}}
        said = step_work.row("m", "v", work(10), 0.1234)
        self.assertEqual(said, "| m | v | 60 | 60 | 70 | 70.00 | 30.00 | 21.00 | 12.00 | 13.00 | 123.40 |")
        two, one = (work(30), 0.5), (work(10), 0.2)
        self.assertEqual(step_work.row("m", "v", *step_work.minus(two, one)),
                         "| m | v | 100 | 20 | 20 | 140.00 | 60.00 | 40.00 | 20.00 | 20.00 | 300.00 |")
        self.assertEqual(step_work.row("m", "v", {**work(10), "calls": None}, 1).split(" | ")[3:5], ["", ""])

    def test_of_a_command_are_the_systems(self):
        megabytes = 96
        code = f"import sys, time; x = bytearray({megabytes << 20}); end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n" \
               "time.sleep(0.3); sys.exit(3)"
        found = costs.run([sys.executable, "-c", code])
        self.assertEqual(found["status"], 3)
        self.assertTrue(0.3 <= found["processor_seconds"] < found["seconds"] - 0.25, found)
        self.assertTrue(megabytes << 20 < found["largest_process_bytes"] < 4 * megabytes << 20, found)

    def test_of_a_folder_are_its_blocks(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "in").mkdir()
            (folder / "in/file").write_bytes(os.urandom(100_000))
            (folder / "again").hardlink_to(folder / "in/file")
            blocks = [path.lstat().st_blocks for path in (folder / "in", folder / "in/file")]
            self.assertEqual(costs.disk(folder), 512 * sum(blocks))
            self.assertGreaterEqual(costs.disk(folder), 100_000)

    def test_of_an_artifact(self):
        def run(command, cwd, **_):
            (pathlib.Path(cwd) / "out").mkdir()
            (pathlib.Path(cwd) / "out/records.jsonl").write_text("{}\n{}\n{}\n")
            return {"status": 0, "seconds": 1.5, "processor_seconds": 2.5, "largest_process_bytes": 77}
        with mock.patch.object(costs, "run", run), mock.patch.object(costs, "disk", lambda _: 4096):
            found = artifact_costs.cost_of("frugal", {"id": "p/t"}, "cpu")
        self.assertEqual(found, {"id": "p/t", "on": "cpu", "cases": 3, "status": 0, "seconds": 1.5, "processor_seconds": 2.5,
                                 "largest_process_bytes": 77, "disk_bytes": 4096})
        self.assertEqual([artifact_costs.places({"cases": [{"on": "virtual:x"}, *more]}) for more in ([], [{"on": "cpu"}])],
                         [["virtual"], ["virtual", "cpu"]])


class Measured(unittest.TestCase):
    def test_two_hosts_have_the_link_that_messages_saw(self):
        """bench/two_hosts.py: 100 µs, and 50 MB/s for what a larger message has more."""
        times = {4194304.0: 1e-4 + (4194304 - 1024) / 5e7, 1024.0: 1e-4}
        machine, latency, bandwidth = two_hosts.with_link({"network": {"host_memory": "kept"}}, times, "1gbit")
        self.assertAlmostEqual(latency, 1e-4)
        self.assertAlmostEqual(bandwidth, 5e7)
        network = {key: entry["value"] for key, entry in machine["network"].items() if key != "host_memory"}
        self.assertEqual(network, {"devices_per_node": 1, "link_bandwidth": bandwidth, "link_fraction": 1, "gather_fraction": 1,
                                   "link_latency": latency, "network_bandwidth": bandwidth, "network_fraction": 1,
                                   "network_latency": latency, "collective_latency": 1e-9, "collective_share": 1e-9})
        units = {key: entry["unit"] for key, entry in machine["network"].items() if key.endswith(("bandwidth", "latency"))}
        self.assertEqual(set(units.items()), {(f"{of}_bandwidth", "B/s") for of in ("link", "network")}
                         | {(f"{of}_latency", "s") for of in ("link", "network", "collective")})
        rows = []
        link = mock.Mock(out=pathlib.Path(tempfile.mkdtemp()), one_way=lambda rate: times)
        host = mock.Mock(read_text=lambda: '{"network": {"host_memory": 1}}')
        with mock.patch.object(two_hosts, "row_of", lambda *_: "row"), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(two_hosts.measure(link, "1gbit", host, rows), "1gbit: a message takes 100 µs and 50.0 MB/s")

    def test_a_step_of_two_hosts(self):
        """Predicted 6 s, which took 5 on two hosts and 4 as threads; of a turn the median is no mean."""
        def turns(*samples):
            return [{"metrics": {"step_time": {"samples": list(samples)}}, "losses": [1.5]}] * two_hosts.TURNS
        predicted = json.dumps({"metrics": {"step_time": {"samples": [5.0, 6.0, 10.0]}}})
        link = mock.Mock(out=pathlib.Path(tempfile.gettempdir()))
        with mock.patch.object(two_hosts, "run", lambda *_, **__: predicted), \
                mock.patch.object(two_hosts, "steps_of_turns", lambda *_: (turns(4.0, 5.0, 9.0), turns(1.0, 4.0, 4.5))):
            row = two_hosts.row_of(link, "a step", [], "1gbit", "file")
        self.assertEqual(row, "| 1gbit | a step | 5000.0 | 6000.0 | +20.0 [+20.0, +20.0] | 1.25 [1.25, 1.25] | the same |")

    def test_operations_of_attention_are_a_share_of_all(self):
        """bench/balanced_ring.py."""
        def run(*_):
            return json.dumps({"stages": [{"operations": [{"operation": name, "seconds": seconds} for name, *seconds in (
                ("fused-attention f32", 1, 2), ("gemm f32", 7), ("merge-attention f32", 3), ("fused-attention f32", 5), ("gelu f32", 2))]}]})
        with mock.patch.object(balanced_ring, "run", run):
            self.assertEqual(balanced_ring.attention_share("frugal", []), 11 / 20)
