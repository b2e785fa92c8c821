#!/usr/bin/env bash
# Build the Debian packages of this tree, source and binary, outside of it.
# usage: mkdeb.sh OUT
# DEB_BUILD_OPTIONS: see dpkg-buildpackage; default: no packages of debug symbols, all processors.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-noautodbgsym parallel=$(nproc)}

# Outside of the tree, whose path may contain blanks: package builds do not support them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/aqueduct-$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)
mkdir "$folder"
cd "$source"
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path ./build -prune -o ! -type d -print0
fi | tar -c --null --ignore-failed-read -T - | tar -x -C "$folder"

rm -f "$out"/*.{deb,dsc,changes,buildinfo,tar.xz,log}
cd "$folder"
if ! dpkg-buildpackage -us -uc >"$out/build.log" 2>&1; then
    tail -n 30 "$out/build.log" >&2
    echo "mkdeb: the packages could not be built; the whole output is in $out/build.log" >&2
    exit 1
fi
find "$work" -maxdepth 1 -type f -exec mv -t "$out" {} +
