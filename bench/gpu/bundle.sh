#!/usr/bin/env bash
# Packs what bench/gpu.sh needs for a machine that has CUDA's libraries and none of our packages:
#   bench/gpu/bundle.sh BUILD BUNDLE.tar.xz
# There: tar xf BUNDLE.tar.xz; bundle/gpu.sh bundle OUT [GROUP...]
# The programs find the bundle's libraries by their run paths, and gpu.sh finds CUDA's: libcublasLt, libcudnn
# and libnccl in the toolkit, or among the packages of a Python that has PyTorch. What scripts/nccl.sh has built in
# build/nccl goes along, for two ranks on a GPU.
set -euo pipefail

if (($# != 2)); then
  echo "usage: bench/gpu/bundle.sh BUILD BUNDLE.tar.xz" >&2
  exit 2
fi
bench=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1 bundle=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

programs=(frugal tests/tests_cuda tests/tests_nccl_real)
mkdir -p "$work"/bundle/{tests,lib}
for program in "${programs[@]}"; do
  if [[ ! -x $build/$program ]]; then
    echo "bundle.sh: $build/$program not found; first run scripts/build.sh release" >&2
    exit 2
  fi
  strip -o "$work/bundle/$program" "$build/$program"
done
cp "$bench/gpu.sh" "$work/bundle/"
(cd "$bench" && find . -name '*.py' -exec cp --parents {} "$work/bundle" \;)
# Not the C library, which belongs to its machine, and not CUDA's, which belong to its driver.
(cd "$build" && ldd "${programs[@]}") | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libcublas.*|libcudnn.*|libnccl.*|libcuda.*)\.so' |
  xargs -I{} cp -L {} "$work/bundle/lib/"
# Each finds what it needs beside it: a library with a run path of its own does not ask the program's.
patchelf --set-rpath '$ORIGIN' "$work"/bundle/lib/*
# NCCL for ranks that share a GPU, which few machines have: scripts/nccl.sh.
if [[ -f $build/../nccl/libnccl.so.2 ]]; then
  cp -r "$build/../nccl" "$work/bundle/"
fi
# The programs have most of their code in common: a window of 64 MiB has all of them.
XZ_OPT=${XZ_OPT:--9} tar -C "$work" -cJf "$bundle" bundle
du -h "$bundle"
