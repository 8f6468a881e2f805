"""The names of tests say what is tested: no bytes of a parameter, and no bare numbers."""

import os
import re
import subprocess
import unittest

# "  Name/0", "Suite/0." and what gtest prints of a type that it cannot print
UNREADABLE = re.compile(r"/[0-9]+(\.|\s|$)|^  [0-9]+(\s|$)|-byte object <")


class TestNames(unittest.TestCase):
    def test_are_readable(self):
        programs = os.environ["FRUGAL_TEST_PROGRAMS"].split(":")
        for program in programs:
            listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
            lines = listed.splitlines()
            self.assertGreater(len(lines), 10, program)
            unreadable = [line for line in lines if UNREADABLE.search(line)]
            self.assertEqual(unreadable, [], f"{program}: give parameters a PrintTo() and a name")
