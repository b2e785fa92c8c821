#!/usr/bin/env bash
# Install the missing Debian packages that a task needs.
# usage: .ci/install-deps.sh build|test|all|ci   (each set includes the previous one)
#        .ci/install-deps.sh format|tidy|site    (additional needs of make format, tidy and site)
#        .ci/install-deps.sh deb|deb-test        (needs of make deb and make deb-test)
# test: installed by `make test` itself; all: further programs that its tests use (100 MB to
# download), with daemons (sshd, Slurm) that may start at boot; ci: other compilers and processors,
# MPI programs, a browser (100 MB to download), and the needs of make deb-test.
set -euo pipefail

# The headers of networks are small; without them, a build leaves these networks out, and without
# those of ncurses, the screen of aqtop.
build=(gcc g++ libc6-dev cmake ninja-build pkg-config python3 libibverbs-dev libfabric-dev \
    libncurses-dev)
test=("${build[@]}" libcmocka-dev libssl3 binutils mandoc cmark-gfm iproute2 \
    nftables tcsh spin shellcheck meson)
other=(musl-tools gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
# Slurm's plugin loads libpmix.so, which is only in libpmix-dev.
managers=(mpich openmpi-bin libopenmpi-dev slurmctld slurmd slurm-client libpmix-dev munge \
    openssh-server openssh-client)
rdma=(qemu-system-x86 seabios busybox-static kmod cpio xz-utils rdma-core ibverbs-providers)
all=("${test[@]}" "${managers[@]}" "${rdma[@]}" clang-format-14 abigail-tools \
    reuse yamllint rpm rpmlint)
mpi=(netpipe-openmpi hpcc python3-mpi4py lammps lammps-examples scalapack-mpi-test \
    libcoarrays-openmpi-dev)
browser=(chromium-headless-shell fonts-dejavu-core)
deb=("${build[@]}" debhelper libcmocka-dev libssl3)
deb_test=("${deb[@]}" debootstrap iproute2 lintian)
ci=("${all[@]}" "${other[@]}" "${mpi[@]}" "${browser[@]}" "${deb_test[@]}" clang libclang-rt-14-dev)
format=(git clang-format-14)
tidy=(git clang-tidy)
site=(python3 mandoc cmark-gfm)
# Commands that these packages provide, for systems without dpkg.
build_commands=(gcc g++ cmake ninja pkg-config python3)

fail()
{
    printf 'install-deps: %s\n' "$*" >&2
    exit 1
}

case "${1:-}" in
build) wanted=("${build[@]}") ;;
test) wanted=("${test[@]}") ;;
all) wanted=("${all[@]}") ;;
ci) wanted=("${ci[@]}") ;;
format) wanted=("${format[@]}") build_commands=("${format[@]}") ;;
tidy) wanted=("${tidy[@]}") build_commands=("${tidy[@]}") ;;
site) wanted=("${site[@]}") build_commands=("${site[@]}") ;;
deb) wanted=("${deb[@]}") build_commands+=(dh) ;;
deb-test) wanted=("${deb_test[@]}") build_commands+=(dh lintian debootstrap ip) ;;
*) fail "give a set: build, test, all, ci, format, tidy, site, deb or deb-test" ;;
esac

if ! command -v dpkg-query >/dev/null; then
    absent=()
    for command in "${build_commands[@]}"; do
        command -v "$command" >/dev/null || absent+=("$command")
    done
    [ ${#absent[@]} -eq 0 ] || fail "this is not a Debian system, so packages cannot be installed" \
        "for you; please install: ${absent[*]} (the packages are named in .ci/install-deps.sh)"
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing, and only root may install" \
        "them: ${missing[*]}; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
fi

apt()
{
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@"
}

echo "Installing what is missing for '$1': ${missing[*]}"
log=$(mktemp)
# The tests start their own daemons; those of the packages (munge) must not start on this system.
policy=/usr/sbin/policy-rc.d
if [ -e "$policy" ]; then
    policy=
else
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
fi
tidy()
{
    rm -f "$log"
    [ -z "$policy" ] || "${as_root[@]}" rm -f "$policy"
}
trap tidy EXIT
# Package lists may be missing (a fresh image) or older than the mirror: then update them once.
if ! apt install --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1; then
    if ! { apt update && apt install --no-install-recommends "${missing[@]}"; } \
        </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "apt-get could not install: ${missing[*]}; the end of its output is above"
    fi
fi
