#!/usr/bin/env bash
# Fuzzing: any bytes, wherever users' bytes can reach (fuzz/src/lib.rs). `./fuzz.sh` takes half an
# hour for all targets together, `./fuzz.sh 600` ten hours, `./fuzz.sh 5 redis script` five minutes
# for two of them. What panics, hangs for 10 s or takes 2 GiB is found: the exit code is 1 then. New
# inputs are kept in fuzz/target/corpus; what is in fuzz/corpus begins.
set -euo pipefail
cd "$(dirname "$0")"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzzing needs cargo-fuzz and the nightly compiler: rustup toolchain install nightly" \
        "&& cargo install cargo-fuzz --locked"
    exit 2
fi
minutes=${1:-30}
targets=("${@:2}")
mapfile -t all < <(cargo +nightly fuzz list)
((${#targets[@]})) || targets=("${all[@]}")
for target in "${targets[@]}"; do
    [[ " ${all[*]} " = *" $target "* ]] || { echo "$target is none of: ${all[*]}"; exit 2; }
done
cargo +nightly fuzz build
found=0
for target in "${targets[@]}"; do
    known=fuzz/corpus/$target new=fuzz/target/corpus/$target log=fuzz/target/$target.log
    mkdir -p "$new"
    options=(-max_total_time=$((minutes * 60 / ${#targets[@]})) -print_final_stats=1)
    # Zeroed memory that is not touched is no memory: a pool that may grow far takes much of it.
    options+=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=65536)
    [[ ! -f fuzz/$target.dict ]] || options+=(-dict="fuzz/$target.dict")
    result="nothing found"
    # What the target says goes to the log alone: a server says much.
    if ! cargo +nightly fuzz run "$target" "$new" "$known" -- "${options[@]}" >"$log" 2>&1; then
        result="FOUND SOMETHING, see $log" found=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    coverage=$(grep -ao 'cov: [0-9]*' "$log" | tail -1 || true)
    echo "$target: ${executions:-no} executions, ${coverage:-cov: 0}: $result"
done
exit $found
