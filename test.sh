#!/usr/bin/env bash
# Builds and runs the tests: ./test.sh [PRESET [OPTIONS-OF-CTEST...]]
# PRESET is release (default), ci, debug, asan-ubsan or tsan (of the engine and NCCL only).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

preset=${1:-release}
shift $(($# > 0))
# The thread sanitizer of g++ 12 cannot start where addresses are randomised by more than 28 bits.
wrapper=()
if [[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
  wrapper=(setarch --addr-no-randomize)
fi

scripts/install.sh
"${wrapper[@]}" scripts/build.sh "$preset"
"${wrapper[@]}" ctest --preset "$preset" --parallel "$(nproc)" "$@"
