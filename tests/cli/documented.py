"""Commands of docs/cluster.md, for tests to run."""

import re
import shlex

from program import SOURCE

# A test trains as little as can be; otherwise a command is that of the page.
SMALLER = {"gpt-3m": "gpt-tiny", "20": "3"}


def smaller(words):
    return [SMALLER.get(word, word) for word in words]


def command(beginning):
    """The words of the one command that begins so."""
    page = (SOURCE / "docs/cluster.md").read_text().replace("\\\n", " ")
    line, = re.findall(rf"^{re.escape(beginning)} .*$", page, re.MULTILINE)
    return smaller(shlex.split(line))
