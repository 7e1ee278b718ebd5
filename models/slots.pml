/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Slots (docs/use/slots.md): clients that each take one of K slots of a resource, on N nodes, and leave it, without end.
 * models/check runs it through spin, with the switches below.
 *
 * Time and network are those of redlock.pml: a bound may come at any moment, a request arrives at any time or never, and
 * an answer is used or not. Left out is what an ordinary lock does as well, because a slot that is won is one: renewal,
 * fences, and nodes that lose data (redlock.pml, guarded.pml).
 *
 * What makes it finite, and small: of two runs, of which the second can do all that the first can, the first is left out.
 *  - A key whose client has gone on only stands in the way, which delay does too: it is gone at once. So a bound that
 *    comes is a release, and what a refused request leaves is as if it had not arrived.
 *  - T1 is taken just before the first request arrives: an earlier bound comes sooner.
 *  - A node gives any free slot, not the first one in the order of the client; and a client settles on any slot that a
 *    node gave, not on the one that most nodes gave.
 *  - The second request to a node is sent after the answer to the first, so the two arrive in their order.
 */

#ifndef N
#define N 3 /* 3, 5 */
#endif
#define CLIENTS 3
#define K 2
#define QUORUM (N / 2 + 1)

/* Nodes in an order of their own, for less states; a story then calls them by changing numbers. */
#ifndef SYMMETRY
#define SYMMETRY 0
#endif

#ifndef MIXED
#define MIXED 0 /* client 0 was given one slot, the others K */
#endif

/* Which rule is dropped. */
#ifndef COUNTED
#define COUNTED 0 /* grants of a majority are a win, whichever slots they are for. Asserted is only that at most K hold */
#endif
#ifndef VOTES_ADDED
#define VOTES_ADDED 0 /* a client that settled on a slot counts the votes for others too */
#endif
#ifndef NOT_COMPARED
#define NOT_COMPARED 0 /* MIXED: the node does not look at the number of slots in the tokens that it has */
#endif

/* 0: at most K hold, each another slot. 1: that K hold, one of them by a second request, never happens. */
#ifndef WITNESS
#define WITNESS 0
#endif

#define AT(c, n) ((c) * N + (n))
#define SLOT(n, s) ((n) * K + (s) - 1)
#define NUMBER(c) (MIXED && (c) == 0 -> 1 : K)

#define IDLE 0
#define TRYING 1
#define HOLDING 2
byte at[CLIENTS];
byte settled[CLIENTS];   /* the slot that it settled on, or 0 */
byte given[CLIENTS * N]; /* the slot that the node gave, or 0 */
byte key[N * K];         /* of each slot: c + 1 holds the token of what client c is at now. 0: free */
#if WITNESS
bit moved[CLIENTS];
#endif

/* Within a step only. They need not be part of a state, but a search for the shortest story (BFS) wants them to be. */
#if SYMMETRY
hidden byte i, j, k, other;
hidden int larger;
hidden int code[N];
#else
byte i, j;
#endif

#if SYMMETRY
/* Which node is which makes no difference. */
#define SWAP(array, a, b) other = array[a]; array[a] = array[b]; array[b] = other
inline step_ends() {
    for (i : 0 .. N - 1) {
        code[i] = 0;
        for (j : 1 .. K) { code[i] = code[i] * (CLIENTS + 1) + key[SLOT(i, j)] }
        for (j : 0 .. CLIENTS - 1) { code[i] = code[i] * (K + 1) + given[AT(j, i)] }
    }
    for (k : 1 .. N - 1) {
        for (i : 0 .. N - 1 - k) {
            if
            :: code[i] > code[i + 1] ->
                larger = code[i]; code[i] = code[i + 1]; code[i + 1] = larger;
                for (j : 1 .. K) { SWAP(key, SLOT(i, j), SLOT(i + 1, j)) }
                for (j : 0 .. CLIENTS - 1) { SWAP(given, AT(j, i), AT(j, i + 1)) }
            :: else
            fi
        }
    }
    i = 0
}
#else
inline step_ends() { i = 0; j = 0 }
#endif

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

/* A slot is held there with another number of slots. */
#define HELD_BY(o, n) (key[SLOT(n, 1)] == (o) + 1 || key[SLOT(n, 2)] == (o) + 1)
#define OTHER_NUMBER(c, o, n) (NUMBER(o) != NUMBER(c) && HELD_BY(o, n))
#define REFUSES(c, n)                                                                                                  \
    (!NOT_COMPARED && (OTHER_NUMBER(c, 0, n) || OTHER_NUMBER(c, 1, n) || OTHER_NUMBER(c, 2, n)))

inline give(c, n, s) {
    at[c] = (at[c] == IDLE -> TRYING : at[c]);
    key[SLOT(n, s)] = c + 1;
    given[AT(c, n)] = s
}

/* Takes the slot, if it is free, and leaves the other in the same step, whether or not it is. */
inline move(c, n, s) {
    key[SLOT(n, given[AT(c, n)])] = 0;
    if
    :: key[SLOT(n, s)] == 0 -> key[SLOT(n, s)] = c + 1; given[AT(c, n)] = s;
#if WITNESS
        moved[c] = 1
#endif
    :: else -> given[AT(c, n)] = 0
    fi
}

/* ---- clients -------------------------------------------------------------------------------------------------- */

#define GAVE(c, n) (given[AT(c, n)] != 0 && (given[AT(c, n)] == settled[c] || VOTES_ADDED || COUNTED))
#define GAVE_IT(c, n, s) (given[AT(c, n)] == (s))
#if N == 5
#define VOTES(c) (GAVE(c, 0) + GAVE(c, 1) + GAVE(c, 2) + GAVE(c, 3) + GAVE(c, 4))
#define GIVEN(c, s) (GAVE_IT(c, 0, s) || GAVE_IT(c, 1, s) || GAVE_IT(c, 2, s) || GAVE_IT(c, 3, s) || GAVE_IT(c, 4, s))
#else
#define VOTES(c) (GAVE(c, 0) + GAVE(c, 1) + GAVE(c, 2))
#define GIVEN(c, s) (GAVE_IT(c, 0, s) || GAVE_IT(c, 1, s) || GAVE_IT(c, 2, s))
#endif
#define HOLDERS ((at[0] == HOLDING) + (at[1] == HOLDING) + (at[2] == HOLDING))

inline win(c) {
    at[c] = HOLDING;
#if !WITNESS
    for (i : 0 .. CLIENTS - 1) {
        assert(at[i] != HOLDING || HOLDERS <= NUMBER(i));
        assert(COUNTED || i == c || at[i] != HOLDING || settled[i] != settled[c]);
        assert(at[i] != HOLDING || NUMBER(i) == NUMBER(c))
    }
#endif
}

/* It goes on: released, given up, or its bound has come. */
inline leave(c) {
    at[c] = IDLE;
    settled[c] = 0;
#if WITNESS
    moved[c] = 0;
#endif
    for (i : 0 .. N - 1) {
        given[AT(c, i)] = 0;
        for (j : 1 .. K) { key[SLOT(i, j)] = (key[SLOT(i, j)] == c + 1 -> 0 : key[SLOT(i, j)]) }
    }
}

/* ---- what may happen ------------------------------------------------------------------------------------------ */

#define SETTLES(c, s)                                                                                                  \
    :: d_step { at[c] == TRYING && settled[c] == 0 && GIVEN(c, s) ->                                                   \
        printf("client %d settles on slot %d\n", c, s); settled[c] = s; step_ends() }
#define CLIENT(c)                                                                                                      \
    SETTLES(c, 1) SETTLES(c, 2)                                                                                        \
    :: d_step { at[c] == TRYING && settled[c] != 0 && VOTES(c) >= QUORUM ->                                            \
        printf("client %d HOLDS slot %d of %d\n", c, settled[c], NUMBER(c)); win(c); step_ends() }                     \
    :: d_step { at[c] != IDLE -> printf("client %d releases\n", c); leave(c); step_ends() }

/* The first request, which may arrive late; and the one for the slot that was settled on. */
#define GIVES(c, n, s)                                                                                                 \
    :: d_step { (s) <= NUMBER(c) && given[AT(c, n)] == 0 && key[SLOT(n, s)] == 0 && !REFUSES(c, n) ->                  \
        printf("node %d: gives slot %d to client %d\n", n, s, c); give(c, n, s); step_ends() }
#define REQUEST(c, n)                                                                                                  \
    GIVES(c, n, 1) GIVES(c, n, 2)                                                                                      \
    :: d_step { settled[c] != 0 && given[AT(c, n)] != 0 && given[AT(c, n)] != settled[c] && !REFUSES(c, n) ->          \
        printf("node %d: client %d asks for slot %d instead\n", n, c, settled[c]); move(c, n, settled[c]); step_ends() }

#if N == 5
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2) REQUEST(c, 3) REQUEST(c, 4)
#else
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2)
#endif

active proctype world() {
    do
    CLIENT(0)
    REQUESTS(0)
    CLIENT(1)
    REQUESTS(1)
    CLIENT(2)
    REQUESTS(2)
#if WITNESS
    :: d_step { HOLDERS == K && at[0] == HOLDING && moved[0] -> assert(false) }
#endif
    od
}
