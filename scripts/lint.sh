#!/usr/bin/env bash
# Runs clang-tidy (see .clang-tidy) over our sources and shellcheck over our scripts.
#   scripts/lint.sh [BUILD] [FILE...]   BUILD is a built folder, build/release if not given
# Tests and CUDA's .cu files are left out, and the vectorised kernels are checked for one instruction
# set only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/release}
if [[ ! -f $build/compile_commands.json ]]; then
  echo "lint.sh: $build/compile_commands.json not found; first run scripts/build.sh release" >&2
  exit 2
fi
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT

python3 - "$build/compile_commands.json" "$database/compile_commands.json" "${@:2}" <<'PYTHON'
import json, os, sys

source, target, *chosen = sys.argv[1:]
commands = {}
for command in json.load(open(source)):
    path = os.path.relpath(command["file"])
    # CUDA's own files are nvcc's: this clang does not know its CUDA.
    if path.split("/")[0] in ("kernels", "engine", "harness", "experiments", "bench") and not path.endswith(".cu"):
        commands.setdefault(path, command)  # the first of several instruction sets
if unknown := [path for path in chosen if path not in commands]:
    sys.exit(f"lint.sh: not compiled in this build: {' '.join(unknown)}")
commands = {path: commands[path] for path in chosen or sorted(commands)}
json.dump(list(commands.values()), open(target, "w"))
open(os.path.join(os.path.dirname(target), "files"), "w").write("".join(f"{p}\n" for p in commands))
PYTHON

[[ -s $database/files ]] || { echo "lint.sh: no sources in $build" >&2; exit 2; }
echo "clang-tidy: $(wc -l <"$database/files") files"
# Its count of hidden warnings of system headers, on stderr, is no news.
xargs -a "$database/files" -n 1 -P "$(nproc)" clang-tidy --quiet -p "$database" \
  2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2 || true)

shellcheck ./*.sh scripts/*.sh .ci/run
