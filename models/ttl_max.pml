/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A change of ttl_max in guarded mode (docs/inside/guarded.md, "Changing ttl_max"): three nodes, two operators who make the same
 * changes, two clients with long or short TTLs, who may know an old record, and nodes that lose their data. models/check runs
 * it through spin, with the switches below.
 *
 * Time and network are those of guarded.pml, and epochs those of membership.pml, which shows that one change is chosen for an
 * epoch, and that tokens grow. What is added is that a bound has a TTL, short or long. A wait for the long ttl_max outlasts
 * every bound that was begun before it; a wait for the short one only the short ones.
 *  - A node waits from its loss on, with the value that its agent knows when the wait ends: the agent has read the records of
 *    both other nodes by then, to register the node and to read their fences.
 *  - A renewal has the longest TTL that the client may use then. If that is shorter than the one before, the lease lasts as
 *    long as its last renewal, or as if that renewal had failed.
 *  - A long request that the record does not allow any more is not repeated under its nonce; an attempt ends then.
 */

#define N 3
#define QUORUM 2
#define CLIENTS 2
#define OPERATORS 2
#ifndef CHANGE
#define CHANGE 1 /* 1: ttl_max is raised; 2: lowered; 3: lowered, and raised again */
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef RENEWS
#define RENEWS 1 /* 0: nobody renews; client 0 has a long TTL, client 1 a short one */
#endif

/* Which rule is dropped. */
#ifndef UNSETTLED
#define UNSETTLED 0 /* the next epoch does not wait until the one before is settled */
#endif
#ifndef SETTLE_AT_ONCE
#define SETTLE_AT_ONCE 0 /* a lower value is settled without the wait */
#endif
#ifndef SETTLE_ONE
#define SETTLE_ONE 0 /* one node with the epoch is witness enough */
#endif
#ifndef WAIT_FOR_NEXT
#define WAIT_FOR_NEXT 0 /* a node waits for the lower value as soon as it is announced */
#endif
#ifndef READ_ONE
#define READ_ONE 0 /* an agent takes ttl_max from one node, which may be behind */
#endif
#ifndef USE_NEXT
#define USE_NEXT 0 /* a client uses the higher value as soon as it is announced */
#endif
#ifndef REPEATED
#define REPEATED 0 /* a long request is repeated under the nonce of a record that allows only a short one */
#endif
#ifndef SAME_NONCE
#define SAME_NONCE 0 /* a node's switch to the next epoch leaves its nonce as it is */
#endif

#ifndef WITNESS
#define WITNESS 0 /* 1: the change is never got through, with a loss that is recovered from, and used, for which spin must find how */
#endif

#define SHORT 1
#define LONG 2
#if CHANGE == 1
#define EPOCHS 3
#define TTL_MAX(e) ((e) <= 2 -> SHORT : LONG)
#define TTL_NEXT(e) ((e) == 1 -> SHORT : LONG)
#else
#define EPOCHS (CHANGE == 2 -> 3 : 5)
#define TTL_MAX(e) ((e) <= 2 || (e) == 5 -> LONG : SHORT)
#define TTL_NEXT(e) ((e) == 1 || (e) >= 4 -> LONG : SHORT)
#endif
#define LOWER(e) (TTL_MAX(e) < TTL_NEXT(e) -> TTL_MAX(e) : TTL_NEXT(e))
#define HIGHER(e) (TTL_MAX(e) > TTL_NEXT(e) -> TTL_MAX(e) : TTL_NEXT(e))
#define ALLOWED(e) (USE_NEXT -> HIGHER(e) : LOWER(e))
#define WAIT_OF(e) (WAIT_FOR_NEXT -> LOWER(e) : HIGHER(e))

#define BIT(mask, n) (((mask) >> (n)) & 1)
#define SIZE(mask) (BIT(mask, 0) + BIT(mask, 1) + BIT(mask, 2))

#define IDLE 0
#define TRYING 1
#define HOLDING 2
byte at[CLIENTS];
byte ttl[CLIENTS];      /* what it asked for; when it holds, of the renewal that proves it */
byte next_ttl[CLIENTS]; /* of the renewal under way */
bit renewing[CLIENTS];
byte votes[CLIENTS]; /* bit n */
byte view[CLIENTS];  /* the epoch of its votes; 0: it knows nothing yet */

byte epoch[N];
byte recovers; /* bit n */
byte key[N];   /* c + 1: client c's */
byte losses = LOSSES;
byte chosen = 1;  /* the newest epoch */
byte settled = 1; /* the newest that is settled */

/* The operators: of the epoch that each settles, 0: of none. */
byte settles[OPERATORS];
byte witnesses[OPERATORS];

/* Who waits for which bound: places 0 to 2 are nodes, 3 and 4 operators. 1: a lease, 2: its renewal. */
#define PLACES 5
byte waits[CLIENTS * PLACES];
#define WAIT(c, p) waits[(c) * PLACES + (p)]
#define BOUND_TTL(c, p) (WAIT(c, p) == 2 -> next_ttl[c] : ttl[c])
#define OUTLASTS(p, length, c) (WAIT(c, p) == 0 || BOUND_TTL(c, p) > (length))
#define WAITED(p, length) (OUTLASTS(p, length, 0) && OUTLASTS(p, length, 1))

byte i;

#define IS_AT(n, e) (!BIT(recovers, n) && epoch[n] == (e))
#define AT(e) (IS_AT(0, e) + 2 * IS_AT(1, e) + 4 * IS_AT(2, e))

inline begin_wait(p) {
    for (i : 0 .. CLIENTS - 1) { WAIT(i, p) = (at[i] == IDLE -> 0 : 1 + renewing[i]) }
    i = 0
}
inline end_wait(p) { WAIT(0, p) = 0; WAIT(1, p) = 0 }

/* ---- clients -------------------------------------------------------------------------------------------------- */

inline leave(c) {
    at[c] = IDLE; ttl[c] = 0; next_ttl[c] = 0; renewing[c] = 0; votes[c] = 0; view[c] = 0;
    for (i : 0 .. N - 1) { key[i] = (key[i] == c + 1 -> 0 : key[i]) }
    for (i : 0 .. PLACES - 1) { WAIT(c, i) = 0 }
    i = 0
}

#define VIEW(c, n) (SAME_NONCE && view[c] != 0 -> view[c] : epoch[n])
#define COUNTS_FOR(c, n) (!BIT(recovers, n) && epoch[n] >= view[c])
#define IS_ALLOWED(c, n, length) ((length) <= ALLOWED(VIEW(c, n)) || (REPEATED && view[c] != 0))

/* A newer epoch voids what was granted in an earlier one. */
inline node_vote(c, n) {
    votes[c] = (VIEW(c, n) > view[c] -> 0 : votes[c]);
    view[c] = VIEW(c, n);
    votes[c] = votes[c] | (1 << n)
}

inline win(c) {
    at[c] = HOLDING; votes[c] = 0;
    assert(WITNESS || at[1 - c] != HOLDING)
}

inline give_up_renewal(c) {
    renewing[c] = 0; next_ttl[c] = 0; votes[c] = 0;
    for (i : 0 .. PLACES - 1) { WAIT(c, i) = (WAIT(c, i) == 2 -> 1 : WAIT(c, i)) }
    i = 0
}

inline end_renewal(c) {
    for (i : 0 .. N - 1) { key[i] = (key[i] == c + 1 && !BIT(votes[c], i) -> 0 : key[i]) }
    for (i : 0 .. PLACES - 1) { WAIT(c, i) = (WAIT(c, i) == 2 -> 1 : 0) }
    ttl[c] = next_ttl[c]; renewing[c] = 0; next_ttl[c] = 0; votes[c] = 0;
    i = 0
}

#define BEGIN(c, n, length)                                                                                            \
    :: d_step { at[c] == IDLE && key[n] == 0 && (RENEWS || (length) == (c == 0 -> LONG : SHORT)) ->                    \
        printf("node %d: first SET of client %d, with TTL %d\n", n, c, length);                                        \
        at[c] = TRYING; ttl[c] = length; key[n] = c + 1 }
/* A renewal begins with its first extension. */
#define EXTEND(c, n, length)                                                                                           \
    :: d_step { RENEWS && at[c] == HOLDING && key[n] == c + 1 && !BIT(votes[c], n) && COUNTS_FOR(c, n) &&              \
                IS_ALLOWED(c, n, length) && (!renewing[c] || next_ttl[c] == (length)) ->                               \
        printf("node %d: extension of client %d, with TTL %d in epoch %d\n", n, c, length, VIEW(c, n));                \
        renewing[c] = 1; next_ttl[c] = length; node_vote(c, n) }
#define REQUEST(c, n)                                                                                                  \
    BEGIN(c, n, SHORT) BEGIN(c, n, LONG)                                                                               \
    EXTEND(c, n, SHORT) EXTEND(c, n, LONG)                                                                             \
    :: d_step { at[c] == TRYING && key[n] == 0 -> printf("node %d: SET of client %d\n", n, c); key[n] = c + 1 }        \
    :: d_step { at[c] == TRYING && key[n] == c + 1 && !BIT(votes[c], n) && COUNTS_FOR(c, n) &&                         \
                IS_ALLOWED(c, n, ttl[c]) ->                                                                            \
        printf("node %d: client %d's vote, in epoch %d\n", n, c, VIEW(c, n)); node_vote(c, n) }
#define CLIENT(c)                                                                                                      \
    REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2)                                                                          \
    :: d_step { at[c] == TRYING && SIZE(votes[c]) >= QUORUM -> printf("client %d HOLDS the lock\n", c); win(c) }       \
    :: d_step { renewing[c] && SIZE(votes[c]) >= QUORUM -> printf("client %d has renewed\n", c); end_renewal(c) }      \
    :: d_step { renewing[c] -> printf("client %d's renewal fails\n", c); give_up_renewal(c) }                          \
    :: d_step { at[c] != IDLE -> printf("client %d's validity is over, or it releases\n", c); leave(c) }

/* ---- operators ------------------------------------------------------------------------------------------------ */

#define ENOUGH (SETTLE_ONE -> 1 : QUORUM)
#define MUST_WAIT(e) (TTL_NEXT(e) < TTL_MAX(e) && !SETTLE_AT_ONCE)
#define OPERATOR(o)                                                                                                    \
    :: d_step { settles[o] == 0 && settled < chosen && SIZE(AT(chosen)) >= ENOUGH && MUST_WAIT(chosen) ->              \
        printf("operator %d: enough nodes carry epoch %d\n", o, chosen);                                               \
        settles[o] = chosen; witnesses[o] = AT(chosen); begin_wait(N + o) }                                            \
    :: d_step { settles[o] != 0 && WAITED(N + o, LONG) && SIZE(witnesses[o]) >= ENOUGH ->                              \
        printf("operator %d has settled epoch %d\n", o, settles[o]);                                                   \
        settled = (settles[o] > settled -> settles[o] : settled);                                                      \
        settles[o] = 0; witnesses[o] = 0 }                                                                             \
    :: d_step { settles[o] != 0 && SIZE(witnesses[o]) < ENOUGH -> printf("operator %d begins anew\n", o);              \
        settles[o] = 0; witnesses[o] = 0; end_wait(N + o) }
#define SETTLE_WITHOUT_WAIT                                                                                            \
    :: d_step { settled < chosen && SIZE(AT(chosen)) >= ENOUGH && !MUST_WAIT(chosen) ->                                \
        printf("epoch %d is settled at once\n", chosen); settled = chosen }

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

inline lose(n) {
    losses--; recovers = recovers | (1 << n); key[n] = 0; epoch[n] = 0;
    for (i : 0 .. OPERATORS - 1) { witnesses[i] = witnesses[i] & (7 - (1 << n)) }
    begin_wait(n)
}

#define NEWER(m, k) (epoch[m] > epoch[k] -> epoch[m] : epoch[k])
inline install(n, m, k) { recovers = recovers & (7 - (1 << n)); epoch[n] = NEWER(m, k); end_wait(n) }

#define NODE(n, m, k)                                                                                                  \
    :: d_step { losses > 0 && recovers == 0 -> printf("node %d loses its data\n", n); lose(n) }                        \
    :: d_step { BIT(recovers, n) && WAITED(n, WAIT_OF(NEWER(m, k))) ->                                                 \
        printf("node %d is installed at epoch %d\n", n, NEWER(m, k)); install(n, m, k) }                        \
    :: d_step { BIT(recovers, n) && READ_ONE && WAITED(n, WAIT_OF(epoch[m])) ->                                        \
        printf("node %d is installed at epoch %d, after the wait of epoch %d\n", n, NEWER(m, k), epoch[m]);            \
        install(n, m, k) }                                                                                      \
    :: d_step { !BIT(recovers, n) && epoch[n] < chosen -> printf("node %d is switched to epoch %d\n", n, epoch[n] + 1); \
        epoch[n]++ }

active proctype world() {
    d_step { epoch[0] = 1; epoch[1] = 1; epoch[2] = 1 }
    do
    CLIENT(0) CLIENT(1)
    OPERATOR(0) OPERATOR(1)
    SETTLE_WITHOUT_WAIT
    :: d_step { chosen < EPOCHS && (settled == chosen || UNSETTLED) && SIZE(AT(chosen)) >= QUORUM ->                   \
        chosen++; printf("epoch %d is chosen\n", chosen) }
    NODE(0, 1, 2) NODE(1, 0, 2) NODE(2, 0, 1)
#if WITNESS
    :: d_step { chosen == EPOCHS && losses == 0 && recovers == 0 && at[0] == HOLDING && view[0] == EPOCHS &&           \
                ttl[0] == TTL_NEXT(EPOCHS) -> assert(false) }
#endif
    od
}
