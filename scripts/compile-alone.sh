#!/usr/bin/env bash
# Compiles headers, and the sources that are compiled several as one, each alone (cmake/Alone.cmake), in build/ci.
#   scripts/compile-alone.sh           all of them
#   scripts/compile-alone.sh NUMBER    the share of them whose turn it is; .ci/run gives how many commits there are
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shares=16
if ((!$#)); then
  exec scripts/build.sh ci compile_alone
fi
share=$(($1 % shares))
echo "compile-alone.sh: share $((share + 1)) of $shares; scripts/compile-alone.sh compiles all"
scripts/build.sh ci frugal_build_info  # which configures it: what there is to compile is known
mapfile -t objects < <(ninja -C build/ci -t targets all | sed -n 's/^\([^:]*_alone\.dir[^:]*\.o\): .*/\1/p' | sort |
  awk -v shares="$shares" -v share="$share" 'NR % shares == share')
scripts/build.sh ci "${objects[@]}"
