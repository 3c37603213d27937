#!/usr/bin/env bash
# Everything that has to hold before a change lands: format, lints, documentation, tests (the crash explorer's short
# explorations among them). About ten minutes on two cores from a cold start.
set -euo pipefail
cd "$(dirname "$0")"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
cargo test --workspace --locked
