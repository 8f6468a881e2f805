"""What results/ has was measured by programs that anybody can build again."""

import json
import os
import pathlib
import unittest

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))


def entries(path):
    """The JSON values of a file: one for each line of .jsonl."""
    text = path.read_text(encoding="utf-8")
    return list(map(json.loads, filter(None, text.splitlines()))) if path.suffix == ".jsonl" else [json.loads(text)]


def builds(value):
    """Each "build" in it, at whatever depth."""
    if isinstance(value, dict):
        if isinstance(value.get("build"), dict):
            yield value["build"]
        value = value.values()
    for part in value if not isinstance(value, (str, int, float, bool, type(None))) else ():
        yield from builds(part)


class Published(unittest.TestCase):
    def test_no_record_is_of_a_changed_tree(self):
        """What is predicted for a GPU or measured on one, and all else; dirty is whether the tree was changed."""
        count = 0
        for path in sorted((SOURCE / "results").rglob("*.json*")):
            for build in builds(entries(path)):
                count += 1
                self.assertIs(build.get("dirty"), False, f"{path.relative_to(SOURCE)}: built of a changed tree, at "
                                                         f"{build.get('commit')}; commit the changes, build and run it again")
        self.assertGreater(count, 5000)

    def test_one_is_seen_at_any_depth(self):
        self.assertEqual(list(builds([{"a": {"environment": {"build": {"dirty": True}}}}, 3, "build", None])), [{"dirty": True}])
