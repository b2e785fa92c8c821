#!/bin/bash
# Checks the configuration: unsupported systems are rejected with a reason, the user's flags reach
# every step, and networks are included or left out as their headers appear or disappear.
# usage: configure.sh SOURCE_DIR CC CXX
set -euo pipefail
cc=$2

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

configure()
{
    cmake -G Ninja -S "$source" -B "$top/$1" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
        -DAQ_BUILD_TESTS=OFF "-DCMAKE_C_FLAGS=$2" "-DCMAKE_CXX_FLAGS=$2" "${@:3}" >"$top/log" 2>&1
}
source=$1 cxx=$3

# headers TEXT: make headers of networks with this content, which the build uses instead of the
# system's.
headers()
{
    mkdir -p "$top/include/infiniband" "$top/include/rdma"
    echo "$1" | tee "$top/include/infiniband/verbs.h" >"$top/include/rdma/fabric.h"
}

# networks WHEN NUMBER: check that this many of ibv and ofi are built.
networks()
{
    local found
    found=$(grep -o 'ibv/hca[.]c[.]o:\|ofi/ofi[.]c[.]o:' "$top/flags/build.ninja" |
        sort -u | wc -l) || true # having none is not a failure yet
    [ "$found" -eq "$2" ] ||
        { echo "$1 $found of ibv and ofi are built, and not $2" >&2; exit 1; }
}

headers '#error not installed'
configure flags "-DMARK=1 -fno-omit-frame-pointer -I$top/include" || { cat "$top/log" >&2; exit 1; }
for object in src/aqueduct.o src/front/gasnet/aqueduct_gasnet.o; do
    ninja -C "$top/flags" -t commands "$object" | grep -q -e '-DMARK=1 .* -r -nostdlib' ||
        { echo "$object is linked without the flags for compiling" >&2; exit 1; }
done

networks 'without headers' 0
headers ''
cmake "$top/flags" >"$top/log" 2>&1
networks 'with headers that came later' 2
headers '#error gone'
cmake "$top/flags" >"$top/log" 2>&1
networks 'after the headers are gone' 0

# Only compile: 32-bit libraries may not be installed.
echo 'int is_there;' | "$cc" -m32 -x c -c -o "$top/probe.o" - 2>/dev/null ||
    { echo "skipped: $cc has no -m32, so its refusal cannot be tested"; exit 77; }
if configure small -m32 -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY; then
    echo 'a build of 32 bits can be configured' >&2
    exit 1
fi
tr -s '\n ' ' ' <"$top/log" | grep -q 'needs a little-endian system of 64 bits.* 4 bytes per' ||
    { cat "$top/log" >&2; exit 1; }
echo 'flags reach the joined objects, networks are looked for again, -m32 is refused'
