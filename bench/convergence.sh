#!/usr/bin/env bash
# Pre-training with PipeDream-2BW beside a schedule with a flush, in a pipeline of two stages: the
# losses of figure 5 of pipedream2bw2021, and table 1's question whether the model is as good at
# something else, at the size of a small machine. GPT and BERT, three seeds, the same
# hyperparameters for all; a third way predicts the weights, to make up for 2BW's delay. GPT also
# with other learning rates, because how much a delay matters depends on them.
#   bench/convergence.sh BOOK OUT       a text (scripts/book.sh), a folder for records.jsonl
# What was recorded before is kept; the same command goes on after an interruption. Draw it with
# plots/training_pipedream2bw2021.py OUT FIGURES. FRUGAL names another program than the one built here.
set -euo pipefail

book=${1:?"usage: bench/convergence.sh BOOK OUT"}
out=${2:?"usage: bench/convergence.sh BOOK OUT"}
frugal=${FRUGAL:-$(dirname "${BASH_SOURCE[0]}")/../build/release/frugal}

train() {  # MODEL STEPS LEARNING_RATE SEED OPTION...
  "$frugal" measure --on cpu --model "$1" --hidden 128 --heads 4 --sequence 64 --dropout 0 \
    --text "$book" --pipeline-parallel 2 --micro-batch 8 --microbatches 4 --steps "$2" \
    --eval-every $(($2 / 10)) --learning-rate "$3" --clip 0 --last-words 2000 --seed "$4" \
    --out "$out" --format json "${@:5}" >/dev/null
}

for case in "gpt-3m 1000 0.001" "bert-3m 1500 0.001" "gpt-3m 1000 0.0003" "gpt-3m 1000 0.003"; do
  read -r model steps rate <<<"$case"
  for seed in 1 2 3; do
    train "$model" "$steps" "$rate" "$seed" --schedule 1f1b
    train "$model" "$steps" "$rate" "$seed" --schedule 2bw
    train "$model" "$steps" "$rate" "$seed" --schedule 2bw --weight-prediction 1
  done
done
