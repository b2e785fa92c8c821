#!/bin/bash
# Build and run projects that contain Aqueduct, through CMake's FetchContent and Meson's wraps.
# usage: embedded.sh BUILD_DIR SOURCE_DIR CC cmake|meson
set -euo pipefail
build=$1
source=$2
cc=$3
way=$4
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")

if [ "$way" = meson ] && ! command -v meson >/dev/null; then
    echo 'skipped: meson is not installed [.ci/install-deps.sh test]'
    exit 77
fi
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

fail()
{
    echo "install test: $*" >&2
    exit 1
}

# quietly COMMAND …: show the output only if the command fails.
quietly()
{
    "$@" >"$top/log" 2>&1 || { tail -n 40 "$top/log" >&2; fail "failed: $*"; }
}

# runs PROGRAM: run it alone, and as a job of two by the aqrun of this build.
runs()
{
    "$1" >"$top/out" || fail "$1 alone: exit $?"
    grep -qx 'client 0 of 1 got both greetings' "$top/out" || fail "$1: $(cat "$top/out")"
    "$build/tools/aqrun/aqrun" -n 2 "$1" >"$top/out" || fail "aqrun -n 2 $1: exit $?"
    [ "$(grep -c 'of 2 got both greetings' "$top/out")" = 2 ] || fail "$1: $(cat "$top/out")"
}

archive=$top/aqueduct-$version.tar.gz
tar -C "$source" -c --exclude=./build --exclude=./.git --transform "s,^\.,aqueduct-$version," . |
    gzip -1 >"$archive"
# Everything is compiled without optimization, because that would take longer than the rest of the
# test.
case $way in
cmake)
    mkdir "$top/project"
    cp -r "$source/tests/install/fetch" "$source/tests/install/client.c" "$top/project"
    quietly cmake -G Ninja -S "$top/project/fetch" -B "$top/b" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O0 -DOPTIMIZED' -DARCHIVE="file://$archive"
    quietly cmake --build "$top/b"
    # Without a build type, the library is optimized, and the project's own settings are unchanged.
    [ "$(ninja -C "$top/b" -t commands |
        sed -n 's,.*-DOPTIMIZED.*/\(client\|base/log\)\.c$,\1,p')" = base/log ] ||
        fail 'the build type of the library is not its own'
    for unwanted in aqrun libaqueduct-cci.so.2 libgasnet-smp-seq.a libaqueduct_internal.a; do
        [ -z "$(find "$top/b" -type f -name "$unwanted")" ] || fail "$unwanted is built, too"
    done
    [ ! -e "$top/b/compile_commands.json" ] ||
        fail 'the project gets a compile_commands.json that it has not asked for'
    quietly cmake --install "$top/b" --prefix "$top/installed"
    [ ! -e "$top/installed" ] || fail "the project installs: $(find "$top/installed")"
    runs "$top/b/aqueduct-client"
    runs "$top/b/aqueduct_static-client"
    ;;
meson)
    mkdir -p "$top/project/subprojects"
    cp "$source/tests/install/meson/meson.build" "$source/tests/install/client.c" "$top/project"
    sed "s,^source_url = .*/,source_url = file://$top/,;/^source_filename/a source_hash = $(
        sha256sum "$archive" | cut -d ' ' -f 1)" "$source/packaging/meson/aqueduct.wrap" \
        >"$top/project/subprojects/aqueduct.wrap"
    export CC=$cc
    # Otherwise, an installed library would be preferred.
    quietly meson setup --force-fallback-for=aqueduct --buildtype=plain "$top/b" "$top/project"
    quietly ninja -C "$top/b"
    runs "$top/b/client"
    # Requesting a network that cannot be built is an error that names the remedy.
    mkdir -p "$top/none/infiniband"
    echo '#error not installed' >"$top/none/infiniband/verbs.h"
    if meson setup --force-fallback-for=aqueduct -Daqueduct:ibv=enabled \
        "-Dc_args=-I$top/none" "$top/refused" "$top/project" >"$top/log" 2>&1; then
        fail 'a project that asks for ibv is configured without its headers'
    fi
    tr -s '\n ' ' ' <"$top/log" | grep -q 'AQ_IBV=ON: .* is not found: install libibverbs-dev' ||
        fail "ibv=enabled without headers: $(tail -n 20 "$top/log")"
    ;;
esac
echo "a project that contains Aqueduct by $way builds and runs"
