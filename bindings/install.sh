#!/usr/bin/env bash
# The C libraries, to be linked with: bindings/install.sh FOLDER [everleaf-c|everleaf-pmemkv]..
# makes FOLDER/lib and FOLDER/include. Needs cargo and a C compiler; the libraries need libc alone.
set -euo pipefail
folder=$(realpath -m "${1:?usage: bindings/install.sh FOLDER [everleaf-c|everleaf-pmemkv]..}")
shift
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
map=$(mktemp)
trap 'rm -f "$map"' EXIT
mkdir -p "$folder/lib/pkgconfig" "$folder/include"

# install PACKAGE LIBRARY SONAME SYMBOLS VERSION HEADER: the shared library has the functions whose
# names begin with SYMBOLS, of that version, and no others.
install_library() {
    local package=$1 library=$2 soname=$3 symbols=$4 symbol_version=$5 header=$6
    local archive=$target/dist/lib${package//-/_}.a
    cargo rustc --profile dist --locked --package "$package" --lib --crate-type staticlib
    cp "$archive" "$folder/lib/$library.a"
    echo "$symbol_version { global: ${symbols}*; local: *; };" >"$map"
    "${CC:-cc}" -shared -o "$folder/lib/$soname" -Wl,-soname,"$soname" -Wl,--gc-sections \
        -Wl,--version-script,"$map" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
        -static-libgcc -lpthread -ldl -lm
    ln -sf "$soname" "$folder/lib/$library.so"
    cp "bindings/$package/include/$header" "$folder/include/"
    cat >"$folder/lib/pkgconfig/$library.pc" <<PC
prefix=$folder
Name: $library
Description: Everleaf, a key-value store for persistent memory
Version: $7
Libs: -L\${prefix}/lib -l${library#lib}
Libs.private: -lpthread -ldl -lm
Cflags: -I\${prefix}/include
PC
}

for package in "${@:-everleaf-c everleaf-pmemkv}"; do
    for one in $package; do
        case $one in
            everleaf-c)
                install_library "$one" libeverleaf libeverleaf.so.0 everleaf_ EVERLEAF_0 \
                    everleaf.h "$version"
                ;;
            everleaf-pmemkv)
                # The version of pmemkv's interface.
                install_library "$one" libpmemkv libpmemkv.so.1 pmemkv_ LIBPMEMKV_1.0 \
                    libpmemkv.h 1.5.0
                ;;
            *)
                echo "there is no library $one; give everleaf-c or everleaf-pmemkv" >&2
                exit 2
                ;;
        esac
    done
done
