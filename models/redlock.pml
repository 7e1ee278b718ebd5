/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Redlock with N nodes and a few clients that acquire, renew and release without end; models/check runs it through
 * spin, with the switches below.
 *
 * Time is not counted. A client's validity has a bound (T1 + TTL - drift, of the acquisition or of its last renewal),
 * which may come at any moment after it was begun. A key may end at any moment after the bound that it lies behind, or
 * never. That is all that clocks promise within the drift.
 *
 * The network is a set of requests under way. Each arrives at any time, in any order, or never, which is a loss; an
 * answer is there for the client to use as soon as the node gave it, or is not used, which is a loss too. A client
 * gives up whenever it likes, which is every timeout. There is no order on a connection: more can happen here than
 * does, and what holds here holds with it.
 *
 * What makes it finite, and small, without counting rounds:
 *  - Each attempt has a fresh token. When its client goes on, nothing depends on the old one's bound any more, so the
 *    bound may as well come at once: its keys are then nobody's, and end whenever they like.
 *  - So a release (compare and DEL) does nothing that the end of a key does not, and is not sent; but PLAIN_DEL is.
 *  - SETs of former attempts may arrive at any later time. From the first that may be late on, any number may be.
 *  - After a renewal the keys that it did not reach lie behind a bound that nothing depends on any more: loose. To
 *    have been reached by a renewal that was given up only keeps a key, and a loose key may stay as well as end.
 *
 * One process: each of its choices is one step of the world. What a step prints is the story when spin replays it.
 */

#ifndef N
#define N 3 /* 3, 5 */
#endif
#ifndef CLIENTS
#define CLIENTS 2 /* 2, 3 */
#endif

/* Nodes in an order of their own, for up to N! times less states; a story then calls them by changing numbers. */
#ifndef SYMMETRY
#define SYMMETRY 0
#endif

/* Which assumption does not hold. */
#ifndef RESTART_EMPTY
#define RESTART_EMPTY 0 /* nodes come back without data, at once; FLUSHALL, eviction and a lagging replica are the same */
#endif
#ifndef RESTART_DELAYED
#define RESTART_DELAYED 0 /* nodes come back without data, after the longest TTL */
#endif
#ifndef JUMP_FORWARD
#define JUMP_FORWARD 0 /* a node's wall clock steps: keys end before their time */
#endif
#ifndef PAUSE
#define PAUSE 0 /* a client stops, and goes on after its validity as if it held */
#endif
#ifndef MIXED_LISTS
#define MIXED_LISTS 0 /* N = 5: client 0 is told of nodes 0, 1, 2 only, the others of 2, 3, 4 */
#endif

/* Which rule is dropped. */
#ifndef QUORUM
#if MIXED_LISTS
#define QUORUM 2
#else
#define QUORUM (N / 2 + 1)
#endif
#endif
#ifndef WIN_LATE
#define WIN_LATE 0 /* a majority is a win, whether or not validity is left */
#endif
#ifndef STALE_VOTE
#define STALE_VOTE 0 /* grants of the attempt before count too */
#endif
#ifndef PLAIN_DEL
#define PLAIN_DEL 0 /* release deletes whatever is there */
#endif
#ifndef EXTEND_UNOWNED
#define EXTEND_UNOWNED 0 /* renewal extends whatever is there */
#endif
#ifndef RENEW_ANY
#define RENEW_ANY 0 /* one node that extended makes a renewal */
#endif

/* 0: no two hold. 1, 2: something good never happens, for which spin must find how it does. */
#ifndef WITNESS
#define WITNESS 0
#endif

#define AT(c, n) ((c) * N + (n))
#if MIXED_LISTS
#define LISTED(c, n) ((c) == 0 -> (n) < 3 : (n) >= 2)
#else
#define LISTED(c, n) true
#endif

mtype = { IDLE, TRYING, HOLDING };
mtype at[CLIENTS];
bit due[CLIENTS];     /* the bound of its validity has come */
bit renewed[CLIENTS]; /* since it holds: a SET that arrives now lies behind an older bound */
bit loose[N];         /* the node's key lies behind an older bound */

/* The requests of what each client is at, with their answers. */
#define UNDER_WAY 1
#define GRANTED 2
byte set[CLIENTS * N];
byte extend[CLIENTS * N];
/* Those of what it was at before. */
bit late_set[N];
#if PLAIN_DEL
bit late_delete[N];
#endif
#if STALE_VOTE
bit stale[CLIENTS * N]; /* granted in the attempt before */
#endif

#if RESTART_DELAYED
bit down[N];
byte waits[CLIENTS * N]; /* a node that is down, for: 1 the bound of this client's validity, 2 that of its renewal */
#define IS_UP(n) (!down[n])
#else
#define IS_UP(n) true
#endif

#if WITNESS
byte seen[CLIENTS]; /* what client c did: 1 held, 2 held and renewed, 3 and renewed again */
#define SEEN(c) seen[c] = (seen[c] < 3 -> seen[c] + 1 : 3)
#else
#define SEEN(c) skip
#endif

byte granted, i, j, other; /* within a step only: 0 between steps */

#include "classic.pml"

/* ---- symmetry ------------------------------------------------------------------------------------------------- */

#if SYMMETRY
int code[N];
int larger;

#define SWAP(array, a, b) other = array[a]; array[a] = array[b]; array[b] = other

inline swap_nodes(a, b) {
    larger = code[a]; code[a] = code[b]; code[b] = larger;
    SWAP(key, a, b);
    SWAP(loose, a, b);
    SWAP(late_set, a, b);
#if PLAIN_DEL
    SWAP(late_delete, a, b);
#endif
    for (j : 0 .. CLIENTS - 1) {
        SWAP(set, AT(j, a), AT(j, b));
        SWAP(extend, AT(j, a), AT(j, b));
#if STALE_VOTE
        SWAP(stale, AT(j, a), AT(j, b));
#endif
#if RESTART_DELAYED
        SWAP(waits, AT(j, a), AT(j, b));
#endif
    }
#if RESTART_DELAYED
    SWAP(down, a, b);
#endif
}

/* Which node is which makes no difference: they are kept in order of what they hold and are sent. */
inline sort_nodes() {
    for (i : 0 .. N - 1) {
        code[i] = key[i] * 4 + loose[i] * 2 + late_set[i];
        for (j : 0 .. CLIENTS - 1) {
            code[i] = code[i] * 9 + set[AT(j, i)] * 3 + extend[AT(j, i)];
#if RESTART_DELAYED
            code[i] = code[i] * 3 + waits[AT(j, i)];
#endif
        }
#if RESTART_DELAYED
        code[i] = code[i] * 2 + down[i];
#endif
    }
    for (granted : 1 .. N - 1) {
        for (i : 0 .. N - 1 - granted) {
            if
            :: code[i] > code[i + 1] -> swap_nodes(i, i + 1)
            :: else
            fi
        }
    }
    for (i : 0 .. N - 1) { code[i] = 0 }
    larger = 0; other = 0
}
#else
inline sort_nodes() { skip }
#endif

inline step_ends() {
    sort_nodes();
    granted = 0; i = 0; j = 0
}

/* ---- clients -------------------------------------------------------------------------------------------------- */

inline begin(c) {
    at[c] = TRYING;
    for (i : 0 .. N - 1) {
        if
        :: LISTED(c, i) -> set[AT(c, i)] = UNDER_WAY
        :: else
        fi
    }
}

/* It has a majority: from here on answers to SET are no votes. */
inline win(c) {
    at[c] = HOLDING;
    SEEN(c);
    for (i : 0 .. N - 1) { set[AT(c, i)] = set[AT(c, i)] % GRANTED }
    for (i : 0 .. CLIENTS - 1) { assert(WITNESS || i == c || at[i] != HOLDING) }
}

/* It goes on: what it was at is over, and releases are on their way everywhere, also where no answer came. */
inline leave(c) {
    at[c] = IDLE;
    due[c] = 0;
    renewed[c] = 0;
    for (i : 0 .. N - 1) {
        late_set[i] = late_set[i] || set[AT(c, i)] == UNDER_WAY;
#if STALE_VOTE
        stale[AT(c, i)] = (set[AT(c, i)] == GRANTED);
#endif
#if PLAIN_DEL
        late_delete[i] = late_delete[i] || LISTED(c, i);
#endif
#if RESTART_DELAYED
        waits[AT(c, i)] = 0;
#endif
        set[AT(c, i)] = 0;
        extend[AT(c, i)] = 0;
        if
        :: key[i] == c + 1 -> key[i] = NOBODYS; loose[i] = 0
        :: else
        fi
    }
}

/* One renewal at a time; a later one takes the place of one that got no majority. */
inline renew(c) {
    for (i : 0 .. N - 1) {
        if
        :: LISTED(c, i) -> extend[AT(c, i)] = UNDER_WAY
        :: else
        fi;
#if RESTART_DELAYED
        waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : waits[AT(c, i)]);
#endif
    }
}

inline end_renewal(c) {
    renewed[c] = 1;
    SEEN(c);
    for (i : 0 .. N - 1) {
        if
        :: key[i] == c + 1 -> loose[i] = (extend[AT(c, i)] != GRANTED)
        :: else
        fi;
        extend[AT(c, i)] = 0;
#if RESTART_DELAYED
        waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : 0);
#endif
    }
}

/* Clients stop at the end of validity: the same step. */
inline bound(c) {
    if
    :: at[c] == HOLDING && !PAUSE -> printf("client %d stops: its validity is over\n", c); leave(c)
    :: else -> printf("client %d's validity would be over\n", c); due[c] = 1;
#if RESTART_DELAYED
        for (i : 0 .. N - 1) { waits[AT(c, i)] = 0 }
#endif
    fi
}

#if STALE_VOTE
#define VOTE(c, n) (set[AT(c, n)] == GRANTED || stale[AT(c, n)])
#else
#define VOTE(c, n) (set[AT(c, n)] == GRANTED)
#endif
#define EXTENDED(c, n) (extend[AT(c, n)] == GRANTED)
#if N == 5
#define COUNT(what, c) (what(c, 0) + what(c, 1) + what(c, 2) + what(c, 3) + what(c, 4))
#else
#define COUNT(what, c) (what(c, 0) + what(c, 1) + what(c, 2))
#endif

#define CLIENT(c)                                                                                                      \
    :: d_step { at[c] == IDLE -> printf("client %d begins to acquire\n", c); begin(c); step_ends() }                   \
    :: d_step { at[c] == TRYING && COUNT(VOTE, c) >= QUORUM && (!due[c] || WIN_LATE) ->                                \
        printf("client %d HOLDS the lock\n", c); win(c); step_ends() }                                                 \
    :: d_step { at[c] != IDLE -> printf("client %d releases\n", c); leave(c); step_ends() }                            \
    :: d_step { at[c] == HOLDING && !due[c] -> printf("client %d begins to renew\n", c); renew(c); step_ends() }       \
    :: d_step { at[c] == HOLDING && !due[c] && COUNT(EXTENDED, c) >= (RENEW_ANY -> 1 : QUORUM) ->                      \
        printf("client %d has renewed\n", c); end_renewal(c); step_ends() }                                            \
    :: d_step { at[c] != IDLE && !due[c] -> bound(c); step_ends() }

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

#define REQUEST(c, n)                                                                                                  \
    :: d_step { set[AT(c, n)] == UNDER_WAY && IS_UP(n) ->                                                              \
        node_set(c, n); printf("node %d: SET of client %d, granted: %d\n", n, c, granted);                             \
        set[AT(c, n)] = (at[c] == TRYING -> granted * GRANTED : 0); step_ends() }                                      \
    :: d_step { extend[AT(c, n)] == UNDER_WAY && IS_UP(n) ->                                                           \
        node_extend(c, n); printf("node %d: extension of client %d, granted: %d\n", n, c, granted);                    \
        extend[AT(c, n)] = granted * GRANTED; step_ends() }

#if PLAIN_DEL
#define LATE_DELETE(n)                                                                                                 \
    :: d_step { late_delete[n] && IS_UP(n) -> printf("node %d: DEL of a release\n", n);                                \
        node_lose(n); late_delete[n] = 0; step_ends() }
#else
#define LATE_DELETE(n)
#endif

#if RESTART_DELAYED
/* It must wait for each bound that was begun when it died: that is what a TTL comes to. */
inline die(n) {
    down[n] = 1;
    node_lose(n);
    for (i : 0 .. CLIENTS - 1) {
        waits[AT(i, n)] = (at[i] == IDLE || due[i] -> 0 : 1);
        for (j : 0 .. N - 1) {
            if
            :: extend[AT(i, j)] != 0 && waits[AT(i, n)] != 0 -> waits[AT(i, n)] = 2
            :: else
            fi
        }
    }
}
#if CLIENTS > 2
#define WAITS(n) (waits[AT(0, n)] || waits[AT(1, n)] || waits[AT(2, n)])
#else
#define WAITS(n) (waits[AT(0, n)] || waits[AT(1, n)])
#endif
#define RESTART(n)                                                                                                     \
    :: d_step { !down[n] -> printf("node %d dies\n", n); die(n); step_ends() }                                         \
    :: d_step { down[n] && !WAITS(n) -> printf("node %d is back, empty, a TTL later\n", n); down[n] = 0; step_ends() }
#else
#define RESTART(n)                                                                                                     \
    :: d_step { RESTART_EMPTY && key[n] != 0 ->                                                                        \
        printf("node %d restarts without data\n", n); node_lose(n); step_ends() }
#endif

#define NODE(n)                                                                                                        \
    :: d_step { MAY_END(n) && key[n] != NOBODYS -> printf("node %d: the key of client %d ends\n", n, key[n] - 1);      \
        node_lose(n); step_ends() }                                                                                    \
    :: d_step { key[n] == NOBODYS -> printf("node %d: the key of a former attempt is released or ends\n", n);          \
        node_lose(n); step_ends() }                                                                                    \
    :: d_step { late_set[n] && key[n] == 0 && IS_UP(n) ->                                                              \
        printf("node %d: a SET of a former attempt arrives\n", n); key[n] = NOBODYS; step_ends() }                     \
    LATE_DELETE(n)                                                                                                     \
    RESTART(n)

/* ---- the world ------------------------------------------------------------------------------------------------ */

#if N == 5
#define NODES NODE(0) NODE(1) NODE(2) NODE(3) NODE(4)
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2) REQUEST(c, 3) REQUEST(c, 4)
#else
#define NODES NODE(0) NODE(1) NODE(2)
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2)
#endif

active proctype world() {
    d_step {
        for (i : 0 .. CLIENTS - 1) { at[i] = IDLE }
        i = 0
    }
    do
    CLIENT(0)
    REQUESTS(0)
    CLIENT(1)
    REQUESTS(1)
#if CLIENTS > 2
    CLIENT(2)
    REQUESTS(2)
#endif
    NODES
#if WITNESS == 1 /* everybody holds in turn, and client 0 after the others again */
    :: d_step { at[0] == HOLDING && seen[0] >= 2 && !renewed[0] && seen[1] && seen[CLIENTS - 1] -> assert(false) }
#elif WITNESS == 2 /* two renewals carry one hold on */
    :: d_step { at[0] == HOLDING && renewed[0] && seen[0] == 3 && seen[1] == 0 -> assert(false) }
#endif
    od
}
