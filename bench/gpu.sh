#!/usr/bin/env bash
# Everything worth keeping from one NVIDIA GPU, a group at a time:
#   bench/gpu.sh BUILD OUT [GROUP...]
# BUILD is a built folder (scripts/build.sh release with CUDA) or an unpacked bench/gpu/bundle.sh; OUT gets
# at most eight files. All groups but node, or those that are named; each has less than nine minutes, with smoke
# before it too (bench/gpu.sh --limits says how long at most each part takes):
#   smoke              in a minute whether anything longer is worth beginning
#   correctness
#     sanitizer.csv    compute-sanitizer's four tools over the operation tests, row by row
#   speed              about 80 s
#     peak.json          GEMM rates, those of gradients among them, copy bandwidth, launch overhead: frugal peak
#     records.jsonl      every memory-bound operation against a copy, by turns: frugal bench memory-bound
#     steps.jsonl        products of layers against torch.mm, by turns
#   profile            about 25 s
#     profile.jsonl      every operation of steps of four models, by events: frugal operations
#   rivals             about 190 s
#     steps.jsonl        GPT-2 steps against PyTorch, eager, compiled and with CUDA graphs, by turns, short and of 2 s
#   long-rivals        about 220 s
#     steps.jsonl        the same against bf16 weights and against max-autotune; Llama-3 8B against transformers
#   papers
#     records.jsonl      in the same file training steps, one of 60,000 tokens among them; tables and figures at full size
#   lone-stages        about 240 s, as predicted
#     records.jsonl      in the same file one rank of each distinct stage of models of 22B to 1T parameters
#   nccl               two ranks on one GPU, by NCCL 2.30 or later (scripts/nccl.sh): whether they end, and memory; no times
#   node               a node of eight GPUs, only where it is named; about 250 s
#     records.jsonl      collectives by size, steps whose ranks divide the work in every way, table 4 with all its ranks
#   first-call         at most 590 s with the check: where a machine is lent for a quarter of an hour, the first of
#                      two calls: rows of changed kernels, combinations, profile, table 4 in a steady state, GPT-2 and
#                      PyTorch; no group without a name has it run
#   second-call        the second one, at most 230 s: products, what fills the memory, offload, compute-sanitizer
#   third-call         at most 290 s, where these left as much: two ranks of NCCL's, lone stages of 22B and 175B
# and of every group summary.txt, a line for each part, log.txt, all that the parts said, and clocks.csv, the
# GPU's clocks, power and temperature.
# frugal report OUT --format json makes cells and claims of records.jsonl.
# bench/gpu.sh --predict MACHINE BUILD OUT needs no GPU: all that measures, on the virtual machine of that name; with
# node behind it what a node of eight measures.
# bench/gpu/check_predictions.py holds what was measured against that, and bench/gpu/profile_tables.py step by step.
# FRUGAL_GPU_PATIENCE=N gives each part N times as long, for an emulated GPU.
# The GPU is checked first. Where that fails, nothing else is run, and the exit status is 3. Parts go on after
# one that failed; the exit status is 1 then. What a part finished is on the disk, whenever it is stopped.
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/gpu/run.py" "$@"
