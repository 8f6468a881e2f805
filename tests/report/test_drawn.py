"""What the page draws, and the ways in which it can be read: figures, timelines, light and dark, keys, paper, small screens."""

import base64
import json

import browser
import made
from page_test import KEY, Page

#: Of two colours, as WCAG 2 has it; and what an element's text stands on.
CONTRAST = """
    const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => channels(colour).slice(0, 3).map((c) => c / 255)
        .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (one) => {
      for (; one; one = one.parentElement) {
        const colour = getComputedStyle(one).backgroundColor;
        if ((channels(colour)[3] ?? 1) > 0) return colour;
      }
      return "rgb(255, 255, 255)";
    };
    return [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() && one.getClientRects().length &&
        !one.closest("svg") && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())).map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), one.outerHTML.slice(0, 90)];
    }).filter(([ratio]) => ratio < 4.5);"""


class Figures(Page):
    ARTIFACT = "korthikanti2022/table4"

    def marks(self):
        return self.open_artifact(self.ARTIFACT).find_elements("css selector", ".panel .mark")

    def drawn(self):
        return [c for c in self.numbers("cells") if c["artifact"] == self.ARTIFACT and c["value"] is not None]

    def test_every_number_is_drawn_and_told_where_the_pointer_is(self):
        marks, cells = self.marks(), self.drawn()
        self.assertEqual(len(marks), len(cells))
        shown = {mark.get_attribute("aria-label"): mark for mark in marks}
        for cell in (next(c for c in cells if c["interval"] and c["verdict"]), next(c for c in cells if c["source"] == "virtual")):
            mark = shown[next(label for label in shown if label.startswith(f"{cell['row']}, {cell['column']}: ")
                              and made.origin(cell) in label and made.value_text(cell) in label)]
            self.browser.hover(mark)
            tip = self.browser.text("#tip")
            for part in (cell["row"], cell["column"], made.value_text(cell), cell["unit"], made.origin(cell), cell["verdict"]):
                self.assertIn(part, tip)
            if cell["paper"] is not None:
                self.assertIn(f"paper: {made.number_text(cell['paper'])}", tip)
        self.browser.hover(self.browser.one("#artifacts-heading"))
        self.assertFalse(self.browser.one("#tip").is_displayed())

    def test_marks_stand_where_the_axis_says(self):
        """Those of a panel are on one line with its ticks."""
        self.marks()
        for panel in self.browser.run("""
                return [...document.querySelectorAll(".artifact[open] .panel")].map((panel) => ({
                  ticks: [...panel.querySelectorAll(".axis .tick")].map((tick) => [tick.textContent, tick.getCTM().e]),
                  marks: [...panel.querySelectorAll(".mark")].map((mark) => [mark.getAttribute("aria-label"), mark.getCTM().e])}))"""):
            (low, left), (high, right) = ((float(text.replace("−", "-")), x) for text, x in (panel["ticks"][0], panel["ticks"][-1]))
            for label, x in panel["marks"]:
                value = float(label.split(": ")[1].split()[0])
                self.assertAlmostEqual(x, left + (value - low) / (high - low) * (right - left), delta=0.01 * abs(right - left), msg=label)

    def test_keys_go_from_mark_to_mark(self):
        marks = self.marks()
        self.assertEqual(sum(mark.get_attribute("tabindex") == "0" for mark in marks), 1)
        self.browser.run("arguments[0].focus()", marks[0])
        self.browser.keys(KEY["right"], KEY["right"])
        self.assertEqual(self.browser.focused(), marks[2])
        self.assertTrue(self.browser.one("#tip").is_displayed())
        self.browser.keys(KEY["left"], KEY["enter"])
        self.assertTrue(self.browser.one("#provenance").is_displayed())
        self.browser.keys(KEY["escape"])
        self.assertEqual(self.browser.focused(), marks[1])


class Timelines(Page):
    def timeline(self, title):
        box = next(box for box in self.browser.all(".timeline") if box.find_element("css selector", ".name").text.startswith(title))
        self.browser.run("arguments[0].open = true; arguments[0].draw()", box)
        return box.find_element("css selector", "svg")

    def domain(self, svg):
        return [float(end) for end in svg.get_attribute("data-domain").split()]

    def test_wheel_drag_keys_and_buttons(self):
        svg = self.timeline("pipeline")
        whole = self.domain(svg)
        length = whole[1] - whole[0]
        plot = svg.find_element("css selector", ".background")
        self.browser.wheel(plot, -300)
        near = self.domain(svg)
        self.assertLess(near[1] - near[0], 0.9 * length)
        self.browser.drag(plot, 120)
        earlier = self.domain(svg)
        self.assertLess(earlier[0], near[0])
        self.assertAlmostEqual(earlier[1] - earlier[0], near[1] - near[0])
        self.browser.run("arguments[0].focus()", svg)
        self.browser.keys("0")
        self.assertEqual(self.domain(svg), whole)
        self.browser.keys("+", "+")
        near = self.domain(svg)
        self.assertAlmostEqual(near[1] - near[0], length / 1.5 ** 2)
        self.browser.keys(KEY["right"])
        self.assertAlmostEqual(self.domain(svg)[0] - near[0], 0.15 * (near[1] - near[0]))
        self.browser.keys(KEY["left"], "-", "-")
        self.assertEqual(self.domain(svg), whole)
        tools = svg.find_element("xpath", "ancestor::details").find_elements("css selector", ".tools button")
        for position in (0, 0, 1, 3, 2):
            before = self.domain(svg)
            self.browser.click(tools[position])
            self.assertNotEqual(self.domain(svg), before, tools[position].text)
        self.browser.click(tools[4])
        self.assertEqual(self.domain(svg), whole)

    def test_pipeline_is_that_of_the_trace(self):
        events = json.loads(self.made.trace.read_text())["traceEvents"]
        passes = [event for event in events if event["ph"] == "X" and event["tid"] == 0]
        svg = self.timeline("pipeline")
        self.assertEqual(len(svg.find_elements("css selector", ".pass")), len(passes))
        self.browser.run("arguments[0].focus()", svg)
        self.browser.keys("+")
        self.assertLess(len(svg.find_elements("css selector", ".pass")), len(passes))
        self.browser.keys("0")
        self.assertEqual(len(svg.find_elements("css selector", ".pass")), len(passes))
        ends = [(event["ts"] + event["dur"]) / 1e6 for event in passes]
        self.assertAlmostEqual(self.domain(svg)[1], max(ends), delta=0.01 * max(ends))
        event = max((one for one in passes if one["pid"] == 2), key=lambda one: one["dur"])
        cell = next(one for one in svg.find_elements("css selector", ".pass rect")
                    if one.get_property("__data__")[:3] == [event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, event["name"]])
        self.browser.hover(cell)
        tip = self.browser.text("#tip")
        for part in ("stage 2", f"version {event['args']['version']}", "virtual:a100-selene"):
            self.assertIn(part, tip)

    def test_memory_keeps_its_peak(self):
        rows = json.loads(self.made.memory.read_text())["stages"][0]["rows"]
        peak = max(sum(row[2:-1]) for row in rows)
        svg = self.timeline("memory")
        summary = svg.find_element("xpath", "ancestor::details").text
        self.assertIn(f"stage 0: at most {peak / 2 ** 30:.5g} GiB", summary)
        self.browser.hover(svg.find_element("css selector", ".kind"))
        self.assertRegex(self.browser.text("#tip"), r"GiB in use\s+stage \d from [\d.]+[mµ]?s\s+parameter: ")

    def test_drawn_schedules_stand_beside_the_papers(self):
        svg = self.timeline("pipedream2bw2021/figure1b")
        titles = [title.text for title in svg.find_elements("css selector", ".lane-title")]
        self.assertEqual([title.split(" (")[1] for title in titles], ["paper)", "formula)"])


class Reading(Page):
    def colours(self):
        style = "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
        return [sum(int(part) for part in colour[4:-1].split(",")) for colour in self.browser.run(style)]

    def test_light_and_dark(self):
        paper, ink = self.colours()
        self.assertGreater(paper, ink)
        button = self.browser.one("#theme")
        self.assertIn("Dark", button.text)
        button.click()
        self.assertLess(*self.colours())
        self.browser.open(self.page)
        self.assertLess(*self.colours())
        self.browser.run("localStorage.clear()")
        self.browser.scheme("dark")
        self.browser.open(self.page)
        self.assertLess(*self.colours())
        self.assertIn("Light", self.browser.text("#theme"))

    def test_text_stands_out(self):
        self.open_artifact("korthikanti2022/table4")
        self.browser.click(self.browser.one("#claims-table .unfold"))
        for scheme in ("light", "dark"):
            self.browser.scheme(scheme)
            self.assertEqual(self.browser.run(CONTRAST), [], scheme)

    def test_keys_reach_everything_and_show_where_they_are(self):
        reached = []
        for _ in range(110):
            self.browser.keys(KEY["tab"])
            reached.append(self.browser.run("""const one = document.activeElement, style = getComputedStyle(one);
                return [one.id || one.name || one.className || one.textContent, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]"""))
        self.assertEqual([name for name, outlined in reached if not outlined], [])
        names = [name for name, _ in reached]
        for wanted in ("skip", "theme", "paper", "verdict", "source", "text", "unfold", "value"):
            self.assertIn(wanted, names)
        self.assertTrue(any(name.startswith("part ") for name in names))
        part = self.browser.one(".part")
        self.browser.run("arguments[0].focus()", part)
        self.browser.keys(KEY["enter"])
        self.assertEqual(self.claims_shown(), int(part.text[2:]))

    def test_what_is_used_has_a_name(self):
        self.browser.one("#open-all").click()
        nameless = self.browser.run("""
            const named = (one) => one.getAttribute("aria-label") || /[\\p{L}\\p{N}]/u.test(one.textContent) || one.labels?.length;
            return [...document.querySelectorAll("button, a, input, select, [role=button], [role=application], [role=region], img")]
                .filter((one) => !named(one) && !one.alt).map((one) => one.outerHTML.slice(0, 90))""")
        self.assertEqual(nameless, [])
        levels = self.browser.run("return [...document.querySelectorAll('main h1, main h2, main h3, main h4, header h1')].map((h) => +h.tagName[1])")
        self.assertEqual(levels[0], 1)
        self.assertTrue(all(after <= before + 1 or after == 4 for before, after in zip(levels, levels[1:])), levels)

    def test_small_screens(self):
        self.load(self.made.papers)
        for size in (browser.NARROW, (768, 1024), browser.WIDE):
            self.browser.resize(size)
            self.browser.run("for (const box of document.querySelectorAll('.artifact, .timeline')) { box.open = true; box.draw() }")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])
            wide = self.browser.run("""return [...document.querySelectorAll("main *")].filter((one) => !one.closest(".scroll, svg, .hidden") &&
                one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))""")
            self.assertEqual(wide, [], size)

    def test_paper(self):
        self.choose(paper="pipedream2bw2021")
        self.browser.run("""addEventListener("beforeprint", () => window.printed = {
            open: document.querySelectorAll(".artifact[open]:not([hidden])").length, claims: document.querySelectorAll("#claims-table tbody tr").length,
            rows: document.querySelectorAll(".artifact table tbody tr").length})""")
        pdf = base64.b64decode(self.browser.tell("Page.printToPDF", {"printBackground": True})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page "), 5)
        printed = self.browser.run("return window.printed")
        self.assertEqual(printed["claims"], self.claims_shown())
        self.assertEqual(printed["open"], len({c["artifact"] for c in self.numbers("cells") if c["artifact"].startswith("pipedream2bw2021/")}))
        self.assertEqual(printed["rows"], len({(c["artifact"], c["row"], c["column"], c["scale"]) for c in self.numbers("cells")
                                               if c["artifact"].startswith("pipedream2bw2021/")}))
        self.assertEqual(self.browser.all(".artifact[open]"), [])
        self.assertLess(len(self.browser.all("#claims-table tbody tr")), printed["claims"])


class OwnRuns(Page):
    def test_published_errors_are_those_of_the_machines_with_records(self):
        on = {json.loads(line)["on"] for folder in self.made.folders for line in (folder / "records.jsonl").read_text().splitlines()}
        bands = json.loads((made.SOURCE / "results/virtual/published/bands.json").read_text())["bands"]
        shown = self.browser.run("""return [...document.querySelectorAll("#published-table tbody tr")].map(
            (row) => [...row.cells].map((cell) => cell.textContent))""")
        expected = [[band["machine"], band["program"], "8k or more" if band["long"] else "fewer than 8k",
                     "several" if band["several_nodes"] else "one", "host" if band["host_bound"] else "device", str(band["count"]),
                     f"{100 * band['median']:.1f}", f"{100 * band['largest']:.1f}"]
                    for band in bands if f"virtual:{band['machine']}" in on]
        self.assertLess(len(expected), len(bands))
        self.assertTrue(expected)
        self.assertEqual(shown, expected)
        self.assertIn("## Errors on published runs", self.made.all.with_suffix(".md").read_text())

    def test_runs_and_pictures(self):
        folder = self.made.folder / "own"
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "figures/one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
        made.frugal("measure", "--model", "gpt-tiny", "--on", "virtual", "--out", folder, "--force")
        made.frugal("report", folder, "--figures", "--force")
        self.load(folder / "report.html")
        self.assertIn("no paper reports", self.browser.text("#introduction"))
        self.browser.click(self.browser.one(".run summary"))
        said = self.browser.text(".run")
        self.assertIn("frugal measure --model gpt-tiny", said)
        self.assertIn("peak memory of a rank", said)
        self.assertEqual(self.browser.run("return document.images[0].complete && document.images[0].naturalWidth"), 9)
