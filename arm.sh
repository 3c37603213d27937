#!/usr/bin/env bash
# The tests on aarch64: on such a machine, or on another one by qemu, which emulates a process and
# needs no guest. `./arm.sh` takes the library and the server, `./arm.sh everleaf-pmem` one package.
# What the emulation cannot show is skipped, and said at the end: see `reasons`. QEMU: another
# emulator than the one in PATH.
set -euo pipefail
cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
root=/usr/aarch64-linux-gnu qemu=${QEMU:-qemu-aarch64}
# An older one notes each page of addresses that a program reserves, and takes gigabytes for that.
least_qemu=8
lacks=()
if [[ $(uname -m) != aarch64 ]]; then
    version=$({ "$qemu" --version 2>/dev/null || true; } | sed -n 's/.*version \([0-9]*\).*/\1/p')
    ((${version:-0} >= least_qemu)) ||
        lacks+=("qemu-aarch64 of version $least_qemu or newer (Debian: qemu-user)")
    command -v aarch64-linux-gnu-gcc >/dev/null ||
        lacks+=("aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)")
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$qemu -L $root"
fi
[[ -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]] || lacks+=("rustup target add $target")
if ((${#lacks[@]})); then
    printf 'skipped: the tests on aarch64; they need %s\n' "${lacks[@]}"
    exit 2
fi

packages=("$@")
((${#packages[@]})) || packages=(
    everleaf-features # so that one build serves the tests of all
    everleaf-pmem everleaf-pool everleaf-log everleaf-index everleaf-tree everleaf-fptree
    everleaf-linetree everleaf-nvtree everleaf-clftree everleaf-circtree everleaf-masstree
    everleaf-engines everleaf everleaf-server
)
reasons=()
if [[ -n ${version:-} && ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]]; then
    why="starts its own program, and this system executes programs for aarch64 by qemu alone"
    reasons+=("growth_on_a_nearly_full_disk: $why" "restart::: $why")
fi
if [[ -n ${version:-} ]]; then
    reasons+=("this_process_has_memory_and: qemu tells a process nothing of its processor time")
    why="takes minutes, and simulates power failures, which are alike on all processors"
    reasons+=("every_crash_leaves: $why" "no_power_failure_takes_back: $why")
fi
skips=()
for reason in "${reasons[@]}"; do
    skips+=(--skip "${reason%%: *}")
done
export CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=0
tests=(cargo test --target "$target" --locked "${packages[@]/#/-p}" --tests --no-fail-fast --)
failed=0
"${tests[@]}" "${skips[@]}" || failed=$?
# By name what was not run: what was skipped above, and what runs only when it is asked for.
all=$("${tests[@]}" --list 2>/dev/null | sed -n 's/: test$//p')
for reason in "${reasons[@]}"; do
    grep -F "${reason%%: *}" <<<"$all" | sed "s/^/skipped: /; s/$/: ${reason#*: }/" || true
done
"${tests[@]}" --list --ignored 2>/dev/null | sed -n 's/: test$/: only when it is asked for/p' |
    sed 's/^/skipped: /'
exit "$failed"
