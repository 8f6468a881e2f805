"""A release says the same wherever it says something of itself."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import python_package

SOURCE = pathlib.Path(os.environ["FRUGAL_SOURCE_DIR"])


def text(name):
    return (SOURCE / name).read_text(encoding="utf-8")


def found(pattern, name):
    match = re.search(pattern, text(name), re.MULTILINE)
    assert match, f"{name} has no {pattern}"
    return match.group(1)


def listed(key):
    """The entries of a list of CITATION.cff."""
    return re.findall(r"^  - (?:name: )?(.+)$", found(rf"^{key}:\n((?:  .*\n)+)", "CITATION.cff"), re.MULTILINE)


class Versions(unittest.TestCase):
    def setUp(self):
        self.version = found(r"^project\(frugal VERSION (\S+)", "CMakeLists.txt")
        self.released = found(r"^set\(FRUGAL_RELEASED (\S+)\)", "CMakeLists.txt")
        self.zenodo = json.loads(text(".zenodo.json"))

    def test_the_version(self):
        said = subprocess.run([os.environ["FRUGAL"], "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, f"frugal {self.version}\n")
        self.assertEqual(found(r"^version: (\S+)$", "CITATION.cff"), self.version)
        self.assertEqual(found(r"^## \[(\d[^\]]*)\]", "CHANGELOG.md"), self.version)
        self.assertEqual(self.zenodo["version"], self.version)
        self.assertEqual(found(r'^    version\("(.+)"\)$', "packaging/spack/spack_repo/frugal/packages/frugal/package.py"),
                         self.version)

    def test_the_date(self):
        self.assertEqual(found(r"^date-released: (\S+)$", "CITATION.cff"), self.released)
        self.assertEqual(found(r"^## \[\d[^\]]*\] - (\S+)$", "CHANGELOG.md"), self.released)
        self.assertEqual(self.zenodo["publication_date"], self.released)

    def test_who_and_what(self):
        self.assertEqual(self.zenodo["title"], found(r'^title: "(.+)"$', "CITATION.cff"))
        self.assertEqual(self.zenodo["license"], found(r"^license: (\S+)$", "CITATION.cff"))
        self.assertEqual(self.zenodo["keywords"], listed("keywords"))
        self.assertEqual([creator["name"] for creator in self.zenodo["creators"]], listed("authors"))
        self.assertEqual(self.zenodo["description"],
                         " ".join(found(r"^abstract: >-\n((?:  .*\n)+)", "CITATION.cff").split()))
        papers = re.findall(r'value: "(arXiv:\S+)"', text("CITATION.cff"))
        self.assertEqual([one["identifier"] for one in self.zenodo["related_identifiers"]], papers)


class Citation(unittest.TestCase):
    def test_is_valid(self):
        check = python_package.installed("cffconvert", "2.0.0") / "bin/cffconvert"
        done = subprocess.run([check, "--validate"], cwd=SOURCE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
