#!/usr/bin/env bash
# Everything that has to hold before a change lands: the width of lines, format, lints,
# documentation, tests (the crash explorer's short explorations among them). `./test.sh width` looks
# at the width only, `./test.sh lints` at all that needs no test to run.
set -euo pipefail
cd "$(dirname "$0")"

# No line of code, comments or documents has more than 100 characters. Rows of tables and lines with
# an address are exempt, and docs/format.md and docs/evidence.md, which programs make.
long_lines() {
    find . -name target -prune -o -name .git -prune -o -path ./docs/format.md -prune -o \
        -path ./docs/evidence.md -prune -o -type f \
        \( -name '*.rs' -o -name '*.md' -o -name '*.toml' -o -name '*.sh' -o -path './.ci/*' \) \
        -print0 |
        LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{101,}' /dev/null |
        grep -vE '^[^:]*:[0-9]+: *(//[/!]? ?)?\||https?://'
}
long=$(long_lines || true)
if [[ -n $long ]]; then
    echo "$long"
    echo "these lines have more than 100 characters: wrap them"
    exit 1
fi
[[ ${1:-} != width ]] || exit 0

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo fmt --manifest-path bindings/python/Cargo.toml --check
# The peers of the benchmarks and the plots are no part of the default build; here they are tested.
features=(--features peers,plots,tls,cluster,scripts)
lints() {
    cargo clippy --workspace --all-targets "${features[@]}" --locked -- -D warnings
    # What users build first, and what is fuzzed.
    cargo clippy -p everleaf-cli --locked -- -D warnings
    cargo clippy --manifest-path fuzz/Cargo.toml --lib --locked -- -D warnings
    # The library for Python; an interpreter is not needed to look at it.
    PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 \
        cargo clippy --manifest-path bindings/python/Cargo.toml --locked -- -D warnings
    # The benchmarks and the two programs are no libraries.
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --exclude everleaf-bench \
        --exclude everleaf-cli --exclude everleaf-lab --no-deps --locked --quiet
    # What would be published: every file of each package, its licence and its versions.
    laboratory=()
    for crate in lab bench testkit conformance crash engines baselines features; do
        laboratory+=(--exclude "everleaf-$crate")
    done
    cargo package --workspace "${laboratory[@]}" --no-verify --allow-dirty --locked --quiet
}
if [[ ${1:-} == lints ]]; then
    lints
    exit
fi
# `--tests` leaves the example programs out, which have no tests: clippy has looked at them, and to
# make them takes a minute. The programs of tests run one after another, and few of them need more
# than one processor: so they run in three rows. That of the crash explorer takes as long as all of
# the others together.
mkdir -p target
rows=(units explorer programs)
logs=("${rows[@]/#/target/rows.}")
truncate --size 0 "${logs[@]}"
tests=(cargo test --workspace "${features[@]}" --locked)
"${tests[@]}" --tests --no-run
jobs=()
row() {
    "${tests[@]}" "${@:2}" --no-fail-fast >"target/rows.$1" 2>&1 &
    jobs+=($!)
}
row units --lib --bins --exclude everleaf-engines # It has none: all trees would be compiled for it.
row explorer --test testkit
row programs --test '[!t]*' --test 't[!e]*'
# Tests wait for disks, sockets and clocks: the lints take what processor time that leaves. They are
# made in the same folder, so that macros, build scripts and C are compiled once. cargo locks it
# while it compiles, so the lints begin when all rows run.
{
    for log in "${logs[@]}"; do
        until grep -qs ' Running ' "$log"; do sleep 1; done
    done
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
    exec nice -n 19 ./test.sh lints
} >target/lints.out 2>&1 &
lints=$!
trap 'kill "$lints" "${jobs[@]}" 2>/dev/null || true' EXIT
tail --follow --lines +1 --pid "${jobs[2]}" "${logs[2]}"
failed=0
for job in "${jobs[@]}"; do
    wait "$job" || failed=$?
done
cat "${logs[@]:0:2}"
((failed == 0)) || exit "$failed"
"${tests[@]}" --doc
if ! wait "$lints"; then
    cat target/lints.out
    exit 1
fi
trap - EXIT

# The library for aarch64: built, because a mere check does not assemble the instructions; no linker
# is needed for that.
arm=aarch64-unknown-linux-gnu
if [[ -d "$(rustc --print sysroot)/lib/rustlib/$arm/lib" ]]; then
    export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=none
    cargo build --target "$arm" --locked -p everleaf-pmem -p everleaf-pool -p everleaf \
        --features everleaf/all-engines
    # A little of it is run where it can be: what is assembled for that processor alone.
    ./arm.sh everleaf-pmem || (($? == 2))
else
    echo "skipped: compiling for aarch64; to include it: rustup target add $arm"
fi
