"""Memory over a training step, as `frugal trace --memory-file` wrote it (docs/trace.md)."""

import json
import pathlib

import reproduction

SCHEMA = "frugal.memory/1"
GIB = 2**30


class Timeline:
    """What one stage held of each kind, after each change."""

    def __init__(self, columns, rows):
        self.kinds = columns[2:-1]  # behind time and phase, before the host's memory
        self.times = [row[0] for row in rows]
        self.phases = [row[1] for row in rows]
        self.bytes = {kind: [row[2 + i] for row in rows] for i, kind in enumerate(self.kinds)}
        self.host = [row[-1] for row in rows]
        self.totals = [sum(row[2:-1]) for row in rows]

    def peak(self):
        """The most that was in use."""
        return max(self.totals)

    def first_peak(self):
        """Index of the row in which it was first reached."""
        return self.totals.index(self.peak())

    def at_peak(self):
        """{kind: bytes} in that row."""
        return {kind: held[self.first_peak()] for kind, held in self.bytes.items()}

    def spans(self):
        """[(phase, begin, end)], in their order."""
        found = []
        for phase, time in zip(self.phases, self.times):
            if not found or found[-1][0] != phase:
                if found:
                    found[-1][2] = time
                found.append([phase, time, time])
            found[-1][2] = time
        return [tuple(span) for span in found]

    def thinned(self, bins):
        """Indices of rows that look like all: of each of so many equal parts of the time the first, the
        one with most and the one with least, and the last."""
        begin, end = self.times[0], self.times[-1]
        parts = {}
        for i, time in enumerate(self.times):
            part = min(int(bins * (time - begin) / (end - begin)), bins - 1) if end > begin else 0
            parts.setdefault(part, []).append(i)
        chosen = set()
        for rows in parts.values():
            chosen |= {rows[0], rows[-1], max(rows, key=self.totals.__getitem__),
                       min(rows, key=self.totals.__getitem__)}
        return sorted(chosen)


def read(path):
    """(timeline of the first stage, what was run in words)."""
    path = pathlib.Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reproduction.fail(f"{path}: {error}; write it with: frugal trace … --memory-file {path.name}")
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        reproduction.fail(f"{path}: schema is not {SCHEMA}; write it with: frugal trace … --memory-file {path.name}")
    return Timeline(document["columns"], document["stages"][0]["rows"]), document["about"]
