#!/bin/sh
# usage: test.sh MACHINE BUILD [every]
here=$(cd "$(dirname "$0")" && pwd)
if ! [ -f "$1/vmlinux" ]; then
    echo "skipped: the virtual machine with software RoCE is not in $1" \
        "[.ci/install-deps.sh all && tests/rdma/machine setup build/rdma-machine]"
    exit 77
fi
machine=$1
shift
exec "$here/machine" run "$machine" python3 "$here/inside.py" "$@"
