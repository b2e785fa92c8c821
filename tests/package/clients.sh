#!/bin/sh
# Compile and run programs against the installed packages, inside the bare system.
# usage: clients.sh bare|built_before|all
set -eu
cd "$(dirname "$0")"

fail()
{
    echo "package test: $*" >&2
    [ ! -s log ] || tail -n 20 log >&2
    exit 1
}

# prints COUNT TEXT COMMAND …: check that it succeeds and prints this many lines with the text.
prints()
{
    count=$1 text=$2
    shift 2
    "$@" >log 2>&1 || fail "$*: exit $?"
    [ "$(grep -c -- "$text" log)" = "$count" ] || fail "$*: not $count times \"$text\""
}

readme()
{
    flags=$(pkg-config --cflags --libs aqueduct)
    [ "$flags" = '-laqueduct ' ] || [ "$flags" = -laqueduct ] || fail "pkg-config: $flags"
    # shellcheck disable=SC2086 # split into words
    cc -Wall -Wextra -Werror readme.c $flags -o readme
    prints 4 'received 42 from rank [0-3]$' aqrun -n 4 ./readme
}

static()
{
    # shellcheck disable=SC2046
    cc readme.c $(pkg-config --cflags aqueduct) -Wl,-Bstatic -laqueduct -Wl,-Bdynamic \
        -o static
    prints 4 'received 42 from rank [0-3]$' aqrun -n 4 ./static
}

udp()
{
    prints 4 'received 42 from rank [0-3]$' env AQ_TRANSPORTS=udp aqrun -n 4 ./readme
    prints 1 '^udp' aqinfo udp
}

gasnet()
{
    for kind in smp-seq udp-par; do
        # shellcheck disable=SC2046
        cc hello.c $(pkg-config --cflags --libs gasnet-$kind) -o $kind
    done
    prints 4 'of 4 was greeted by rank [0-3]: hello$' gasnetrun_smp -n 4 ./smp-seq
    prints 4 'of 4 was greeted by rank [0-3]: hello$' amudprun -np 4 ./udp-par
    prints 2 'of 2 was greeted by rank [01]: hello$' env GASNET_PSHM_NODES=2 ./smp-seq
    tree=$(pkg-config --variable=GASNET_PREFIX gasnet-smp-seq)
    prints 2 'of 2 was greeted by rank [01]: hello$' "$tree/bin/gasnetrun_smp" -n 2 ./smp-seq
}

cci()
{
    # shellcheck disable=SC2046
    cc cci.c $(pkg-config --cflags --libs cci) -o cci
    prints 1 '^CCI: hello$' ./cci
}

libfabric()
{
    prints 1 'libfabric [0-9.]* finds it' aqinfo "fi"
    fi_info -p aqueduct >log 2>&1 || fail "fi_info: exit $?"
    grep -q '^provider: aqueduct$' log || fail 'fi_info does not show the provider'
    fi_pingpong -p aqueduct -e rdm -I 100 >server 2>&1 &
    server=$!
    # Wait until the server listens.
    tries=0
    until fi_pingpong -p aqueduct -e rdm -I 100 127.0.0.1 >log 2>&1; do
        tries=$((tries + 1))
        { [ $tries -lt 100 ] && kill -0 $server; } || fail "fi_pingpong: $(cat server)"
        sleep 0.1
    done
    wait $server || fail "the server of fi_pingpong: $(cat server)"
    grep -q '^64 .*100' log || fail 'fi_pingpong measured nothing'
}

case $1 in
bare) readme; static ;;
built_before) prints 1 'received 42 from rank 0$' ./readme ;;
all) readme; udp; gasnet; cci; libfabric ;;
esac
