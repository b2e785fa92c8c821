#!/bin/sh
# Licenses: every file has one, by .reuse/dep5 or a tag of its own, whose text is in LICENSES.
# usage: reuse.sh ROOT
set -eu
cmp "$1/LICENSE" "$1/LICENSES/BSD-3-Clause.txt"
if ! command -v reuse >/dev/null; then
    echo 'skipped: reuse is not installed [.ci/install-deps.sh all]'
    exit 77
fi
# Without the output of builds, which reuse omits only if the tree is git's.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C "$1" -c --exclude=./build --exclude=./.git --exclude=__pycache__ . | tar -x -C "$copy"
reuse --root "$copy" lint
