#!/usr/bin/env bash
# Everything that has to hold before a change lands: format, lints, documentation, tests (the crash
# explorer's short explorations among them). About twenty minutes on two cores from a cold start.
set -euo pipefail
cd "$(dirname "$0")"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
# `--tests` leaves the example programs out, which have no tests: clippy has looked at them, and to
# make them takes a minute.
cargo test --workspace --features peers,plots --tests --locked
cargo test --workspace --features peers,plots --doc --locked

# The library for aarch64: built, because a mere check does not assemble the instructions; no linker
# is needed for that.
arm=aarch64-unknown-linux-gnu
if [[ -d "$(rustc --print sysroot)/lib/rustlib/$arm/lib" ]]; then
    export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=none
    cargo build --target "$arm" --locked -p everleaf-pmem -p everleaf-pool -p everleaf-trees \
        -p everleaf
else
    echo "skipped: compiling for aarch64; to include it: rustup target add $arm"
fi
