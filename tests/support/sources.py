"""Where the sources are, and tests that have a folder of their own. CTest sets FRUGAL_SOURCE_DIR."""

import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))


def scripts_of(*folders):
    """Has tests import the scripts in folders of the sources, and in no others."""
    sys.path[:0] = [str(SOURCE / folder) for folder in folders]


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
