#!/bin/sh
# Run a command in a network namespace that has only IPv6 addresses.
#
# usage: six.sh COMMAND [ARGUMENT…]
set -eu

if [ "${AQ_SIX:-}" != inside ]; then
    unshare -rn ip link add six0 type veth peer name six1 2>/dev/null ||
        { echo "skipped: network namespaces cannot be made here"; exit 77; }
    AQ_SIX=inside exec unshare -rn "$0" "$@"
fi
unset AQ_SIX
ip link add six0 type veth peer name six1
for interface in lo six0 six1; do
    ip link set "$interface" up
done
ip addr add fd00:a9::1/64 dev six0 nodad
ip addr del 127.0.0.1/8 dev lo
export AQT_FI_SIX=fd00:a9::1 # for tests that look up this host
exec "$@"
