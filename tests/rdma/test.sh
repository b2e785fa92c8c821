#!/bin/sh
# usage: test.sh MACHINE BUILD [every]
here=$(cd "$(dirname "$0")" && pwd)
if ! [ -f "$1/vmlinux" ]; then
    echo "skipped: the virtual machine with software RoCE is not here: $here/machine setup $1"
    exit 77
fi
machine=$1
shift
exec "$here/machine" run "$machine" python3 "$here/inside.py" "$@"
