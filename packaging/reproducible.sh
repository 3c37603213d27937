#!/usr/bin/env bash
# Whether the command is the same to the last byte, wherever it is built: packaging/reproducible.sh
# builds what is committed twice, in two folders, and compares. `packaging/reproducible.sh PROGRAM`
# builds it once, and compares it with one that packaging/build.sh has made elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${PROFILE:-dist}
folders=$(mktemp -d)
trap 'rm -rf "$folders"' EXIT
build() {
    local folder=$folders/$1
    mkdir -p "$folder"
    git archive HEAD | tar -x -C "$folder"
    "$folder/packaging/build.sh"
    mv "$folder/target/$profile/everleaf" "$folders/everleaf.$1"
    rm -rf "$folder"
}
build one
if (($#)); then
    cp "$1" "$folders/everleaf.other"
else
    build another-folder
fi
(cd "$folders" && sha256sum everleaf.*)
if ! cmp "$folders"/everleaf.*; then
    bytes=$(cmp -l "$folders"/everleaf.* | wc -l || true)
    echo "the two differ in $bytes bytes, or in length"
    exit 1
fi
echo "both are the same $(stat -c %s "$folders/everleaf.one") bytes"
