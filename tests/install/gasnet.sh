#!/bin/bash
# Install, move the tree, and build clients of the GASNet interface through the make fragments and
# pkg-config, for every network and mode, in C and C++; run them alone, with the launchers and with
# GASNET_PSHM_NODES. With the argument udp or ofi, programs for that network must also use it.
# Programs for ibv and ofi are first run over shared memory; ibv over adapters is tested in
# tests/rdma.
# usage: gasnet.sh BUILD_DIR SOURCE_DIR [udp] [ofi]
set -euo pipefail
build=$1
case " ${*:3} " in *" udp "*) udp=udp ;; *) udp= ;; esac
case " ${*:3} " in *" ofi "*) ofi=ofi ;; *) ofi= ;; esac

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
# The path of the checkout may contain blanks, which make does not support.
here=$top/sources
cp -r "$2/tests/install/gasnet" "$here"

fail()
{
    echo "gasnet install test: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$top/before" >/dev/null
mv "$top/before" "$top/after"
tree=$top/after/lib/aqueduct/gasnet
export PKG_CONFIG_PATH=$tree/lib/pkgconfig
unset GASNET_PSHM_NODES GASNET_SPAWNFN GASNET_SUPERNODE_MAXSIZE
unset AQ_RANK AQ_NEIGHBORHOOD AQ_TRANSPORTS
grep -rIl -e "$top" -e "$build" "$tree" && fail "the files above name the folder of the build"

# --- variables for configure scripts -----------------------------------------------------------
version=
for part in MAJOR MINOR PATCH; do
    number=$(awk "/GASNET_RELEASE_VERSION_$part/ {print \$3}" "$tree/include/gasnet_config.h")
    [[ $number =~ ^[0-9]+$ ]] || fail "GASNET_RELEASE_VERSION_$part is \"$number\""
    version=$version${version:+.}$number
done
[ "$(pkg-config --modversion gasnet-smp-par)" = "$version" ] || fail "pkg-config: other version"
[ "$(cd "$tree/include" && echo *-conduit)" = "ibv-conduit ofi-conduit smp-conduit udp-conduit" ] ||
    fail "other conduits"
for net in smp udp ibv ofi; do
    [ -f "$tree/include/$net-conduit/gasnet_core.h" ] || fail "there is no gasnet_core.h of $net"
done
names="GASNET_CC GASNET_CXX GASNET_LD GASNET_LIBS GASNET_DEFINES GASNET_LD_REQUIRES_MPI"
show=$(make -s -f "$here/Makefile" FRAGMENT="$tree/include/smp-conduit/smp-par.mak" show \
    NAMES="$names")
grep -qx 'GASNET_LD_REQUIRES_MPI=' <<<"$show" || fail "GASNET_LD_REQUIRES_MPI is set"
grep -q '^GASNET_LIBS=.*-lgasnet-smp-par' <<<"$show" || fail "GASNET_LIBS: $show"
read -ra words < <(sed -n 's/^GASNET_LIBS=//p' <<<"$show")
for word in "${words[@]}"; do
    [[ $word == -[lL]* ]] || fail "GASNET_LIBS has $word"
done
# As in Legion's CMake files: network and mode are taken from the names of the fragments, and each
# library is located as a file.
for fragment in "$tree"/include/*-conduit/*.mak; do
    [[ ${fragment##*/} =~ ^([a-z]+)-(seq|par|parsync)\.mak$ ]] || fail "what is $fragment?"
    [ -f "$tree/lib/libgasnet-${BASH_REMATCH[1]}-${BASH_REMATCH[2]}.a" ] ||
        fail "$fragment: no library"
done
for word in "${words[@]}"; do
    [[ $word == -l* ]] || continue
    library=lib${word#-l}
    [ -f "$tree/lib/$library.a" ] || [[ $(cc -print-file-name="$library.a") == /* ]] ||
        [[ $(cc -print-file-name="$library.so") == /* ]] || fail "there is no file for $word"
done
read -ra words < <(sed -n 's/^GASNET_DEFINES=//p' <<<"$show")
for word in "${words[@]}"; do
    [[ $word == -[DU]* ]] || fail "GASNET_DEFINES has $word"
done
[ "$(pkg-config --variable=GASNET_LD_REQUIRES_MPI gasnet-smp-par)" = "" ] || fail "MPI in the .pc"
pkg-config --variable=GASNET_LIBS gasnet-smp-seq | grep -q -- -lgasnet-smp-seq || fail "GASNET_LIBS"

run_path=$(pkg-config --variable=run_path gasnet-smp-par)
[ "$run_path" = "-Wl,-rpath,$tree/lib/pkgconfig/../../lib" ] || fail "run_path is $run_path"
[ -n "$(pkg-config --variable=run_path gasnet_tools-seq)" ] || fail "no run_path for the tools"

# --- build ---------------------------------------------------------------------------------------
strict="-Wall -Wextra -Werror"
mkdir "$top/bin"
modes_of() # NET: the differences between modes need testing with one network only
{
    case $1 in smp) echo seq par parsync ;; udp) echo seq par ;; *) echo par ;; esac
}
ways_of() # NET MODE: all for one of them; for the others each language and each kind of file
{
    case $1-$2 in smp-par) echo mak-c mak-cxx pc-c pc-cxx ;; *) echo mak-c pc-cxx ;; esac
}
for net in smp udp ibv ofi; do
    for mode in $(modes_of "$net"); do
        ways=" $(ways_of "$net" "$mode") "
        for language in c cxx; do
            [[ $ways == *" mak-$language "* ]] || continue
            make -s -f "$here/Makefile" FRAGMENT="$tree/include/$net-conduit/$net-$mode.mak" \
                SOURCE="$here/client.c" OUT="$top/bin/$net-mak-$mode-$language" \
                LANGUAGE=$language STRICT="$strict" ||
                fail "$net-$mode.mak, $language: does not build"
        done
        # shellcheck disable=SC2046,SC2086 # split into words
        [[ $ways != *" pc-c "* ]] || $(pkg-config --variable=GASNET_CC gasnet-$net-$mode) $strict \
            -o "$top/bin/$net-pc-$mode-c" "$here/client.c" \
            $(pkg-config --cflags --libs gasnet-$net-$mode) ||
            fail "gasnet-$net-$mode.pc, C: does not build"
        # shellcheck disable=SC2046,SC2086
        $(pkg-config --variable=GASNET_CXX gasnet-$net-$mode) $strict -x c++ -std=c++11 \
            -o "$top/bin/$net-pc-$mode-cxx" "$here/client.c" -x none \
            $(pkg-config --cflags --libs gasnet-$net-$mode) ||
            fail "gasnet-$net-$mode.pc, C++: does not build"
    done
done
for mode in seq par; do
    make -s -f "$here/Makefile" FRAGMENT="$tree/include/gasnet_tools-$mode.mak" tools \
        SOURCE="$here/tools.c" OUT="$top/tools-$mode" STRICT="$strict" || fail "tools do not build"
    "$top/tools-$mode" >/dev/null || fail "tools-$mode: exit $?"
done

# --- a C++ compiler that defines _GNU_SOURCE in another way ---------------------------------------
for package in gasnet-smp-par gasnet_tools-par; do
    # shellcheck disable=SC2046
    echo | c++ -U_GNU_SOURCE -D_GNU_SOURCE= -Werror -fsyntax-only -x c++ - \
        $(pkg-config --cflags $package) ||
        fail "$package: _GNU_SOURCE"
done

# --- through a link to include/, as UPC++ has it in its own tree ---------------------------------
mkdir "$top/linked"
ln -s "$tree/include" "$top/linked/include"
make -s -f "$here/Makefile" FRAGMENT="$top/linked/include/smp-conduit/smp-par.mak" \
    SOURCE="$here/client.c" OUT="$top/bin/smp-linked-par-c" LANGUAGE=c STRICT="$strict" ||
    fail "smp-par.mak through a link does not build"
make -s -f "$here/Makefile" FRAGMENT="$top/linked/include/gasnet_tools-par.mak" tools \
    SOURCE="$here/tools.c" OUT="$top/tools-linked" STRICT="$strict" ||
    fail "gasnet_tools-par.mak through a link does not build"
# Likewise for its headers, through which the program finds aqrun.
# shellcheck disable=SC2046
cc -D_GNU_SOURCE -DGASNET_PAR -I"$top/linked/include" -I"$top/linked/include/smp-conduit" \
    -o "$top/bin/smp-headers-par-c" "$here/client.c" $(pkg-config --libs gasnet-smp-par) ||
    fail "headers through a link do not build"

# --- a unit of another mode or network fails to link, at a symbol that names the cause ------------
for other in udp-par smp-seq; do
    # shellcheck disable=SC2046
    ! cc -o "$top/wrong" "$here/client.c" $(pkg-config --cflags gasnet-$other) \
        $(pkg-config --libs gasnet-smp-par) 2>"$top/log" ||
        fail "a client of $other links with smp-par"
    grep -q "undefined reference.*aqg_built_for_${other/-/_}" "$top/log" ||
        fail "link: $(cat "$top/log")"
done

# --- the thread sanitizer in the client only ------------------------------------------------------
# shellcheck disable=SC2046
cc -fsanitize=thread -o "$top/sanitized" "$here/client.c" \
    $(pkg-config --cflags --libs gasnet-smp-par) 2>"$top/log" || fail "tsan: $(cat "$top/log")"

# --- inside a shared library of the client, as runtimes use it ----------------------------------
printf '%s\n' '#include <gasnet.h>' 'int job_start(void);' 'void job_end(int code);' \
    'int job_start(void) { return gasnet_init(NULL, NULL) + gasnet_attach(NULL, 0, 4096, 0); }' \
    'void job_end(int code) { gasnet_barrier(0, 16); gasnet_exit(code); }' >"$top/runtime.c"
printf '%s\n' 'int job_start(void);' 'void job_end(int code);' \
    'int main(void) { job_end(job_start() == 0 ? 6 : 1); }' >"$top/user.c"
# shellcheck disable=SC2046
cc -shared -fPIC -Wl,--no-undefined -o "$top/libruntime.so" "$top/runtime.c" \
    $(pkg-config --cflags --libs gasnet-smp-seq) || fail "no shared library with the client in it"
cc -o "$top/user" "$top/user.c" -L"$top" -lruntime -Wl,-rpath,"$top"
got=0
"$tree/bin/gasnetrun_smp" -n 2 "$top/user" || got=$?
[ "$got" = 6 ] || fail "a runtime in a shared library ends with $got"

# --- run ---------------------------------------------------------------------------------------
# shellcheck disable=SC2016 # must not be expanded
awkward='$HOME;"'--
setarch -R true 2>/dev/null && export CLIENT_SAME=1
ran=0
for program in "$top"/bin/*-c "$top"/bin/*-cxx; do
    IFS=- read -r net _ mode _ <<<"${program##*/}"
    for ident in "GASNetConduitName: ${net^^}" "GASNetSegment: GASNET_SEGMENT_FAST" \
        "GASNetConfig: (libgasnet.a) RELEASE=" "GASNetEXAPIVersion: 0.19" "GASNetAPIVersion: 1"; do
        grep -aqF "\$$ident" "$program" || fail "$program does not say $ident"
    done
    grep -aqF "\$GASNetThreadModel: GASNET_${mode^^} \$" "$program" ||
        fail "$program does not say its threading mode"
    "$program" >"$top/out" || fail "$program alone: exit $?"
    grep -qx "client 0 of 1 in mode ${net^^}:" "$top/out" ||
        fail "$program alone: $(cat "$top/out")"
    run=$tree/bin/gasnetrun_$net
    case $net in ibv | ofi) export AQ_TRANSPORTS=loop,shm ;; *) unset AQ_TRANSPORTS ;; esac
    "$run" -n 2 "$program" 'a b' "$awkward" '' >"$top/out" || fail "$run -n 2 $program: exit $?"
    [ "$(grep -cF "of 2 in mode ${net^^}: [a b] [$awkward] []" "$top/out")" = 2 ] ||
        fail "$run -n 2 $program: $(cat "$top/out")"
    ran=$((ran + 1))
    [ "$net" = smp ] || continue
    GASNET_PSHM_NODES=3 "$program" 'a  b' '*' >"$top/out" || fail "GASNET_PSHM_NODES: exit $?"
    [ "$(grep -cF 'of 3 in mode SMP: [a  b] [*]' "$top/out")" = 3 ] ||
        fail "GASNET_PSHM_NODES=3 $program: $(cat "$top/out")"
done
unset AQ_TRANSPORTS
[ "$ran" = 18 ] || fail "$ran clients were built instead of 18"

# --- the network ibv: an error without an adapter; unknown spawners -------------------------------
program=$top/bin/ibv-mak-par-c
run=$tree/bin/gasnetrun_ibv
if [ ! -d /sys/class/infiniband ]; then
    ! "$run" -n 2 "$program" >"$top/out" 2>"$top/log" || fail "ibv: runs without an adapter"
    grep -q 'ibv\|RDMA' "$top/log" || fail "ibv without an adapter: $(cat "$top/log")"
fi
for net in ibv ofi; do
    env "GASNET_${net^^}_SPAWNER=none" GASNET_SPAWNFN=L "$tree/bin/gasnetrun_$net" -n 2 \
        "$top/bin/$net-mak-par-c" 2>"$top/log" && fail "$net: spawner none"
    grep -q "unknown spawner \"none\" (GASNET_${net^^}_SPAWNER)" "$top/log" ||
        fail "spawner none of $net: $(cat "$top/log")"
done

GASNET_VAPI_SPAWNER=none GASNET_SPAWNER=L "$tree/bin/gasnetrun_vapi" -n 2 "$top/bin/ibv-mak-par-c" \
    2>"$top/log" && fail "gasnetrun_vapi: spawner none"
grep -q 'gasnetrun_vapi: unknown spawner "none" (GASNET_VAPI_SPAWNER)' "$top/log" ||
    fail "vapi: $(cat "$top/log")"

# --- the network ofi: with a provider that exists, and one that does not --------------------------
program=$top/bin/ofi-mak-par-c
run=$tree/bin/gasnetrun_ofi
over_ofi() # PROVIDER: a job of two processes that are not neighbors
{
    env GASNET_SUPERNODE_MAXSIZE=1 GASNET_OFI_PROVIDER="$1" "$run" -n 2 "$program" 3 \
        >"$top/out" 2>"$top/log"
}
if [ -n "$ofi" ]; then
    over_ofi tcp || fail "over tcp: $(cat "$top/out" "$top/log")"
    [ "$(grep -c 'of 2 in mode OFI: \[3\]' "$top/out")" = 2 ] || fail "over tcp: $(cat "$top/out")"
    ! over_ofi none || fail "the provider none: it runs"
    grep -q 'libfabric has no provider none' "$top/log" || fail "none: $(cat "$top/log")"
fi

# --- the network udp: whether it is used, and how jobs are started --------------------------------
program=$top/bin/udp-mak-par-c
runs() # COMMAND…: checks that it is a job of two that ends as it should
{
    "$@" >"$top/out" 2>&1 || fail "$*: exit $? $(cat "$top/out")"
    [ "$(grep -c 'of 2 in mode UDP: \[3\]' "$top/out")" = 2 ] || fail "$*: $(cat "$top/out")"
}
lost=(AQ_UDP_LOSSY=loss=1000 AQ_UDP_DEAD_AFTER=300ms)
sends() # COMMAND…: likewise, but not if udp drops all packets
{
    [ -n "$udp" ] || return 0
    runs env "$@"
    ! env "${lost[@]}" "$@" >"$top/out" 2>&1 || fail "$*: does not use udp"
    grep -q 'does not answer' "$top/out" || fail "$*: $(cat "$top/out")"
}
run=$tree/bin/gasnetrun_udp
amudprun=$tree/bin/amudprun
runs env "${lost[@]}" "$run" -n 2 -N 1 "$program" 3
sends GASNET_SUPERNODE_MAXSIZE=1 "$run" -n 2 "$program" 3
sends AQ_NEIGHBORHOOD=1 "$amudprun" -np 2 "$program" 3
sends AQ_TRANSPORTS=udp "$run" -n 2 "$program" 3
for start in "$amudprun -np 2 -spawn L" "$run -spawner=local -n2 --" "$run -np 2"; do
    # shellcheck disable=SC2086
    GASNET_SPAWNFN=L runs $start "$program" 3
done
for wrong in "env GASNET_SPAWNFN=S $run" "$run -spawner=ssh"; do
    got=0
    # shellcheck disable=SC2086
    $wrong -n 2 "$program" >"$top/out" 2>"$top/log" || got=$?
    [ "$got:$(grep -c 'no hosts are known.*AQ_HOSTS' "$top/log")" = 2:1 ] ||
        fail "$wrong: exit $got: $(cat "$top/out" "$top/log")"
done
got=0
"$amudprun" -spawn C -n 2 "$program" >"$top/out" 2>"$top/log" || got=$?
[ "$got:$(grep -c 'unknown spawner "C" (-spawn)' "$top/log")" = 2:1 ] ||
    fail "-spawn C: exit $got: $(cat "$top/out" "$top/log")"
plans() # TEXT COMMAND…: -t prints it
{
    text=$1
    shift
    "$@" >"$top/out" 2>"$top/log" || fail "$*: exit $? $(cat "$top/log")"
    grep -qF -- "$text" "$top/out" || fail "$*: $(cat "$top/out")"
}
far=(env GASNET_SSH_SERVERS='n1 n2,n3' GASNET_SSH_OPTIONS='-p 22' "$run" -t)
plans '# n2, 2 of 4 processes, reached by ssh -p 22 -T' "${far[@]}" -n 4 -N 2 "$program"
plans '# n3, 1 of 4 processes' "${far[@]}" -n 4 -spawner=ssh "$program"
plans 'AQ_LOCAL_SIZE=4' "${far[@]}" -n 4 -spawn L -N 2 "$program"
printf 'h1\n# h2\nh3\n' >"$top/nodes"
plans '# h3, 1 of 2' env GASNET_NODEFILE="$top/nodes" "$amudprun" -np 2 -t "$program"
mkdir "$top/managers"
printf '#!/bin/sh\necho "srun $*"\n' >"$top/managers/srun"
chmod +x "$top/managers/srun"
plans "srun --mpi=pmi2 --ntasks=2 --nodes=1 --export=ALL $program a b" \
    env PATH="$top/managers:$PATH" "$run" -spawner=pmi2 -n 2 -N 1 -E PATH,NO "$program" 'a b'
runs_itself() # RANKS ARGUMENTS COMMAND…: it starts a job, or is part of the manager's
{
    wanted=$1 arguments=$2
    shift 2
    "$@" >"$top/out" 2>"$top/log" || fail "$*: exit $? $(cat "$top/out" "$top/log")"
    [ "$(grep -cxF "client 0 of $wanted in mode UDP:$arguments" "$top/out")" = 1 ] ||
        fail "$*: $(cat "$top/out" "$top/log")"
}
runs_itself 3 ' [x y]' "$program" 3 'x y'
runs_itself 2 '' env GASNET_SPAWNFN=L GASNET_SSH_SERVERS=far "$program" 2
ln -s "$program" "$top/bin/called"
(cd "$top/bin" && runs_itself 2 ' [b]' ./called 2 b)
got=0
GASNET_SPAWNFN=S "$program" 2 >"$top/out" 2>"$top/log" || got=$?
[ "$got:$(grep -c 'no hosts are known' "$top/log")" = 2:1 ] ||
    fail "S: exit $got: $(cat "$top/log")"
! GASNET_SPAWNFN=C "$program" 2 >"$top/out" 2>"$top/log" || fail "C: it runs"
grep -q 'gasnet: unknown spawner "C" (GASNET_SPAWNFN): give L' "$top/log" ||
    fail "C: $(cat "$top/log")"
for arguments in '4x' '-4' '0' 'x 4'; do
    # shellcheck disable=SC2086
    runs_itself 1 "$(printf ' [%s]' $arguments)" "$program" $arguments
done
runs_itself 1 ' [4]' env AQ_BOOT=single "$program" 4
if manager=$(command -v mpiexec.hydra); then
    runs_itself 2 ' [4]' env -u CLIENT_SAME "$manager" -n 2 "$program" 4
    # In this mode, it uses the name of this host.
    ! getent hosts "$(hostname)" >/dev/null ||
        runs_itself 2 ' [4]' env -u CLIENT_SAME "$manager" -pmi-port -n 2 "$program" 4
fi
plans "any 'o p' -np 2 $program 'a b'" \
    env MPIRUN_CMD="any 'o p' -np %N %C" "$run" -t -spawner=mpi -n 2 "$program" 'a b'
plans "srun -K0 -v -n 2 $program" \
    env PMIRUN_CMD='srun -K0 %V -n %N %C' "$run" -t -spawner=pmi -v -n 2 "$program"
"$top/bin/smp-mak-par-c" 4 >/dev/null || fail "the network smp takes 4 as a number of processes"
for launcher in gasnetrun_{smp,udp,ibv,vapi,ofi} amudprun; do
    "$tree/bin/$launcher" --help | grep -q "^usage: $launcher -n N" || fail "$launcher --help"
done

# --- exit codes, options and errors of the launcher -----------------------------------------------
program=$top/bin/smp-mak-par-c
run=$tree/bin/gasnetrun_smp
for code in 0 7 255; do
    got=0
    CLIENT_EXIT=$code "$run" -np 2 -E CLIENT_EXIT,NO -v -- "$program" >/dev/null 2>&1 || got=$?
    [ "$got" = $code ] || fail "exit code $got instead of $code"
    got=0
    CLIENT_EXIT=$code GASNET_PSHM_NODES=2 "$program" >/dev/null 2>&1 || got=$?
    [ "$got" = $code ] || fail "exit code $got instead of $code with GASNET_PSHM_NODES"
done
for wrong in "" "-n 2" "-x $program" "-n 0 $program"; do
    # shellcheck disable=SC2086
    ! "$run" $wrong >/dev/null 2>"$top/log" || fail "$run $wrong is accepted"
    [ -s "$top/log" ] || fail "$run $wrong prints nothing"
done
echo "$ran clients built and run against the installed tree"
