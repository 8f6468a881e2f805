[ "$KIND" != big ] && A="--hidden-size 64"
[ -z "$TP" ] || B="--tensor-model-parallel-size 4"
[[ -n "x" && 3 -gt 1 ]] && { C="--swiglu"; D="--num-layers 3"; }
! [ "$KIND" = big ] && ( echo "" > log ) && E="--micro-batch-size 2"
[ -f somewhere ] && F="--bf16"
cd / && G="--seq-length 32" || G="--seq-length 7"
echo ""> log
torchrun --nproc_per_node 64 pretrain_gpt.py $A $B $C $D $E $F $G --num-attention-heads 4 --vocab-size 256
