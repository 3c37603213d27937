#!/usr/bin/env bash
# Makes the Debian package: packaging/deb.sh. It prints where it is. Needs cargo-deb:
# cargo install cargo-deb. What the package consists of is in crates/everleaf-cli/Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
unset CARGO_TARGET_DIR # the list of files has the paths
packaging/build.sh
# The times of the files, so that the package, too, is the same wherever it is made.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
program=target/dist/everleaf
made=target/deb
rm -rf $made
mkdir -p $made/man
$program man $made/man
for shell in bash zsh fish; do
    $program completions $shell >$made/everleaf.$shell
done
version=$($program --version | cut -d' ' -f2)
maintainer=$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/everleaf-cli/Cargo.toml)
cat >$made/changelog <<CHANGELOG
everleaf ($version-1) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- $maintainer  $(date -uR -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
cargo deb --quiet --profile dist --no-build --strip --locked -p everleaf-cli
