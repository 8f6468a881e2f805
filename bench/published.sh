#!/usr/bin/env bash
# Makes results/virtual/published again, what is predicted of runs that others have published, and docs/published.md and
# its figures of it; 20 minutes on two cores. The program has bands.json in it: build it again afterwards, and write what pages
# show of its answers (scripts/page-outputs.py).
#   bench/published.sh [PROGRAM] [EVERY]     the effect of behaviours is that on one row in EVERY (1)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
frugal=$(realpath "${1:-$here/build/release/frugal}")
# The system's Python: packages.txt brings matplotlib for it.
python=/usr/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
"$python" -B bench/published.py "$frugal"
"$python" -B bench/published.py "$frugal" --ablation --every "${2:-1}"
"$python" -B plots/paper_tables.py results/virtual docs/published.md
"$python" -B plots/published.py results/virtual "$work" >/dev/null
cp "$work"/*.png docs/figures
