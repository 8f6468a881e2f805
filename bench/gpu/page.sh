#!/usr/bin/env bash
# Makes the tables and figures of a page about one GPU, from what bench/gpu.sh predicted and what it wrote there:
#   bench/gpu/page.sh h100 results/nvidia-h100-80gb/predicted results/nvidia-h100-80gb [BEFORE [PROGRAM]]
# fills docs/h100.md and docs/figures/h100-*. BEFORE is an earlier run of the same, beside which the page has this
# one. PROGRAM is build/release/frugal where none is named.
set -euo pipefail

if (($# < 3)); then
  echo "usage: bench/gpu/page.sh NAME PREDICTED MEASURED [BEFORE [PROGRAM]]" >&2
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=$1 predicted=$2 measured=$3 before=${4:-} program=${5:-build/release/frugal}
# The system's Python: packages.txt brings matplotlib for it.
python=/usr/bin/python3
if [[ ! -x $program ]]; then
  echo "page.sh: $program not found; first run scripts/build.sh release" >&2
  exit 2
fi

"$python" bench/gpu/check_predictions.py --page "docs/$name.md" ${before:+--before "$before"} "$predicted" "$measured"
"$python" plots/document_figures.py "$program"
