"""The figures of README and docs/ show what results/ and the program give now."""

import copy
import os
import pathlib
import tempfile
import unittest

import document_figures
import drawn
import style


class Figures(unittest.TestCase):
    def test_every_figure_of_a_page_is_as_drawn_now(self):
        with tempfile.TemporaryDirectory() as folder:
            document_figures.draw_all(pathlib.Path(os.environ["FRUGAL"]).resolve(), pathlib.Path(folder))
            self.assertEqual(document_figures.differences(pathlib.Path(folder)), [])


class Differences(unittest.TestCase):
    """Of two folders, docs/figures and the one that is drawn now, with one figure each."""

    def setUp(self):
        self.folders = {}
        for name in ("there", "now"):
            made = tempfile.TemporaryDirectory()
            self.addCleanup(made.cleanup)
            self.folders[name] = pathlib.Path(made.name)
        for name in document_figures.BY_COMMAND:
            (self.folders["there"] / name).touch()

    def save(self, where, name, value):
        figure, (panel,) = style.panels(1, 2, "title", ["row"])
        style.bars(panel, [(style.PAPER, [(value, None)])])
        style.save(figure, self.folders[where], name)
        (self.folders[where] / f"{name}.svg").unlink()

    def lines(self, *shown):
        pages = {name: "docs/page.md" for name in (*shown, *document_figures.BY_COMMAND)}
        return document_figures.differences(self.folders["now"], self.folders["there"], pages)

    def test_the_same_numbers_are_no_difference(self):
        self.save("there", "one", 3)
        self.save("now", "one", 3)
        self.assertEqual(self.lines("one.png"), [])

    def test_another_number_is_one_and_says_where(self):
        self.save("there", "one", 3)
        self.save("now", "one", 3.01)
        (line,) = self.lines("one.png")
        self.assertIn("docs/figures/one.png: figure.panels[0].bars[0][2] is 3.0, and would be 3.01", line)

    def test_what_nothing_draws_and_what_no_page_shows(self):
        self.save("there", "old", 3)
        self.assertEqual(self.lines("old.png"), ["docs/page.md shows figures/old.png, which nothing draws"])
        self.assertEqual(self.lines(), ["docs/figures/old.png is shown by no page"])

    def test_what_a_page_lacks(self):
        self.save("now", "new", 3)
        self.assertEqual(self.lines(), ["docs/figures/new.png is missing"])


class Drawn(unittest.TestCase):
    def test_bars_lines_points_and_words_are_read_back(self):
        figure, (panel, curve) = style.plt.subplots(1, 2)
        panel.barh(1, 5, 0.5, left=2)
        panel.set(title="bars", xlabel="GiB")
        panel.set_yticks([1], ["a row"])
        curve.plot([1, 2], [3, 4], label="a line")
        curve.scatter([5], [6], label="a point")
        curve.set(yscale="log")
        curve.legend()
        with tempfile.TemporaryDirectory() as folder:
            style.save(figure, folder, "figure")
            bars, lines = drawn.of_png(pathlib.Path(folder) / "figure.png")["panels"]
        self.assertEqual((bars["title"], bars["x_label"], bars["y_ticks"], bars["bars"]),
                         ("bars", "GiB", ["a row"], [[2, 0.75, 5, 0.5]]))
        self.assertEqual(lines["lines"], [{"label": "a line", "x": [1, 2], "y": [3, 4]}])
        self.assertEqual(lines["points"], [{"label": "a point", "at": [[5, 6]]}])
        self.assertEqual(lines["y_scale"], "log")

    def test_first_difference_is_of_keys_lengths_and_values(self):
        one = {"a": [1, {"b": "x"}]}
        self.assertIsNone(document_figures.first_difference(one, copy.deepcopy(one)))
        self.assertEqual(document_figures.first_difference(one, {"a": [1, {"b": "y"}]}), "figure.a[1].b is 'x', and would be 'y'")
        self.assertIn("figure.a is [1, {'b': 'x'}]", document_figures.first_difference(one, {"a": [1]}))
        self.assertIsNotNone(document_figures.first_difference(one, {"c": 1}))
