#!/usr/bin/env bash
# Builds Debian packages of the program and of its libraries, for the Debian that this runs on, into build/package/.
#   scripts/package.sh
# They are without CUDA, whose libraries are not Debian's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($#)); then
  echo "package.sh: unknown argument '$1'; it has none" >&2
  exit 2
fi
if ! command -v dpkg-shlibdeps >/dev/null; then
  echo "package.sh: dpkg-shlibdeps not found; install the package dpkg-dev" >&2
  exit 2
fi
scripts/install.sh
scripts/build.sh package
cd build/package
rm -f ./*.deb
cpack -G DEB
