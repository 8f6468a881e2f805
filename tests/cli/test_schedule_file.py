"""frugal measure and frugal trace by a schedule of the user's own."""

import json

from program import TINY, Cli

MODEL = [*TINY, "--layers", "4"]
SHAPE = ["--stages", "2", "--microbatches", "4"]


class ScheduleFile(Cli):
    def text(self, kind, *arguments):
        return self.run_frugal("schedule", kind, *SHAPE, *arguments, "--format", "text").stdout

    def edited(self, text, *replacements):
        """Each is found at least once."""
        for old, new in replacements:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return text


class Executed(ScheduleFile):
    def record(self, *arguments):
        return json.loads(self.run_frugal(*MODEL, "--steps", "6", "--format", "json", *arguments).stdout)

    def test_a_built_in_one_gives_its_losses_to_the_last_bit(self):
        ways = [("gpipe", 1, []), ("1f1b", 1, []), ("1f1b", 2, []), ("zb-h2", 3, []), ("2bw", 6, ["--clip", "0"]),
                ("2bw", 2, []), ("pipedream", 6, ["--clip", "0"]), ("interleaved", 1, ["--chunks", "2"])]
        for kind, batches, more in ways:
            chunks = more if kind == "interleaved" else []
            flags = [] if chunks else more
            named = self.record("--schedule", kind, "--pipeline-parallel", "2", "--microbatches", "4", *more)
            text = self.text(kind, "--batches", str(batches), *chunks)
            own = self.record("--schedule-file", self.given(text), *flags)
            self.assertEqual(own["losses"], named["losses"], kind)
            self.assertEqual(own["configuration"], named["configuration"])
            self.assertNotEqual(own["fingerprint"], named["fingerprint"])
            self.assertNotIn("schedule_file", named["options"])

    def test_a_legal_reordering_gives_the_same_losses(self):
        text = self.text("gpipe")
        named = self.record("--schedule-file", self.given(text))
        # The backward passes keep their order on each stage: no sum changes.
        early = self.edited(text, ("F3@0 F3>\n<B0 B0@0\n", "<B0 B0@0\nF3@0 F3>\n"),
                            ("<F3 F3@0\nB0@0 B0>\n", "B0@0 B0>\n<F3 F3@0\n"))
        self.assertEqual(self.record("--schedule-file", self.given(early))["losses"], named["losses"])
        # The microbatches are summed in another order.
        other = "".join(line.translate(str.maketrans("0123", "3021")) + "\n" if line[:1] in "FB<" else line + "\n"
                        for line in text.replace("@0", "@X").splitlines()).replace("@X", "@0")
        for own, loss in zip(self.record("--schedule-file", self.given(other))["losses"], named["losses"], strict=True):
            self.assertAlmostEqual(own, loss, places=5)

    def test_its_order_is_what_is_executed(self):
        text = self.edited(self.text("gpipe"), ("F3@0 F3>\n<B0 B0@0\n", "<B0 B0@0\nF3@0 F3>\n"),
                           ("<F3 F3@0\nB0@0 B0>\n", "B0@0 B0>\n<F3 F3@0\n"))
        for on in ("virtual", "cpu"):
            self.run_frugal("trace", "--model", "gpt-tiny", "--layers", "4", "--on", on, "--steps", "2",
                            "--schedule-file", self.given(text), "--out-file", on, "--svg", on + ".svg")
            trace = json.loads((self.folder / on).read_text())
            self.assertRegex(trace["otherData"]["schedule_file"], "^hash [0-9a-f]{16}$")
            command = trace["otherData"]["command"]
            self.assertIn(" --schedule-file mine.txt ", command)
            for flag in ("--schedule ", "--pipeline-parallel", "--chunks", "--microbatches"):
                self.assertNotIn(flag, command)
            spans = sorted((e["ts"], e["name"]) for e in trace["traceEvents"]
                           if e["ph"] == "X" and e["tid"] == 0 and e["pid"] == 0)
            self.assertEqual([name for _, name in spans],
                             "F0 F1 F2 B0 F3 B1 B2 B3 step F4 F5 F6 B4 F7 B5 B6 B7 step".split(), on)
            self.assertIn("gpipe of a file", (self.folder / (on + ".svg")).read_text())

    def test_the_record_says_it_and_not_where_it_was(self):
        text = self.text("1f1b")
        first = self.record("--schedule-file", self.given(text))
        again = self.record("--schedule-file", self.given(text, "other.txt"))
        commented = self.record("--schedule-file", self.given(text + "# mine\n"))
        self.assertRegex(first["options"]["schedule_file"], "^hash [0-9a-f]{16}$")
        self.assertEqual(first["files"], {"schedule": text})
        self.assertEqual(first["command"], "frugal rerun 'records.jsonl#gpt-tiny*'")
        self.assertNotIn(str(self.folder), json.dumps(again))
        self.assertEqual(len(self.records()), 2, "a file of the same text is the same case")
        self.assertNotEqual(commented["fingerprint"], first["fingerprint"])

    def test_steps_are_its_batches_unless_said(self):
        self.run_frugal(*MODEL, "--schedule-file", self.given(self.text("2bw", "--batches", "3")))
        (record,) = self.records()
        self.assertEqual((len(record["losses"]), record["options"]["steps"]), (3, "3"))


class Refused(ScheduleFile):
    def refused(self, text, *arguments, says):
        for command in (MODEL, ["trace", *MODEL[1:], "--out-file", "x"]):
            self.rejected(*command, "--schedule-file", self.given(text), *arguments, says=["mine.txt", *says])

    def test_what_is_no_schedule(self):
        self.rejected(*MODEL, "--schedule-file", "absent", says=["absent"])
        self.refused("", says=["line 1: the file ends"])
        self.refused("frugal schedule 2\n", says=["line 1", "frugal schedule 1"])
        self.refused(self.edited(self.text("1f1b"), ("F1@0", "F1")), says=["line 11", '"F1"', "F0@0"])

    def test_what_is_wrong_with_stage_action_and_reason(self):
        text = self.text("1f1b")
        self.refused(self.edited(text, ("<F1 ", "")), says=["stage 1, <F1: it is missing"])
        self.refused(self.edited(text, ("<F1 F1@0", "F1@0 <F1")), says=["stage 1, action 4 (F1@0)", "not received"])
        cycle = self.edited(text, ("F1@0 F1>\n<B0 B0@0\n", "<B0 B0@0\nF1@0 F1>\n"),
                            ("B0@0 B0>\n<F1 F1@0\n", "<F1 F1@0\nB0@0 B0>\n"))
        self.refused(cycle, says=["stage", "action", "waits for itself", "B0> (stage 1"])
        late = self.edited(text, ("B3@0 B3>\nstep@1", "B3@0\nstep@1\nB3>"))
        self.refused(late, says=["waits for itself", "step@1 (stage 0", "B3> (stage 1"])

    def test_shapes_that_cannot_be(self):
        few = self.edited(self.text("2bw"), ("stages 2", "stages 5"))
        self.refused(few, says=["2bw", "microbatches (4) must be at least stages (5)"])
        self.rejected(*TINY, "--layers", "3", "--schedule-file", self.given(self.text("1f1b")),
                      says=["layers (3) must be divisible by stages", "(2)"])

    def test_steps_that_it_does_not_have(self):
        three = self.text("2bw", "--batches", "3")
        self.refused(three, "--steps", "4", says=["--steps is 4", "3 batches", "multiple of 3"])
        self.refused(self.text("1f1b", "--first-batch", "2"), says=["first-batch is 2", "batch 0"])
        self.rejected(*MODEL, "--schedule-file", self.given(three), "--steps", "6", "--eval-every", "2",
                      says=["--eval-every is 2", "3 batches", "multiple of 3"])

    def test_flags_that_it_says(self):
        file = self.given(self.text("1f1b"))
        for flag, value in (("--schedule", "1f1b"), ("--pipeline-parallel", "2"), ("--chunks", "1"),
                            ("--microbatches", "4")):
            self.rejected(*MODEL, "--schedule-file", file, flag, value, says=[flag + " is given", "--schedule-file"])
