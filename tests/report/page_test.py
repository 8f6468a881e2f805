"""A page in a browser, used as a reader would use it. After every test: nothing is on the console, and nothing but the page
was asked for."""

import atexit
import functools
import unittest

import browser
import made

KEY = {"tab": "\ue004", "enter": "\ue007", "escape": "\ue00c", "right": "\ue014", "left": "\ue012"}
FILTERS = ("paper", "verdict", "source", "text")


@functools.lru_cache
def session():
    """Made once for all tests."""
    given, opened = made.Made(), browser.Browser()
    atexit.register(given.gone)
    atexit.register(opened.quit)
    return given, opened


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        browser.required()
        cls.made, cls.browser = session()

    def setUp(self):
        self.browser.resize(browser.WIDE)
        self.browser.scheme("light")
        self.load(self.made.all)

    def tearDown(self):
        self.assertEqual(self.browser.said(), [])
        self.assertEqual({*self.browser.requested()}, {self.page.as_uri()})

    def load(self, page):
        self.browser.run("try { localStorage.clear() } catch {}")
        self.browser.open(page)
        self.browser.said(), self.browser.requested()
        self.page = page
        self.browser.open(page)

    def choose(self, **values):
        """In the filters, as a user does."""
        for name, value in values.items():
            self.browser.run("""const field = document.getElementById("filters").elements[arguments[0]];
                                field.value = arguments[1];
                                field.dispatchEvent(new Event("input", {bubbles: true}));""", name, value)

    def open_artifact(self, name):
        self.browser.run("document.getElementById(arguments[0]).open = true", name)
        return self.browser.run("return document.getElementById(arguments[0])", name)

    def claims_shown(self):
        """How many claims the table has."""
        return self.browser.run("return $('#claims-table').DataTable().rows({search: 'applied'}).count()")

    def numbers(self, kind, keep=lambda number: True):
        return [number for number in self.made.numbers[kind] if keep(number)]
