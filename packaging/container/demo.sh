#!/bin/sh
# A job over four hosts, each a container with an ssh server, on a network of their own.
# usage: demo.sh [podman|docker]   (default: the first that is installed)
# With DEMO_IMAGE=NAME that image is used, and none is built.
set -eu
cd "$(dirname "$0")/../.."
engine=${1:-}
for candidate in podman docker; do
    [ -n "$engine" ] || engine=$(command -v "$candidate") || engine=
done
[ -n "$engine" ] || { echo 'demo: install podman or docker' >&2; exit 1; }
demo=aqueduct-demo-$$
image=${DEMO_IMAGE:-}
hosts='n1 n2 n3 n4'

tidy()
{
    for host in $hosts; do
        "$engine" rm -f "$demo-$host" >/dev/null 2>&1 || true
    done
    "$engine" network rm "$demo" >/dev/null 2>&1 || true
}
trap tidy EXIT
trap 'exit 1' INT TERM

# on HOST COMMAND …: run it in the host's container.
on()
{
    host=$1
    shift
    "$engine" exec -i "$demo-$host" "$@"
}

if [ -z "$image" ]; then
    image=aqueduct-demo
    "$engine" build -t "$image" -f packaging/container/Containerfile .
fi
"$engine" network create "$demo" >/dev/null
for host in $hosts; do
    # CMA between processes of a host needs a capability that containers lack.
    "$engine" run -d --name "$demo-$host" --hostname "$host" --network "$demo" \
        --network-alias "$host" --cap-add SYS_PTRACE "$image" >/dev/null
done
on n1 ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
key=$(on n1 cat /root/.ssh/id_ed25519.pub)
for host in $hosts; do
    echo "$key" | on "$host" sh -c 'umask 077; cat >/root/.ssh/authorized_keys'
    tries=0
    until on n1 ssh -o BatchMode=yes -o ConnectTimeout=2 "$host" true 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || { echo "demo: no ssh from n1 to $host" >&2; exit 1; }
        sleep 0.5
    done
done

echo '--- 8 processes on 4 hosts greet each other'
on n1 aqrun --hosts n1,n2,n3,n4 -n 8 /usr/local/examples/hello
echo '--- a hash table over all of them'
on n1 aqrun --hosts n1,n2,n3,n4 -n 8 /usr/local/examples/hashtable
echo '--- speed between two hosts'
on n1 aqrun --hosts n1,n2 -n 2 /usr/local/examples/pingpong
