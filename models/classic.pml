/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a node of classic mode does with a request: the rules of src/node, on one key. Another mode brings a file like
 * this one with the same names, and whatever else its nodes remember.
 */

#define NOBODYS 255 /* left over: its client has gone on, with another token */
byte key[N];        /* c + 1: holds the token of what client c is at now. 0: no key */

/* SET NX PX. `granted` is the answer of each. */
inline node_set(c, n) {
    granted = (key[n] == 0);
    if
    :: granted -> key[n] = c + 1; loose[n] = renewed[c]
    :: else
    fi
}

/* Compare and PEXPIRE. */
inline node_extend(c, n) {
    granted = (key[n] == c + 1) || (EXTEND_UNOWNED && key[n] != 0);
    if
    :: granted && key[n] == c + 1 -> loose[n] = 0 /* until the next renewal that gets a majority without this node */
    :: else
    fi
}

/* The key ends, or is lost. */
inline node_lose(n) {
    key[n] = 0;
    loose[n] = 0
}

/* A key is set after its client took T1 and lives for a TTL, and the client's validity is that TTL from T1 less the
 * drift: so it outlives the validity, whatever the delays, as long as the node's clock is no worse than the drift. */
#define MAY_END(n) (key[n] != 0 && (key[n] == NOBODYS || JUMP_FORWARD || loose[n] || due[key[n] - 1]))
