"""Which cells plots draw together: those of one device, size and number of threads, under a label that says all three."""

import pathlib
import tempfile
import unittest

import reproduction

LONE = "cuda, lone rank on h200-hgx"


def cell(column, value, on="cuda", scale="1", threads=None, source="measured", row="full", paper=None, **more):
    return {"artifact": "p/t", "row": row, "column": column, "value": value, "interval": None, "source": source,
            "on": on, "scale": scale, "threads": threads, "paper": paper, "fitted": False, **more}


def of(*cells):
    return reproduction.Artifact(list(cells))


class Lines(unittest.TestCase):
    def test_a_last_one_that_was_cut_off_is_no_result(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lines.jsonl"
            for last in ("", "{", '{"a": 3}'):
                path.write_text('{"a": 1}\n{"a": 2}\n' + last)
                self.assertEqual(reproduction.lines(path), [{"a": 1}, {"a": 2}])
            path.write_text('{"a": 1}\n{\n{"a": 2}\n')
            with self.assertRaises(ValueError):
                reproduction.lines(path)


class Series(unittest.TestCase):
    def labels(self, data, source, columns=("overhead",), scale=None):
        return [origin.label() for origin in data.origins(source, ["full"], columns, scale)]

    def test_every_device_size_and_number_of_threads_is_one(self):
        data = of(cell("overhead", 1, "cpu", "1/4", 2), cell("overhead", 2, "cpu", "1/4", 4),
                  cell("overhead", 3, "cpu", "1/8", 4), cell("overhead", 4), cell("overhead", 5, LONE),
                  cell("overhead", 6, "virtual:a100-selene", source="virtual"))
        self.assertEqual(self.labels(data, "measured"), [
            "measured (cpu, 2 threads, scale 1/4)", "measured (cpu, 4 threads, scale 1/4)",
            "measured (cpu, 4 threads, scale 1/8)", "measured (cuda)", f"measured ({LONE})"])
        self.assertEqual(self.labels(data, "virtual"), ["virtual (a100-selene)"])
        values = [data.ours("full", "overhead", origin)[0]
                  for origin in data.origins("measured", ["full"], ["overhead"])]
        self.assertEqual(values, [1, 2, 3, 4, 5])

    def test_a_value_is_never_taken_from_another(self):
        data = of(cell("overhead", 1, LONE), cell("overhead", 2, row="baseline"), cell("overhead", None))
        real, = data.origins("measured", ["baseline"], ["overhead"])
        self.assertIsNone(data.ours("full", "overhead", real))
        self.assertIsNone(data.ours("baseline", "overhead", *data.origins("measured", ["full"], ["overhead"])))

    def test_only_what_is_drawn_counts(self):
        data = of(cell("overhead", 1, LONE), cell("overhead, one device", 2))
        self.assertEqual(self.labels(data, "measured"), [f"measured ({LONE})"])
        self.assertEqual(self.labels(data, "measured", ["overhead, one device"]), ["measured (cuda)"])
        self.assertTrue(data.has(["full"], ["overhead"]))
        self.assertFalse(of(cell("overhead, one device", 2)).has(["full"], ["overhead"]))

    def test_at_one_scale_only(self):
        data = of(cell("overhead", 1, "virtual:m", "1/4", source="virtual"),
                  cell("overhead", 2, "virtual:m", source="virtual"))
        self.assertEqual(self.labels(data, "virtual", scale="1"), ["virtual (m)"])

    def test_the_last_of_two_runs_counts(self):
        data = of(cell("overhead", 1), cell("overhead", 2))
        origin, = data.origins("measured", ["full"], ["overhead"])
        self.assertEqual(data.ours("full", "overhead", origin, 10), (20, None))

    def test_notes_are_of_what_is_drawn(self):
        data = of(cell("overhead", 1, note="not calibrated"), cell("overhead", 2, LONE, note="lone"),
                  cell("overhead, one device", 3, note="another column"), cell("overhead", None, note="no value"))
        real, _ = data.origins("measured", ["full"], ["overhead"])
        self.assertEqual(data.notes(["full"], ["overhead"], real), {"not calibrated"})

    def test_no_value_is_no_series(self):
        self.assertEqual(self.labels(of(cell("overhead", None)), "measured"), [])


class Looks(unittest.TestCase):
    def looks(self, *ons, source="measured"):
        import style
        data = of(*(cell("overhead", 1, on, source=source) for on in ons))
        return style.looks(data.origins(source, ["full"], ["overhead"]))

    def test_no_two_look_alike(self):
        looks = self.looks("cpu", "cuda", LONE, "cuda, lone rank on a100-selene")
        self.assertEqual(len({(look["facecolor"], look.get("hatch")) for look, _ in looks}), 4)
        self.assertEqual([look["label"] for look, _ in looks], [origin.label() for _, origin in looks])

    def test_lone_ranks_alone_are_hatched(self):
        for look, origin in self.looks("cpu", "cuda", LONE):
            self.assertEqual("hatch" in look, "lone rank" in origin.on, origin)

    def test_one_series_looks_as_it_always_did(self):
        import style
        (look, _), = self.looks("cpu")
        self.assertEqual({**look, "label": ""}, {**style.MEASURED, "label": ""})
        (look, _), = self.looks("virtual:m", source="virtual")
        self.assertEqual({**look, "label": ""}, {**style.VIRTUAL, "label": ""})

    def test_too_many_are_told(self):
        with self.assertRaises(SystemExit):
            self.looks(*(f"cpu{i}" for i in range(9)))
