#!/usr/bin/env bash
# Writes what plots/mst2024_timeline.py draws: the memory of one step of Llama3-8B in each of figure 11's ways, at the
# length of the figure on the paper's machine, and at one of which a step without mini-sequences needs a larger one.
#   bench/timelines.sh FOLDER [PROGRAM]     makes FOLDER/timeline-TOKENS-NAME.json
set -euo pipefail

folder=${1:?"usage: bench/timelines.sh FOLDER [PROGRAM]"}
frugal=${2:-$(dirname "${BASH_SOURCE[0]}")/../build/release/frugal}
# The standard keeps gradients until the backward pass ends, as the cell of figure 11 does (docs/mst2024.md).
declare -A ways=([standard]="--recompute full" [recompute]="--recompute full --step-in-backward"
  [mini-sequence]="--recompute full --step-in-backward --mlp-chunks paper --head-chunks paper"
  [offload]="--recompute full --step-in-backward --mlp-chunks paper --head-chunks paper --offload")

mkdir -p "$folder"
for place in "4096 a100-80gb" "16384 h200-hgx"; do
  read -r tokens machine <<<"$place"
  for name in "${!ways[@]}"; do
    # shellcheck disable=SC2086  # flags, one word each
    "$frugal" trace --model llama3-8b --sequence "$tokens" --on "virtual:$machine" --type bf16 --precision pure \
      ${ways[$name]} --memory-file "$folder/timeline-$tokens-$name.json" --force
  done
done
