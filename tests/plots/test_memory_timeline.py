"""What is read of a file of frugal trace --memory-file, and which of its rows are drawn."""

import json
import pathlib
import random
import tempfile
import unittest

import memory_timeline

COLUMNS = ["time", "phase", "parameter", "activation", "host"]
ROWS = [[0.0, "forward", 10, 0, 0], [0.0, "forward", 10, 5, 0], [1.0, "backward", 10, 7, 3],
        [2.0, "backward", 10, 1, 3], [2.5, "step", 10, 0, 0]]


class MemoryTimeline(unittest.TestCase):
    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "timeline.json"
            path.write_text(json.dumps({"schema": "frugal.memory/1", "about": {"device": "d"}, "columns": COLUMNS,
                                        "stages": [{"rows": ROWS}, {"rows": []}]}))
            timeline, about = memory_timeline.read(path)
            path.write_text('{"schema": "another"}')
            with self.assertRaises(SystemExit):
                memory_timeline.read(path)
        self.assertEqual(about, {"device": "d"})
        self.assertEqual(timeline.kinds, ["parameter", "activation"])
        self.assertEqual(timeline.totals, [10, 15, 17, 11, 10])
        self.assertEqual(timeline.host, [0, 0, 3, 3, 0])
        self.assertEqual((timeline.peak(), timeline.at_peak()), (17, {"parameter": 10, "activation": 7}))
        self.assertEqual(timeline.spans(), [("forward", 0.0, 1.0), ("backward", 1.0, 2.5), ("step", 2.5, 2.5)])

    def test_what_is_drawn_has_the_extremes_of_every_part(self):
        draw = random.Random(1)
        rows = [[i / 1000, "forward", 0, draw.randrange(10**6), 0] for i in range(1000)]
        timeline = memory_timeline.Timeline(COLUMNS, rows)
        chosen = timeline.thinned(10)
        self.assertEqual(chosen, sorted(set(chosen)))
        self.assertLessEqual(len(chosen), 40)
        self.assertEqual((chosen[0], chosen[-1]), (0, 999))
        self.assertIn(timeline.totals.index(timeline.peak()), chosen)
        self.assertIn(timeline.totals.index(min(timeline.totals)), chosen)
        self.assertEqual(memory_timeline.Timeline(COLUMNS, ROWS).thinned(1000), [0, 1, 2, 3, 4])
        late = [[100 + i, "forward", 0, height, 0] for i, height in enumerate((5, 6, 9, 7, 2, 3, 4, 1, 8))]
        self.assertEqual(memory_timeline.Timeline(COLUMNS, late).thinned(2), [0, 2, 3, 4, 7, 8])  # from 100 to 104, and to 108

    def test_of_one_moment(self):
        self.assertEqual(memory_timeline.Timeline(COLUMNS, ROWS[:2]).thinned(5), [0, 1])
