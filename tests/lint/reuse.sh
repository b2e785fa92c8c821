#!/bin/sh
# Licenses: every file has one, from .reuse/dep5 or a tag of its own, and the text of each is in
# LICENSES.
# usage: reuse.sh ROOT
set -eu
cmp "$1/LICENSE" "$1/LICENSES/BSD-3-Clause.txt"
if ! command -v reuse >/dev/null; then
    echo 'skipped: reuse is not installed [.ci/install-deps.sh all]'
    exit 77
fi
# Copy the tree without the output of builds, which reuse ignores only in a git repository.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C "$1" -c --exclude=./build --exclude=./.git --exclude=__pycache__ . | tar -x -C "$copy"
reuse --root "$copy" lint
