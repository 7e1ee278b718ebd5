#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# proof.arithmetic notices a core that computes something else. Each case plants one fault in a copy of one file.
# usage: arithmetic_notices.sh SOURCE_DIR PROOF_PROGRAM CORE_LIBRARY CC
set -euo pipefail
source=$1 proof=$2 library=$3 cc=$4
[ -x "$proof" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${proof%/*}"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Without assertions: they would notice some of the faults first.
compile() { "$cc" -std=c11 -O1 -DNDEBUG -I"$source/src" "$@"; }
mkdir "$dir/faults" # copies with a fault
compile -c "$source/tests/proof/arithmetic.c" -o "$dir/arithmetic.o"

must_notice() { # WHAT FIELD
    if { "$dir/core" 200000 1 || true; } 2> /dev/null | "$proof" 200000 > "$dir/out" 2>&1; then
        echo "not noticed: $1"
        exit 1
    fi
    grep -q "the proof says: $2 " "$dir/out" || { echo "$1: noticed for another reason:"; cat "$dir/out"; exit 1; }
    echo "noticed: $1: $(tail -n 1 "$dir/out")"
}
change() { # WHAT FILE SED
    sed "$3" "$source/src/core/$2" > "$dir/faults/$2"
    if cmp -s "$dir/faults/$2" "$source/src/core/$2"; then echo "$1: nothing to plant in $2"; exit 1; fi
}
plant() { # WHAT FILE SED FIELD
    change "$@"
    # The linker takes the planted file, and from the library only what is missing.
    compile -c "$dir/faults/$2" -o "$dir/planted.o"
    compile "$dir/arithmetic.o" "$dir/planted.o" "$library" -o "$dir/core"
    must_notice "$1" "$4"
}

plant "drift rounds down" tally.c 's/ \* ppm + million - 1) / * ppm) /' drift
plant "a fixed drift that is 1 ns short" tally.c 's/rest + terms->drift_fixed/rest + terms->drift_fixed - (terms->drift_fixed > 0)/' drift
plant "drift per thousand" tally.c 's/million = 1000000/million = 1000/' extended_end
plant "validity without drift" attempt.c 's/ + terms->ttl - rl_drift_at(terms, ppm, terms->ttl);/ + terms->ttl;/' validity_end
plant "validity from the last vote" attempt.c 's/rl_ns validity_end = attempt->t1 /rl_ns validity_end = now /' validity_end
plant "a win at the end of validity" attempt.c 's/left <= 0/left < 0/' won
plant "an extension without drift" lease.c 's/rl_drift_at(lease->work->terms, ppm, lease->work->round_ttl);/0;/' extended_end
plant "an extension that shortens" lease.c 's|if (validity_end > lease->validity_end) { .* never shortens .*|{|' extended_end
plant "validity that ends 1 ns late" lease.c 's/ ? lease->validity_end - now : 0/ ? lease->validity_end - now + 1 : 0/' validity_left
plant "a wait without drift" guard.c 's/ + rl_drift(&terms, ttl_ms \* RL_MS);/;/' quarantine

# A header: everything is compiled.
rm "$dir"/faults/*
change "half of the nodes is a majority" core.h 's|return nodes / 2 + 1;|return (nodes + 1) / 2;|'
mkdir "$dir/include"
mv "$dir/faults" "$dir/include/core"
cp -n "$source"/src/core/*.[ch] "$dir/include/core"
"$cc" -std=c11 -O0 -DNDEBUG -I"$dir/include" -I"$source/src" "$source/tests/proof/arithmetic.c" "$dir"/include/core/*.c -o "$dir/core"
must_notice "half of the nodes is a majority" votes
