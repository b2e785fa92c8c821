#!/bin/sh
# Demonstrates Aqueduct: a picture computed by four processes, and the speed of communication
# between two of them, over shared memory and over UDP.
# usage: demo.sh BUILD_DIR
set -eu

if [ $# -ne 1 ] || [ ! -x "$1/tools/aqrun/aqrun" ]; then
    echo "usage: $0 BUILD_DIR, with a finished build in it (cmake --build BUILD_DIR)" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
aqrun=$build/tools/aqrun/aqrun
picture=$root/demo-heat.png
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Quote words for the shell if necessary.
words()
{
    gap=
    for word in "$@"; do
        case $word in
        '' | *[!A-Za-z0-9_./=:,@%+-]*) word="'$(printf %s "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        printf '%s%s' "$gap" "$word"
        gap=' '
    done
}

# Run a job; if it fails, print its output and exit.
job()
{
    "$aqrun" "$@" >"$work/out" 2>"$work/err" && return
    echo "demo: failed: $(words "$aqrun" "$@")" >&2
    cat "$work/out" "$work/err" >&2
    exit 1
}

# figure PATTERN SIZE COLUMN: a value from aqperf's table; columns are median, limit and percent.
figure()
{
    awk -F, -v pattern="$1" -v size="$2" -v column="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $at["pattern"] == pattern && $at["size"] == size {
            if (column == "percent") printf "%.0f", 100 * $at["ratio"]
            else if ($at[column] == "") printf "(none)"
            else printf $at[column] < 100 ? "%.3g" : "%.0f", $at[column]
        }' "$work/perf.csv"
}

# Whether the limits in aqperf's table varied too much.
unsteady()
{
    awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["unit"] == "ns" && $at["limit"] > 2 * $at["limit_min"] { unsteady = 1 }
        $at["unit"] != "ns" && $at["limit_max"] > 2 * $at["limit"] { unsteady = 1 }
        END {
            if (!unsteady) exit
            print ""
            print "      The machine was busy: its limits varied by more than a factor of two."
            print "      Run this again when it is idle."
        }' "$work/perf.csv"
}

echo "Aqueduct demo: $(nproc) cores, $(uname -sm)"
echo
echo "1. Four processes compute how heat spreads through a plate. Each owns a band of it, and puts"
echo "   its outer rows into its neighbors' memory in each step."
echo
job -n 4 "$build/examples/heat" --size 1920x1080 --steps 800 --output "$picture"
sed -e '/^picture/d' -e 's/^/      /' "$work/out"
echo
echo "2. Two processes communicate, one per core. Next to each figure: the limit of this machine,"
echo "   measured between the same cores at the same time without any library."
echo
job -n 2 "$build/tools/aqperf/aqperf" --repeats 11 --min-time 5ms --csv "$work/perf.csv" \
    --pattern am-short-rtt,am-short-rate,put-lat,put-bw,get-bw --sizes 8,1M
row="      %-40s %8s %-5s  machine: %s %s\n"
# shellcheck disable=SC2059 # the format is ours
{
    printf "$row" "message and its reply" "$(figure am-short-rtt 0 median)" ns \
        "$(figure am-short-rtt 0 limit)" "ns, a cache line there and back"
    printf "$row" "messages one way, million per second" "$(figure am-short-rate 0 median)" "" \
        "$(figure am-short-rate 0 limit)" "cache lines"
    printf "$row" "8 bytes into the other's memory" "$(figure put-lat 8 median)" ns \
        "$(figure put-lat 8 limit)" "ns, a store instruction"
    printf "$row" "1 MB into the other's memory" "$(figure put-bw 1048576 median)" GB/s \
        "$(figure put-bw 1048576 limit)" \
        "GB/s, memcpy; that is $(figure put-bw 1048576 percent) %"
    printf "$row" "1 MB out of the other's memory" "$(figure get-bw 1048576 median)" GB/s \
        "$(figure get-bw 1048576 limit)" \
        "GB/s, memcpy; that is $(figure get-bw 1048576 percent) %"
}
unsteady
echo
if ! "$build/tools/aqinfo/aqinfo" udp >"$work/out" 2>&1 || grep -q '^ *why not' "$work/out"; then
    echo "3. Over a network it would use UDP, which does not work here:"
    sed -n 's/^ *why not */      /p' "$work/out"
else
    echo "3. The same two over UDP, as between machines that share no memory. The programs are the"
    echo "   same, and so is the picture."
    echo
    job -n 4 env AQ_TRANSPORTS=udp "$build/examples/heat" --size 1920x1080 --steps 800 \
        --output "$work/picture.png"
    cmp "$picture" "$work/picture.png"
    sed -e '/^picture/d' -e 's/^/      /' "$work/out"
    job -n 2 "$build/tools/aqperf/aqperf" --repeats 11 --min-time 5ms --csv "$work/perf.csv" \
        --transport udp --pattern am-short-rtt,put-bw --sizes 1M
    # shellcheck disable=SC2059 # the format is ours
    {
        printf "$row" "message and its reply" "$(figure am-short-rtt 0 median)" ns \
            "$(figure am-short-rtt 0 limit)" "ns, a datagram there and back"
        printf "$row" "1 MB into the other's memory" "$(figure put-bw 1048576 median)" GB/s \
            "$(figure put-bw 1048576 limit)" \
            "GB/s, datagrams; that is $(figure put-bw 1048576 percent) %"
    }
    unsteady
fi
echo
echo "The picture: $(words "$picture")"
echo "More: $(words "$aqrun" -n 2 "$build/tools/aqperf/aqperf");" \
    "$(words "$build/tools/aqinfo/aqinfo")"
