#!/bin/bash
# Run the randomized programs with many seeds, and as many settings of faults; used by `make soak`.
# usage: seeds.sh BUILD_DIR FIRST COUNT
set -euo pipefail
build=$1 first=$2 count=$3
export AQUEDUCT_TEST_TREE=$build

for program in core/core_{coll,stress,vis} contract/contract; do
    [ -x "$build/tests/$program" ] || { echo "seeds: build $program first" >&2; exit 2; }
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# try SECONDS [NAME=VALUE…] COMMAND …: prints nothing unless it fails.
try()
{
    timeout -k 10 "$1" env "TEST_SEED=$seed" "${@:2}" >"$log" 2>&1 && return
    echo "FAILED (exit $?): TEST_SEED=$seed ${*:2}"
    tail -n 15 "$log" | cut -c1-300 | sed 's/^/    /'
    failed=$((failed + 1))
}

for ((seed = first; seed < first + count; seed++)); do
    ranks=$((2 + seed % 6))
    job=("$build/tools/aqrun/aqrun" -n "$ranks")
    faults=$((seed % 60)) late=$((seed % 23))
    try 300 "${job[@]}" "$build/tests/core/core_stress"
    try 300 "AQ_FAULT=again=$faults,late=$late,seed=$seed" "${job[@]}" \
        "$build/tests/core/core_stress"
    try 300 "AQ_FAULT=again=$faults,hide=map,credits=$((seed % 2)),seed=$seed" "${job[@]}" \
        "$build/tests/core/core_vis"
    try 300 "AQ_FAULT=again=$faults,seed=$seed" "AQ_NEIGHBORHOOD=$((1 + seed % 3)),2" \
        "${job[@]}" "$build/tests/core/core_coll" few
    try 600 "$build/tests/contract/contract" shm --ranks 2 \
        --fault "again=$faults,late=$late,seed=$seed"
    for corpus in "$(dirname "$0")"/fuzz/corpus/*/; do
        name=$(basename "$corpus")
        try 300 "$build/tests/fuzz/fuzz_${name}_replay" "$corpus" 2000 "$seed"
    done
done
echo "seeds $first to $((first + count - 1)): $failed failed"
[ "$failed" -eq 0 ]
