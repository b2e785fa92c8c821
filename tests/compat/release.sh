#!/usr/bin/env bash
# Build the last release, and run its processes together with those of a build of this tree
# (compat.py). The release is the latest tag v… before this commit, or the commit
# AQUEDUCT_TEST_RELEASE.
# usage: release.sh BUILD FOLDER: the release is built in FOLDER, which is removed before and after.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
build=$1 folder=$2

skip()
{
    echo "skipped: $*"
    exit 77
}

# A tree without history (a tarball, a shallow clone) has no tags.
release=${AQUEDUCT_TEST_RELEASE:-}
if [ -z "$release" ]; then
    git -C "$root" rev-parse --verify -q HEAD >/dev/null || skip 'this tree is not a git repository'
    release=$(git -C "$root" describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null) ||
        skip 'there is no tag v… before this commit [git fetch --tags --unshallow]'
fi
echo "this tree meets $release"

rm -rf "$folder"
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/source"
git -C "$root" archive "$release" | tar -x -C "$folder/source"
# Built as fast as possible, and with options that differ from those of this tree.
cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS=-O0 -DAQ_BUILD_TESTS=OFF -DAQ_BUILD_EXAMPLES=OFF -DAQ_BUILD_MANUAL=OFF \
    -DAQ_IBV=OFF -DAQ_OFI=OFF -DAQ_FI=OFF >"$folder/log" || { cat "$folder/log"; exit 1; }
cmake --build "$folder/build" -j "$(nproc)" -t aqueduct aqrun aqtop aqinfo >"$folder/log" ||
    { tail -n 20 "$folder/log"; exit 1; }
echo "built in $SECONDS s"

# Prefer the release's own version: the interface may have changed.
talk=$folder/source/tests/compat/talk.c
[ -e "$talk" ] || talk=$here/talk.c
cc -std=c11 -D_GNU_SOURCE -I"$folder/source/include" "$talk" -o "$folder/talk" \
    -L"$folder/build/src" -laqueduct -Wl,-rpath,"$folder/build/src"
"$here/compat.py" "$build" --release "$folder/build" "$folder/talk"
echo "$SECONDS s"
