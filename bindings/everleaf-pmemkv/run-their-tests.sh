#!/usr/bin/env bash
# Runs pmemkv's own tests, unchanged, with our library in the place of theirs.
set -euo pipefail

usage() {
    cat <<'USAGE'
bindings/everleaf-pmemkv/run-their-tests.sh PMEMKV LIBPMEMOBJ_CPP [PMEMKV_PYTHON]

The arguments are checkouts of pmem/pmemkv, pmem/libpmemobj-cpp and pmem/pmemkv-python. Their tests
are built by their build, against their library; then ours takes its place. Needs cmake, a C++
compiler, and
  apt-get install libpmemobj-dev libpmem-dev libtbb-dev libmemkind-dev rapidjson-dev
Everything is made in target/pmemkv. Tests that cannot apply, which docs/languages.md lists with the
reasons, are left out; with ALL=1 they run, and fail.
USAGE
    exit 2
}
[[ $# -ge 2 ]] || usage
pmemkv=$(realpath "$1") headers=$(realpath "$2") python=${3:+$(realpath "$3")}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
work=$PWD/target/pmemkv ours=$PWD/target/pmemkv/ours build=$PWD/target/pmemkv/build
mkdir -p "$work" "$ours/bin"
bindings/install.sh "$ours"

# `pmempool create` of their scripts makes a pool of ours.
"${CC:-cc}" -I"$ours/include" -o "$ours/bin/pmempool" "$here/tests/pmempool.c" \
    "$ours/lib/libeverleaf.a" -lpthread -ldl -lm
export PATH=$ours/bin:$PATH

cmake -S "$headers" -B "$work/headers" -DCMAKE_INSTALL_PREFIX="$work/prefix" -DBUILD_TESTS=OFF \
    -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF -DBUILD_BENCHMARKS=OFF >"$work/headers.log"
cmake --install "$work/headers" >>"$work/headers.log"
engines=(-DENGINE_{CMAP,CSMAP,STREE,TREE3,RADIX,ROBINHOOD,DRAM_VCMAP})
PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig cmake -S "$pmemkv" -B "$build" \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release -DBUILD_DOC=OFF \
    -DTESTS_USE_VALGRIND=OFF -DCXX_STANDARD=14 -DTEST_DIR="${TEST_DIR:-/dev/shm}" \
    "${engines[@]/%/=ON}" >"$work/build.log" 2>&1
rm -f "$build/libpmemkv.so.1" # Else theirs is not made again where ours was put.
cmake --build "$build" --parallel 2 --target all tests >>"$work/build.log" 2>&1
cp "$ours/lib/libpmemkv.so.1" "$build/libpmemkv.so.1"

failed=0
not_ours='memcheck|drd|helgrind'
if [[ -z ${ALL:-} ]]; then
    not_ours+='|^dram_vcmap|put_get_std_map_oid|error_handling_tx_(oid|path|oom)'
    not_ours+='|comparator_basic_c_|comparator_custom_reopen|_reverse_'
fi
ctest --test-dir "$build" --parallel 2 --timeout 200 --exclude-regex "$not_ours" || failed=1
if [[ -n $python ]]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet setuptools wheel pytest
    cp -r "$python" "$work/python"
    CFLAGS=-I$pmemkv/src LDFLAGS="-L$build -Wl,-rpath,$build" \
        "$work/venv/bin/pip" install --quiet --no-build-isolation "$work/python"
    (cd "$work/python/tests" && "$work/venv/bin/python" -m pytest -q pmemkv_tests.py) || failed=1
    rm -rf "$work/python"
fi
exit $failed
