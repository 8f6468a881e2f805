#!/usr/bin/env bash
# Runs the tests that the presets asan-ubsan and tsan have.
#   scripts/sanitizers.sh                  all of them
#   scripts/sanitizers.sh PRESET           those of one
#   scripts/sanitizers.sh PRESET NUMBER    the share of them whose turn it is; .ci/run counts commits
# A share is a shard of each test program, and as many of the other tests (FRUGAL_TEST_SHARDS, CMakePresets.json).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(asan-ubsan tsan)
if (($#)); then presets=("$1"); fi
options=()
if (($# > 1)); then
  shards=$(python3 -c 'import json, sys
for preset in json.load(open("CMakePresets.json"))["configurePresets"]:
    if preset["name"] == sys.argv[1]:
        print(preset["cacheVariables"]["FRUGAL_TEST_SHARDS"])' "$1")
  share=$(($2 % shards + 1))
  options=(--label-regex "^shard_$share\$")
  echo "sanitizers.sh: $1, share $share of $shards; scripts/sanitizers.sh runs all"
fi
for preset in "${presets[@]}"; do
  ./test.sh "$preset" "${options[@]}"
done
