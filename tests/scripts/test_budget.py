"""scripts/check-budget.py: what it counts in sources that are made up, and which commits it refuses."""

import importlib.util
import subprocess

from sources import SOURCE, InFolder

SPEC = importlib.util.spec_from_file_location("check_budget", SOURCE / "scripts/check-budget.py")
budget = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(budget)


class Tree(InFolder):
    def setUp(self):
        super().setUp()
        self.git("init", "--quiet")

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.folder, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, subject):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)


class Counts(Tree):
    def test_lines_of_code_and_of_tests_are_apart(self):
        self.write("engine/a.cpp", "1\n2\n3\n")
        self.write("harness/b.py", "1\n")
        self.write("tests/engine/a_test.cpp", "1\n2\n")
        self.write("tests/plots/c.py", "1\n")
        self.write("docs/d.md", "1\n")
        found = budget.counts(self.folder)
        self.assertEqual([found[name] for name in ("code_lines", "code_lines_kernels_engine", "test_lines",
                                                   "test_lines_kernels_engine", "code_files")], [4, 3, 3, 2, 1])

    def test_a_cycle_of_folders_counts_its_folders(self):
        self.write("engine/a/x.h", '#include "engine/b/y.h"\n')
        self.write("engine/b/y.h", '#include "engine/c/deep/z.h"\n')
        self.write("engine/c/deep/z.h", "\n")
        self.write("engine/d/w.h", '#include "engine/a/x.h"\n')
        self.assertEqual(budget.counts(self.folder)["folder_cycle_engine"], 0)
        self.write("engine/c/other.h", '#include "engine/a/x.h"\n')
        self.assertEqual(budget.counts(self.folder)["folder_cycle_engine"], 3)

    def test_a_header_with_one_user_besides_its_source(self):
        self.write("kernels/alone.h", "\n")
        self.write("kernels/alone.cpp", '#include "kernels/alone.h"\n')
        self.write("kernels/shared.h", '#include "kernels/alone.h"\n')
        for user in "ab":
            self.write(f"engine/{user}.cpp", '#include "kernels/shared.h"\n')
        self.assertEqual(budget.one_user(budget.includes(self.folder), budget.LAYERS), ["kernels/alone.h"])

    def test_comments_without_a_head(self):
        self.write("engine/a.h", "/// What is kept.\nint a;  ///< Of all\n\n/// Bytes kept.\n/// Of all ranks.\nint b;\n"
                                 "struct S {\n  /// Whether it is.\n  bool c;\n  // Where\n};\n")
        self.assertEqual(budget.headless(self.folder, ("engine",)), (2, 3))

    def test_files_of_an_example(self):
        part = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"
        self.write("tests/examples/technique.patch", part * 3)
        self.assertEqual(budget.counts(self.folder)["example_files_technique"], 3)


class Commits(Tree):
    def test_subjects(self):
        self.assertEqual(budget.subject_fault("Add a test"), "")
        self.assertIn("\"Tests\"", budget.subject_fault("Tests of the engine"))
        self.assertIn("73 characters", budget.subject_fault("Add " + "x" * 69))
        self.assertEqual(budget.subject_fault("Add " + "x" * 68), "")

    def budget_of(self, most, reason=None):
        raised = f'code_lines = "{reason}"\n' if reason else ""
        self.write(budget.BUDGET, f"[most]\ncode_lines = {most}\n[raised]\n{raised}")

    def faults(self):
        return list(budget.commit_faults(self.folder, self.first))

    def test_a_budget_rises_with_a_reason_of_its_own(self):
        self.budget_of(10)
        self.commit("Start")
        self.first = subprocess.run(["git", "-C", self.folder, "rev-parse", "HEAD"], capture_output=True, text=True,
                                    check=True).stdout.strip()
        self.budget_of(9)
        self.commit("Lower it")
        self.assertEqual(self.faults(), [])
        self.budget_of(12, "12: a new device")
        self.commit("Add a device")
        self.assertEqual(self.faults(), [])
        self.budget_of(13, "12: a new device")
        self.commit("Add more")
        self.assertEqual(len(self.faults()), 1)
        self.assertIn("raises code_lines", self.faults()[0])
        self.commit("More of it")
        self.assertEqual(len(self.faults()), 2)

    def test_a_history_that_does_not_reach_back(self):
        self.commit("Nothing said")
        self.first = "6c35f227172e1722e525e0cdc6e4c6546a202601"
        self.assertEqual(self.faults(), [])
