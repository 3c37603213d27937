#!/usr/bin/env bash
# Whether the command is the same to the last byte, wherever it is built: packaging/reproducible.sh
# builds what is committed twice, in two folders, and compares. It takes twice the time of a build.
# PROFILE=release is quicker than `dist`, which packages are made with. Whoever builds in this way,
# with the toolchain that rust-toolchain.toml names and the same C compiler, gets the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${PROFILE:-dist}
unset CARGO_TARGET_DIR CARGO_ENCODED_RUSTFLAGS
folders=$(mktemp -d)
trap 'rm -rf "$folders"' EXIT
registry=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# What is compiled has neither the date nor anything of the machine, but for the names of folders.
export CARGO_INCREMENTAL=0 SOURCE_DATE_EPOCH
build() {
    local folder=$folders/$1 maps
    maps=("$folder=/everleaf" "$registry=/cargo")
    mkdir -p "$folder"
    git archive HEAD | tar -x -C "$folder"
    (
        cd "$folder"
        export RUSTFLAGS="${maps[*]/#/--remap-path-prefix=}"
        export CFLAGS="${maps[*]/#/-ffile-prefix-map=}"
        cargo build --profile "$profile" --locked -p everleaf-cli --features cluster,tls
        cp "target/$profile/everleaf" "../everleaf.$1"
        rm -rf target
    )
}
build one
build another-folder
(cd "$folders" && sha256sum everleaf.*)
if ! cmp "$folders"/everleaf.*; then
    bytes=$(cmp -l "$folders"/everleaf.* | wc -l || true)
    echo "the two differ in $bytes bytes, or in length"
    exit 1
fi
echo "both are the same $(stat -c %s "$folders/everleaf.one") bytes"
