#!/usr/bin/env python3
"""Fails where the sources exceed scripts/budget.toml, where a commit raises it without a reason, or words its subject
otherwise than HACKING.md asks. --lower writes the present counts, where they are lower, into the budget."""

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = "scripts/budget.toml"
LAYERS = ("kernels", "engine", "harness", "experiments", "bench", "app")
LOWER = ("kernels", "engine")  # and their tests:
TESTS_OF_LOWER = tuple("tests/" + folder for folder in (
    "kernels", "engine", "emulator", "emulated", "nccl", "nccl_real", "nvml", "combinations", "cuda", "golden",
    "processes", "faulty"))
CPP = (".h", ".cpp", ".cu", ".cuh")
CODE = (*CPP, ".py", ".sh", ".js", ".css")
# First words that no noun or verb follows at once: the comment's head is missing.
HEADLESS = re.compile(
    r"(What|Whether|Of|How|Where|The same|Which|In|As|From|Why|By|With|Those|When|On|For|Without|To|Its?|At|So|Whatever|"
    r"Whose|Who|That|This|These|Between|They|Them|Until|Within|But|Behind|Beside|Before|After|If|Than)\b")
VERBS = set("""
    accept add align allocate allow answer ask assert avoid bind bound build bump cache call cap carry change charge
    check choose clean clear close collect combine compare compile compute configure connect convert copy correct
    count cover cut decide declare define delete derive describe disable divide document draw drop enable execute
    expect explain export extend extract fail fill find fit fix fold follow format free gather generate give group
    guard halt handle have hide hold ignore imitate implement import include infer inline install instantiate issue
    join judge keep label land leave let limit link list load log look lower make map mark measure merge model move
    name narrow note offer order overlap pack parse pass pin plan plant play point predict prefer prepare print
    profile prove publish pull put raise read rebuild recompute record redraw reduce refactor refuse regenerate
    register rehearse release remember remove rename render repair repeat replace report require reset resolve
    restore restrict resume return reuse revert reword rewrite round run save say scale schedule search see send
    separate set shard share shorten show simplify skip slim sort specify speed split start state stop store strip
    sum support swap take teach tell test tidy time track train trim try turn unify untangle update upgrade use
    validate verify wait warn widen word work wrap write""".split())


def git(*arguments, root=ROOT):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def sources(root, folders, suffixes):
    """Files of the working tree, those that are not committed yet too."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", *folders, root=root).split("\n")
    return sorted({name for name in names if name.endswith(suffixes) and (root / name).is_file()})


def room(name):
    """A file's folder within its layer: engine/comm/nccl/link.h is of engine/comm."""
    return "/".join(name.split("/")[:-1][:2])


def includes(root):
    """{file: the files of ours that it includes}, but the headers that only name a layer's namespace."""
    return {name: re.findall(r'^#include "((?:%s)/(?!namespace\.h)[^"]+)"' % "|".join(LAYERS),
                             (root / name).read_text(), re.M)
            for name in sources(root, LAYERS, CPP)}


def cycles(graph):
    """Sets of several nodes of which each leads to each other."""
    def reached(start):
        seen, left = set(), [start]
        while left:
            for following in graph.get(left.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    left.append(following)
        return seen
    beyond = {node: reached(node) for node in graph}
    return {frozenset(other for other in beyond[node] if node in beyond.get(other, ())) | {node}
            for node in graph if node in beyond[node]}


def folder_cycle(files, layer):
    """Folders in the largest cycle of a layer's; 0: there is none."""
    graph = defaultdict(set)
    for name, included in files.items():
        if name.startswith(layer + "/"):
            graph[room(name)] |= {room(other) for other in included} - {room(name)}
    return max((len(cycle) for cycle in cycles(graph)), default=0)


def one_user(files, layers):
    """Headers that a single file includes besides their own source."""
    users = defaultdict(set)
    for name, included in files.items():
        for header in included:
            if pathlib.Path(name).with_suffix("") != pathlib.Path(header).with_suffix(""):
                users[header].add(name)
    return [name for name in files if name.startswith(layers) and name.endswith((".h", ".cuh"))
            and len(users[name]) == 1]


def comments(text):
    """First line of each documentation comment."""
    before = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("///") and not line.startswith("///<") and not re.match("///(?!<)", before):
            yield line.removeprefix("///").lstrip()
        before = line


def headless(root, folders):
    """(comments whose first word is no head, all)"""
    all_of_them = [line for name in sources(root, folders, CPP) for line in comments((root / name).read_text())]
    return sum(bool(HEADLESS.match(line)) for line in all_of_them), len(all_of_them)


def lines(root, folders):
    return sum((root / name).read_text().count("\n") for name in sources(root, folders, CODE))


def counts(root):
    files = includes(root)
    found = {
        "code_lines": lines(root, LAYERS),
        "code_lines_kernels_engine": lines(root, LOWER),
        "test_lines": lines(root, ("tests",)),
        "test_lines_kernels_engine": lines(root, TESTS_OF_LOWER),
        "code_files": len(sources(root, LAYERS, CPP)),
        "one_user_headers": len(one_user(files, LAYERS)),
        "one_user_headers_kernels_engine": len(one_user(files, LOWER)),
        "headless_comments": headless(root, (*LAYERS, "tests"))[0],
        "headless_comments_kernels_engine": headless(root, LOWER)[0],
    }
    found |= {f"folder_cycle_{layer}": folder_cycle(files, layer) for layer in ("kernels", "engine", "harness")}
    examples = sorted((root / "tests/examples").glob("*.patch"))
    return found | {f"example_files_{example.stem}": example.read_text().count("\ndiff --git ") +
                    example.read_text().startswith("diff --git ") for example in examples}


def subject_fault(subject):
    """Why a commit's subject is not as it should be; empty where it is."""
    if len(subject) > 72:
        return f"has {len(subject)} characters, at most 72 are allowed"
    if subject.split(" ")[0].lower() not in VERBS:
        return f"begins with \"{subject.split(' ')[0]}\", which is no verb that VERBS of scripts/check-budget.py has"
    return ""


def raised(before, after):
    """Names of budgets that grew and have no reason under [raised] that names the new number."""
    reasons = after.get("raised", {})
    return [name for name, most in after["most"].items()
            if most > before["most"].get(name, most) and not str(reasons.get(name, "")).startswith(f"{most}: ")]


def commit_faults(root, since):
    """What is wrong with the commits after `since`, a line each; nothing where history does not reach it."""
    known = subprocess.run(["git", "-C", root, "merge-base", "--is-ancestor", since, "HEAD"], capture_output=True)
    if known.returncode != 0:
        return
    for line in git("log", "--no-merges", "--format=%h %s", f"{since}..HEAD", root=root).splitlines():
        commit, subject = line.split(" ", 1)
        if fault := subject_fault(subject):
            yield f"the subject of {commit} {fault}: {subject}"
    for commit in git("log", "--format=%h", f"{since}..HEAD", "--", BUDGET, root=root).split():
        versions = [subprocess.run(["git", "-C", root, "show", f"{at}:{BUDGET}"], capture_output=True, text=True)
                    for at in (commit + "^", commit)]
        if any(version.returncode for version in versions):
            continue
        for name in raised(*(tomllib.loads(version.stdout) for version in versions)):
            yield f"{commit} raises {name} in {BUDGET}, and [raised] does not say why: {name} = \"NUMBER: reason\""


def lower(root, found):
    text = (root / BUDGET).read_text()
    for name, count in found.items():
        text = re.sub(rf"^({name} = )(\d+)$", lambda m, count=count: m[1] + str(min(count, int(m[2]))), text,
                      flags=re.M)
    (root / BUDGET).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--show", action="store_true", help="print every count beside its budget")
    options = parser.parse_args()
    found = counts(ROOT)
    if options.lower:
        lower(ROOT, found)
    budget = tomllib.loads((ROOT / BUDGET).read_text())
    faults = [f"{name} is {count}, at most {budget['most'].get(name, 'none')} is allowed by {BUDGET}: make it smaller, "
              "or raise it there with the reason under [raised]"
              for name, count in found.items() if count > budget["most"].get(name, -1)]
    faults += commit_faults(ROOT, budget["subjects_since"])
    if options.show:
        for name, count in found.items():
            print(f"{name:36} {count:7} of {budget['most'].get(name, 0):7}")
    for fault in faults:
        print(f"check-budget.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
