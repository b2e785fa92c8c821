#!/bin/bash
# Install, move the tree, and build and run a client against it in every documented way.
# usage: run.sh BUILD_DIR SOURCE_DIR CC CXX
set -euo pipefail
build=$1
source=$2
cc=$3
cxx=$4

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
# Commands that contain this path are split into words, and the path of the checkout may contain
# blanks.
here=$top/sources
cp -r "$source/tests/install" "$here"

fail()
{
    echo "install test: $*" >&2
    exit 1
}

# --- install: by component, then completely, then moved -----------------------------------------
cmake --install "$build" --prefix "$top/runtime" --component runtime >/dev/null
[ "$(cd "$top/runtime" && find . -type f | grep -vc '/libaqueduct\.so\.[0-9.]*$')" = 0 ] ||
    fail "component runtime holds more than the shared library"
cmake --install "$build" --prefix "$top/before" >/dev/null
mv "$top/before" "$top/after the move"
prefix="$top/after the move"
grep -rIl -e "$top" -e "$build" -e "$source" "$prefix" &&
    fail "the files above name the folder of the build or of the installation"
for tool in aqrun aqinfo aqperf aqtop; do
    [ -x "$prefix/bin/$tool" ] || fail "bin/$tool was not installed"
    readelf -d "$prefix/bin/$tool" | grep -E 'R(UN)?PATH' | grep -v 'ORIGIN' &&
        fail "bin/$tool has an absolute run path"
    "$prefix/bin/$tool" --help >/dev/null || fail "bin/$tool --help fails"
done

# --- build: pkg-config shared and static, find_package shared and static -------------------------
mkdir "$top/bin"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# pkg-config escapes blanks in the prefix, which needs eval to undo.
for language in c cc; do
    compiler=$cc
    [ "$language" = c ] || compiler="$cxx -std=c++11"
    eval "$compiler -Wall -Wextra -Werror -o $top/bin/pkg-shared-$language $here/client.$language" \
        "$(pkg-config --cflags --libs aqueduct)"
    # The linker warns that dlopen in a static program needs the shared C library at run time, hence
    # the log.
    eval "$compiler -static -o $top/bin/pkg-static-$language $here/client.$language" \
        "$(pkg-config --static --cflags --libs aqueduct)" 2>"$top/static.log" ||
        { cat "$top/static.log" >&2; fail "static link by pkg-config failed"; }
done
# With the run path from the .pc file, a program finds the shared library by itself.
eval "$cc -o $top/run-path $here/client.c" "$(pkg-config --cflags --libs aqueduct)" \
    "$(pkg-config --variable=run_path aqueduct)"
(unset LD_LIBRARY_PATH && "$top/run-path" >/dev/null) ||
    fail "run_path does not lead to the library"
# Values that do not fit into an argument are rejected at compile time, with an explanation.
for refused in 'aq_args(1.5f)' '(AQ_ARGS(1ll))' '(AQ_ARGS(&evaluated))' 'AQ_ARG64(1.5)'; do
    "$cxx" -std=c++11 -fsyntax-only -I "$prefix/include" "-DREFUSED=$refused" "$here/client.cc" \
        2>"$top/refused.log" && fail "$refused compiles"
    grep -Eq 'an argument is an integer|more than 32 bits|takes an integer' "$top/refused.log" ||
        fail "$refused: $(cat "$top/refused.log")"
done
# project FOLDER PREFIX PARTS: configure the project with these components of the package.
project()
{
    cmake -G Ninja -S "$here/project" -B "$top/$1" -DCMAKE_PREFIX_PATH="$2" "-DPARTS=$3" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
}
networks=$(pkg-config --variable=transports aqueduct | grep -o 'ibv\|ofi' | tr '\n' ';')
{ project project "$prefix" "gasnet;cci;$networks" && cmake --build "$top/project"; } \
    >"$top/cmake.log" 2>&1 ||
    { cat "$top/cmake.log" >&2; fail "the project with find_package does not build"; }
# A component missing from the build or the installation is reported with the remedy.
cmake --install "$build" --prefix "$top/runtime" --component dev >/dev/null
config=$top/runtime/lib/cmake/aqueduct/aqueductConfig.cmake
sed -i 's/^set(aqueduct_\(ibv\|ofi\)_FOUND .*)/set(aqueduct_\1_FOUND FALSE)/' "$config"
project parts "$top/runtime" 'gasnet;ibv;ofi;fi;cci;mpi' >"$top/cmake.log" 2>&1 &&
    fail 'components that are not installed are found'
tr -s '\n ' ' ' <"$top/cmake.log" >"$top/parts.log"
for message in 'without ibv: install libibverbs-dev, and build with -DAQ_IBV=ON' \
    'without ofi: install libfabric-dev, and build with -DAQ_OFI=ON' \
    'without fi: install libfabric-dev, and build with -DAQ_FI=ON' \
    'without cci: build with -DAQ_CCI=ON' 'has no component mpi; there are ibv'; do
    grep -q -e "$message" "$top/parts.log" || fail "no \"$message\": $(cat "$top/cmake.log")"
done
grep -q 'without gasnet' "$top/parts.log" && fail 'gasnet is not found, though it is there'
# The program in the README is a client, too.
# shellcheck disable=SC2016 # the backticks are Markdown's
sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$top/readme.c"
eval "$cc -std=c11 -Wall -Wextra -Werror -o $top/readme $top/readme.c" \
    "$(pkg-config --cflags --libs aqueduct)"
# A client of CCI's interface, in C and C++.
for compiler in "$cc -x c" "$cxx -x c++ -std=c++11"; do
    (export PKG_CONFIG_PATH="$prefix/lib/aqueduct/cci/lib/pkgconfig"
     eval "$compiler -Wall -Wextra -Werror -o $top/cci $here/cci.c -x none" \
         "$(pkg-config --cflags --libs cci)" "$(pkg-config --variable=run_path cci)"
     [ "$("$top/cci")" = "CCI: hello" ]) || fail "the client of CCI's interface"
done
[ "$("$top/project/cci")" = "CCI: hello" ] || fail "the client of aqueduct::cci"
"$top/project/gasnet-tools" >/dev/null || fail "the client of aqueduct::gasnet_tools-par: exit $?"
"$prefix/lib/aqueduct/gasnet/bin/gasnetrun_smp" -n 2 "$top/project/gasnet" >/dev/null ||
    fail "the client of aqueduct::gasnet-smp-par: exit $?"
for way in shared static; do
    for language in c cc; do
        cp "$top/project/$way-$language" "$top/bin/cmake-$way-$language"
    done
done

# --- run: alone and as a job of two ---------------------------------------------------------------
export LD_LIBRARY_PATH="$prefix/lib"
ran=0
for program in "$top"/bin/*; do
    needs=$(readelf -d "$program" | grep -c 'NEEDED.*libaqueduct\.so\.' || true)
    case $program in
    *-shared-*) [ "$needs" = 1 ] || fail "$program is not linked with the shared library" ;;
    *-static-*) [ "$needs" = 0 ] || fail "$program is not linked with the static library" ;;
    esac
    "$program" >"$top/out" || fail "$program alone: exit $?"
    grep -qx 'client 0 of 1 got both greetings' "$top/out" || fail "$program alone prints nothing"
    "$prefix/bin/aqrun" -n 2 "$program" >"$top/out" || fail "aqrun -n 2 $program: exit $?"
    [ "$(grep -c 'of 2 got both greetings' "$top/out")" = 2 ] ||
        fail "aqrun -n 2 $program printed: $(cat "$top/out")"
    ran=$((ran + 1))
done
# Networks need libraries that only a dynamically linked program can load reliably.
AQ_TRANSPORTS=udp "$prefix/bin/aqrun" -n 2 "$top/bin/pkg-static-c" >"$top/out" 2>&1 &&
    fail 'a static program has used udp'
grep -q 'program linked with -static cannot load .*: link it without -static' "$top/out" ||
    fail "a static program over udp: $(cat "$top/out")"
[ "$ran" = 8 ] || fail "$ran clients were built instead of 8"
"$prefix/bin/aqrun" -n 3 "$top/readme" >"$top/out" || fail "the README's program: exit $?"
[ "$(grep -c 'received 42 from rank [0-2]$' "$top/out")" = 3 ] ||
    fail "the README's program: $(cat "$top/out")"
echo "$ran clients and the README's program built and run against the installed tree"
