#!/usr/bin/env bash
# Everything worth keeping from one NVIDIA GPU, in under eight minutes:
#   bench/gpu.sh BUILD OUT
# BUILD is a built folder (scripts/build.sh release with CUDA); OUT gets at most eight files. Parts go
# on after one that failed; a summary comes last, and the exit status says whether all passed.
#   tests.txt          device tests: every operation against float64, masks, training
#   sanitizer.txt      compute-sanitizer over the operation tests: four tools
#   peak.json          GEMM rates, copy bandwidth, launch overhead: frugal peak
#   memory-bound.json  every memory-bound operation against a copy, by turns
#   records.jsonl      tables 2 and 4 and figure 7 at full size, training steps
#   reproduction.json  the same as cells and claims
#   steps.jsonl        GPT-2 steps against PyTorch, eager and compiled, by turns
#   summary.txt
set -uo pipefail

if (($# != 2)); then
  echo "usage: bench/gpu.sh BUILD OUT" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 out=$2
frugal=$build/frugal
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

part() {  # NAME SECONDS COMMAND...: at most so many seconds; what it prints is the caller's
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  timeout --signal=INT --kill-after=10 "$limit" "$@" || status=$?
  ((status == 0)) || failed=1
  printf '%-22s status %3d %5d s\n' "$name" "$status" "$((SECONDS - start))" | tee -a "$out/summary.txt" >&2
}

: >"$out/summary.txt"
{
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  "$frugal" --version
} >>"$out/summary.txt" 2>&1

part tests 90 "$build/tests/tests_cuda" >"$out/tests.txt" 2>&1

if command -v compute-sanitizer >/dev/null; then
  # A smaller part of the operation tests: a tool slows a kernel down a hundred times.
  for tool in memcheck racecheck initcheck synccheck; do
    part "$tool" 40 env FRUGAL_TEST_SMALL=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --print-limit 20 "$build/tests/tests_cuda" --gtest_filter='*OnTheGpu.AgreesWithFloat64*' \
      >>"$out/sanitizer.txt" 2>&1
  done
else
  echo "compute-sanitizer: not found" >>"$out/summary.txt"
fi

part peak 60 "$frugal" peak --on cuda --format json >"$out/peak.json"
part memory-bound 60 "$build/bench/frugal_bench_compare" memory-bound --on cuda --samples 10 \
  --budget 1 --json "$out/memory-bound.json" >"$work/memory-bound.txt"
part reproduce 120 "$frugal" reproduce 'korthikanti2022/*' --on cuda --out "$work/records" \
  --format json >"$out/reproduction.json"
for recompute in none selective full; do
  part "gpt2-124m $recompute" 20 "$frugal" measure --model gpt2-124m --on cuda --type bf16 \
    --micro-batch 8 --steps 8 --recompute "$recompute" --out "$work/records" >"$work/measure.txt"
done
part "gpt-3m, 200 steps" 30 "$frugal" measure --model gpt-3m --on cuda --steps 200 --micro-batch 8 \
  --dropout 0 --learning-rate 0.002 --out "$work/records" >"$work/measure.txt"
cp "$work/records/records.jsonl" "$out/records.jsonl"

for model in 'gpt2-124m 16' 'gpt2-1.5b 4'; do
  read -r name batch <<<"$model"
  part "$name and PyTorch" 110 python3 "$here/gpu/compare_steps.py" "$frugal" --model "$name" \
    --micro-batch "$batch" >>"$out/steps.jsonl" 2>>"$out/summary.txt"
done

{
  tail -n 3 "$out/tests.txt"
  grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/sanitizer.txt"
  cat "$work/memory-bound.txt"
} >>"$out/summary.txt" 2>/dev/null
cat "$out/summary.txt"
exit "$failed"
