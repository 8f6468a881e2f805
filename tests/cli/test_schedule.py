"""frugal schedule: schedules drawn, checked, saved and loaded."""

import collections
import re
import xml.etree.ElementTree as xml

from program import SOURCE, Cli

KINDS = ["inter-layer", "gpipe", "1f1b", "interleaved", "pipedream", "pipedream-vertical-sync", "2bw", "zb-h1", "zb-h2",
         "interleaved-zb", "zb-v", "v-half", "v-min", "dualpipe-v"]
ONE_CHUNK = {*KINDS[:3], *KINDS[4:9]}
SPLIT = set(KINDS[7:])
SVG = "{http://www.w3.org/2000/svg}"


def shape(kind, stages=4, microbatches=8):
    chunks = ["--chunks", "2"] if kind.startswith("interleaved") else []
    return [kind, "--stages", str(stages), "--microbatches", str(microbatches), *chunks]


class Schedule(Cli):
    def saved(self, *arguments):
        return self.run_frugal("schedule", *arguments, "--format", "text").stdout

    def test_every_kind_is_drawn_checked_saved_and_loaded(self):
        for kind in KINDS:
            arguments = [*shape(kind), "--batches", "2"]
            drawn = self.run_frugal("schedule", *arguments).stdout
            self.assertIn(f"{kind}: 4 stages", drawn)
            self.assertNotIn("\x1b", drawn)
            self.assertIn("nothing is wrong", self.run_frugal("schedule", *arguments, "--check").stdout)
            text = self.saved(*arguments)
            self.assertEqual(self.saved("--file", self.given(text)), text)
            self.assertEqual(self.run_frugal("schedule", "--file", "given/mine.txt").stdout, drawn)

    def test_svg_is_well_formed(self):
        for kind in KINDS:
            root = xml.fromstring(self.run_frugal("schedule", *shape(kind), "--format", "svg").stdout)
            cells = collections.Counter(title.text[0] for title in root.iter(SVG + "title"))
            passes = 4 * 8 * (1 if kind in ONE_CHUNK else 2)
            self.assertEqual((cells["F"], cells["B"] + cells["I"], cells["W"]), (passes, passes, cells["I"]), kind)
            self.assertEqual(cells["I"] > 0, kind in SPLIT, kind)

    def test_several_kinds_are_drawn_in_one_picture(self):
        arguments = ["1f1b", *shape("interleaved", 2, 4)]
        drawn = self.run_frugal("schedule", *arguments).stdout
        self.assertEqual([line.split(":")[0] for line in drawn.splitlines() if ": 2 stages" in line],
                         ["1f1b", "interleaved"] * 2)
        root = xml.fromstring(self.run_frugal("schedule", *arguments, "--format", "svg").stdout)
        self.assertEqual(len(list(root.iter(SVG + "title"))), 2 * 2 * 4 * (1 + 2))
        self.rejected("schedule", *arguments, "--format", "text", says=["--format text", "one KIND"])

    def test_figures_are_what_their_commands_draw(self):
        document = (SOURCE / "docs/schedules.md").read_text()
        drawn = re.findall(r"^frugal (schedule [^\n]* --format svg)$.*?\]\((figures/\S+\.svg)\)", document,
                           re.MULTILINE | re.DOTALL)
        self.assertEqual(len(drawn), 2)
        for command, figure in drawn:
            self.assertEqual((SOURCE / "docs" / figure).read_text(), self.run_frugal(*command.split()).stdout, figure)

    def test_the_table_says_what_stages_hold_and_where_time_goes(self):
        lines = self.run_frugal("schedule", *shape("1f1b"), "--check").stdout.splitlines()[-4:]
        # stage, in flight, versions, busy, start-up, stalls, messages, drain, idle %
        self.assertEqual([line.split() for line in lines],
                         [[str(s), str(4 - s), "1", "24", str(s), str(9 - 3 * s), "0", str(2 * s), "27.3"]
                          for s in range(4)])
        slow = self.run_frugal("schedule", *shape("gpipe", 2, 1), "--message", "0.5", "--backward", "3").stdout
        self.assertEqual(slow.splitlines()[-2].split(), ["0", "1", "1", "4", "0", "4.5", "0.5", "0", "55.6"])

    def test_later_batches_of_a_run(self):
        text = self.saved(*shape("2bw", 2, 2), "--first-batch", "5")
        self.assertIn("first-batch 5\n", text)
        self.assertIn("\nF10@4 F10>\n", text)
        self.assertIn("\nstep@6\n", text)

    def test_shapes_that_cannot_be(self):
        self.rejected("schedule", says=["KIND is missing", "1f1b", "--file"])
        self.rejected("schedule", "2BW", "--stages", "2", "--microbatches", "2", says=["2BW", "2bw"])
        self.rejected("schedule", "2bw", "--stages", "2", says=["--microbatches is missing"])
        self.rejected("schedule", *shape("2bw", 4, 3), says=["microbatches (3) must be at least stages (4)"])
        self.rejected("schedule", *shape("gpipe"), "--chunks", "2", says=["chunks is 2; only interleaved"])
        self.rejected("schedule", *shape("gpipe", 0), says=["--stages", "from 1"])

    def test_files_that_are_wrong(self):
        text = self.saved(*shape("1f1b", 2, 2))
        self.rejected("schedule", "--file", "absent", says=["absent"])
        self.rejected("schedule", "1f1b", "--file", "x", says=["KIND", "--file"])
        self.rejected("schedule", "--file", "x", "--stages", "2", says=["--stages", "--file"])
        self.rejected("schedule", "--file", self.given(text.replace("F1@0", "F1")), says=["mine.txt line 11", '"F1"'])
        self.rejected("schedule", "--file", self.given(text.replace("<F1 ", "")),
                      says=["mine.txt: stage 1, <F1: it is missing"])
        self.rejected("schedule", "--file", self.given(text.replace("<F1 F1@0", "F1@0 <F1")),
                      says=["mine.txt: stage 1, action 4 (F1@0): its activation is not received before it"])

    def test_a_cycle_is_named_with_its_actions(self):
        text = self.saved(*shape("1f1b", 2, 2))
        text = text.replace("F1@0 F1>\n<B0 B0@0\n", "<B0 B0@0\nF1@0 F1>\n")
        text = text.replace("B0@0 B0>\n<F1 F1@0\n", "<F1 F1@0\nB0@0 B0>\n")
        says = ["mine.txt: stage", "waits for itself", "F1> (stage 0, action 5)", "B0> (stage 1, action 5)"]
        self.rejected("schedule", "--file", self.given(text), says=says)
        done = self.run_frugal("schedule", "--file", "given/mine.txt", "--check", status=2)
        self.assertIn("waits for itself", done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1)
