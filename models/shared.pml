/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks in guarded mode (docs/use/shared.md): two writers and two readers acquire, renew and release one resource, on
 * nodes that lose their data, while agents bring such nodes back. models/check runs it through spin, with the switches
 * below. Time, network, losses and recovery are those of guarded.pml, and so is what its comment leaves out.
 *
 * What readers add to that, and what is left out because another run can do all that it can:
 *  - The scripts of readers are one step each: key, places and fence are seen and changed together.
 *  - A place whose reader has gone on, or whose answer is not used, only stands in the way: it is gone at once. A place that
 *    a renewal did not reach is loose: it may end at any time, be extended again, or be set again. So is a place that
 *    was set again.
 *  - A reader uses an answer when the node gives it: its token is the highest of those used, in whatever order they come.
 *  - A reader takes the fence that it finds as its token. So here a higher fence does more than refuse, and the ZADD of a
 *    writer that did not get the key, or that comes late, is not left out: a fence may rise at any time, to any token.
 */

#define N 3
#define QUORUM 2
#define CLIENTS 4 /* writers 0 and 1, readers 2 and 3 */
#ifndef TOKENS
#define TOKENS 3 /* the highest, at most 3 */
#endif
#ifndef LOSSES
#define LOSSES 1 /* how often a node loses its data, whichever */
#endif

/* Nodes, writers and readers in an order of their own, for less states; a story then calls them by changing numbers. */
#ifndef SYMMETRY
#define SYMMETRY 0
#endif
#ifndef RENEWALS
#define RENEWALS 1 /* 0: nobody renews */
#endif

/* A resource that checks tokens: by two numbers, the highest token that wrote and the highest that read. Clients that hold
 * no more read and write too, under the tokens that they had. */
#ifndef GATE
#define GATE 0
#endif

/* Which rule is dropped. */
#ifndef NO_WRITE_BACK
#define NO_WRITE_BACK 0 /* a node counts for a reader although its fence is lower than the reader's token, and stays so */
#endif
#ifndef FIRST_FENCE
#define FIRST_FENCE 0 /* a reader's token is the first fence that it finds */
#endif
#ifndef READER_BLIND
#define READER_BLIND 0 /* a reader takes a place behind a writer's key */
#endif
#ifndef WRITER_BLIND
#define WRITER_BLIND 0 /* a writer takes a key that holds the marker */
#endif
#ifndef COMMON_END
/* All readers of a node have one end, that of the last request; their TTLs differ. (One that is only prolonged breaks
 * nothing that is asserted here: a dead reader then stays listed while others renew, which costs progress.) */
#define COMMON_END 0
#endif
#ifndef RELEASE_DELETES
#define RELEASE_DELETES 0 /* a reader that releases deletes the key, whoever else has a place */
#endif
#ifndef EXTEND_UNLISTED
#define EXTEND_UNLISTED 0 /* an extension counts where the key holds the marker, whether or not this reader has a place */
#endif
#ifndef REJOIN_EMPTY
#define REJOIN_EMPTY 0 /* a node that lost its data votes at once */
#endif
#ifndef GATE_AT_LEAST
#define GATE_AT_LEAST 0 /* a write passes with the highest token that read */
#endif
#ifndef GATE_ONE_NUMBER
#define GATE_ONE_NUMBER 0 /* a read passes only if no higher token has read */
#endif

/* 0: no writer holds with anybody else, and tokens are in order. 1: readers that hold together with different tokens,
 * after a writer and after a node's recovery, never happen. */
#ifndef WITNESS
#define WITNESS 0
#endif

#define AT(c, n) ((c) * N + (n))
#define PLACE(c, n) (((c) - 2) * N + (n))
#define HIGHER(a, b) ((a) > (b) -> (a) : (b))

#define IDLE 0
#define TRYING 1
#define HOLDING 2
byte at[CLIENTS];
byte token[CLIENTS]; /* the proposal; when it holds, the fencing token */
bit renewing[CLIENTS];
byte vote[CLIENTS * N]; /* counts, for a writer and for a renewal; for a reader that tries, the fence of the node */

#define INTACT 0
#define WAITING 1 /* and reading, when it waits for nothing */
byte standing[N];
#define MARKER 3
byte key[N]; /* c + 1: holds the token of what writer c is at now. 0: no key */
#define FIRM 1
#define LOOSE 2
byte place[2 * N];
byte fence[N];
byte waits[CLIENTS * N]; /* the node waits for: 1 the bound of this client's validity, 2 that of its renewal */
byte floor[N];
bit has_read[N * N]; /* AT(n, m): what is to be installed at n has seen m's fences */
byte losses = LOSSES;
byte written; /* the highest token that writers won with */
byte shared;  /* and readers */

#if COMMON_END
byte last[N]; /* the reader that asked last */
#endif
#if GATE
byte wrote; /* what the resource remembers */
byte read;
byte writers; /* bit t: token t is or was a writer's */
byte readers;
bit has_seen[CLIENTS]; /* this reader has read, under the lock that it holds */
#endif

/* Within a step only. They need not be part of a state, but a search for the shortest story (BFS) wants them to be. */
#if SYMMETRY
hidden byte i, j, k, other;
hidden int larger;
hidden int code[CLIENTS];
#else
byte i;
#endif

/* ---- symmetry ------------------------------------------------------------------------------------------------- */

#if SYMMETRY
#define SWAP(array, a, b) other = array[a]; array[a] = array[b]; array[b] = other

inline swap_nodes(a, b) {
    larger = code[a]; code[a] = code[b]; code[b] = larger;
    SWAP(standing, a, b);
    SWAP(key, a, b);
    SWAP(fence, a, b);
    SWAP(floor, a, b);
    SWAP(place, a, b);
    SWAP(place, N + a, N + b);
    for (j : 0 .. CLIENTS - 1) {
        SWAP(vote, AT(j, a), AT(j, b));
        SWAP(waits, AT(j, a), AT(j, b))
    }
    for (j : 0 .. N - 1) { SWAP(has_read, AT(a, j), AT(b, j)) }
    for (j : 0 .. N - 1) { SWAP(has_read, AT(j, a), AT(j, b)) }
}

inline swap_clients(a, b) {
    larger = code[a]; code[a] = code[b]; code[b] = larger;
    SWAP(at, a, b);
    SWAP(token, a, b);
    SWAP(renewing, a, b);
#if GATE
    SWAP(has_seen, a, b);
#endif
    for (j : 0 .. N - 1) {
        SWAP(vote, AT(a, j), AT(b, j));
        SWAP(waits, AT(a, j), AT(b, j));
        if
        :: a == 0 -> key[j] = (key[j] == 1 -> 2 : (key[j] == 2 -> 1 : key[j]))
        :: else -> SWAP(place, j, N + j)
        fi
    }
}

/* Which writer is which makes no difference, nor which reader, nor which node. Whatever order they are brought into, it is
 * the same world; the better the order, the less states. */
inline sort() {
    for (i : 0 .. CLIENTS - 1) {
        code[i] = at[i] * 8 + token[i] * 2 + renewing[i];
#if GATE
        code[i] = code[i] * 2 + has_seen[i];
#endif
        code[i] = code[i] * 4096;
        for (j : 0 .. N - 1) {
            k = (i < 2 -> (key[j] == i + 1) : place[PLACE((i < 2 -> 2 : i), j)]);
            code[i] = code[i] + vote[AT(i, j)] * 256 + k * 64 + waits[AT(i, j)] * 4 + (vote[AT(i, j)] != 0 && k != 0)
        }
    }
    for (i : 0 .. 1) {
        if
        :: code[i * 2] > code[i * 2 + 1] -> swap_clients(i * 2, i * 2 + 1)
        :: else
        fi
    }
    for (i : 0 .. N - 1) {
        code[i] = (((standing[i] * 4 + key[i]) * 4 + fence[i]) * 3 + place[i]) * 3 + place[N + i];
        for (j : 0 .. CLIENTS - 1) { code[i] = (code[i] * 4 + vote[AT(j, i)]) * 3 + waits[AT(j, i)] }
        for (j : 0 .. N - 1) { code[i] = code[i] + has_read[AT(i, j)] * 5 + has_read[AT(j, i)] * 7 }
    }
    for (k : 1 .. N - 1) {
        for (i : 0 .. N - 1 - k) {
            if
            :: code[i] > code[i + 1] -> swap_nodes(i, i + 1)
            :: else
            fi
        }
    }
    i = 0 /* spin wants a step to end with something simple, here and below */
}
#else
inline sort() { i = 0 }
#endif

/* ---- clients -------------------------------------------------------------------------------------------------- */

#define IS_READER(c) ((c) >= 2)
#define COUNTS(c, n)                                                                                                   \
    (vote[AT(c, n)] != 0 && (!IS_READER(c) || renewing[c] || NO_WRITE_BACK || vote[AT(c, n)] >= token[c]))
#define HAS_MAJORITY(c) (COUNTS(c, 0) + COUNTS(c, 1) + COUNTS(c, 2) >= QUORUM)

inline forget_votes(c) {
    for (i : 0 .. N - 1) { vote[AT(c, i)] = 0 }
}

inline win(c) {
    at[c] = HOLDING;
    forget_votes(c);
#if !WITNESS
    for (i : 0 .. CLIENTS - 1) { assert(i == c || at[i] != HOLDING || (IS_READER(c) && IS_READER(i))) }
    assert(IS_READER(c) || token[c] > HIGHER(written, shared));
    assert(token[c] >= written);
#endif
    if
    :: IS_READER(c) -> shared = HIGHER(token[c], shared)
    :: else -> written = HIGHER(token[c], written)
    fi;
#if GATE
    if
    :: IS_READER(c) -> readers = readers | (1 << token[c])
    :: else -> writers = writers | (1 << token[c])
    fi
#endif
}

/* A place has gone; with the last one, the key. */
inline place_ends(c, n) {
    place[PLACE(c, n)] = 0;
    key[n] = (key[n] == MARKER && place[PLACE(2, n)] == 0 && place[PLACE(3, n)] == 0 -> 0 : key[n])
}

/* It goes on: released, given up, or its bound has come. */
inline leave(c) {
    at[c] = IDLE;
    token[c] = 0;
    renewing[c] = 0;
    forget_votes(c);
#if GATE
    has_seen[c] = 0;
#endif
    for (i : 0 .. N - 1) {
        waits[AT(c, i)] = 0;
        if
        :: IS_READER(c) ->
#if COMMON_END
            if
            :: key[i] == MARKER && last[i] == c -> place[PLACE(5 - c, i)] = 0
            :: else
            fi;
#elif RELEASE_DELETES
            if
            :: key[i] == MARKER -> place[PLACE(5 - c, i)] = 0
            :: else
            fi;
#endif
            place_ends(c, i)
        :: else -> key[i] = (key[i] == c + 1 -> 0 : key[i])
        fi
    }
}

/* The renewal got no majority: another may be begun. */
inline give_up_renewal(c) {
    renewing[c] = 0;
    forget_votes(c);
    for (i : 0 .. N - 1) { waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : waits[AT(c, i)]) }
}

inline end_renewal(c) {
    renewing[c] = 0;
    for (i : 0 .. N - 1) {
        if
        :: vote[AT(c, i)] != 0
        :: vote[AT(c, i)] == 0 && !IS_READER(c) -> key[i] = (key[i] == c + 1 -> 0 : key[i])
        :: vote[AT(c, i)] == 0 && IS_READER(c) -> place[PLACE(c, i)] = (place[PLACE(c, i)] != 0 -> LOOSE : 0)
        fi;
        waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : 0)
    }
    forget_votes(c)
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

/* share.lua: a reader's first request asks for a fence of at least 1, and writing back is the same request again. */
inline node_share(c, n) {
    at[c] = TRYING;
    if
    :: key[n] == 0 -> key[n] = MARKER; place[PLACE(2, n)] = 0; place[PLACE(3, n)] = 0
    :: else
    fi;
    place[PLACE(c, n)] = FIRM;
#if COMMON_END
    last[n] = c;
#endif
    fence[n] = (vote[AT(c, n)] == 0 -> HIGHER(fence[n], 1) : HIGHER(fence[n], token[c]));
    vote[AT(c, n)] = fence[n];
    token[c] = (FIRST_FENCE && token[c] != 0 -> token[c] : HIGHER(fence[n], token[c]))
}

/* share.lua in its classic form: no fence is looked at, and none is raised. The place may end before the reader's validity
 * does, where the reader has extended for longer than its TTL. */
inline node_repair(c, n) {
    if
    :: key[n] == 0 -> key[n] = MARKER; place[PLACE(2, n)] = 0; place[PLACE(3, n)] = 0
    :: else
    fi;
    place[PLACE(c, n)] = LOOSE
}

/* ZADD behind the SET, or the script that raises it again: at t. */
inline node_vote(c, n, t) {
    if
    :: t > token[c] -> forget_votes(c); token[c] = t
    :: else
    fi;
    fence[n] = t;
    vote[AT(c, n)] = 1
}

inline node_extend(c, n) {
    renewing[c] = 1;
    fence[n] = HIGHER(fence[n], token[c]);
    vote[AT(c, n)] = 1;
    if
    :: IS_READER(c) -> place[PLACE(c, n)] = (place[PLACE(c, n)] != 0 -> FIRM : 0);
#if COMMON_END
        last[n] = c
#endif
    :: else
    fi
}

/* Each bound that was begun must come: that is what ttl_max comes to. */
inline lose(n) {
    losses--;
    key[n] = 0;
    place[PLACE(2, n)] = 0;
    place[PLACE(3, n)] = 0;
    fence[n] = 0;
    floor[n] = 0;
    for (i : 0 .. N - 1) { has_read[AT(n, i)] = 0 }
    if
    :: REJOIN_EMPTY
    :: else ->
        standing[n] = WAITING;
        for (i : 0 .. CLIENTS - 1) { waits[AT(i, n)] = (at[i] == IDLE -> 0 : 1 + renewing[i]) }
    fi
}

#define WAITS(n) (waits[AT(0, n)] || waits[AT(1, n)] || waits[AT(2, n)] || waits[AT(3, n)])
#define READS(n) (has_read[AT(n, 0)] + has_read[AT(n, 1)] + has_read[AT(n, 2)])

inline install(n) {
    standing[n] = INTACT;
    fence[n] = HIGHER(fence[n], floor[n]);
    floor[n] = 0;
    for (i : 0 .. N - 1) { has_read[AT(n, i)] = 0 }
}

/* ---- what may happen ------------------------------------------------------------------------------------------ */

#define VOTE(c, n, t)                                                                                                  \
    :: d_step { at[c] == TRYING && (t) <= TOKENS && (t) > fence[n] && (t) >= token[c] && standing[n] == INTACT &&      \
        key[n] == c + 1 ->                                                                                             \
        printf("node %d: writer %d's vote at token %d\n", n, c, t); node_vote(c, n, t); i = 0 }

#define WRITER_REQUEST(c, n)                                                                                           \
    :: d_step { (at[c] == IDLE || at[c] == TRYING) && (key[n] == 0 || (WRITER_BLIND && key[n] == MARKER)) ->           \
        printf("node %d: SET of writer %d\n", n, c); at[c] = TRYING; key[n] = c + 1 }                                  \
    VOTE(c, n, 1) VOTE(c, n, 2) VOTE(c, n, 3)                                                                          \
    :: d_step { RENEWALS && at[c] == HOLDING && key[n] == 0 ->                                                         \
        printf("node %d: writer %d repairs its key\n", n, c); key[n] = c + 1 }                                         \
    :: d_step { RENEWALS && at[c] == HOLDING && key[n] == c + 1 && vote[AT(c, n)] == 0 && standing[n] == INTACT ->     \
        printf("node %d: extension of writer %d\n", n, c); node_extend(c, n); i = 0 }

#define READER_REQUEST(c, n)                                                                                           \
    :: d_step { (at[c] == IDLE || at[c] == TRYING) && (key[n] == 0 || key[n] == MARKER || READER_BLIND) &&             \
        standing[n] == INTACT && (vote[AT(c, n)] == 0 || (vote[AT(c, n)] < token[c] && !NO_WRITE_BACK)) ->             \
        node_share(c, n); printf("node %d: a place for reader %d, fence %d\n", n, c, fence[n]) }                       \
    :: d_step { RENEWALS && at[c] == HOLDING && key[n] == MARKER && vote[AT(c, n)] == 0 && standing[n] == INTACT &&    \
        (EXTEND_UNLISTED || place[PLACE(c, n)] != 0) ->                                                                \
        printf("node %d: extension of reader %d\n", n, c); node_extend(c, n); i = 0 }                                  \
    :: d_step { RENEWALS && at[c] == HOLDING && place[PLACE(c, n)] == 0 && (key[n] == 0 || key[n] == MARKER) ->        \
        printf("node %d: the place of reader %d is set again\n", n, c); node_repair(c, n) }                            \
    :: d_step { place[PLACE(c, n)] == LOOSE ->                                                                         \
        printf("node %d: the place of reader %d ends\n", n, c); place_ends(c, n) }

#define CLIENT(c)                                                                                                      \
    :: d_step { at[c] == TRYING && HAS_MAJORITY(c) ->                                                                  \
        printf("client %d HOLDS the lock with token %d\n", c, token[c]); win(c); i = 0 }                               \
    :: d_step { at[c] != IDLE -> printf("client %d's validity is over, or it releases\n", c); leave(c); i = 0 }        \
    :: d_step { renewing[c] && HAS_MAJORITY(c) -> printf("client %d has renewed\n", c); end_renewal(c); i = 0 }        \
    :: d_step { renewing[c] -> printf("client %d's renewal fails\n", c); give_up_renewal(c); i = 0 }
#define WRITER(c) CLIENT(c) WRITER_REQUEST(c, 0) WRITER_REQUEST(c, 1) WRITER_REQUEST(c, 2)
#define READER(c) CLIENT(c) READER_REQUEST(c, 0) READER_REQUEST(c, 1) READER_REQUEST(c, 2)

#define RISES(n, t)                                                                                                    \
    :: d_step { standing[n] == INTACT && (t) <= TOKENS && fence[n] < (t) ->                                            \
        printf("node %d: ZADD %d of a writer without the key\n", n, t); fence[n] = t }
#define READ_FROM(n, m)                                                                                                \
    :: d_step { (n) != (m) && standing[n] == WAITING && !WAITS(n) && !has_read[AT(n, m)] && standing[m] == INTACT ->   \
        printf("agent of node %d reads fence %d from node %d\n", n, fence[m], m);                                      \
        has_read[AT(n, m)] = 1; floor[n] = HIGHER(fence[m], floor[n]) }
#define NODE(n)                                                                                                        \
    RISES(n, 1) RISES(n, 2) RISES(n, 3)                                                                                \
    :: d_step { losses -> printf("node %d loses its data\n", n); lose(n); i = 0 }                                      \
    READ_FROM(n, 0) READ_FROM(n, 1) READ_FROM(n, 2)                                                                    \
    :: d_step { standing[n] == WAITING && !WAITS(n) && READS(n) >= QUORUM ->                                           \
        printf("node %d is installed at fence %d\n", n, floor[n]); install(n); i = 0 }

#if GATE
/* Who holds is never refused; and what a reader has read does not change while it holds. */
#define READ_PASSES(t) ((t) >= wrote && (!GATE_ONE_NUMBER || (t) >= read))
#define WRITE_PASSES(t) ((t) >= wrote && (GATE_AT_LEAST -> (t) >= read : (t) > read))
#define WRITES(c)                                                                                                      \
    :: d_step { at[c] == HOLDING -> printf("writer %d writes with token %d\n", c, token[c]);                           \
        assert(WRITE_PASSES(token[c])); wrote = token[c] }
#define SEES(c)                                                                                                        \
    :: d_step { at[c] == HOLDING -> printf("reader %d reads with token %d\n", c, token[c]);                            \
        assert(READ_PASSES(token[c])); read = HIGHER(read, token[c]); has_seen[c] = 1 }
#define LATE(t)                                                                                                        \
    :: d_step { (writers & (1 << (t))) && WRITE_PASSES(t) ->                                                           \
        printf("a late write with token %d passes\n", t);                                                              \
        wrote = t; assert(!has_seen[2] && !has_seen[3]) }                                                              \
    :: d_step { (readers & (1 << (t))) && READ_PASSES(t) && read < t ->                                                \
        printf("a late read with token %d passes\n", t); read = t }
#define RESOURCE WRITES(0) WRITES(1) SEES(2) SEES(3) LATE(1) LATE(2) LATE(3)
#else
#define RESOURCE
#endif

active proctype world() {
    do
    :: atomic {
        if
        WRITER(0)
        WRITER(1)
        READER(2)
        READER(3)
        NODE(0)
        NODE(1)
        NODE(2)
        RESOURCE
#if WITNESS
        :: d_step { at[2] == HOLDING && at[3] == HOLDING && token[2] != token[3] && written != 0 && losses == 0 &&
            standing[0] == INTACT && standing[1] == INTACT && standing[2] == INTACT -> assert(false) }
#endif
        fi;
        d_step { sort() } /* once, and not in each step: what spin makes of it would be long to compile */
    }
    od
}
