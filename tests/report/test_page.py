"""What the page of `frugal report` says: its numbers, its filters, and where each number is from."""

import collections
import json

import jsonschema

import made
from page_test import FILTERS, KEY, Page


class Numbers(Page):
    def test_document_is_as_its_schema_says(self):
        schema = json.loads((made.SOURCE / "docs/report.schema.json").read_text())
        for page in (self.made.all, self.made.papers):
            jsonschema.validate(self.made.document(page), schema)

    def test_three_papers_are_below_two_megabytes(self):
        self.assertLess(self.made.papers.stat().st_size, 2_000_000)

    def test_tables_have_the_numbers_that_frugal_prints(self):
        self.browser.one("#open-all").click()
        self.browser.run("document.querySelectorAll('.artifact').forEach((box) => box.draw())")
        shown = collections.defaultdict(list)
        for artifact, lines in self.browser.run("""
                return [...document.querySelectorAll(".artifact")].map((box) => [box.id, [...box.querySelectorAll(".table table")].flatMap(
                    (table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map(
                        (cell, column) => [table.tHead.rows[0].cells[column].textContent, cell.textContent])))])"""):
            for (_, row), (_, column), *rest in lines:
                for position, (name, text) in enumerate(rest):
                    shown[artifact, row, column, name].append((text, [text for _, text in rest[position + 1:position + 3]]))
        self.assertGreater(len(self.made.numbers["cells"]), 1500)
        signs = {entry.text[2:].split(":")[0].strip(): entry.text[0] for entry in self.browser.all("#legend li")}
        for cell in self.made.numbers["cells"]:
            entries = [entry for entry in shown[cell["artifact"], cell["row"], cell["column"], made.origin(cell)] if entry[0]]
            text = made.value_text(cell) if cell["value"] is not None else cell["status"]
            self.assertEqual([entry[0] for entry in entries], [text], cell)
            direction = "direction " if cell["relation"] == "direction" else ""
            self.assertEqual(entries[0][1][1], f"{signs[cell['verdict']]} {direction}{cell['verdict']}" if cell["verdict"] else "", cell)

    def test_claims_have_the_numbers_that_frugal_prints(self):
        lines = self.browser.run("""const table = $("#claims-table").DataTable();
                              table.page.len(-1).draw();
                              return [...table.table().body().rows].map((row) => [...row.cells].map((cell) => cell.textContent))""")
        expected = []
        for claim in self.made.numbers["claims"]:
            verdict = claim["verdict"] + (", as expected" if claim["expected"] and claim["verdict"] == "not reproduced" else "")
            expected.append((claim["id"], claim["statement"], made.value_text(claim) if claim["value"] is not None else "none",
                             made.origin(claim), verdict))
        self.assertEqual([(line[1].removeprefix(next(paper for paper in made.PAPERS if line[1].startswith(paper))), line[2], line[4],
                           line[5], line[6][2:]) for line in lines], expected)

    def test_bars_have_as_many_as_there_are(self):
        parts = self.browser.run("""return [...document.querySelectorAll(".part")].map(
            (part) => [part.closest(".bar").dataset.what, part.dataset.filter, part.textContent])""")
        counted = collections.Counter()
        for what, kind in (("claims", "claims"), ("numbers", "cells")):
            ids = {claim["id"]: artifact for claim, artifact in self.claims_with_papers()}
            for number in self.made.numbers[kind]:
                paper = number["artifact"].split("/")[0] if kind == "cells" else ids[number["id"]]
                if number["verdict"]:
                    counted[what, paper, number["verdict"], made.origin(number)] += 1
        shown = {}
        for what, values, text in parts:
            values = json.loads(values)
            shown[what, values["paper"], values["verdict"], values["source"]] = int(text[2:])
        self.assertEqual(shown, counted)

    def claims_with_papers(self):
        document = self.made.document(self.made.all)
        for claim, compact in zip(self.made.numbers["claims"], document["claims"], strict=True):
            yield claim, document["texts"][compact["artifact"]].split("/")[0]


class Filters(Page):
    def expected(self, **values):
        document = self.made.document(self.made.all)
        text = document["texts"]
        kept = []
        for claim in document["claims"]:
            if values.get("paper", "") in ("", text[claim["artifact"]].split("/")[0]) and \
                    values.get("verdict", "") in ("", claim["verdict"]) and values.get("source", "") in ("", text[claim["origin"]]):
                kept.append(claim)
        return len(kept)

    def test_each_filter_and_all_together(self):
        every = self.expected()
        self.assertEqual(self.claims_shown(), every)
        for values in ({"paper": "mst2024"}, {"verdict": "undecided"}, {"source": "measured cuda, lone rank on h100-dgx"},
                       {"paper": "korthikanti2022", "verdict": "not reproduced", "source": "virtual:a100-selene"}):
            self.choose(**values)
            wanted = self.expected(**values)
            self.assertTrue(0 < wanted < every, values)
            self.assertEqual(self.claims_shown(), wanted)
            self.assertTrue(self.browser.text("#filters output").startswith(f"{wanted} of {every} claims"), self.browser.text("#filters output"))
            boxes = self.browser.run("return [...document.querySelectorAll('.artifact')].filter((box) => !box.hidden).map((box) => box.id)")
            self.assertTrue(boxes)
            if "paper" in values:
                self.assertTrue(all(box.startswith(values["paper"] + "/") for box in boxes), boxes)
            self.choose(**dict.fromkeys(FILTERS, ""))
        self.assertEqual(self.claims_shown(), every)

    def test_text_finds_every_word(self):
        field = self.browser.one("#filters input")
        self.browser.keys("/")
        self.assertEqual(self.browser.focused(), field)
        self.browser.keys(*"recompute MFU")
        total = self.claims_shown()
        words = [" ".join(str(claim[key]) for key in ("id", "statement", "reason", "justification")).lower()
                 for claim in self.made.numbers["claims"]]
        self.assertGreater(sum("recompute" in one or "mfu" in one for one in words), total)
        self.assertGreaterEqual(total, sum("recompute" in one and "mfu" in one for one in words))
        self.assertGreater(total, 0)
        self.browser.one("#filters button[type=reset]").click()
        self.assertGreater(self.claims_shown(), total)
        self.assertEqual(field.get_attribute("value"), "")
        self.choose(text="no such words")
        self.assertEqual(self.claims_shown(), 0)
        self.assertIn("nothing is left", self.browser.text("#claims-table"))

    def test_tables_show_what_is_found(self):
        self.open_artifact("korthikanti2022/table4")
        self.choose(verdict="undecided")
        self.browser.into_view(self.browser.one("#korthikanti2022\\/table4 .table"))
        table = "#korthikanti2022\\/table4 .table table"
        found = self.browser.run(f"return document.querySelectorAll({json.dumps(table + ' td.found')}).length")
        cells = self.numbers("cells", lambda cell: cell["artifact"] == "korthikanti2022/table4" and cell["verdict"] == "undecided")
        self.assertEqual(found, len(cells))
        self.assertGreater(found, 0)
        shown = [row for row in self.browser.all(table + " tbody tr") if row.is_displayed()]
        self.assertEqual(len(shown), len({(cell["row"], cell["column"]) for cell in cells}))
        self.choose(verdict="")
        self.assertEqual(self.browser.all(table + " td.found"), [])

    def test_a_part_of_a_bar_shows_what_is_in_it_and_once_more_everything(self):
        part = next(part for part in self.browser.all(".bar[data-what=claims] .part") if "not-reproduced" in part.get_attribute("class"))
        count, values = int(part.text[2:]), json.loads(part.get_attribute("data-filter"))
        self.browser.click(part)
        self.assertEqual(self.claims_shown(), count)
        self.assertEqual({name: self.browser.one(f"#filters [name={name}]").get_attribute("value") for name in FILTERS}, values)
        self.assertEqual(part.get_attribute("aria-pressed"), "true")
        self.browser.click(part)
        self.assertEqual(self.claims_shown(), self.expected())
        numbers = next(part for part in self.browser.all(".bar[data-what=numbers] .part") if "calibrated" in part.get_attribute("class"))
        self.browser.click(numbers)
        first = next(box for box in self.browser.all(".artifact") if box.is_displayed())
        self.assertTrue(first.get_attribute("open"))
        self.assertTrue(self.browser.all(".artifact[open] td.found"))

    def test_columns_are_sorted(self):
        head = next(head for head in self.browser.all("#claims-table th") if head.text.startswith("frugal"))
        values = "return $('#claims-table').DataTable().rows({order: 'applied'}).data().toArray().map(({value}) => value ?? null)"
        self.browser.click(head)
        rising = [value for value in self.browser.run(values) if value is not None]
        self.assertEqual(rising, sorted(rising))
        self.assertEqual(head.get_attribute("aria-sort"), "ascending")
        self.browser.run("arguments[0].focus()", head)
        self.browser.keys(KEY["enter"])
        falling = [value for value in self.browser.run(values) if value is not None]
        self.assertEqual(falling, rising[::-1])


class Provenance(Page):
    def record(self, name):
        """Of "korthikanti2022/records.jsonl, line 7"."""
        file, line = name.split(", line ")
        folder = next(folder for folder in self.made.folders if folder.name == file.split("/")[0])
        return json.loads((folder / "records.jsonl").read_text().splitlines()[int(line) - 1])

    def facts(self, selector):
        return dict(self.browser.run("""return [...document.querySelector(arguments[0]).children].reduce((all, one) =>
            one.tagName === "DT" ? [...all, [one.innerText, ""]] : [...all.slice(0, -1), [all.at(-1)[0], one.innerText]], [])""",
                               selector))

    def test_a_number_opens_to_its_record(self):
        for artifact, row, column, on, cases in (
                ("korthikanti2022/table4", "full recompute", "overhead", "measured", ["22B/baseline", "22B/full"]),
                ("mst2024/table2", "llama3-8b", "mini-sequence", "virtual", ["llama3-8b/mini-sequence"])):
            box = self.open_artifact(artifact)
            cell = next(c for c in self.numbers("cells") if (c["artifact"], c["row"], c["column"], c["source"]) == (artifact, row, column, on))
            text = made.value_text(cell)
            self.browser.click(next(button for button in box.find_elements("css selector", "button.value") if button.text == text))
            self.assertTrue(self.browser.one("#provenance").is_displayed())
            said = self.facts("#provenance-box > dl")
            self.assertEqual(float(said["value"].split()[0]), cell["value"])
            self.assertEqual(said["source"], made.origin(cell))
            self.assertEqual(said["verdict"][2:], cell["verdict"])
            if cell["interval"]:
                self.assertEqual([float(end) for end in said["interval, 95 %"].split(" to ")[0:1]], cell["interval"][:1])
                self.assertEqual(int(said["samples"]), cell["samples"])
            told = self.facts("#provenance-box .record dl")
            record = self.record(told["record"])
            self.assertEqual((record["artifact"], record["case"]), (artifact, cases[0]))
            self.assertEqual([head.text for head in self.browser.all("#provenance-box .record h3")], [f"{artifact}: {one}" for one in cases])
            self.assertEqual(told["make it again"].split("\n")[0], record["command"])
            self.assertEqual((told["device"], told["fingerprint"]), (record["device"], record["fingerprint"]))
            self.assertIn(record["environment"]["build"]["commit"][:12], told["build"])
            self.assertIn(record["ended"], told["ended"])
            self.browser.keys(KEY["escape"])
            self.assertFalse(self.browser.one("#provenance").is_displayed())

    def test_every_number_has_its_records_or_needs_none(self):
        document = self.made.document(self.made.all)
        texts, records = document["texts"], document["records"]
        for number in [*document["cells"], *document["claims"]]:
            if number["source"] == "formula":
                self.assertNotIn("records", number)
                continue
            own = [records[position] for position in number.get("records", [])]
            if "value" in number:
                self.assertTrue(own, number)
            for record in own:
                self.assertEqual(texts[record["artifact"]], texts[number["artifact"]])
                self.assertEqual(texts[record["on"]], texts[number["on"]])
                self.assertEqual(record.get("scale"), number.get("scale"))

    def test_a_claim_opens_to_its_tolerance_and_its_command(self):
        self.browser.click(self.browser.one("#claims-table .unfold"))
        said, claim = self.facts("#claims-table .detail dl"), self.made.numbers["claims"][0]
        self.assertEqual(float(said["tolerance"].split()[0]), claim["tolerance"])
        self.assertIn(claim["justification"], said["tolerance"])
        self.assertTrue(said["make it again"].startswith("frugal reproduce korthikanti2022/"))
        copy = self.browser.one("#claims-table .detail .copy")
        self.browser.click(copy)
        self.browser.settle()
        self.assertIn(copy.text, ("Copied", "Selected: press Ctrl+C"))
        self.assertEqual(self.browser.run("return String(getSelection())").strip(), said["make it again"].split("\n")[0])
        self.browser.click(self.browser.one("#claims-table .unfold"))
        self.assertEqual(self.browser.all("#claims-table .detail"), [])

    def test_records_are_found_and_open(self):
        self.assertEqual(self.browser.run("return $('#records-table').DataTable().rows().count()"), len(self.made.document(self.made.all)["records"]))
        self.browser.run("document.querySelector('#records').scrollIntoView()")
        self.browser.one("#records input").send_keys("figure8")
        shown = self.browser.all("#records-table tbody tr")
        self.assertTrue(shown and all("figure8" in row.text for row in shown))
        self.browser.click(shown[0].find_element("css selector", "button.value"))
        self.assertEqual(self.record(self.facts("#provenance-box .record dl")["record"])["artifact"].split("/")[1], "figure8")

    def test_two_thousand_records(self):
        copied = self.made.folder / "many"
        if not copied.exists():
            copied.mkdir()
            lines = [line for folder in self.made.folders for line in (folder / "records.jsonl").read_text().splitlines()]
            (copied / "records.jsonl").write_text("\n".join((lines * 2)[:2000]) + "\n")
            self.made.many = self.made.page("many-page", [copied])
        self.load(self.made.many)
        self.assertEqual(self.browser.run("return $('#records-table').DataTable().rows().count()"), 2000)
        self.choose(verdict="not reproduced")
        self.assertGreater(self.claims_shown(), 0)
