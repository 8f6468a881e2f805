#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing; no network when none is.
#   scripts/install.sh               what building, running and testing need
#   scripts/install.sh --checks      also what .ci/run needs
#   scripts/install.sh --into FOLDER without root: unpacks the same into FOLDER, for whoever has a compiler; then
#                                    . FOLDER/environment
# Elsewhere than on Debian: install their equivalents and set FRUGAL_INSTALL=no.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad_use() {  # MESSAGE
  echo "install.sh: $1" >&2
  exit 2
}

[[ ${FRUGAL_INSTALL:-yes} == no ]] && exit 0
wanted=$(sed '/^# Checks only/,$d' packages.txt)
into=''
case ${1:-} in
  '') ;;
  --checks) wanted=$(cat packages.txt) ;;
  --into)
    (($# == 2)) || bad_use "--into needs a folder, as in scripts/install.sh --into ~/packages"
    into=$(realpath --canonicalize-missing -- "$2")
    ;;
  *) bad_use "unknown argument '$1'; allowed: --checks, --into FOLDER" ;;
esac
mapfile -t packages < <(sed -E 's/[[:space:]]*#.*//; /^$/d' <<<"$wanted")

if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
  bad_use "apt-get not found; install the equivalents of: ${packages[*]}; then set FRUGAL_INSTALL=no"
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

# With all that they depend on and that is not installed. A package's scripts are not run, which is why a compiler does
# not work where it is unpacked, and Open MPI is not found: ranks are threads then.
unpack() {
  if [[ " ${missing[*]} " == *" g++ "* ]]; then
    bad_use "g++ is missing and cannot be used where it is unpacked; have it installed, and run this again"
  fi
  mkdir -p "$into/archives"
  local simulated names library
  simulated=$(apt-get -qq --simulate install --no-install-recommends "${missing[@]}")
  mapfile -t names < <(awk '$1 == "Inst" {print $2}' <<<"$simulated")
  (cd "$into/archives" && apt-get -qq download "${names[@]}")
  for archive in "$into"/archives/*.deb; do
    dpkg-deb --extract "$archive" "$into"
  done
  library=$into/usr/lib/$(uname -m)-linux-gnu
  {
    echo "export FRUGAL_INSTALL=no CMAKE_PREFIX_PATH='$into/usr' PATH='$into/usr/bin':\$PATH"
    echo "export LD_LIBRARY_PATH='$library:$library/blas:$library/lapack'"
    echo "export PYTHONPATH='$into/usr/lib/python3/dist-packages'"
  } >"$into/environment"
  echo "install.sh: unpacked ${#names[@]} packages; before building run: . $into/environment"
}

if [[ $into ]]; then
  unpack
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    bad_use "${#missing[@]} packages are missing, and there is neither root nor sudo: ask for apt-get install ${missing[*]};\
 or, where g++ is there, run scripts/install.sh --into FOLDER, which unpacks them without root"
  fi
  as_root=(sudo)
fi
echo "install.sh: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120)
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
     </dev/null >&2; then
  echo "install.sh: apt-get could not install ${missing[*]}; install them and run again" >&2
  exit 1
fi
