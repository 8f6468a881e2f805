#!/usr/bin/env bash
# Builds the NCCL that bench/gpu/bundle.sh carries, build/nccl/libnccl.so.2: a version that lets ranks share a GPU, for
# Hopper alone, with the functions that frugal calls. What is left out does nothing where it is called, so other
# programs cannot use it, and neither can other GPUs.
#   scripts/nccl.sh           does nothing where it has been built
#   scripts/nccl.sh --funcs   prints which functions it has, as NCCL's own generator takes them
# It needs git, make, nvcc and about seven minutes of one processor; the library has 6.6 MB. Its source comes from
# NCCL's public repository, or from a copy of that, whose folder is FRUGAL_NCCL_SOURCE. FRUGAL_JOBS says how many files
# are compiled at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=v2.30.7-1
commit=73cf112295c33aee2b895f329f592f2a9b4b0f97  # what the tag must be
architecture=90
source=${FRUGAL_NCCL_SOURCE:-https://github.com/NVIDIA/nccl}
# Of each collective the types that engine/comm/nccl sums, and all algorithms and protocols.
summed='Sum (f32|f64|bf16) * *'
funcs="SendRecv|Broadcast * *|AllGather * *|AllReduce $summed|ReduceScatter $summed"

fail() {
  echo "nccl.sh: $1" >&2
  exit 2
}

case ${1:-} in
  '') ;;
  --funcs)
    echo "$funcs"
    exit 0
    ;;
  *) fail "unknown argument '$1'; allowed: --funcs" ;;
esac

built=build/nccl
what="$commit sm_$architecture $funcs"
[[ -f $built/libnccl.so.2 && $(cat "$built/what" 2>/dev/null) == "$what" ]] && exit 0
nvcc=$(command -v nvcc) || fail "nvcc not found; install the CUDA toolkit"
nvcc=$(readlink -f "$nvcc")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$work" init --quiet
git -C "$work" fetch --quiet --depth 1 "$source" "refs/tags/$tag" ||
  fail "git could not fetch $tag from $source; name the folder of a copy in FRUGAL_NCCL_SOURCE"
found=$(git -C "$work" rev-parse 'FETCH_HEAD^{commit}')
[[ $found == "$commit" ]] || fail "$tag of $source is $found, and must be $commit"
git -C "$work" checkout --quiet "$commit"

# Kernels over registered windows, which frugal has none of, have no filter: one type of each is left.
symmetric=$work/src/device/symmetric/generate.py
sed -i 's/^all_reds = .*/all_reds = ["sum"]/; s/^all_tys = .*/all_tys = ["f32"]/' "$symmetric"
if (($(grep -cx 'all_reds = \["sum"\]\|all_tys = \["f32"\]' "$symmetric") != 2)); then
  fail "$symmetric names no reductions and types to choose from; look at $tag again"
fi

# CUDA's headers without an NCCL's that may lie among them.
mkdir "$work/cuda"
for header in "${nvcc%/bin/*}"/include/*; do
  [[ ${header##*/} == nccl* ]] || ln -s "$header" "$work/cuda/"
done

start=$SECONDS
make --silent -C "$work/src" lib --jobs "${FRUGAL_JOBS:-$(nproc)}" CUDA_HOME="${nvcc%/bin/*}" CUDA_INC="$work/cuda" \
  BUILDDIR="$work/built" NVCC_GENCODE="-gencode=arch=compute_$architecture,code=sm_$architecture" ONLY_FUNCS="$funcs" \
  >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  fail "make failed"
}
mkdir -p "$built"
strip --strip-unneeded -o "$built/libnccl.so.2" "$work/built/lib/libnccl.so.2"
cp "$work/LICENSE.txt" "$built/"
echo "$what" >"$built/what"
echo "nccl.sh: ${tag#v} for sm_$architecture in $((SECONDS - start)) s:" \
     "$(du -h "$built/libnccl.so.2" | cut -f1) in $built/libnccl.so.2"
