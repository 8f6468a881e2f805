#!/usr/bin/env bash
# Runs the tests that the presets asan-ubsan and tsan have.
#   scripts/sanitizers.sh           all of them
#   scripts/sanitizers.sh NUMBER    the share of them whose turn it is; .ci/run gives how many commits there are
# A share is a shard of each test program (FRUGAL_TEST_SHARDS), under both; the last is what has no shards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ((!$#)); then
  ./test.sh asan-ubsan
  exec ./test.sh tsan
fi
shards=$(sed -n 's/.*"FRUGAL_TEST_SHARDS": "\([0-9]*\)".*/\1/p' CMakePresets.json | sort -u)
share=$(($1 % (shards + 1) + 1))
if ((share <= shards)); then
  echo "sanitizers: shard $share of $shards of each test program; scripts/sanitizers.sh runs all"
  ./test.sh asan-ubsan --label-regex "^shard_$share\$"
  ./test.sh tsan --label-regex "^shard_$share\$"
else
  echo "sanitizers: what has no shards; scripts/sanitizers.sh runs all"
  ./test.sh asan-ubsan --label-exclude '^shard_'
fi
