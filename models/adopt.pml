/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks that are taken over by their tokens in guarded mode (docs/inside/guarded.md, "Acquire, extend, release"). Two clients
 * acquire and release one resource on N = 3 nodes, their SETs arrive late and more than once, and whoever knows a client's
 * token takes its lock over, again and again. Nodes keep their data here; guarded.pml is about losses.
 *
 * Time and network are those of redlock.pml. What makes it small:
 *  - A client is its token: a later try with another one only adds keys that stand in the way.
 *  - A key may end when nothing that its client is at relies on it: it did not vote, and was not extended.
 *  - A bound that comes is a client that gives up.
 *  - Proposals are any numbers: the highest seen and the clock are hints. Denied clients, and resources of the same stripe,
 *    raise a node's fence at any time.
 */

#define N 3
#define QUORUM 2
#define CLIENTS 2
#ifndef TOKENS
#define TOKENS 4 /* the highest, at most 4 */
#endif

/* Which rule is dropped. */
#ifndef KEEPS_TOKEN
#define KEEPS_TOKEN 0 /* an extension is enough, and the lock has the token that it had */
#endif
#ifndef RAISE_IGNORED
#define RAISE_IGNORED 0 /* a node counts whether or not its fence was below the new token */
#endif
#ifndef EXTENSION_COUNTS
#define EXTENSION_COUNTS 0 /* a node counts before it has raised its fence */
#endif

/* 1: nobody takes over a lock after another client has held it, for which spin must find how it does. */
#ifndef WITNESS
#define WITNESS 0
#endif

#define AT(c, n) ((c) * N + (n))

mtype = { IDLE, TRYING, ADOPTING, HOLDING };
mtype at[CLIENTS];
byte proposal[CLIENTS]; /* when HOLDING, and after it, its token */
byte floor[CLIENTS];    /* the highest token that the other was granted before this attempt began */
byte top[CLIENTS];      /* the highest token that it was granted */
bit sent[CLIENTS];      /* its SETs are on their way for ever */
bit granted[CLIENTS];
bit vote[CLIENTS * N];
bit extended[CLIENTS * N];
byte key[N]; /* 0: free; c + 1: client c's token */
byte fence[N];
byte i;

#define VOTES(c) (vote[AT(c, 0)] + vote[AT(c, 1)] + vote[AT(c, 2)])
#define COUNTED(c) (EXTENSION_COUNTS && at[c] == ADOPTING -> extended[AT(c, 0)] + extended[AT(c, 1)] + extended[AT(c, 2)] : VOTES(c))
#define RELIED_ON(c, n) (at[c] != IDLE && (vote[AT(c, n)] || extended[AT(c, n)]))

inline forget_votes(c) {
    for (i : 0 .. N - 1) { vote[AT(c, i)] = 0; extended[AT(c, i)] = 0 }
    i = 0
}

inline begin(c, what) {
    at[c] = what;
    floor[c] = top[1 - c];
    forget_votes(c)
}

inline win(c) {
    at[c] = HOLDING;
    granted[c] = 1;
    assert(WITNESS || at[1 - c] != HOLDING);
    assert(WITNESS || proposal[c] > floor[c]); /* tokens grow in the order of holders */
    top[c] = (proposal[c] > top[c] -> proposal[c] : top[c])
}

/* Any higher one: also in the place of a proposal that can no longer win. */
#define PROPOSES(c, t)                                                                          \
    :: d_step { at[c] == IDLE && proposal[c] < t && t <= TOKENS && !sent[c] ->                                 \
        printf("client %d begins, with token %d\n", c, t); begin(c, TRYING); proposal[c] = t; sent[c] = 1 }            \
    :: d_step { at[c] == IDLE && granted[c] && proposal[c] < t && t <= TOKENS && !KEEPS_TOKEN ->               \
        printf("client %d takes its lock over, with token %d\n", c, t); begin(c, ADOPTING); proposal[c] = t }          \
    :: d_step { at[c] == ADOPTING && proposal[c] < t && t <= TOKENS && !KEEPS_TOKEN ->                         \
        printf("client %d begins again, with token %d\n", c, t);                                \
        forget_votes(c); proposal[c] = t }

#define CLIENT(c)                                                                               \
    PROPOSES(c, 1) PROPOSES(c, 2) PROPOSES(c, 3) PROPOSES(c, 4)                                 \
    :: d_step { at[c] == IDLE && granted[c] && KEEPS_TOKEN ->                                   \
        printf("client %d takes its lock over, with token %d\n", c, proposal[c]); begin(c, ADOPTING) }                 \
    :: d_step { (at[c] == TRYING || at[c] == ADOPTING) && COUNTED(c) >= QUORUM ->               \
        printf("client %d HOLDS the lock, with token %d\n", c, proposal[c]); win(c) }           \
    :: d_step { at[c] != IDLE -> printf("client %d gives it up\n", c); at[c] = IDLE; forget_votes(c); floor[c] = 0 }

#define NODE(c, n)                                                                              \
    :: d_step { sent[c] && key[n] == 0 -> printf("node %d: SET of client %d\n", n, c); key[n] = c + 1;                 \
        vote[AT(c, n)] = (at[c] == TRYING && fence[n] < proposal[c]);                           \
        fence[n] = (at[c] == TRYING && fence[n] < proposal[c] -> proposal[c] : fence[n]) }      \
    :: d_step { key[n] == c + 1 && !RELIED_ON(c, n) -> printf("node %d: the key of client %d ends\n", n, c);           \
        key[n] = 0 }                                                                            \
    :: d_step { at[c] == ADOPTING && key[n] == c + 1 && !extended[AT(c, n)] ->                  \
        printf("node %d: extension of client %d\n", n, c); extended[AT(c, n)] = 1; vote[AT(c, n)] = KEEPS_TOKEN }      \
    :: d_step { at[c] == ADOPTING && extended[AT(c, n)] && key[n] == c + 1 && !vote[AT(c, n)] && !KEEPS_TOKEN &&       \
                (fence[n] < proposal[c] || RAISE_IGNORED) ->                                    \
        printf("node %d: the fence is raised for client %d\n", n, c); vote[AT(c, n)] = 1;       \
        fence[n] = (fence[n] < proposal[c] -> proposal[c] : fence[n]) }

#define BUMP(n)                                                                                 \
    :: d_step { fence[n] < TOKENS -> printf("node %d: a denied client raises the fence\n", n); fence[n]++ }

active proctype world() {
    d_step {
        at[0] = IDLE; at[1] = IDLE
    }
    do
    CLIENT(0)
    CLIENT(1)
    NODE(0, 0) NODE(0, 1) NODE(0, 2)
    NODE(1, 0) NODE(1, 1) NODE(1, 2)
    BUMP(0) BUMP(1) BUMP(2)
#if WITNESS
    :: d_step { at[0] == HOLDING && floor[0] > 0 &&
                extended[AT(0, 0)] + extended[AT(0, 1)] + extended[AT(0, 2)] >= QUORUM -> assert(false) }
#endif
    od
}
