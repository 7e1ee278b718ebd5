#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The checker of traces refuses runs of a library or a server with a rule dropped: of each mutant (sim/mutants) that is named
# at least one run. And it judges nothing from where on an assumption does not hold.
# usage: traces_notices.sh MODE SOURCE_DIR REDLOCK_SIM CHECK CC SIM_LIBRARY MUTANTS OBJECT...
# MODE: classic, guarded or membership. A mutant may be followed by the number of seeds that it needs, as in NAME:1000. It plays them as
# drawn, and then biased.
set -euo pipefail
mode=$1 source=$2 sim=$3 check=$4 cc=$5 library=$6 mutants=$7
shift 7
[ -x "$check" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${check%/*}"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# As in sim/mutants: without the core's assertions, which would notice some of the mutants first.
compile() { "$cc" -std=gnu11 -w -O0 -DNDEBUG -I"$source/src" -I"$source/sim" -I"$source/include" "$@"; }
mkdir "$dir/core"
(cd "$dir/core" && compile -c "$source"/src/core/*.c "$source/sim/main.c")
# The core among the objects has its assertions, so the one above is taken.
mapfile -t others < <(printf '%s\n' "$@" | grep -v '/redlock_core\.dir/')

case $mode in
classic) seeds=150 options=() ;;
guarded) seeds=400 options=(--mode guarded --stock) ;;
membership) seeds=150 options=(--mode guarded --stock --operators) ;;
esac

# The changed files are in $dir/mutant; their names in the source follow.
must_refuse() { # NAME SEEDS FILE...
    local name=$1 seeds=$2 skip='^$' file base
    shift 2
    for file; do
        base=$(basename "$file" .c)
        compile -I"$source/${file%/*}" -c "$dir/mutant/$base.c" -o "$dir/mutant/$base.o"
        local room=${file%/*}
        room=${room##*/}
        skip="$skip|/($room|redlock_$room\.dir)/(\./)?$base(\.c)?\.o\$"
    done
    mapfile -t rest < <(printf '%s\n' "$dir"/core/*.o "${others[@]}" | grep -Ev "$skip")
    "$cc" "$dir"/mutant/*.o "${rest[@]}" "$library" -lpthread -o "$dir/sim"
    local bias at
    for bias in "" --biased; do
        for ((at = 1; at <= seeds; at += 10)); do
            # It may die of its fault, or never end: then the last run has no end, what came before it counts, and the next ten
            # are played.
            { prlimit --cpu=10 "$dir/sim" --seeds 10 --start $at "${options[@]}" $bias --steps || true; } 2> /dev/null |
                "$check" --first > "$dir/out" 2>&1 || true
            if grep -q "is no run of the proved system" "$dir/out"; then
                echo "noticed: $name: ${bias:+biased }$(head -n 1 "$dir/out")"
                return
            fi
        done
    done
    echo "not noticed: $name"
    exit 1
}
fresh() {
    rm -rf "$dir/mutant"
    mkdir "$dir/mutant"
}

for word in $mutants; do
    fresh
    name=${word%:*}
    mutant=$source/sim/mutants/$name.mutant
    python3 -B "$source/sim/mutants/mutant.py" "$mutant" "$source" "$dir/mutant"
    mapfile -t files < <(sed -n 's/^file: *//p' "$mutant" | sort -u)
    case $word in *:*) needs=${word#*:} ;; *) needs=$seeds ;; esac
    must_refuse "$name" "$needs" "${files[@]}"
done

# A server that says what it does not do: no later answer need show it, so the keys and fences themselves are compared.
plant() { # WHAT FILE FUNCTION SED
    fresh
    sed "/^enum node_answer $3(/,/^}/{ $4; }" "$source/src/node/$2.c" > "$dir/mutant/$2.c"
    if cmp -s "$dir/mutant/$2.c" "$source/src/node/$2.c"; then echo "$1: nothing to plant"; exit 1; fi
    must_refuse "$1" "$seeds" "src/node/$2.c"
}
[ "$mode" != membership ] || exit 0
if [ "$mode" = guarded ]; then
    plant "a break that raises no fence" guarded node_break '/raise_fences(/d'
    plant "a break that raises a fence not strictly" guarded node_break 's/found >= fence/false/'
    plant "a break that deletes the key of another client" guarded node_break \
        's/node_release(table, &key, 1, token, now_ms)/node_release(table, \&key, 1, token_of(entry), now_ms)/'
    exit 0
fi
plant "an extension that is granted and moves no end" table node_extend '/table_set_end(/d'
plant "a key that is set in silence" table node_acquire '/notify(/d'

# From where on an assumption does not hold, nothing is judged.
for broken in data-loss clock-step mixed-config; do
    "$sim" --seeds 40 --break $broken --steps | "$check" 0 > "$dir/out" || { echo "$broken: judged"; tail -n 3 "$dir/out"; exit 1; }
    echo "$broken: $(tail -n 1 "$dir/out")"
    grep -q "left: " "$dir/out" || { echo "$broken: nothing was left out"; exit 1; }
done
