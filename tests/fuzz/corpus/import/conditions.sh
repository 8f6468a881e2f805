#!/bin/bash
#SBATCH --nodes=3
GPUS=${GPUS:-2}
LAYERS=$((2 * 4 - 2)); SIZE="small"   # a comment with --hidden-size 9
WORLD="--nproc_per_node $GPUS --nnodes $SLURM_NNODES"
MODEL=(
    --num-layers $LAYERS  # and another
    --hidden-size 64 --num-attention-heads 4
    "--seq-length 32"
)
if [ "$SIZE" == small ]; then MODEL+=(--micro-batch-size 2); else MODEL+=(--micro-batch-size 4); fi
if [[ -z "$FLASH" ]]; then
  MODEL+=(--swiglu)
elif [ $FLASH -gt 1 ]; then
  MODEL+=(--use-flash-attn)
fi
cat <<EOF > /dev/null
--hidden-size 7
EOF
REST=" --vocab-size 256 \
   --bf16 $EXTRA \
   --split 'a b' "
torchrun $WORLD train/pretrain_gpt.py ${MODEL[@]} $REST --save "${OUT:-out}/x" 2>&1
