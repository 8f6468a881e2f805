#!/usr/bin/env bash
# Runs clang-tidy (see .clang-tidy) over our sources and shellcheck over our scripts.
#   scripts/lint.sh           everything, several files at a time (build/lint)
#   scripts/lint.sh FILE...   some files, each alone and also with clang's static analyzer, as
#                             build/debug compiles them
# It configures a preset and builds nothing of it but build_info.h.
# Tests and CUDA's .cu files are left out, and the vectorised kernels are checked for one instruction
# set only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($#)); then
  preset=debug checks=''
else
  # A unit includes the files that it is made of. The analyzer takes most of the time, and
  # the sanitizers look for the same in every test.
  preset=lint checks='-bugprone-suspicious-include,-clang-analyzer-*'
fi
build=build/$preset
scripts/cudnn-frontend.sh
cmake --preset $preset >/dev/null
cmake --build "$build" --target frugal_build_info >/dev/null
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT

python3 - "$build" "$database" "$@" <<'PYTHON'
import json, os, sys

build, target, *chosen = sys.argv[1:]
commands = {}
for command in json.load(open(f"{build}/compile_commands.json")):
    path = os.path.relpath(command["file"])
    # CUDA's own files are nvcc's: this clang does not know its CUDA.
    ours = path.split("/")[0] in ("kernels", "engine", "harness", "experiments", "app", "bench")
    if (ours or "/units/" in path) and not path.endswith(".cu"):
        commands.setdefault(path, command)  # the first of several instruction sets
if unknown := [path for path in chosen if path not in commands]:
    sys.exit(f"lint.sh: not compiled in {build}: {' '.join(unknown)}")
commands = {path: commands[path] for path in chosen or sorted(commands)}
json.dump(list(commands.values()), open(f"{target}/compile_commands.json", "w"))
open(f"{target}/files", "w").write("".join(f"{path}\n" for path in commands))
PYTHON

echo "clang-tidy: $(wc -l <"$database/files") files"
# Its count of hidden warnings of system headers, on stderr, is no news. It has no use for g++'s --param.
xargs -a "$database/files" -n 1 -P "$(nproc)" clang-tidy --quiet --checks="$checks" -p "$database" \
    --extra-arg=-Wno-unused-command-line-argument \
  2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2 || true)

shellcheck ./*.sh scripts/*.sh bench/*.sh .ci/run docs/cluster/frugal.sbatch
