X=$((2 ** 70 / 0))
torchrun pretrain_gpt.py --num-layers $X
