#!/bin/sh
# Shell scripts: shellcheck has no findings.
# usage: shell.sh ROOT
set -eu
cd "$1"
if ! command -v shellcheck >/dev/null; then
    echo "skipped: shellcheck is not installed [.ci/install-deps.sh all]"
    exit 77
fi
{
    find .ci tests tools examples cmake packaging -name '*.sh' | sort
    printf '%s\n' .ci/run tests/rdma/machine tests/rdma/first tests/rdma/second
} | xargs shellcheck
