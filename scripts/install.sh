#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing; no network when none is.
#   scripts/install.sh            what building, running and testing need
#   scripts/install.sh --checks   also what .ci/run needs
# Elsewhere than on Debian: install their equivalents and set FRUGAL_INSTALL=no.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ ${FRUGAL_INSTALL:-yes} == no ]] && exit 0
case ${1:-} in
  '') wanted=$(sed '/^# Checks only/,$d' packages.txt) ;;
  --checks) wanted=$(cat packages.txt) ;;
  *) echo "install.sh: unknown argument '$1'; allowed: --checks" >&2; exit 2 ;;
esac
mapfile -t packages < <(sed -E 's/[[:space:]]*#.*//; /^$/d' <<<"$wanted")

if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
  echo "install.sh: apt-get not found; install the equivalents of: ${packages[*]};" \
       "then set FRUGAL_INSTALL=no" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: not root and no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
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
