#!/usr/bin/env bash
# Makes results/virtual again but for h200-hgx/ and h100-dgx/, whose records are of the commit that predicted them,
# and the tables and figures in docs/ that are made of it. Everything runs on virtual machines, so that
# it is the same wherever it runs; it takes about 20 minutes on two cores.
#   bench/virtual_results.sh [PROGRAM]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
frugal=$(realpath "${1:-$here/build/release/frugal}")
results=$here/results/virtual
# The system's Python: packages.txt brings matplotlib for it.
python=/usr/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
if [[ ! -x $frugal ]]; then
  echo "virtual_results.sh: $frugal not found; first run scripts/build.sh release" >&2
  exit 2
fi
"$frugal" --version >&2
"$python" -c 'import matplotlib'

made() { # FILE COMMAND...: replaces the file once the command has made all of it
  local file=$1
  shift
  echo "$file" >&2
  local status=0
  "$@" >"$work/made" 2>"$work/said" || status=$?
  if ((status != 0)); then
    cat "$work/said" >&2
    echo "virtual_results.sh: status $status: $*" >&2
    exit 1
  fi
  mv "$work/made" "$results/$file"
}

for file in experiments/*/paper.json; do
  paper=$(basename "$(dirname "$file")")
  made "$paper.json" "$frugal" reproduce "$paper" --on virtual --out "$work/$paper" --format json
done
made explain-korthikanti2022-table5.json "$frugal" explain korthikanti2022/table5 --format json
for file in "$results"/calibration-*.json; do
  machine=$(basename "$file" .json)
  machine=${machine#calibration-}
  made "calibration-$machine.json" "$frugal" calibrate --hardware "$machine" --held-out \
    --sensitivity --published --format json
done
made plan.md "$frugal" bench plan --out "$work/plan" --format markdown
made plan-decisions.md bench/plan_decisions.py "$frugal"
made long-sequences.json bench/long_sequences.py "$frugal"
made two-dimensions.json bench/two_dimensions.py "$frugal"
made recompute-frontier.json bench/recompute_frontier.py "$frugal"
made schedule-family.json bench/schedule_family.py "$frugal"
made planned-training.json bench/planned_training.py "$frugal"
bench/modern_hardware.sh "$results" "$frugal"
bench/step_work.py "$work/step-work" --frugal "$frugal" >/dev/null
rm -rf "$results/step-work"
mv "$work/step-work" "$results/"
bench/published.sh "$frugal"

"$python" plots/paper_tables.py "$results" docs/*.md
"$python" plots/modern_hardware_tables.py "$results" docs/modern-hardware.md
"$python" plots/document_figures.py "$frugal"
