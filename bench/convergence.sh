#!/usr/bin/env bash
# Pre-training losses of PipeDream-2BW beside those of a schedule with a flush, in a pipeline of two
# stages: figure 5 of pipedream2bw2021 at the size of a small machine. GPT and BERT, three seeds, the
# same hyperparameters for both schedules.
#   bench/convergence.sh BOOK OUT [STEPS]      a text (scripts/book.sh), a folder for records.jsonl
# What was recorded before is kept; the same command goes on after an interruption. Draw it with
# plots/pipedream2bw2021_figure5.py OUT FIGURES.
set -euo pipefail

book=${1:?"usage: bench/convergence.sh BOOK OUT [STEPS]"}
out=${2:?"usage: bench/convergence.sh BOOK OUT [STEPS]"}
steps=${3:-600}
frugal=$(dirname "${BASH_SOURCE[0]}")/../build/release/frugal

for seed in 1 2 3; do
  for model in gpt-3m bert-3m; do
    for schedule in 1f1b 2bw; do
      "$frugal" measure --on cpu --model "$model" --hidden 128 --heads 4 --text "$book" \
        --pipeline-parallel 2 --schedule "$schedule" --micro-batch 4 --microbatches 4 \
        --steps "$steps" --eval-every $((steps / 12)) --learning-rate 0.002 --clip 0 \
        --seed "$seed" --out "$out" --format json >/dev/null
    done
  done
done
