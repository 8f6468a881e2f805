"""Tables and files that commands print and write: every number is computed a second time, from others or by hand."""

import json
import pickle
import re
import statistics

from program import SOURCE, Cli

TOKENS = 3 * 5 * 2 * 1024
GPT2 = ["--model", "gpt2-124m", "--type", "bf16", "--recompute", "full", "--micro-batch", "3", "--microbatches", "5",
        "--data-parallel", "2", "--on", "virtual:a100-selene"]


def tables(text):
    """The rows of each table that is printed, {column: cell}: the line below a header says where its columns are."""
    found, lines = [], text.splitlines()
    for number, line in enumerate(lines):
        if not re.fullmatch("-+(  -+)+", line):
            continue
        spans = [match.span() for match in re.finditer("-+", line)]
        names = [lines[number - 1][begin:end].strip() for begin, end in spans]
        found.append([])
        for row in lines[number + 1:]:
            if re.match("$|stage |open ", row):
                break
            found[-1].append(dict(zip(names, (row[begin:end].strip() for begin, end in spans))))
    return found


class Printed(Cli):
    def said(self, *arguments):
        """A command on a virtual machine, as a table and as JSON."""
        return self.run_frugal(*arguments).stdout, json.loads(self.run_frugal(*arguments, "--format", "json").stdout)

    def test_flops_are_those_of_each_convention(self):
        """L 12, h 768, s 1024, v 50304: tables and norms, and 12 h² + 13 h of a layer."""
        text, said = self.said("flops", *GPT2)
        layers, h, s, v = 12, 768, 1024, 50304
        matrices = layers * 12 * h * h + v * h
        of_layers = layers * (12 * h * h + 13 * h)
        everything = of_layers + (v + s) * h + 2 * h
        self.assertEqual(everything, 124475904)
        scores = 12 * layers * h * s
        of_a_token = {"6 N": 6 * everything, "6 N, layers": 6 * of_layers, "6 N + 12 L H Q T": 6 * everything + scores,
                      "6 N + 12 L H Q T, multiplied": 6 * (everything - s * h) + scores, "equation 7": 6 * matrices + scores,
                      "visible pairs": 6 * matrices + scores * (s + 1) / 2 / s,
                      "hardware": 6 * matrices + scores + (2 * 12 * layers * h * h + scores / 3)}
        seconds, peak = said["step_time"]["seconds"], 2 * 312e12
        self.assertEqual((said["tokens"], said["peak_flops"]), (TOKENS, peak))
        self.assertIn(f"a step of {TOKENS} tokens: {seconds:.4g} s, virtual; peak: {peak:.4g} FLOP/s", text)
        rows = {row["convention"]: row for row in tables(text)[0]}
        self.assertEqual(set(rows), set(of_a_token))
        for one in said["flops"]:
            flops, row = of_a_token[one["convention"]] * TOKENS, rows[one["convention"]]
            self.assertAlmostEqual(one["flops"] / flops, 1, delta=1e-12, msg=one)
            self.assertAlmostEqual(one["utilization"], flops / seconds / peak, delta=1e-12)
            self.assertEqual([row["FLOPs of a token"], row["FLOPs of a step"], row["% of peak"]],
                             [f"{x:.4g}" for x in (flops / TOKENS, flops, 100 * flops / seconds / peak)])
        record = json.loads(self.run_frugal("measure", *GPT2, "--steps", "3", "--format", "json").stdout)
        seconds = statistics.median(record["metrics"]["step_time"]["samples"])
        for key, convention in (("mfu", "equation 7"), ("hfu", "hardware")):
            self.assertAlmostEqual(record["utilization"][key]["data_sheet"]["value"],
                                   of_a_token[convention] * TOKENS / seconds / peak, delta=1e-12)

    def test_operations(self):
        """Steps of 2 stages: the count of a step, its time, and rates of one of them."""
        text, said = self.said("operations", "--model", "gpt-tiny", "--layers", "4", "--pipeline-parallel", "2",
                               "--microbatches", "3", "--on", "virtual", "--steps", "2")
        plain, timed = (1e3 * statistics.median(said[key]) for key in ("plain_step_seconds", "step_seconds"))
        self.assertIn(f"a step: {plain:.3f} ms, with every operation timed: {timed:.3f} ms\n", text)
        self.assertEqual((said["steps"], len(tables(text))), (2, 2))
        for table, stage in zip(tables(text), said["stages"]):
            each = [statistics.median(o["seconds"]) for o in stage["operations"]]
            steps = [one * len(o["seconds"]) / 2 for one, o in zip(each, stage["operations"])]
            self.assertEqual((steps, table.pop()["ms"]), (sorted(steps, reverse=True), f"{1e3 * sum(steps):.3f}"))
            self.assertEqual(len(table), len(steps))
            for row, o, one, step in zip(table, stage["operations"], each, steps):
                batch, *product = o["product"] or [0]
                self.assertEqual(o["flops"] if not batch else 2 * batch * product[0] * product[1] * product[2], o["flops"])
                self.assertEqual(row, {
                    "operation": o["operation"], "count": f"{len(o['seconds']) / 2:.4g}", "ms": f"{1e3 * step:.3f}",
                    "batch x m x n x k": " x ".join(map(str, [batch, *product] if batch > 1 else product)),
                    "%": f"{100 * step / sum(steps):.1f}", "GFLOP/s": f"{o['flops'] / one / 1e9:.1f}" if o["flops"] else "",
                    "GB/s": f"{o['bytes'] / one / 1e9:.1f}"})
                self.assertEqual(o["count"], len(o["seconds"]) / 2)

    def traced(self):
        """One run in all formats: its tables, and what is in its files."""
        (self.folder / "out").mkdir()
        text = self.run_frugal("trace", "--model", "gpt-tiny", "--layers", "6", "--pipeline-parallel", "3", "--microbatches", "5",
                               "--micro-batch", "2", "--clip", "0", "--on", "virtual:v100-p3-16xlarge", "--steps", "1",
                               "--out-file", "out/trace.json", "--memory-file", "out/memory.json",
                               "--memory-snapshot", "s.pickle").stdout
        return text, *(json.loads((self.folder / f"out/{name}.json").read_text()) for name in ("trace", "memory")), \
            pickle.loads((self.folder / "s.pickle").read_bytes())

    def test_traces_memory_files_and_snapshots_have_the_same_moments(self):
        text, trace, memory, snapshot = self.traced()
        kinds = memory["columns"][2:-1]
        for stage, rows in enumerate(row["rows"] for row in memory["stages"]):
            counters = [e for e in trace["traceEvents"] if e["pid"] == stage and e["ph"] == "C"]
            in_use = [(e["ts"], e["args"]["bytes"]) for e in counters if e["name"] == "memory in use"]
            self.assertEqual([(round(1e9 * row[0]), sum(row[2:-1])) for row in rows[:len(in_use)]],
                             [(round(1e3 * ts), total) for ts, total in in_use])
            self.assertIn(len(rows) - len(in_use), (0, 1))
            current = {}
            for event, row in zip([e for e in counters if e["name"] == "memory"][len(kinds) - 1:], rows):
                current.update(event["args"])
                self.assertEqual(current[next(iter(event["args"]))], dict(zip(kinds, row[2:]))[next(iter(event["args"]))])
            # The last changes of the snapshot, whose clock began earlier.
            changes = [e for e in snapshot["device_traces"][stage] if e["action"] in ("alloc", "free_completed")]
            changes = changes[len(changes) - len(in_use) + 1:]
            offset = changes[0]["time_us"] - 1e6 * rows[1][0]
            for event, before, row in zip(changes, rows, rows[1:]):
                self.assertAlmostEqual(event["time_us"] - offset, 1e6 * row[0], delta=1.01)
                changed = [(kinds[i], row[2 + i] - before[2 + i]) for i in range(len(kinds)) if row[2 + i] != before[2 + i]]
                size = event["size"] if event["action"] == "alloc" else -event["size"]
                self.assertEqual(changed, [(event["frames"][-1]["name"], size)])
                self.assertEqual(kinds[event["frames"][-1]["line"]], changed[0][0])
        self.where_time_went(tables(text)[0], trace["traceEvents"])
        self.page_draws(trace, memory)

    def test_traces_and_memory_files_have_the_hosts_memory(self):
        self.run_frugal("trace", "--model", "gpt-tiny", "--layers", "5", "--on", "virtual", "--recompute", "full", "--offload", "--steps", "1",
                        "--out-file", "t.json", "--memory-file", "m.json")
        trace, memory = (json.loads((self.folder / name).read_text()) for name in ("t.json", "m.json"))
        host = [(round(1e9 * row[0]), row[-1]) for before, row in zip(memory["stages"][0]["rows"], memory["stages"][0]["rows"][1:])
                if row[-1] != before[-1]]
        self.assertGreater(len(host), 2)
        self.assertEqual(host, [(round(1e3 * e["ts"]), e["args"]["bytes"]) for e in trace["traceEvents"]
                                if e["name"] == "host memory in use"][-len(host):])

    def where_time_went(self, table, events):
        slices = [[e for e in events if e["pid"] == stage and e["ph"] == "X"] for stage in range(3)]
        passes = [[e for e in one if e["tid"] == 0] for one in slices]
        begin = min(e["ts"] for one in slices for e in one if e["tid"] < 4)
        end = max(e["ts"] + e["dur"] for one in slices for e in one if e["tid"] < 4)
        sends = {(e["name"].strip(">"), stage + (1 if e["tid"] == 2 else -1)): (e["ts"], e["ts"] + e["dur"])
                 for stage, one in enumerate(slices) for e in one if e["tid"] in (2, 3)}
        self.assertEqual(len(sends), 2 * 2 * 5)
        step = max(one[-1]["ts"] for one in passes)  # begins when the last stage comes to it; to wait for it is no work
        for stage, row in enumerate(table):
            busy = sum(e["dur"] for e in passes[stage]) - (step - passes[stage][-1]["ts"])
            first, last = passes[stage][0]["ts"] - begin, end - passes[stage][-1]["ts"] - passes[stage][-1]["dur"]
            coming = 0
            for wait in (e for e in slices[stage] if e["tid"] == 1 and e["ts"] > passes[stage][0]["ts"]):
                sent, arrived = sends[wait["name"].strip("<"), stage]
                coming += max(0, min(arrived, wait["ts"] + wait["dur"]) - max(sent, wait["ts"]))
            idle = end - begin - busy
            self.assertEqual(row, {"stage": str(stage), **{
                name: f"{100 * part / (end - begin):.1f} %" for name, part in (
                    ("busy", busy), ("idle", idle), ("start-up", first), ("drain", last), ("communication", coming),
                    ("stalls", idle - first - last - coming))}})

    def page_draws(self, trace, memory):
        """Seconds of passes with their versions; of memory what changes, of each kind by its number."""
        self.run_frugal("measure", "--model", "gpt-tiny", "--on", "virtual")
        self.run_frugal("report", "out")
        page = (self.folder / "out/report.html").read_text()
        document = json.loads(re.search('id="document"[^>]*>(.*?)</script>', page, re.DOTALL).group(1))
        drawn = {timeline["title"]: timeline for timeline in document["timelines"]}
        for stage, of_trace, of_memory in zip(range(3), drawn["trace"]["stages"], drawn["memory"]["stages"]):
            self.assertEqual((of_trace["name"], of_memory["name"]), (f"stage {stage}", f"stage {stage}"))
            passes = [e for e in trace["traceEvents"] if e["pid"] == stage and e["ph"] == "X" and e["tid"] == 0]
            self.assertEqual(len(of_trace["spans"]), len(passes))
            for (begin, end, name, version), e in zip(of_trace["spans"], passes):
                self.assertAlmostEqual(begin, e["ts"] / 1e6, delta=1e-12)
                self.assertAlmostEqual(end, (e["ts"] + e["dur"]) / 1e6, delta=1e-12)
                self.assertEqual((name, version), (e["name"], e["args"]["version"]))
            rows = memory["stages"][stage]["rows"]
            self.assertEqual(of_memory["memory"]["moments"], len(rows))
            for kept, of_kinds, known in ((of_memory["memory"], memory["columns"][2:], {row[0]: row[2:] for row in rows}),
                                          (of_trace["memory"], sorted(memory["columns"][2:-1]), None)):
                self.assertEqual(kept["kinds"], of_kinds)
                if known and len(kept["rows"]) == len(rows):
                    current = [0] * len(of_kinds)
                    for drawn_row, row in zip(kept["rows"], rows):
                        for kind, bytes_ in zip(drawn_row[1::2], drawn_row[2::2]):
                            current[kind] = bytes_
                        self.assertEqual((drawn_row[0], current), (row[0], row[2:]))

    def test_schedules(self):
        """A forward pass takes 1, a backward pass 3: of m microbatches in d stages, stage s."""
        d, m, b = 3, 5, 3

        def row(stage, in_flight, versions, busy, start_up, stalls, messages, drain):
            total = busy + start_up + stalls + messages + drain
            return dict(zip(("stage", "in flight", "versions", "busy", "start-up", "stalls", "messages", "drain", "idle %"),
                            [f"{x:.4g}" for x in (stage, in_flight, versions, busy, start_up, stalls, messages, drain)] +
                            [f"{100 * (total - busy) / total:.1f}"]))

        def printed(kind, stages, microbatches, *flags):
            return tables(self.run_frugal("schedule", kind, "--stages", str(stages), "--microbatches", str(microbatches),
                                          "--backward", str(b), *flags).stdout)[0]

        for kind in ("1f1b", "gpipe"):
            idle = (d - 1) * (1 + b)
            self.assertEqual(printed(kind, d, m), [
                row(s, min(d - s, m) if kind == "1f1b" else m, 1, m * (1 + b), s, idle - s * (1 + b), 0, s * b)
                for s in range(d)])
        self.assertEqual([(r["in flight"], r["versions"]) for r in printed("pipedream", 3, 1, "--batches", "7")],
                         [("3", "3"), ("2", "2"), ("1", "1")])
        # F0 0 to 1, a message of 0.5, F0 and B0 1.5 to 5.5, a message, B0 6 to 9.
        self.assertEqual(printed("1f1b", 2, 1, "--message", "0.5"),
                         [row(0, 1, 1, 4, 0, 4.5, 0.5, 0), row(1, 1, 1, 4, 1.5, 0, 0, 3.5)])

    def test_peaks(self):
        """Rates are of work and seconds: 2 m n k of a product, a GiB that is read and written."""
        text, said = self.said("peak", "--on", "virtual:a100-selene")
        rows = iter(tables(text)[0])
        for number, rate in enumerate(said["gemm"]):
            value = 2 * rate["m"] * rate["n"] * rate["k"] / statistics.median(rate["seconds"])
            self.assertAlmostEqual(rate["flops_per_second"] / value, 1, delta=1e-12)
            row = next(r for r in rows if r["what"] == f"gemm {rate['type']}")
            self.assertEqual((row["rate"], row["unit"]), (f"{value / 1e9:.4g}", "GFLOP/s"))
        for kind, best in said["virtual_peak"].items():
            self.assertEqual(best["flops_per_second"],
                             max(rate["flops_per_second"] for rate in said["gemm"] if rate["type"] == kind))
        copy = said["copy"]
        self.assertEqual(copy["bytes"], 2 << 30)
        self.assertAlmostEqual(copy["bytes_per_second"] * statistics.median(copy["seconds"]) / (2 << 30), 1, delta=1e-12)
        machine = json.loads((SOURCE / "hardware/a100-selene.json").read_text())["device"]
        for time in ("issue", "each"):  # an operation that small takes no longer than it is issued
            self.assertAlmostEqual(said["launch"][time]["seconds"] / machine["launch_overhead"]["value"], 1, delta=1e-3)

    def test_lists(self):
        text, said = self.said("list")
        self.assertEqual(tables(text)[0], [{"artifact": a["id"], "cases": str(len(a["cases"])), "title": a["title"]}
                                           for a in said["artifacts"]])
        text, said = self.said("list", "korthikanti2022/table4")
        self.assertEqual(tables(text)[0], [{"artifact": a["id"], "case": c["id"], "what": c["what"], "on": c["on"],
                                            "scale": c["scale"]} for a in said["artifacts"] for c in a["cases"]])
        text, said = self.said("bench")
        self.assertEqual(tables(text)[0], [
            {"benchmark": b["name"], "title": b["title"],
             "axes": ", ".join(f"{axis['name']} ({len(axis['values'])})" for axis in b["axes"])} for b in said["benchmarks"]])
