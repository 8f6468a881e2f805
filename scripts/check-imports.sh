#!/usr/bin/env bash
# Fails when an include breaks the one direction: app -> experiments and bench -> harness -> engine -> kernels, or
# when a file is not in its folder's namespace (engine/namespace.h). A folder of tests may do what the folder that it
# tests may.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A above=([kernels]='engine|harness|experiments|bench|app' [engine]='harness|experiments|bench|app'
  [harness]='experiments|bench|app' [experiments]='bench|app' [bench]='experiments|app' [app]='\.\.')
failed=0

fail() {
  echo "check-imports.sh: $1" >&2
  failed=1
}

for layer in "${!above[@]}"; do
  for folder in "$layer" "tests/$layer"; do
    [[ -d $folder ]] || continue
    if grep -rnE --include='*.h' --include='*.cpp' --include='*.cu*' \
      "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<](\.\./|(${above[$layer]})/)" "$folder"; then
      fail "$folder includes from the root, and nothing of ${above[$layer]//|/, }"
    fi
  done
done

# Prints namespaces of the files that are not $1's, but for one that declares a class of a layer below, $2.
others() {
  awk -v own="^ *namespace frugal::($1)( |::)" -v below="^namespace frugal::($2)( |::)" '
    /^ *namespace frugal/ && $0 !~ own {
      where = FILENAME ":" FNR ": " $0
      if ($0 !~ below || (getline line) <= 0 || line !~ /^(class|struct) [A-Za-z]+;$/) print where
    }' "${@:3}"
}

below=none
for layer in kernels engine harness experiments bench; do
  for folder in "$layer" "tests/$layer"; do
    mapfile -t files < <(find "$folder" -name '*.h' -o -name '*.cpp' -o -name '*.cu*' | grep -v '/namespace\.h$')
    ((${#files[@]})) || continue
    own=$layer
    [[ $folder == "$layer" ]] || own+='|testing'
    if others "$own" "$below" "${files[@]}" | grep .; then
      fail "$folder is in the namespace frugal::$layer"
    fi
    # Without it the compiler may see no names of the layers below.
    blind=$([[ $layer == kernels ]] || grep -LE "^#include \"(tests/)?$layer/" "${files[@]}" || true)
    if [[ -n $blind ]]; then
      fail "what includes no other header of $layer includes $layer/namespace.h: ${blind//$'\n'/ }"
    fi
  done
  below+="|$layer"
done
exit "$failed"
