#!/usr/bin/env bash
# What the project costs, beside its bounds in budget.tsv: code of the program, copies of generic
# functions in it, dependencies, lines. A change that passes a bound changes budget.tsv, and says
# why. `./budget.sh` looks at the release program and builds it; `./budget.sh dev` at the one that
# the tests have built.
set -euo pipefail
cd "$(dirname "$0")"
profile=${1:-release}
target=${CARGO_TARGET_DIR:-target}
case $profile in
release) program=$target/release/everleaf && cargo build --release --locked --quiet ;;
dev) program=$target/debug/everleaf ;;
*) echo "$profile is no profile; choose release or dev" && exit 2 ;;
esac

if ! command -v nm >/dev/null; then
    echo "skipped: there is no nm here; to include what the project costs: install binutils"
    exit 0
fi

# Bytes of code: what `size` calls text, without the constants.
text() {
    size -A "$program" | awk '$1 == ".text" { print $2 }'
}

# Copies of the ten functions of ours that are compiled most often.
copies() {
    most_copies | awk '{ sum += $1 } END { print sum }'
}

most_copies() {
    nm -C --defined-only "$program" | awk 'tolower($2) == "t"' | cut -d ' ' -f 3- |
        grep '^everleaf' | grep -v '{{' | sed -E 's/::h[0-9a-f]{16}$//' | sort | uniq -c |
        sort -rn | sed -n '1,10p'
}

# Crates that are compiled for a crate of ours, without ours.
dependencies() {
    cargo tree --locked --edges normal,build --prefix none --package "$@" |
        awk '{ print $1, $2 }' | sort -u | grep -vc '^everleaf'
}

# Lines of Rust in some folders.
lines() {
    find "$@" -name target -prune -o -name '*.rs' -print0 | xargs -0 cat | wc -l
}

# Lines of the files that ARCHITECTURE.md lists as the road of the default engine, without tests.
road() {
    sed -nE 's/^\| \[[^]]*\]\((crates[^)]*)\).*/\1/p' ARCHITECTURE.md |
        xargs -n 1 sed '/^mod tests {/,$d' | wc -l
}

# Kind of number, and number.
numbers() {
    printf 'text of everleaf (%s)\t%s\n' "$profile" "$(text)"
    printf 'copies of ten functions (%s)\t%s\n' "$profile" "$(copies)"
    printf 'crates under everleaf\t%s\n' "$(dependencies everleaf)"
    printf 'crates under everleaf-cli\t%s\n' "$(dependencies everleaf-cli)"
    printf 'lines of the product\t%s\n' "$(lines crates bindings)"
    printf 'lines of the road\t%s\n' "$(road)"
    printf 'lines of the laboratory\t%s\n' "$(lines lab fuzz)"
}

passed=0
while IFS=$'\t' read -r what is; do
    bound=$(awk -F '\t' -v what="$what" '$1 == what { print $2 }' budget.tsv)
    printf '%-36s %12s of %12s\n' "$what" "$is" "${bound:-no bound}"
    if [[ -z $bound ]] || ((is > bound)); then
        passed=1
    fi
done < <(numbers)
most_copies
if ((passed)); then
    echo "a bound is passed: make it less, or change budget.tsv and say why"
    exit 1
fi
