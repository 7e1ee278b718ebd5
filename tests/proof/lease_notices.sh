#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# proof.lease notices attempts and leases that do something else. Each case plants one fault in a copy of one file.
# usage: lease_notices.sh SOURCE_DIR PROOF_PROGRAM CORE_LIBRARY CC
set -euo pipefail
source=$1 proof=$2 library=$3 cc=$4
[ -x "$proof" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${proof%/*}"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Without assertions: they would notice some of the faults first.
compile() { "$cc" -std=c11 -O1 -DNDEBUG -I"$source/src" "$@"; }
compile -c "$source/tests/proof/lease.c" -o "$dir/lease.o"

plant() { # WHAT FILE SED FIELD
    sed "$3" "$source/src/core/$2.c" > "$dir/$2.c"
    if cmp -s "$dir/$2.c" "$source/src/core/$2.c"; then echo "$1: nothing to plant in $2.c"; exit 1; fi
    # The linker takes the planted file, and from the library only what is missing.
    compile -c "$dir/$2.c" -o "$dir/planted.o"
    compile "$dir/lease.o" "$dir/planted.o" "$library" -o "$dir/program"
    if { "$dir/program" 300000 1 3 3 2 || true; } 2> /dev/null | "$proof" 300000 > "$dir/out" 2>&1; then
        echo "not noticed: $1"
        exit 1
    fi
    grep -q "^the proof says: .*: $4 = " "$dir/out" || { echo "$1: noticed for another reason:"; tail -n 20 "$dir/out"; exit 1; }
    echo "noticed: $1: $(tail -n 1 "$dir/out")"
}

plant "a win with less validity than the caller accepts" attempt 's/ || left < terms->validity_min) {/) {/' state
plant "a late answer that is not read before the node counts as late" attempt 's/ \&\& event->type != RL_EVENT_VOTE) {/) {/' state
plant "a lost attempt that releases only what it was granted" attempt 's/actions->release = attempt->tally.asked;/actions->release = attempt->tally.granted;/' release
plant "a node that votes twice" tally 's/ || (rl_tally_pending(tally) \& rl_bit(node)) == 0) return false;/) return false;/' granted
plant "a late vote that is believed before the clock is read" lease 's/if (rl_lease_holds(lease) \&\& now >= lost_at(lease)) lose(lease, now, actions);//' state
plant "validity from the last answer" lease 's/rl_ns validity_end = lease->round_t1 + /rl_ns validity_end = now + /' validity_end
plant "a round that keys prove that were set since" lease 's/ || (lease->work->round.granted \& (rl_mask)~lease->set) != 0);/ || true);/' state
plant "keys that are set again on a majority" lease 's/ || rl_count(lease->set | rl_bit(i)) >= lease->work->terms->quorum)/)/' repaired
plant "the answer to a SET that counts as an extension" lease 's/if (was_regained(lease, event, now, actions)) return;//' repaired
plant "a round of less than a majority" lease 's/rl_tally_open(\&lease->work->round, lease->work->terms->nodes, lease->work->terms->quorum,$/rl_tally_open(\&lease->work->round, lease->work->terms->nodes, 1,/' state
plant "a renewal beyond the limit of the hold" lease 's/return hold_left - hold_left % RL_MS;/return ttl;/' round_ttl
plant "a lock that counts as released where its key was gone" lease 's/rl_count(votes->granted \& list \& lease->kept);/rl_count(votes->granted \& list);/' outcome
