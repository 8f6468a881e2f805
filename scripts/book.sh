#!/usr/bin/env bash
# Writes a real text to train on, the King James Bible: scripts/book.sh OUT
# It comes from the Debian package bible-kjv, so no download is needed.
set -euo pipefail

out=${1:?"usage: scripts/book.sh OUT"}
if ! command -v bible >/dev/null; then
  echo "book.sh: the command 'bible' is missing; install the Debian package bible-kjv" >&2
  exit 1
fi
if [[ -e $out ]]; then
  echo "book.sh: $out exists; remove it or name another file" >&2
  exit 2
fi
bible -f gen1:1-rev22:21 </dev/null >"$out"
bytes=$(wc -c <"$out")
if ((bytes < 4000000)); then
  rm -f "$out"
  echo "book.sh: got $bytes bytes, expected at least 4000000; reinstall bible-kjv-text" >&2
  exit 1
fi
echo "$bytes bytes"
sha256sum "$out"
