#!/bin/sh
# Formatting: clang-format 14 would change no C or C++ source (`make format`).
# usage: format.sh ROOT
set -eu
cd "$1"
tool=clang-format-14
if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed, and other versions differ [.ci/install-deps.sh all]"
    exit 77
fi
find include src tools tests examples -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' | sort |
    xargs "$tool" --dry-run --Werror
