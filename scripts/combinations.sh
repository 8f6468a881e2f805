#!/usr/bin/env bash
# Trains combinations of all that the engine can do, drawn at random, and compares each with the serial run
# (tests/combinations/). Of a combination that differs it prints what it was.
#   scripts/combinations.sh [COUNT [SEED]]     so many (500), from this seed; otherwise from one that it draws
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${1:-500}
seed=${2:-$((RANDOM * 32768 + RANDOM))}
for number in "COUNT:$count" "SEED:$seed"; do
  if ! [[ ${number#*:} =~ ^[1-9][0-9]*$ ]]; then
    echo "combinations.sh: ${number%%:*} is \"${number#*:}\"; it must be a whole number from 1" >&2
    exit 2
  fi
done
scripts/build.sh release tests_engine
echo "combinations.sh: $count combinations, seed $seed"
FRUGAL_COMBINATIONS=$count FRUGAL_SEED=$seed build/release/tests/tests_engine --gtest_filter='Combinations.*'
