#!/usr/bin/env bash
# Regenerates the tables and figures of all papers on this machine and writes one page of all: out/report.html.
#   ./reproduce.sh [OPTION...]    options of `frugal reproduce`, such as --on virtual or --check
#   ./reproduce.sh --quick        all numbers, held against what is expected; ends with OK or FAILED
# What an earlier run recorded is kept and used. --rerun failed runs what did not end well again, --rerun all everything.
# Exit status: 0 done, else that of the last step that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

papers=(korthikanti2022 pipedream2bw2021 mst2024)
frugal=build/release/frugal
# The system's Python: packages.txt brings matplotlib for it.
python=/usr/bin/python3

quick=''
if [[ ${1:-} == --quick ]]; then
  if (($# > 1)); then
    echo "reproduce.sh: --quick has no options beside it, but there is '$2'" >&2
    exit 2
  fi
  quick=yes
  trap 'echo "FAILED: nothing was compared; what is above says why"' ERR
fi

scripts/install.sh
scripts/build.sh release frugal
if [[ $quick ]]; then
  trap - ERR
  exec "$python" -B scripts/quick_check.py "$frugal"
fi

status=0
regenerate() {  # PAPER OPTION...
  local paper=$1 out=out/$1 ended=0
  shift
  mkdir -p "$out/figures"
  "$frugal" reproduce "$paper/*" --out "$out" --format json "$@" >"$out/$paper.json.part" || ended=$?
  if [[ -s $out/$paper.json.part ]]; then
    mv "$out/$paper.json.part" "$out/$paper.json"
  else
    rm "$out/$paper.json.part"
  fi
  # What is wrong with the options is wrong for all papers, and is said once; a case to run again is of one alone.
  if ((ended == 2)) && [[ " $* " != *" --rerun "* ]]; then exit 2; fi
  if ((ended)); then status=$ended; fi
}

# A case that failed has its place in the results, so the figures and the report are still made.
present() {  # PAPER
  local paper=$1 out=out/$1
  if [[ ! -e $out/$paper.json ]]; then return; fi
  printf '%s\0' plots/"$paper"_*.py |
    MPLBACKEND=Agg xargs -0 -P "$(nproc)" -I PLOT "$python" PLOT "$out" "$out/figures" || status=1
}

# Shows what the program says only where something went wrong.
trace() {  # OPTION...
  local said=out/trace.txt
  "$frugal" trace "$@" --force >"$said" 2>&1 || {
    status=$?
    cat "$said" >&2
  }
  rm "$said"
}

# What plots/mst2024_timeline.py draws: the memory of one step of Llama3-8B, at the length of the
# paper's figure on its machine, and at one of which a step without recomputation needs a larger one.
timelines() {  # TOKENS MACHINE
  local tokens=$1 machine=$2 name
  local -A ways=([standard]="" [recompute]="--recompute full"
    [mini-sequence]="--recompute full --mlp-chunks paper --head-chunks paper"
    [offload]="--recompute full --mlp-chunks paper --head-chunks paper --offload")
  mkdir -p out/mst2024
  for name in "${!ways[@]}"; do
    # shellcheck disable=SC2086  # flags, one word each
    trace --model llama3-8b --sequence "$tokens" --on "virtual:$machine" --type bf16 --precision pure \
      --step-in-backward ${ways[$name]} --memory-file "out/mst2024/timeline-$tokens-$name.json"
  done
}

# What the page draws besides: two batches of a pipeline of eight stages, by three schedules.
pipelines() {  # MACHINE
  local schedule
  mkdir -p out/pipedream2bw2021
  for schedule in gpipe 1f1b 2bw; do
    trace --model gpt-2.2b --on "virtual:$1" --type bf16 --pipeline-parallel 8 --schedule "$schedule" \
      --micro-batch 1 --microbatches 8 --recompute full --clip 0 --steps 2 \
      --out-file "out/pipedream2bw2021/pipeline-$schedule.json"
  done
}

# How good a paper's machine is (docs/calibration.md), as plots/korthikanti2022_calibration.py draws it.
calibrate() {  # PAPER MACHINE
  local result=out/$1/calibration-$2.json
  mkdir -p "out/$1"
  "$frugal" calibrate --hardware "$2" --held-out --sensitivity --published --format json >"$result.part" || {
    status=$?
    rm "$result.part"
    return
  }
  mv "$result.part" "$result"
}

# What takes a paper's program from frugal's number to its own (frugal explain), as plots/explain.py draws it.
explain() {  # PAPER ARTIFACT-OR-OPTION...
  local paper=$1 result=out/$1/explain.json said=out/$1/explain.txt
  shift
  mkdir -p "out/$paper/figures"
  if "$frugal" explain "$@" --format json >"$result.part" 2>"$said"; then
    mv "$result.part" "$result"
    MPLBACKEND=Agg "$python" plots/explain.py "$result" "out/$paper/figures" "$paper-explain" || status=1
  else
    status=$?
    cat "$said" >&2
    rm "$result.part"
  fi
  rm "$said"
}

for paper in "${papers[@]}"; do
  regenerate "$paper" "$@"
done
timelines 4096 a100-80gb
timelines 16384 h200-hgx
pipelines v100-p3-16xlarge
calibrate korthikanti2022 a100-selene
explain mst2024 mst2024/tables8-11 mst2024/figure11 --column peak
explain pipedream2bw2021 pipedream2bw2021/figure7 --column "batch 64"
for paper in "${papers[@]}"; do
  present "$paper"
done
recorded=()
for paper in "${papers[@]}"; do
  if [[ -e out/$paper/records.jsonl ]]; then recorded+=("out/$paper"); fi
done
if ((${#recorded[@]})); then "$frugal" report "${recorded[@]}" --out out --force || status=$?; fi

echo "Figures:"
for paper in "${papers[@]}"; do
  find "out/$paper" -type f \( -name '*.png' -o -name '*.svg' \)
done | sort
echo "The report of all papers, for a browser and as Markdown:"
find out -maxdepth 1 -name 'report.*' | sort
exit "$status"
