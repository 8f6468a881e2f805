#!/usr/bin/env bash
# Builds the fuzzer (tests/fuzz, preset fuzz) and runs targets with it, as many at a time as there are processors, or
# as JOBS says.
#   scripts/fuzz.sh [SECONDS [TARGET...]]     each target for so long (60), or those that are named
#   scripts/fuzz.sh SECONDS --share NUMBER    a third of them: whose turn it is; .ci/run counts commits
# Inputs that reach something new are kept in build/fuzz/corpus/TARGET and are where the next run begins. An input that
# is a finding is kept in build/fuzz/found/TARGET; then the exit status is 1. Mended, it goes to
# tests/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
shift || true
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz.sh: SECONDS is \"$seconds\"; it must be a whole number from 1" >&2
  exit 2
fi
jobs=${JOBS:-$(nproc)}
if ! [[ $jobs =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz.sh: JOBS is \"$jobs\"; it must be a whole number from 1" >&2
  exit 2
fi
mapfile -t targets < <(ls tests/fuzz/corpus)
if [[ ${1:-} == --share ]]; then
  shares=3
  share=$((${2:?"usage: scripts/fuzz.sh SECONDS --share NUMBER"} % shares))
  echo "fuzz.sh: share $((share + 1)) of $shares; scripts/fuzz.sh runs all"
  mapfile -t targets < <(printf '%s\n' "${targets[@]}" | awk -v shares=$shares -v share=$share 'NR % shares == share')
elif (($#)); then
  targets=("$@")
fi
for target in "${targets[@]}"; do
  if ! [[ -d tests/fuzz/corpus/$target ]]; then
    echo "fuzz.sh: there is no target \"$target\"; there are: $(cd tests/fuzz/corpus && echo *)" >&2
    exit 2
  fi
done

scripts/build.sh fuzz
folder=$PWD/build/fuzz
mkdir -p "$folder/log" "$folder/scratch"

run() {  # TARGET
  local own=$folder/corpus/$1 found=$folder/found/$1
  mkdir -p "$own" "$found"
  FRUGAL_FUZZ=$1 TMPDIR=$folder/scratch FRUGAL_CACHE='' "$folder/tests/fuzz/frugal_fuzz" \
    -max_total_time="$seconds" -timeout=10 -report_slow_units=11 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$found/" \
    "$own" "tests/fuzz/corpus/$1" >"$folder/log/$1" 2>&1
}

status=0
report() {  # TARGET STATUS
  local log=$folder/log/$1 runs covered found
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  printf '%-20s %10s executions %8s edges  %s\n' "$1" "${runs:-?}" "${covered:-?}" "${found:-nothing found}"
  if (($2)); then
    status=1
    grep -E -m 1 -A 12 'ERROR:|runtime error:|what\(\)' "$log" >&2 || tail -n 20 "$log" >&2
  fi
}

declare -A running=()
finish_one() {
  local pid code=0
  wait -n -p pid "${!running[@]}" || code=$?
  report "${running[$pid]}" "$code"
  unset "running[$pid]"
}
for target in "${targets[@]}"; do
  ((${#running[@]} < jobs)) || finish_one
  run "$target" &
  running[$!]=$target
done
while ((${#running[@]})); do finish_one; done
exit "$status"
