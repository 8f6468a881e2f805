#!/usr/bin/env bash
# Regenerates the tables and figures of a paper on this machine and writes a report of them.
#   ./reproduce.sh [OPTION...]    options of `frugal reproduce`, such as --on virtual or --check
# What an earlier run recorded is kept and used; --force runs it again.
# Exit status: 0 done, else that of the last step that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

paper=korthikanti2022
out=out/$paper
frugal=build/release/frugal
# The system's Python: packages.txt brings matplotlib for it.
python=/usr/bin/python3

scripts/install.sh
scripts/build.sh release frugal

# A case that failed has its place in the results, so the figures and the report are still made.
mkdir -p "$out/figures"
status=0
"$frugal" reproduce "$paper/*" --out "$out" --format json "$@" >"$out/$paper.json.part" || status=$?
if [[ ! -s $out/$paper.json.part ]]; then
  rm "$out/$paper.json.part"
  exit "$status"
fi
mv "$out/$paper.json.part" "$out/$paper.json"
for plot in plots/"$paper"_*.py; do
  MPLBACKEND=Agg "$python" "$plot" "$out" "$out/figures" || status=$?
done
"$frugal" report "$out" || status=$?

echo "Report and figures:"
find "$out" -type f \( -name '*.html' -o -name '*.md' -o -name '*.png' -o -name '*.svg' \) | sort
exit "$status"
