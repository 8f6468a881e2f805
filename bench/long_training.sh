#!/usr/bin/env bash
# Training a small Llama on sequences of 8192 bytes of a book, as it is and in mini-sequences
# (mst2024), on one rank and with Ulysses on two: what is saved must not change what is learned. One
# more run with another seed, which also draws other parts of the text, says how far apart curves are
# that do differ.
#   bench/long_training.sh BOOK OUT       a text (scripts/book.sh), a folder for records.jsonl
# What was recorded before is kept; the same command goes on after an interruption. Draw it with
# plots/training_mst2024.py OUT FIGURES. FRUGAL names another program than the one built here.
set -euo pipefail

book=${1:?"usage: bench/long_training.sh BOOK OUT"}
out=${2:?"usage: bench/long_training.sh BOOK OUT"}
frugal=${FRUGAL:-$(dirname "${BASH_SOURCE[0]}")/../build/release/frugal}

train() {  # SEED OPTION...
  "$frugal" measure --on cpu --model llama-3m --layers 2 --sequence 8192 --text "$book" --clip 0 \
    --steps 200 --eval-every 20 --seed "$1" --out "$out" --format json "${@:2}" >/dev/null
}
# Parts of the MLP have as many tokens as the hidden size; a vocabulary of 256 bytes has one part by
# the same rule, so that the output head's number is chosen.
mini_sequences=(--recompute full --mlp-chunks paper --head-chunks 8 --step-in-backward)

train 1
train 1 "${mini_sequences[@]}"
train 1 "${mini_sequences[@]}" --context-parallel 2
train 2
