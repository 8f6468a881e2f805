#!/usr/bin/env bash
# Runs the tests that the presets asan-ubsan and tsan have.
#   scripts/sanitizers.sh           all of them
#   scripts/sanitizers.sh NUMBER    the share of them whose turn it is; .ci/run gives how many commits there are
# A share is a shard of each test program, and as many of the other tests (FRUGAL_TEST_SHARDS, CMakePresets.json).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

options=()
if (($#)); then
  shards=$(python3 -c 'import json
for preset in json.load(open("CMakePresets.json"))["configurePresets"]:
    if preset["name"] == "asan-ubsan":
        print(preset["cacheVariables"]["FRUGAL_TEST_SHARDS"])')
  share=$(($1 % shards + 1))
  options=(--label-regex "^shard_$share\$")
  echo "sanitizers.sh: share $share of $shards; scripts/sanitizers.sh runs all"
fi
for preset in asan-ubsan tsan; do
  ./test.sh "$preset" "${options[@]}"
done
