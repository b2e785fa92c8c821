#!/bin/bash
# Checks the RPM spec: rpmlint has no findings, %check passes, and the lists of files contain each
# installed file once. Runs only the steps after %build, with the given build.
# usage: rpm.sh BUILD_DIR SOURCE_DIR PREFIX LIBDIR
set -euo pipefail
build=$1
source=$2

for program in rpmbuild rpmlint; do
    command -v "$program" >/dev/null ||
        { echo "skipped: $program is not installed [.ci/install-deps.sh all]"; exit 77; }
done
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
spec=$top/aqueduct.spec # a copy, since rpmbuild splits paths at blanks
cp "$source/packaging/rpm/aqueduct.spec" "$spec"

rpmlint -r "$source/packaging/rpm/aqueduct.rpmlintrc" "$spec" >"$top/lint" 2>&1 ||
    { cat "$top/lint" >&2; exit 1; }
version=$(sed -n 's/^Version: *//p' "$spec")
mkdir -p "$top/BUILD/aqueduct-$version"
ln -s "$build" "$top/BUILD/aqueduct-$version/build"
cp "$source/LICENSE" "$top/BUILD/aqueduct-$version"
# Omit the steps that change installed files (strip, compression), which take long.
rpmbuild -bi --short-circuit --nodeps --define "_topdir $top" --define "_tmppath $top" \
    --define "_prefix $3" --define "_lib $4" --define "_libdir $3/$4" \
    --define "_defaultdocdir $3/share/doc" \
    --define '__os_install_post %{nil}' "$spec" >"$top/log" 2>&1 ||
    { grep -A 20 -i 'error\|not found\|unpackaged' "$top/log" >&2 || tail "$top/log" >&2; exit 1; }
grep -q '^Checking for unpackaged' "$top/log" || { tail "$top/log" >&2; exit 1; }
grep -i 'listed twice' "$top/log" && exit 1
echo 'the lists of files in the spec are complete'
