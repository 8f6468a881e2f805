A="--num-layers 2
