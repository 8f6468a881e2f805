#!/bin/bash
GPUS=${GPUS:-2}
LAYERS=$((2 * 4 - 2)); SIZE="small"
MODEL=(
    --num-layers $LAYERS
    --hidden-size 64 --num-attention-heads 4
    "--seq-length 32"
)
if [ "$SIZE" == small ]; then MODEL+=(--micro-batch-size 2); else MODEL+=(--micro-batch-size 4); fi
if [[ -z "$FLASH" && $LAYERS -gt 1 ]]; then
  MODEL+=(--swiglu)
elif [ $FLASH -gt 1 ]; then
  MODEL+=(--use-flash-attn)
fi
cat <<EOF > /dev/null
--hidden-size 7
EOF
for i in 1 2; do echo $i; done
REST=" --vocab-size 256 \
   --bf16 $EXTRA --frobnicate 1,2 \
   --split 'a b' "
torchrun --nproc_per_node $GPUS train/pretrain_gpt.py ${MODEL[@]} $REST --save "${OUT:-out}/x" 2>&1
