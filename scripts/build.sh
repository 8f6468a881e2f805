#!/usr/bin/env bash
# Configures and builds a preset of CMakePresets.json into build/PRESET.
#   scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?"usage: scripts/build.sh PRESET [TARGET...]"}
shift
scripts/cudnn-frontend.sh
if command -v ccache >/dev/null; then  # what another clone or preset compiled alike is not compiled again
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD
fi
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
