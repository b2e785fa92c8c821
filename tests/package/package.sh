#!/bin/bash
# The Debian packages: built with their tests, checked by lintian, built again from the source
# package without network access and compared; then installed in a bare system, used, upgraded from
# the previous release, and removed without a trace.
# usage: package.sh OUT [once]     (make deb-test: build/deb, where the packages stay)
#
# once: no second build, and no comparison.
#
# The previous release is the last tag if its tree builds packages; otherwise, the packages of this
# tree with a lower version number take its place.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)

fail()
{
    echo "package test: $*" >&2
    exit 1
}

skip()
{
    echo "skipped: $*"
    exit 77
}

heading()
{
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

# --- requirements ---------------------------------------------------------------------------------
[ "$(id -u)" = 0 ] || skip "only root may make a bare system and change into it"
for command in debootstrap lintian dh dpkg-scanpackages ip; do
    command -v "$command" >/dev/null || skip "$command is missing [.ci/install-deps.sh deb-test]"
done
# Run in new namespaces for mounts and processes; inside a chroot, mounts cannot be private.
if [ -z "${AQ_PACKAGE_ALONE-}" ]; then
    for propagation in private unchanged; do
        alone=(unshare --mount --propagation "$propagation" --pid --fork --kill-child --mount-proc)
        ! "${alone[@]}" true 2>/dev/null || AQ_PACKAGE_ALONE=1 exec "${alone[@]}" "$BASH" "$0" "$@"
    done
    skip "no namespaces of mounts and processes can be made here (unshare)"
fi
unset AQ_PACKAGE_ALONE # the library would report it as unknown
mkdir -p "$1"
out=$(cd "$1" && pwd) times=${2-twice}
top=$(mktemp -d)
root=$top/root
mkdir "$root"
tidy()
{
    # Kill all processes of the namespace except this one, which is its first.
    [ $$ != 1 ] || kill -KILL -1 2>/dev/null || true
    wait
    ! mountpoint -q "$root" || umount --recursive --lazy "$root"
    rm -rf "$top"
}
trap tidy EXIT
trap 'exit 1' HUP INT TERM
mount -t tmpfs -o size=2g tmpfs "$root" 2>"$top/log" || skip "$(cat "$top/log")"
mknod "$root/null" c 1 3 2>"$top/log" || skip "$(cat "$top/log")"
rm "$root/null"

# --- the bare system ----------------------------------------------------------------------------
# within COMMAND …: run it inside the bare system.
within()
{
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

apt()
{
    within apt-get -y -q "$@" >"$top/apt.log" 2>&1 ||
        { tail -n 30 "$top/apt.log" >&2; fail "apt-get $*"; }
}

# Use the same mirror, proxy and settings as this system.
make_system()
{
    local codename mirror proxy=
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    # shellcheck disable=SC2016 # apt's
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$codename //p" | head -n 1)
    [ -n "$mirror" ] || fail "no source of apt-get has the release \"$codename\""
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    export ${proxy:+http_proxy="$proxy"}
    debootstrap --variant=minbase "$codename" "$root" "$mirror"
    { apt-config dump | grep -E '^Acquire::(https?|Check|Retries)' || true; } \
        >"$root/etc/apt/apt.conf.d/90host"
    echo 'force-unsafe-io' >"$root/etc/dpkg/dpkg.cfg.d/fast"
    mount -t proc proc "$root/proc"
    apt update
    apt install --no-install-recommends gcc libc6-dev pkg-config
}

# List the files of the system with their properties, except those that Debian's tools keep: lists
# and packages of apt, backups of dpkg and adduser (libibverbs1 adds a group), logs.
list_files()
{
    local but=() path
    for path in '/var/lib/apt/*' '/var/cache/apt/*' '/var/lib/dpkg/*-old' '/etc/*-' '/run/adduser' \
        '/var/log/*'; do
        but+=(-path "$root$path" -prune -o)
    done
    find "$root" -xdev "${but[@]}" -printf '/%P %y %m %u:%g %l\n' | sort
}

# --- packages -------------------------------------------------------------------------------------
# offer FOLDER: make its packages available to apt.
offer()
{
    rm -rf "$root/packages"
    mkdir "$root/packages"
    cp "$1"/*.deb "$root/packages"
    (cd "$root/packages" && dpkg-scanpackages . 2>/dev/null >Packages)
    echo 'deb [trusted=yes] file:/packages ./' >"$root/etc/apt/sources.list.d/packages.list"
    apt update -o Dir::Etc::sourcelist=sources.list.d/packages.list -o Dir::Etc::sourceparts=- \
        -o APT::Get::List-Cleanup=0
}

state_of()
{
    # shellcheck disable=SC2016 # dpkg's
    within dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true
}

# installed VERSION: check that all packages are installed in this version.
installed()
{
    local name version
    for name in "${packages[@]}"; do
        # shellcheck disable=SC2016 # dpkg's
        version=$(within dpkg-query -W -f '${Version}' "$name" || true)
        [ "$version" = "$1" ] || fail "$name is installed in version \"$version\", not $1"
    done
}

# lowered DEB FOLDER: put the package into the folder with a lower version number.
lowered()
{
    local tree=$top/lowered
    rm -rf "$tree"
    dpkg-deb -R "$1" "$tree"
    sed -i "s/\(^Version: \|(= \)$version/\10~previous/g" "$tree/DEBIAN/control"
    dpkg-deb -Znone -b "$tree" "$2" >/dev/null
}

make_previous()
{
    local tag deb
    tag=
    [ ! -e "$source/.git" ] ||
        tag=$(git -C "$source" describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null) ||
        tag=
    if [ -n "$tag" ] && git -C "$source" cat-file -e "$tag:tools/dev/mkdeb.sh" 2>/dev/null; then
        mkdir "$top/tag"
        git -C "$source" archive "$tag" | tar -x -C "$top/tag"
        DEB_BUILD_OPTIONS="$quick" "$top/tag/tools/dev/mkdeb.sh" "$top/previous"
    else
        mkdir "$top/previous"
        for deb in "$out"/*.deb; do lowered "$deb" "$top/previous"; done
    fi
    previous=$(dpkg-deb -f "$top"/previous/aqueduct-tools_*.deb Version)
}

# Build again from the source package, in another folder, at another time, with other settings and
# without tests; the first build included the tests.
build_again()
{
    dpkg-source -x "$out"/*.dsc "$top/again/another-name"
    cd "$top/again/another-name"
    unshare --net env DEB_BUILD_OPTIONS="$quick" TZ=Asia/Tokyo LC_ALL=C.UTF-8 \
        sh -c 'umask 027; dpkg-buildpackage -us -uc -b'
}

same_again()
{
    local deb differ=
    for deb in "$out"/*.deb; do
        cmp "$deb" "$top/again/${deb##*/}" || differ="$differ ${deb##*/}"
    done
    [ -z "$differ" ] || fail "a second build makes different packages:$differ"
}

# --- programs -------------------------------------------------------------------------------------
# clients WHAT: compile and run clients in the bare system, with no network except loopback.
clients()
{
    unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
        chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 /clients/clients.sh "$1"
}

copy_clients()
{
    mkdir "$root/clients"
    # shellcheck disable=SC2016 # the backticks are Markdown's
    sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$root/clients/readme.c"
    cp "$here/clients.sh" "$source/tests/install/cci.c" "$source/examples/gasnet/hello.c" \
        "$root/clients"
}

# --- the test -------------------------------------------------------------------------------------
quick="nocheck noautodbgsym parallel=$(nproc)"
make_system >"$top/system.log" 2>&1 &
system=$!

heading 'build, with the unit tests'
"$source/tools/dev/mkdeb.sh" "$out"
mapfile -t packages < <(for deb in "$out"/*.deb; do dpkg-deb -f "$deb" Package; done)
version=$(dpkg-deb -f "$out"/aqueduct-tools_*.deb Version)

mkdir "$top/again"
if [ "$times" != once ]; then
    build_again >"$top/again.log" 2>&1 &
    again=$!
fi

heading 'lintian'
# Ignore spelling in binaries: four bytes of machine code can look like a misspelled word.
# lintian leaves its tables of ELF files (mldbm-elf-*) in TMPDIR.
TMPDIR=$top lintian --fail-on error,warning,info --display-info --allow-root \
    --suppress-tags spelling-error-in-binary "$out"/*.changes

heading 'the previous release'
make_previous
note=
[ "$previous" != 0~previous ] || note=': these packages again, as there is none with packages'
echo "        $previous$note"

heading 'the bare system'
wait $system || { tail -n 20 "$top/system.log" >&2; fail "the bare system cannot be made"; }
list_files >"$top/before"
copy_clients

heading "install $previous, without what is recommended"
offer "$top/previous"
apt install --no-install-recommends aqueduct-tools libaqueduct-dev
for network in libibverbs1 libfabric1 libpmix2; do
    [ "$(state_of "$network")" != installed ] || fail "$network is required"
done
clients bare
apt install --no-install-recommends "${packages[@]}" libfabric-bin
installed "$previous"

heading "upgrade to $version"
offer "$out"
apt full-upgrade --no-install-recommends
installed "$version"
clients built_before

heading 'use all packages, with the libraries of networks'
IFS=', ' read -ra recommended < <(dpkg-deb -f "$out"/libaqueduct0*.deb Recommends)
apt install --no-install-recommends "${recommended[@]}"
within apt-mark auto "${recommended[@]}" libfabric-bin >/dev/null
clients all

heading 'remove and purge'
apt remove "${packages[@]}"
[ ! -e "$root/usr/bin/aqrun" ] || fail "aqrun is still there"
apt purge "${packages[@]}"
apt autoremove --purge # their dependencies
rm -r "$root/packages" "$root/clients" "$root/etc/apt/sources.list.d/packages.list"
list_files >"$top/after"
diff "$top/before" "$top/after" >&2 || fail "the files above were left or lost"

if [ "$times" != once ]; then
    heading 'compare with the second build'
    wait "$again" || { tail -n 20 "$top/again.log" >&2; fail "the second build failed"; }
    same_again
fi
heading "all is well; the packages are in $out"
