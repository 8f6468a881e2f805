#!/usr/bin/env bash
# Everything worth keeping from one NVIDIA GPU, in under eight minutes:
#   bench/gpu.sh BUILD OUT [GROUP...]
# BUILD is a built folder (scripts/build.sh release with CUDA); OUT gets at most eight files. Parts go on
# after one that failed, and get no more time than is left; a summary comes last, and the exit status
# says whether all passed. All groups, or those that are named, which have the time for themselves then:
#   correctness
#     tests.txt          device tests: every operation against float64, masks, training
#     sanitizer.txt      compute-sanitizer over the operation tests: four tools
#   speed
#     peak.json          GEMM rates, copy bandwidth, launch overhead: frugal peak
#     steps.jsonl        GPT-2 steps against PyTorch, eager and compiled, by turns
#     memory-bound.json  every memory-bound operation against a copy, by turns
#   papers
#     records.jsonl      training steps, one of 60,000 tokens among them; tables and figures at full size
#     reproduction.jsonl these as cells and claims, a paper in each line
#   summary.txt
set -uo pipefail

usage() {
  echo "gpu.sh: ${1:+$1; }usage: bench/gpu.sh BUILD OUT [correctness|speed|papers ...]" >&2
  exit 2
}
(($# >= 2)) || usage
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 out=$2
groups=" ${*:3} "
[[ $groups != '  ' ]] || groups=' correctness speed papers '
for group in $groups; do
  case $group in
    correctness | speed | papers) ;;
    *) usage "no group $group" ;;
  esac
done
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

wanted() { [[ $groups == *" $1 "* ]]; }

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
  part "$name" 60 "$frugal" measure --on cuda --out "$work/records" "$@" >"$work/measure.txt"
  keep_records
}

keep_records() { # of all that was run so far
  [[ ! -e $work/records/records.jsonl ]] || cp "$work/records/records.jsonl" "$out/"
}

reproduce() { # PAPER SECONDS BUDGET
  part "$1" "$2" "$frugal" reproduce "$1/*" --on cuda --budget "$3" --out "$work/records" \
    --format json >"$work/reproduction.json"
  # What was interrupted has not printed all.
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))' <"$work/reproduction.json" \
    >>"$out/reproduction.jsonl" 2>/dev/null
  keep_records
}

: >"$out/summary.txt"
{
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  "$frugal" --version
} 2>&1 | note

tests() { part tests 110 "$build/tests/tests_cuda" >"$out/tests.txt" 2>&1; }

sanitizers() {
  : >"$out/sanitizer.txt"
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer: not found" | note
    return
  fi
  # Few and small settings: a tool slows a kernel down a hundred times. Products are the library's.
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
    part "$tool" 40 env FRUGAL_TEST_SMALL=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --print-limit 20 "$build/tests/tests_cuda" \
      --gtest_filter='*OnTheGpu.AgreesWithFloat64/*:-*gemm*' >>"$out/sanitizer.txt" 2>&1
  done
}

beside_pytorch() { # MODEL MICROBATCH
  part "$1 and PyTorch" 90 python3 "$here/gpu/compare_steps.py" "$frugal" --model "$1" \
    --micro-batch "$2" >>"$out/steps.jsonl" 2>"$work/steps.txt"
  note <"$work/steps.txt"
}

training_steps() {
  local recompute
  for recompute in none selective full; do
    measure "gpt2-124m $recompute" --model gpt2-124m --type bf16 --micro-batch 8 --steps 8 \
      --recompute "$recompute"
  done
  measure "gpt-3m, 200 steps" --model gpt-3m --steps 200 --micro-batch 8 --dropout 0 \
    --learning-rate 0.002
}

# As mst2024 trains, at its length on an A100 of 80 GB.
long_sequences() {
  measure "llama3-8b, 60,000 tokens" --model llama3-8b --sequence 60000 --type bf16 \
    --precision pure --recompute full --mlp-chunks paper --head-chunks paper --step-in-backward
}

wanted correctness && tests
if wanted speed; then
  part peak 50 "$frugal" peak --on cuda --format json >"$out/peak.json"
  : >"$out/steps.jsonl"
fi
if wanted papers; then
  : >"$out/reproduction.jsonl"
  training_steps
  reproduce korthikanti2022 110 10
fi
if wanted speed; then
  beside_pytorch gpt2-124m 16
  beside_pytorch gpt2-1.5b 4
  part memory-bound 60 "$build/bench/frugal_bench_compare" memory-bound --on cuda --samples 10 \
    --budget 1 --json "$out/memory-bound.json" >"$work/memory-bound.txt"
fi
wanted correctness && sanitizers
if wanted papers; then
  long_sequences
  reproduce mst2024 120 5
fi

{
  if wanted correctness; then
    tail -n 3 "$out/tests.txt"
    grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/sanitizer.txt"
  fi
  cat "$work/memory-bound.txt"
} 2>/dev/null | note
exit "$failed"
