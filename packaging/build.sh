#!/usr/bin/env bash
# The command as packages have it, in target/dist: packaging/build.sh. Of one commit the same bytes
# come in every folder, with the toolchain that rust-toolchain.toml names and the same C compiler.
# PROFILE=release is quicker than `dist`, and another program.
set -euo pipefail
cd "$(dirname "$0")/.."
unset CARGO_TARGET_DIR CARGO_ENCODED_RUSTFLAGS
# What is compiled has neither the date nor anything of the machine, but for the names of folders.
maps=("$PWD=/everleaf" "$(realpath "${CARGO_HOME:-$HOME/.cargo}")=/cargo")
export CARGO_INCREMENTAL=0 RUSTFLAGS="${maps[*]/#/--remap-path-prefix=}"
export CFLAGS="${maps[*]/#/-ffile-prefix-map=}"
cargo build --profile "${PROFILE:-dist}" --locked -p everleaf-cli --features cluster,tls
