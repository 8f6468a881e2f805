#!/usr/bin/env bash
# Packs what bench/gpu.sh needs for a machine that has CUDA's libraries and none of our packages:
#   bench/gpu/bundle.sh BUILD BUNDLE.tar.xz
# There: tar xf BUNDLE.tar.xz; LD_LIBRARY_PATH=bundle/lib:CUDA'S_FOLDERS bundle/gpu.sh bundle OUT
# CUDA's folders hold libcublasLt, libcudnn and libnccl: the toolkit's lib64, or nvidia/*/lib among
# the packages of a Python that has PyTorch.
set -euo pipefail

if (($# != 2)); then
  echo "usage: bench/gpu/bundle.sh BUILD BUNDLE.tar.xz" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 bundle=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work"/bundle/{bench,tests,lib,gpu}
for program in frugal tests/tests_cuda bench/frugal_bench_compare; do
  if [[ ! -x $build/$program ]]; then
    echo "bundle.sh: $build/$program not found; first run scripts/build.sh release" >&2
    exit 2
  fi
  strip -o "$work/bundle/$program" "$build/$program"
done
cp "$here"/../gpu.sh "$work/bundle/"
cp "$here"/*.py "$work/bundle/gpu/"
# Not the C library, which belongs to its machine, and not CUDA's, which belong to its driver.
ldd "$work/bundle/frugal" | awk '$3 ~ /^\// {print $3}' |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libcublas.*|libcudnn.*|libnccl.*|libcuda.*)\.so' |
  xargs -I{} cp -L {} "$work/bundle/lib/"
tar -C "$work" -cJf "$bundle" bundle
du -h "$bundle"
