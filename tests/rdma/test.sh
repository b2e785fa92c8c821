#!/bin/sh
# usage: test.sh MACHINE BUILD
here=$(cd "$(dirname "$0")" && pwd)
if ! [ -f "$1/vmlinux" ]; then
    echo "skipped: the virtual machine with software RoCE is not here: $here/machine setup $1"
    exit 77
fi
exec "$here/machine" run "$1" python3 "$here/inside.py" "$2"
