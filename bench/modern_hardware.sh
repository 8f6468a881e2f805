#!/usr/bin/env bash
# The papers' techniques on machines they did not have: clusters of H100, H200 and B200, up to 16,384
# GPUs (docs/modern-hardware.md). Everything is executed on virtual machines, so that the numbers are
# the same wherever this runs; none of these machines is calibrated.
#   bench/modern_hardware.sh OUT [PROGRAM]       OUT gets modern-hardware.jsonl; about two minutes
# Draw it with plots/modern_hardware.py OUT FIGURES. A line has a case: its set, what it is called
# there, the model, the machine, the options of `frugal measure` and what the record says. One that
# does not fit is run again on the same machine with memory without end, for what it would need.
set -euo pipefail

out=${1:?"usage: bench/modern_hardware.sh OUT [PROGRAM]"}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
frugal=${2:-$here/../build/release/frugal}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
"$frugal" --version >/dev/null

# The machines as they are studied, $work/NAME.json, and what was changed in which, in $work/raw.
python3 "$here/modern_hardware.py" machines "$here/../hardware" "$work" >"$work/raw"

# Of Grattafiori et al. 2024 (arXiv:2407.21783), table 3. 405B gets two layers more than its 126, so
# that 16 stages divide them.
llama() { # NAME LAYERS HIDDEN HEADS INTERMEDIATE
  mkdir "$work/$1"
  cat >"$work/$1/config.json" <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
 "num_hidden_layers": $2, "hidden_size": $3, "num_attention_heads": $4, "num_key_value_heads": 8,
 "intermediate_size": $5, "vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 500000.0,
 "tie_word_embeddings": false}
JSON
}
llama llama3-70b 80 8192 64 28672
llama llama3-405b-128-layers 128 16384 128 53248

execute() { # MODEL MACHINE OPTION...: 0 or 3, out of memory; its record is in $work/records
  local model=$1 machine=$2 status=0
  shift 2
  [[ -d $work/$model ]] && model=$work/$model
  rm -rf "$work/records"
  "$frugal" measure --model "$model" --on "virtual:$work/$machine.json" --type bf16 \
    --out "$work/records" --format json "$@" >"$work/said" 2>&1 || status=$?
  ((status == 0 || status == 3)) || {
    cat "$work/said" >&2
    echo "modern_hardware.sh: status $status: --model $model --on $machine $*" >&2
    exit 1
  }
  return "$status"
}

measure() { # SET CASE MODEL MACHINE OPTION...: a line of $work/raw, tab-separated
  local set=$1 name=$2 model=$3 machine=$4 status=0
  shift 4
  execute "$model" "$machine" "$@" || status=$?
  {
    printf 'measure\t%s\t%s\t%s\t%s\t%s\t' "$set" "$name" "$model" "$machine" "$*"
    tr -d '\n' <"$work/records/records.jsonl"
    if ((status == 3)); then
      execute "$model" "$machine-roomy" "$@"
      printf '\t'
      tr -d '\n' <"$work/records/records.jsonl"
    fi
    printf '\n'
  } >>"$work/raw"
}

plan() { # MODEL MACHINE DEVICES BATCH
  local model=$1
  [[ -d $work/$model ]] && model=$work/$model
  {
    printf 'plan\t%s\t%s\t%s\t%s\t' "$1" "$2" "$3" "$4"
    "$frugal" plan --model "$model" --hardware "$work/$2.json" --devices "$3" --batch "$4" \
      --schedule 1f1b --attention fused --context-parallel 1 --recompute-modules core-attention \
      --recompute-layers all --offload-modules none --shard none --stage-layers equal --within 1.5 \
      --rows 1 --execute 1 --format json | tr -d '\n'
    printf '\n'
  } >>"$work/raw"
}

machines=(a100-no-software h100-dgx h200-hgx b200-dgx)
declare -A techniques=(
  ["full"]="--recompute full"
  ["full + SP"]="--recompute full --sequence-parallel"
  ["selective"]="--recompute selective"
  ["selective + SP"]="--recompute selective --sequence-parallel"
  ["none"]=""
  ["none + SP"]="--sequence-parallel"
  ["fused"]="--attention fused"
  ["fused + SP"]="--attention fused --sequence-parallel"
  ["fused + full + SP"]="--attention fused --recompute full --sequence-parallel"
)
names=(full "full + SP" selective "selective + SP" none "none + SP" fused "fused + SP" "fused + full + SP")

# What activations cost: table 3 of korthikanti2022, its sizes and batches, and 175B with longer ones.
for machine in "${machines[@]}"; do
  for shape in "22B 1 4 1 2048" "175B 8 1 64 2048" "530B 35 1 280 2048" "1T 64 1 512 2048" "175B 8 1 64 8192"; do
    read -r model stages size count tokens <<<"$shape"
    for name in "${names[@]}"; do
      # shellcheck disable=SC2086  # flags, one word each
      measure techniques "$name" "$model" "$machine" --sequence "$tokens" --tensor-parallel 8 \
        --pipeline-parallel "$stages" --micro-batch "$size" --microbatches "$count" ${techniques[$name]}
    done
  done
done

# Of what sequence parallelism saves, what smaller messages between stages do: without it too, each tensor-parallel rank
# sends the next stage only its part of what all of them have.
for machine in h100-dgx-sharded b200-dgx-sharded; do
  for shape in "175B 8 64" "530B 35 280" "1T 64 512"; do
    read -r model stages count <<<"$shape"
    for name in fused "fused + SP"; do
      # shellcheck disable=SC2086
      measure techniques "$name" "$model" "$machine" --tensor-parallel 8 --pipeline-parallel "$stages" \
        --microbatches "$count" --program sharded-messages ${techniques[$name]}
    done
  done
done

# What a node of eight GPUs does with its memory: a model small enough to need no pipeline.
for machine in "${machines[@]}"; do
  for ranks in 1 2 4 8; do
    for recompute in none full; do
      measure small "t = $ranks, $recompute" llama3-8b "$machine" --tensor-parallel "$ranks" --sequence-parallel \
        --data-parallel $((8 / ranks)) --microbatches $((16 * ranks)) --recompute "$recompute"
    done
  done
done

# Bubbles: one pipeline, more and more microbatches. Nothing is clipped, as 2BW needs it.
schedules=(1f1b "interleaved --chunks 4" 2bw zb-h1 zb-h2)
for machine in h100-dgx b200-dgx; do
  for parallel in "" "--sequence-parallel"; do
    for count in 8 16 32 64 128; do
      for schedule in "${schedules[@]}"; do
        # shellcheck disable=SC2086
        measure schedules "${schedule%% *}${parallel:+ + SP}" 175B "$machine" --attention fused --tensor-parallel 8 \
          $parallel --pipeline-parallel 8 --microbatches "$count" --schedule $schedule --clip 0 --steps 3
      done
    done
  done
done

# More and more replicas of one pipeline at a batch of 2048 sequences, 16.8 million tokens.
declare -A scaled=([1f1b]="--schedule 1f1b" [interleaved]="--schedule interleaved --chunks 8"
  [2bw]="--schedule 2bw" [zb-h1]="--schedule zb-h1" ["1f1b, full"]="--schedule 1f1b --recompute full"
  ["1f1b, 16-bit sums"]="--schedule 1f1b --narrow-reduction")
for machine in h100-dgx h200-hgx b200-dgx; do
  for replicas in 8 16 32 64 128; do
    for name in 1f1b interleaved 2bw zb-h1 "1f1b, full" "1f1b, 16-bit sums"; do
      # shellcheck disable=SC2086
      measure scale "$name" llama3-405b-128-layers "$machine" --tensor-parallel 8 --sequence-parallel \
        --pipeline-parallel 16 --data-parallel "$replicas" --microbatches $((2048 / replicas)) ${scaled[$name]} \
        --clip 0 --steps 3
    done
  done
done

# What could change the order: each group of the machine's numbers a fifth smaller and larger.
sensitivity() { # MACHINE
  local name schedule common=(--tensor-parallel 8 --pipeline-parallel 8)
  for name in full "selective + SP" "none + SP" fused "fused + SP"; do
    # shellcheck disable=SC2086
    measure sensitivity "$name" 175B "$1" "${common[@]}" --microbatches 64 ${techniques[$name]}
  done
  for schedule in "${schedules[@]:0:4}"; do
    # shellcheck disable=SC2086
    measure sensitivity "${schedule%% *}, m = 16" 175B "$1" "${common[@]}" --microbatches 16 --attention fused \
      --sequence-parallel --schedule $schedule --clip 0 --steps 3
  done
  for schedule in 1f1b zb-h1; do
    measure sensitivity "$schedule, m = 64" 175B "$1" "${common[@]}" --microbatches 64 --attention fused \
      --sequence-parallel --schedule $schedule --clip 0 --steps 3
  done
}
for machine in h100-dgx b200-dgx; do
  sensitivity "$machine"
  for group in products memory links gathers network share latencies; do
    for factor in 0.8 1.2; do
      sensitivity "$machine-$group-$factor"
    done
  done
done

for machine in h100-dgx b200-dgx; do
  plan llama3-70b "$machine" 512 512
  plan 175B "$machine" 1024 1536
  plan llama3-405b-128-layers "$machine" 16384 2048
done

python3 "$here/modern_hardware.py" compact <"$work/raw" >"$out/modern-hardware.jsonl.part"
mv "$out/modern-hardware.jsonl.part" "$out/modern-hardware.jsonl"
