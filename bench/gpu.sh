#!/usr/bin/env bash
# Everything worth keeping from one NVIDIA GPU, in under eight minutes:
#   bench/gpu.sh BUILD OUT
# BUILD is a built folder (scripts/build.sh release with CUDA); OUT gets eight files. Parts go on after
# one that failed, and get no more time than is left; a summary comes last, and the exit status says
# whether all passed.
#   summary.txt
#   tests.txt          device tests: every operation against float64, masks, training
#   peak.json          GEMM rates, copy bandwidth, launch overhead: frugal peak
#   records.jsonl      training steps; tables 2 and 4 and figure 7 at full size
#   reproduction.json  these tables as cells and claims
#   steps.jsonl        GPT-2 steps against PyTorch, eager and compiled, by turns
#   memory-bound.json  every memory-bound operation against a copy, by turns
#   sanitizer.txt      compute-sanitizer over the operation tests: four tools
set -uo pipefail

if (($# != 2)); then
  echo "usage: bench/gpu.sh BUILD OUT" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 out=$2
frugal=$build/frugal
readonly deadline=470 # seconds from the start
PATH=$PATH:/usr/local/cuda/bin
exec 3>&2 # where the summary goes beside its file, whatever a part redirects

if ! "$frugal" --version >/dev/null; then
  echo "gpu.sh: $frugal does not start; libraries that were not found:" >&2
  ldd "$frugal" 2>/dev/null | grep 'not found' >&2
  exit 2
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

note() { tee -a "$out/summary.txt" >&3; }

part() { # NAME SECONDS COMMAND...: at most so many seconds
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  ((deadline - SECONDS < limit)) && limit=$((deadline - SECONDS))
  if ((limit < 5)); then
    failed=1
    printf '%-26s no time left\n' "$name" | note
    return
  fi
  timeout --signal=INT --kill-after=10 "$limit" "$@" || status=$?
  ((status == 0)) || failed=1
  printf '%-26s status %3d %5d s\n' "$name" "$status" "$((SECONDS - start))" | note
}

measure() { # NAME OPTION...
  local name=$1
  shift
  part "$name" 30 "$frugal" measure --on cuda --out "$work/records" "$@" >"$work/measure.txt"
}

: >"$out/summary.txt"
{
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  "$frugal" --version
} 2>&1 | note

part tests 110 "$build/tests/tests_cuda" >"$out/tests.txt" 2>&1
part peak 50 "$frugal" peak --on cuda --format json >"$out/peak.json"
for recompute in none selective full; do
  measure "gpt2-124m $recompute" --model gpt2-124m --type bf16 --micro-batch 8 --steps 8 \
    --recompute "$recompute"
done
measure "gpt-3m, 200 steps" --model gpt-3m --steps 200 --micro-batch 8 --dropout 0 \
  --learning-rate 0.002
part reproduce 110 "$frugal" reproduce 'korthikanti2022/*' --on cuda --budget 10 \
  --out "$work/records" --format json >"$out/reproduction.json"
cp "$work/records/records.jsonl" "$out/records.jsonl"

for model in 'gpt2-124m 16' 'gpt2-1.5b 4'; do
  read -r name batch <<<"$model"
  part "$name and PyTorch" 90 python3 "$here/gpu/compare_steps.py" "$frugal" --model "$name" \
    --micro-batch "$batch" >>"$out/steps.jsonl" 2>"$work/steps.txt"
  note <"$work/steps.txt"
done

part memory-bound 60 "$build/bench/frugal_bench_compare" memory-bound --on cuda --samples 10 \
  --budget 1 --json "$out/memory-bound.json" >"$work/memory-bound.txt"

if command -v compute-sanitizer >/dev/null; then
  # Few and small settings: a tool slows a kernel down a hundred times. Products are the library's.
  for tool in memcheck racecheck initcheck synccheck; do
    part "$tool" 40 env FRUGAL_TEST_SMALL=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --print-limit 20 "$build/tests/tests_cuda" \
      --gtest_filter='*OnTheGpu.AgreesWithFloat64/*:-*gemm*' >>"$out/sanitizer.txt" 2>&1
  done
else
  echo "compute-sanitizer: not found" | note
fi

{
  tail -n 3 "$out/tests.txt"
  grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/sanitizer.txt"
  cat "$work/memory-bound.txt"
} 2>/dev/null | note
exit "$failed"
