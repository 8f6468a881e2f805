#!/usr/bin/env bash
# Fails when an include breaks the one direction: app -> experiments -> harness -> engine -> kernels.
# A folder of tests may include what the folder that it tests may include.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

layers=(kernels engine harness experiments app)
failed=0
for i in "${!layers[@]}"; do
  above=$(IFS='|'; echo "${layers[*]:i+1}")
  pattern='^[[:space:]]*#[[:space:]]*include[[:space:]]*["<](\.\./'"${above:+|($above)/}"')'
  for folder in "${layers[i]}" "tests/${layers[i]}"; do
    [[ -d $folder ]] || continue
    if grep -rnE --include='*.h' --include='*.cpp' --include='*.cu*' "$pattern" "$folder"; then
      echo "check-imports.sh: $folder may include ${layers[*]:0:i+1} only, from the root" >&2
      failed=1
    fi
  done
done
exit "$failed"
