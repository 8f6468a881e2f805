#!/usr/bin/env bash
# Prints our source files, one a line: C++ and CUDA, or with --all also Python, shell and CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=(-name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu')
if [[ ${1:-} == --all ]]; then
  names+=(-o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt)
fi
find . \( -path ./.git -o -path ./build -o -path ./out \) -prune \
  -o -type f \( "${names[@]}" \) -printf '%P\n' | sort
