#!/usr/bin/env bash
# Fails when a source file is longer than 400 lines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
while read -r file; do
  lines=$(wc -l <"$file")
  if ((lines > 400)); then
    echo "check-sizes.sh: $file has $lines lines, at most 400 are allowed; split it" >&2
    failed=1
  fi
done < <(scripts/sources.sh --all)
exit "$failed"
