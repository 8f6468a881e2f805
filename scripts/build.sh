#!/usr/bin/env bash
# Configures and builds a preset of CMakePresets.json into build/PRESET.
#   scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?"usage: scripts/build.sh PRESET [TARGET...]"}
shift
scripts/cudnn-frontend.sh
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
