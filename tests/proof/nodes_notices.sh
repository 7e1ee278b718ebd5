#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# proof.nodes notices a node that does something else. Each case plants one fault in a copy of one file of src/node.
# usage: nodes_notices.sh SOURCE_DIR PROOF_PROGRAM CC
set -euo pipefail
source=$1 proof=$2 cc=$3
[ -x "$proof" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${proof%/*}"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
compile() { "$cc" -std=c11 -O1 -D_GNU_SOURCE -DNDEBUG -I"$source/src" "$@"; }
for file in table guarded shared reader_lists slots queue turn buckets chunks ends memory; do
    compile -c "$source/src/node/$file.c" -o "$dir/$file.o"
done
compile -c "$source/tests/proof/nodes.c" -o "$dir/nodes.o"

plant() { # WHAT FILE SED PART_OF_THE_LINE
    sed "$3" "$source/src/node/$2.c" > "$dir/$2.c"
    if cmp -s "$dir/$2.c" "$source/src/node/$2.c"; then echo "$1: nothing to plant in $2.c"; exit 1; fi
    mv "$dir/$2.o" "$dir/$2.kept"
    compile -c "$dir/$2.c" -o "$dir/$2.o"
    compile "$dir"/*.o -o "$dir/program"
    mv "$dir/$2.kept" "$dir/$2.o"
    if { "$dir/program" 100000 1 || true; } 2> /dev/null | "$proof" 100000 > "$dir/out" 2>&1; then
        echo "not noticed: $1"
        exit 1
    fi
    grep -q "^line [0-9]*: $4 " "$dir/out" || { echo "$1: noticed for another reason:"; cat "$dir/out"; exit 1; }
    echo "noticed: $1: $(tail -n 1 "$dir/out")"
}

plant "a reader that joins a key that outlives its list" shared 's/ || !lists_all(table, share, entry, now_ms)//' shared
plant "a key that ends with the reader that asked last" shared 's/prolong(table, entry, last_ms);/table_set_end(table, entry, now_ms + share->ttl_ms);/' shared
plant "a reader that joins behind a writer" shared 's/if (held \&\& (!table_holds(entry, marker)/if (false \&\& (!table_holds(entry, marker)/' shared
plant "an extension after the reader's end" shared 's/if (!mine || mine->expires_ms <= now_ms) return NODE_ABSENT;/if (!mine) return NODE_ABSENT;/' shared
plant "a downgrade that shortens" shared 's/if (before_ms != INT64_MAX \&\& before_ms > end_ms) end_ms = before_ms;/(void)before_ms;/' shared
plant "a reader that leaves and deletes the key of others" shared 's/if (was_listed \&\& others) {/if (false) {/' shared
plant "a key that does not end earlier when its last reader leaves" shared 's/table_set_end(table, entry, settle(list));/(void)settle(list);/' shared
plant "a node that does not compare the numbers of slots" slots 's/if (count != 0 \&\& count != request->count) return count;//' slot
plant "a slot that is not left" slots 's/\&\& slot != answer.slot)/\&\& slot == 0)/' slot
plant "slots in an order of the node's own" slots 's/const unsigned slot = request->order\[i\];/const unsigned slot = request->order[request->order_count - 1 - i];/' slot
