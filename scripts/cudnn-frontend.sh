#!/usr/bin/env bash
# Brings the headers of cuDNN's graph interface, which the CUDA toolkit does not have, from the Python
# package index to build/cudnn-frontend. Fused attention on a GPU needs them; nothing else does.
# Does nothing where they are there already, or where there is no cuDNN to use them with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=1.16.0  # later ones also want a run-time compiler to link with
target=build/cudnn-frontend
[[ -f $target/$version ]] && exit 0
nvcc=$(command -v nvcc) || exit 0
nvcc=$(readlink -f "$nvcc")
[[ -f ${nvcc%/bin/*}/include/cudnn.h || -f /usr/include/cudnn.h || -f /usr/local/include/cudnn.h ]] ||
  exit 0

wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
if ! python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 10 \
     --no-deps --only-binary=:all: --dest "$wheel" "nvidia-cudnn-frontend==$version" </dev/null >&2; then
  echo "cudnn-frontend.sh: pip could not bring nvidia-cudnn-frontend $version;" \
       "the build goes on without fused attention on GPUs" >&2
  exit 0
fi
rm -rf "$target"
mkdir -p "$target"
python3 -m zipfile -e "$wheel"/*.whl "$wheel/content"
cp -r "$wheel/content/include" "$target/include"
touch "$target/$version"
