#!/bin/sh
# docs/settings.md equals the output of aqinfo.
# usage: settings.sh ROOT AQINFO
set -eu
made=$(mktemp)
trap 'rm -f "$made"' EXIT
env -i "$2" --markdown >"$made"
if ! diff -u "$1/docs/settings.md" "$made"; then
    echo "settings: docs/settings.md is outdated: run $2 --markdown > docs/settings.md"
    exit 1
fi
