"""What the program writes to be read: reports, its documentation, completion and lists."""

import json
import re
import subprocess
import sys

import jsonschema

from program import FRUGAL, SOURCE, TINY, Cli

#: Pages that `frugal docs --write` writes whole.
WRITTEN = ("cli.md", "programs.md", "verdicts.md", "inventory.md")


class Report(Cli):
    def test_html_and_markdown(self):
        self.run_frugal("reproduce", "korthikanti2022/table4", "--on", "virtual")
        self.run_frugal(*TINY)
        (self.folder / "out/figures").mkdir()
        (self.folder / "out/figures/one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
        self.run_frugal("report", "out")
        html = (self.folder / "out/report.html").read_text()
        markdown = (self.folder / "out/report.md").read_text()
        for text in (html, markdown):
            self.assertIn("korthikanti2022/table4", text)
            self.assertIn("gpt-tiny", text)
        self.assertIn("![one.svg](figures/one.svg)", markdown)
        self.assertNotIn("data:image/svg+xml;base64,", html)
        done = self.run_frugal("report", "out", status=2)
        self.assertIn("--force", done.stderr)
        self.run_frugal("report", "out", "--force", "--figures")
        self.assertIn("data:image/svg+xml;base64,", (self.folder / "out/report.html").read_text())

    def test_several_folders_make_one_page(self):
        for artifact in ("korthikanti2022/table2", "pipedream2bw2021/figure1a", "pipedream2bw2021/figure6a"):
            self.run_frugal("reproduce", artifact, "--on", "virtual", "--out", artifact.split("/")[0])
        (self.folder / "pipedream2bw2021/figures").mkdir()
        (self.folder / "pipedream2bw2021/figures/one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
        folders = ("korthikanti2022", "pipedream2bw2021")
        said = self.run_frugal("report", *folders, status=2).stderr
        self.assertIn("--out is missing", said)
        (self.folder / "file").write_text("")
        self.assertIn("--out: file", self.run_frugal("report", *folders, "--out", "file", status=2).stderr)
        self.run_frugal("report", *folders, "--out", "new/both")
        markdown = (self.folder / "new/both/report.md").read_text()
        self.assertIn("![one.svg](../../pipedream2bw2021/figures/one.svg)", markdown)
        # Those that need no record are there, too, as `frugal reproduce` has them.
        for text in (markdown, (self.folder / "new/both/report.html").read_text()):
            for artifact in ("korthikanti2022/table2", "pipedream2bw2021/figure1a", "pipedream2bw2021/figure6a"):
                self.assertIn(artifact, text)
        self.assertIn("two", self.run_frugal("report", "korthikanti2022", "two", "--out", "new", status=2).stderr)

    def test_traces_that_are_not_whole(self):
        self.run_frugal(*TINY)
        for text in ('{"traceEvents":[', '{"traceEvents":[]}', '{"schema":"frugal.memory/1"}'):
            (self.folder / "out/one.json").write_text(text)
            said = self.run_frugal("report", "out", status=2).stderr
            self.assertIn("out/one.json is not as `frugal trace` writes it", said)
            self.assertEqual(len(said.splitlines()), 1)
        (self.folder / "out/one.json").write_text('{"another": "file"}')
        self.run_frugal("report", "out")

    def test_what_may_be_several_is_documented_so(self):
        self.assertIn("`frugal report DIR… [flags]`", self.run_frugal("docs").stdout)
        self.assertIn("`frugal reproduce ARTIFACT… [flags]`", self.run_frugal("docs").stdout)

    def test_results_of_older_programs_lack_nothing_of_the_papers(self):
        """Those of a machine in results/, without what is younger than them: fused attention."""
        (self.folder / "out").mkdir()
        lines = (SOURCE / "results/amd-epyc-2-cores/records.jsonl").read_text().splitlines(keepends=True)
        older = [line for line in lines if json.loads(line)["configuration"].get("attention") != "fused"]
        self.assertLess(len(older), len(lines))
        (self.folder / "out/records.jsonl").write_text("".join(older))
        self.run_frugal("report", "out")
        tables = (self.folder / "out/report.md").read_text().split("## Evidence")[0]
        self.assertIn("| full recompute | overhead |", tables)
        self.assertNotIn("fused", tables)
        self.assertNotIn("was not run", tables)


class Documentation(Cli):
    def commands(self):
        return {"list": [], "reproduce": [], "measure": [], "plan": [], "calibrate": [], "trace": [], "operations": [], "peak": [], "validate": [], "schedule": [], "report": [],
                "completion": []}

    def flags(self, command):
        text = self.run_frugal(command, "--help").stdout
        return {word.rstrip(",") for word in text.replace(",", " ").split() if word.startswith("--") and len(word) > 2}

    def test_the_table_of_processes_is_that_of_the_records(self):
        page = (SOURCE / "docs/cluster.md").read_text(encoding="utf-8")
        again = self.folder / "again.md"
        begin, end = page.index("<!-- processes -->"), page.index("<!-- /processes -->")
        again.write_text(page[:begin] + "<!-- processes -->" + page[end:], encoding="utf-8")
        subprocess.run([sys.executable, "-B", SOURCE / "bench/processes_table.py",
                        SOURCE / "results/amd-epyc-2-cores/bench-processes.jsonl", again], check=True)
        self.assertEqual(again.read_text(encoding="utf-8"), page)

    def test_tables_of_the_papers_pages_are_those_of_the_results(self):
        pages = sorted((SOURCE / "docs").glob("*.md"))
        subprocess.run([sys.executable, "-B", SOURCE / "plots/paper_tables.py", "--check",
                        SOURCE / "results/virtual", *pages], check=True)
        page, wrong = SOURCE / "docs/mst2024.md", self.folder / "wrong.md"
        wrong.write_text(re.sub(r"(\| 60 \| )\d", r"\g<1>9", page.read_text(encoding="utf-8")), encoding="utf-8")
        found = subprocess.run([sys.executable, "-B", SOURCE / "plots/paper_tables.py", "--check",
                                SOURCE / "results/virtual", wrong], capture_output=True, check=False)
        self.assertEqual(found.returncode, 1)

    def test_numbers_stand_in_tables_that_scripts_make(self):
        """On every page that the program does not write whole."""
        def by_hand(text):
            text = re.sub(r"<!-- (?!end|/)[^>]*-->.*?<!-- (?:end|/)[^>]*-->", "", text, flags=re.DOTALL)
            tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
            return [table for table in tables if len(re.findall(r"\d\.\d", table)) > 3]
        found = 0
        for page in sorted((SOURCE / "docs").glob("*.md")):
            text = page.read_text(encoding="utf-8")
            if page.name not in WRITTEN:
                self.assertEqual(by_hand(text), [], page.name)
                found += len(by_hand(text.replace("<!-- end", "<!-- no end").replace("<!-- /", "<!-- no ")))
        self.assertGreater(found, 20)

    def test_documents_are_what_the_program_says(self):
        names = (*WRITTEN, "configuration.schema.json", "record.schema.json", "models.md")
        schema, models = ((SOURCE / "docs" / name).read_text() for name in ("record.schema.json", "models.md"))
        (self.folder / "record.schema.json").write_text(schema)
        (self.folder / "models.md").write_text(models.replace("6738415616", "0"))
        self.run_frugal("docs", "--write", ".")
        for name in names:
            self.assertEqual((SOURCE / "docs" / name).read_text(), (self.folder / name).read_text(),
                             "write it anew: frugal docs --write docs")
        self.assertEqual((self.folder / "cli.md").read_text(), self.run_frugal("docs").stdout)

    def test_documents_are_written_beside_what_is_theirs(self):
        self.assertIn("record.schema.json", self.run_frugal("docs", "--write", ".", status=2).stderr)
        (self.folder / "record.schema.json").write_text((SOURCE / "docs/record.schema.json").read_text())
        (self.folder / "models.md").write_text("# Models\n\n<!-- models -->\n")
        said = self.run_frugal("docs", "--write", ".", status=2).stderr
        self.assertIn("models.md: has no line <!-- models -->", said)
        self.assertFalse((self.folder / "cli.md").exists())

    def test_pages_show_what_their_commands_print(self):
        def check(*pages):
            return subprocess.run([sys.executable, "-B", SOURCE / "scripts/page-outputs.py", "--check", FRUGAL, *pages],
                                  capture_output=True, text=True, check=False)
        pages = [page for page in (SOURCE / "README.md", *(SOURCE / "docs").glob("*.md"))
                 if "```\n$ frugal " in page.read_text(encoding="utf-8")]
        self.assertGreaterEqual(len(pages), 4)
        done = check(*pages)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        page = "```\n$ frugal schedule 1f1b --stages 2 \\\n      --microbatches 2\nnothing\n```\n"
        (self.folder / "wrong.md").write_text(page)
        done = check(self.folder / "wrong.md")
        self.assertEqual(done.returncode, 1)
        self.assertIn("-nothing\n+1f1b: 2 stages", done.stdout)
        self.assertEqual((self.folder / "wrong.md").read_text(), page)

    def test_every_question_has_a_command_with_an_answer(self):
        first, *questions = (SOURCE / "docs/questions.md").read_text(encoding="utf-8").split("\n## ")
        self.assertGreaterEqual(len(questions), 12)
        for question in questions:
            title = question.split("\n")[0]
            self.assertEqual(len(re.findall(r"^```\n\$ frugal .*\n.+\n", question, re.MULTILINE)), 1, title)
            self.assertRegex(question, r"\nAsked .*\n?.*\(https://github\.com/[^)]*/(issues|pull)/\d+\)", title)
            self.assertIn(f"- [{title}](#{re.sub('[^a-z0-9- ]', '', title.lower()).replace(' ', '-')})", first)

    def test_completion_knows_every_flag(self):
        for shell, prefix in (("bash", "--"), ("zsh", "--"), ("fish", "-l ")):
            script = self.run_frugal("completion", shell).stdout
            for command in self.commands():
                self.assertIn(command, script)
                for flag in self.flags(command):
                    self.assertIn(prefix + flag[2:], script, (shell, command))
            self.assertIn("korthikanti2022/table2", script)

    def test_bash_completes(self):
        script = self.run_frugal("completion", "bash").stdout
        asked = 'COMP_WORDS=(frugal measure --recompute ""); COMP_CWORD=3; _frugal; echo "${COMPREPLY[*]}"'
        done = subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["none", "selective", "full", "stage"])
        (self.folder / "own.json").write_text("{}")
        for flag in ("--model", "--hardware", "--text"):
            asked = f'COMP_WORDS=(frugal measure {flag} ow); COMP_CWORD=3; _frugal; echo "${{COMPREPLY[*]}}"'
            done = subprocess.run(["bash", "-c", script + asked], cwd=self.folder, capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stdout.split(), ["own.json"], flag)

    def test_list_and_peak(self):
        artifacts = json.loads(self.run_frugal("list", "--format", "json").stdout)["artifacts"]
        self.assertIn("korthikanti2022/table2", [a["id"] for a in artifacts])
        arguments = ["peak", "--threads", "1", "--format", "json", "--write"]
        peak = json.loads(self.run_frugal(*arguments, "mine.json").stdout)
        machine = json.loads((self.folder / "mine.json").read_text())
        jsonschema.validate(machine, json.loads((SOURCE / "docs/measured-machine.schema.json").read_text()))
        self.assertEqual(machine["name"], "mine")
        self.assertEqual(machine["provenance"]["command"], "frugal peak --on cpu --write mine.json --threads 1")
        self.assertEqual(machine["measured"]["flops_bf16"]["value"], peak["measured_peak"]["bf16"]["flops_per_second"])
        self.assertEqual(machine["samples"]["gemm"], peak["gemm"])
        self.assertLess(0, machine["measured"]["launch_overhead"]["value"])
        for type_, best in peak["measured_peak"].items():
            rates = [g for g in peak["gemm"] if g["type"] == type_]
            self.assertEqual(best["flops_per_second"], max(g["flops_per_second"] for g in rates))
            self.assertTrue(all(len(g["seconds"]) >= 10 and g["flops_per_second"] > 0 for g in rates))
        self.assertIn("22B/", self.run_frugal("list", "table4").stdout)
