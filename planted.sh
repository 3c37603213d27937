#!/usr/bin/env bash
# Whether the tests notice mistakes: those of lab/everleaf-testkit/planted.tsv are made one at a
# time, and what is to notice each is run. `./planted.sh` takes all of them, `./planted.sh 17 301`
# these. Before that each killer is run without a mistake. JOBS: how many are run at a time; LIMIT:
# after so many seconds one counts as hanging, and the mistake as noticed.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD table=$PWD/lab/everleaf-testkit/planted.tsv
jobs=${JOBS:-$(nproc)} limit=${LIMIT:-150}
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/planted
export RUSTFLAGS="${RUSTFLAGS:-} --cfg planted"
export CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=0
# What is drawn at random is the same each time, and what a mistake makes fail is not kept.
export PROPTEST_RNG_SEED=1 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1

packages=(-p everleaf-log -p everleaf-pool -p everleaf-tree -p everleaf-fptree -p everleaf-linetree
    -p everleaf-nvtree -p everleaf-clftree -p everleaf-circtree -p everleaf-masstree
    -p everleaf-baselines -p everleaf-engines -p everleaf -p everleaf-testkit -p everleaf-raft
    -p everleaf-server --features everleaf-server/cluster)
built=$(
    cargo test --no-run --locked "${packages[@]}" --lib --tests 2>&1 &&
        cargo build --locked "${packages[@]}" --example scenarios 2>&1
) || { echo "$built"; exit 1; }
programs=$(grep -o '/debug/deps/[^)]*' <<<"$built" | sed 's|^/||')
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# The programs of a crate's tests.
tests_of() {
    local name=${1//-/_}
    grep "deps/$name-" <<<"$programs"
    case $1 in
    everleaf) grep deps/store- <<<"$programs" ;;
    everleaf-engines) grep deps/engines- <<<"$programs" ;;
    everleaf-pool) grep deps/pool- <<<"$programs" ;;
    everleaf-raft) grep 'deps/\(raft\|cluster\)-' <<<"$programs" ;;
    everleaf-testkit) grep deps/testkit- <<<"$programs" ;;
    esac
}

# Runs a killer: `scenario ENGINE PART` or `test CRATE FILTER`.
run() {
    local kind what part program
    read -r kind what part <<<"$1"
    case $kind in
    scenario) timeout "$limit" "$CARGO_TARGET_DIR/debug/examples/scenarios" "$what" "$part" ;;
    test)
        cd "$(ls -d "$root"/{crates,crates/trees,lab}/"$what" 2>/dev/null)"
        for program in $(tests_of "$what"); do
            timeout "$limit" "$CARGO_TARGET_DIR/$program" "$part" || return
        done
        ;;
    *) echo "$kind is no kind of killers" && return 2 ;;
    esac
}

# A killer without a mistake: it must pass, and do something.
whole() {
    local output begun=$SECONDS
    if ! output=$(run "$1" 2>&1) || ! grep -q '^test .*ok$\|scenarios$' <<<"$output"; then
        echo "FAILS WITHOUT A MISTAKE: $1" | tee "$results/$BASHPID"
        tail -20 <<<"$output"
    elif [[ -n ${TIMES:-} ]]; then
        echo "$((SECONDS - begun)) s: $1"
    fi
}

# A mistake: its killer must fail.
mistaken() {
    local number=$1 what=$2 killer=$3 begun=$SECONDS ended=0 outcome="killed by"
    EVERLEAF_PLANTED=$number run "$killer" >/dev/null 2>&1 || ended=$?
    if ((ended == 0)); then
        outcome=SURVIVES
        echo "$number" >"$results/$BASHPID"
    elif ((ended == 124)); then
        outcome="hangs in"
    fi
    echo "$number: $what: $outcome $killer, $((SECONDS - begun)) s"
}

# Does something with each line of the input, several at a time.
each() {
    while IFS=$'\t' read -r one two three; do
        while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
        "$1" "$one" "$two" "$three" &
    done
    wait
}

chosen=$(grep -v '^number' "$table" | while IFS=$'\t' read -r number _ what killer; do
    if (($# == 0)) || [[ " $* " == *" $number "* ]]; then
        printf '%s\t%s\t%s\n' "$number" "$what" "$killer"
    fi
done)
each whole < <(cut -f 3 <<<"$chosen" | sort -u)
each mistaken <<<"$chosen"
bad=$(find "$results" -type f | wc -l)
echo "$(wc -l <<<"$chosen") mistakes in $SECONDS s; $bad survive, or killers fail without them"
((bad == 0))
