"""Reads a container file: its stages, and the steps of each with what holds there. Of the instructions those that ours
has; another is an error."""

import dataclasses
import json
import pathlib
import re
import shlex


@dataclasses.dataclass
class Step:
    """RUN with its command, or COPY from a stage's or the context's folder into a folder."""
    kind: str
    text: str
    user: str
    folder: str
    variables: dict
    source: str = ""
    target: str = ""


@dataclasses.dataclass
class Stage:
    base: str
    name: str
    user: str = "root"
    folder: str = "/"
    variables: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    entry: list = dataclasses.field(default_factory=list)
    command: list = dataclasses.field(default_factory=list)


def instructions(text):
    """Of comments nothing; lines that go on are one."""
    lines = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            kind, rest = line.split(maxsplit=1)
            yield kind, re.sub(r" +", " ", rest.strip())


def copied(rest):
    """Stage ("" for the context), from and to."""
    words = shlex.split(rest)
    source = ""
    if words[0].startswith("--from="):
        source = words.pop(0).removeprefix("--from=")
    return source, *words


def read(path, arguments):
    """The stages; `arguments` are those of --build-arg."""
    stages = []
    for kind, rest in instructions(pathlib.Path(path).read_text(encoding="utf-8")):
        if kind == "FROM":
            words = rest.split()
            known = {stage.name: stage for stage in stages}
            stages.append(Stage(words[0], words[2] if len(words) > 1 else "last"))
            if words[0] in known:
                stages[-1].folder, stages[-1].user = known[words[0]].folder, known[words[0]].user
            continue
        stage = stages[-1]
        if kind == "ARG":
            name, value = rest.split("=", maxsplit=1)
            stage.variables[name] = arguments.get(name, value)
        elif kind == "RUN":
            stage.steps.append(Step(kind, rest, stage.user, stage.folder, dict(stage.variables)))
        elif kind == "COPY":
            source, text, target = copied(rest)
            stage.steps.append(Step(kind, text, stage.user, stage.folder, {}, source, target))
        elif kind in ("WORKDIR", "USER"):
            setattr(stage, {"WORKDIR": "folder", "USER": "user"}[kind], rest)
        elif kind in ("ENTRYPOINT", "CMD"):
            setattr(stage, {"ENTRYPOINT": "entry", "CMD": "command"}[kind], json.loads(rest))
        else:
            raise ValueError(f"{path}: {kind} is not understood")
    return stages
