#!/usr/bin/env bash
# Fails when clang-format would change a source file. To format: scripts/check-format.sh -i
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run --Werror)
[[ ${1:-} == -i ]] && mode=(-i)
scripts/sources.sh | xargs --no-run-if-empty clang-format "${mode[@]}"
