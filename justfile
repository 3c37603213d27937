# The commands of this repository. `just` is a command runner: cargo install just

# List the commands
default:
    @just --list

# Format, and complain of long lines
fmt:
    cargo fmt --all
    ./test.sh width

# All that has to hold before a change lands
test:
    ./test.sh

# Only what a compiler says, in a minute
check:
    cargo clippy --workspace --all-targets --features peers,plots,tls,cluster,scripts --locked -- -D warnings

# What the release program and the sources cost, beside their bounds in budget.tsv
budget *WORDS:
    ./budget.sh {{WORDS}}

# The laboratory's program: just lab explore --engine fptree --suite
lab *WORDS:
    cargo run --release -p everleaf-lab -- {{WORDS}}

# A Linux guest with persistent memory and a disk whose power is cut: just guest all 50
guest *WORDS:
    cargo build --release
    tests/guest/run {{WORDS}}

# Disks that are full: just full --sizes 16 --kinds limit
full *WORDS:
    cargo build
    tests/full/run {{WORDS}}

# SIGKILL for real processes on a disk
kills *WORDS:
    cargo build --release
    tests/kills/run {{WORDS}}

# Failing system calls for the commands that make pools or rescue them
faults *WORDS:
    cargo build --release
    tests/faults/run {{WORDS}}

# Looks into a pool that another process writes, copies of it, kills of either side
open *WORDS:
    cargo build --release
    tests/open/run {{WORDS}}

# Frameworks that build on Redis, and queues whose server is killed: just clients --server stock
clients *WORDS:
    cargo build --release
    tests/clients/run {{WORDS}}

# A cluster of three processes under faults, or what it achieves: just cluster --seconds 3600
cluster *WORDS:
    cargo build --release -p everleaf-raft -p everleaf-cli -p everleaf-testkit \
        --features everleaf-cli/cluster --bin everleaf \
        --example cluster_rows --example cluster_load --example linearizable
    tests/cluster/run {{WORDS}}

# The programs of examples/async, each of which checks itself
test-examples:
    cargo build --manifest-path examples/async/Cargo.toml --locked --bins
    for program in examples/async/src/bin/*.rs; do \
        cargo run --quiet --manifest-path examples/async/Cargo.toml --locked \
            --bin "$(basename "$program" .rs)" || exit 1; \
    done

# Twenty tasks of a new user by the command line, each checked: just tasks 3 19
tasks *WORDS:
    cargo build --release
    tests/tasks/run {{WORDS}}

# The tests on aarch64, by qemu where that is another processor: just arm everleaf-pmem
arm *WORDS:
    ./arm.sh {{WORDS}}

# The wheel for Python, and its tests
python:
    bindings/python/run-tests.sh

# pmemkv's own tests on our library, from checkouts: just pmemkv PMEMKV LIBPMEMOBJ_CPP PMEMKV_PYTHON
pmemkv *CHECKOUTS:
    bindings/everleaf-pmemkv/run-their-tests.sh {{CHECKOUTS}}

# Licences, sources and known problems of dependencies
deny:
    cargo deny check

# Make the planted mistakes, and see that the tests notice each: just planted 17 301
planted *NUMBERS:
    ./planted.sh {{NUMBERS}}

# Any bytes wherever users' bytes can reach, for half an hour or MINUTES: just fuzz 5 redis script
fuzz *WORDS:
    ./fuzz.sh {{WORDS}}

# The Debian package. It needs: cargo install cargo-deb
deb:
    packaging/deb.sh

# Interfaces beside those of a revision, as nothing is published. It needs cargo-semver-checks
semver REV *WORDS:
    cargo semver-checks --baseline-rev {{REV}} {{WORDS}} --all-features -p everleaf -p everleaf-pmem \
        -p everleaf-log -p everleaf-pool -p everleaf-index -p everleaf-server \
        -p everleaf-tree -p everleaf-fptree -p everleaf-linetree -p everleaf-nvtree \
        -p everleaf-clftree -p everleaf-circtree -p everleaf-masstree
