/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `redlock break` in guarded mode (docs/inside/guarded.md, "Break"; src/core/break.h). Client 0 acquires a lock, renews it and
 * sets missing keys again; an operator breaks that lock, client 1 acquires it meanwhile, and one node may lose its data.
 *
 * Time, network, tokens and losses are those of guarded.pml. Besides:
 *  - A SET arrives once, late or never: a connection is given up with a reset, not sent again. The requests of a client to a
 *    node keep their order, so an extension arrives behind the SET before it.
 *  - The ZADD behind client 0's SET may arrive later than it, under the nonce that was known then. Any raise after that
 *    asks for the key, under whatever nonce is there.
 *  - The break begins when it has found client 0's token on a majority, and may begin anew with a higher fence, or begin a
 *    round of deletes, whenever it likes; an answer of a node may be lost. One that is used later than it was given only
 *    says less.
 *  - It learns of a loss when it asks the node again.
 */

#define N 3
#define QUORUM 2
#define ALL 7
#ifndef TOKENS
#define TOKENS 3 /* the highest, at most 3 */
#endif
#ifndef LOSSES
#define LOSSES 0 /* 0, 1 */
#endif
#ifndef OTHER
#define OTHER 1 /* 0: there is no client 1 */
#endif
#ifndef RENEWS
#define RENEWS 1 /* 0: client 0 does not renew */
#endif

/* Nodes in an order of their own, for less states; a story then calls them by changing numbers. */
#ifndef SYMMETRY
#define SYMMETRY 0
#endif

/* Which rule is dropped. */
#ifndef NO_RENAME
#define NO_RENAME 0 /* the step leaves the nonce as it is */
#endif
#ifndef RAISE_APART
#define RAISE_APART 0 /* fences are raised first, keys are deleted by later requests */
#endif
#ifndef MINORITY
#define MINORITY 0 /* one node that confirmed is enough */
#endif
#ifndef ONE_ROUND
#define ONE_ROUND 0 /* a majority reported that it does not have the token, and is not asked again */
#endif
#ifndef REPORT_EARLY
#define REPORT_EARLY 0 /* the fence is raised on a majority, and the report does not wait for the deletes */
#endif
#ifndef RAISE_KEPT
#define RAISE_KEPT 0 /* a node counts on though a delete found the token there again */
#endif
#ifndef LOST_KEPT
#define LOST_KEPT 0 /* a node counts on though the answer to a delete was lost */
#endif
#ifndef OTHERS_COUNT
#define OTHERS_COUNT 0 /* a node counts that held another client's token when its fence was raised */
#endif
#ifndef LATE_SET
#define LATE_SET 0 /* no rule: a SET of client 0 is under way for longer than the break takes */
#endif

#define BIT(mask, n) (((mask) >> (n)) & 1)
#define SIZE(mask) (BIT(mask, 0) + BIT(mask, 1) + BIT(mask, 2))
#define WITHOUT(mask, n) ((mask) & (ALL - (1 << (n))))

#define IDLE 0
#define TRYING 1
#define HOLDING 2
#define OVER 3
byte at[2];
byte token[2];
byte floor[2];    /* the other's token, if it was granted before this one began */
bit granted[2];
byte vote[2];     /* the nodes that prove what it is at */
byte key[N];      /* 0: free; c + 1: client c's token */
byte fence[N];

/* Client 0. */
byte fly = ALL; /* the SETs of its acquisition are on their way */
byte half;     /* its ZADD is on its way, under a nonce that is still there */
byte set_again; /* nodes where it has set its key again, as it counts them */
byte repair;   /* such SETs are on their way */
bit round, proven; /* of extensions: it is open; it has renewed the lease already */
byte kept, is_gone; /* nodes that had its key; of these, nodes that reported since the last proof that it is not there */
byte extended, not_ours;
bit after_report, after_other; /* the round began after: the certain report; the other's win, who holds still */

/* The break. */
#define READS 0 /* pending: has answered; gone: has the token */
#define RAISES 1
#define DELETES 2
#define BROKEN 3
byte breaks;
byte bound; /* the fence */
byte pending, raised, gone, was_gone, confirmed, others, lost_since;
bit deleted; /* it has deleted client 0's token somewhere */
bit quiet;   /* no SET of client 0 was under way when the round of deletes began */
bit certain;

/* The node that loses its data: it waits for 1 the bound of a client's validity, 2 that of its renewal, then it reads. */
byte losses = LOSSES;
byte lost = N; /* N: none */
byte waits[2];
byte has_read;
byte read_fence;
byte i;

#define IS_INTACT(n) (lost != (n))

inline leave(c) {
    at[c] = OVER; vote[c] = 0; waits[c] = 0;
    if
    :: c == 0 -> fly = 0; half = 0; set_again = 0; repair = 0; round = 0; proven = 0; extended = 0; not_ours = 0; kept = 0; is_gone = 0;
        after_report = 0; after_other = 0
    :: else -> after_other = 0
    fi
}

inline node_set(c, n) {
    if
    :: at[c] == IDLE -> at[c] = TRYING; token[c] = 1; floor[c] = (granted[1 - c] -> token[1 - c] : 0)
    :: else
    fi;
    key[n] = c + 1;
    if
    :: c == 0 -> fly = WITHOUT(fly, n); half = (at[0] == TRYING && IS_INTACT(n) -> half | (1 << n) : half)
    :: else
    fi
}

inline win(c) {
    at[c] = HOLDING;
    granted[c] = 1;
    assert(at[1 - c] != HOLDING || deleted);
    assert(token[c] > floor[c]);
    /* The fence of the break is between the broken lock and every later one. */
    assert((c == 0 -> breaks != BROKEN || !quiet || token[c] < bound : breaks != BROKEN || token[c] > bound));
    kept = (c == 0 -> vote[0] : kept);
    set_again = (c == 0 -> ALL - vote[0] : set_again);
    half = (c == 0 -> 0 : half)
}

inline node_vote(c, n, t) {
    if
    :: t > token[c] -> vote[c] = 0; token[c] = t; half = (c == 0 -> 0 : half)
    :: else
    fi;
    fence[n] = t;
    vote[c] = vote[c] | (1 << n)
}

#define SETS(c, n) ((c) == 0 -> BIT(fly, n) : at[1] <= TRYING)
#define RELIED_ON(c, n) ((c) == 0 -> at[0] != OVER : BIT(vote[c], n))
#define VOTE(c, n, t)                                                                                                  \
    :: d_step { at[c] == TRYING && key[n] == c + 1 && IS_INTACT(n) && (t) > fence[n] && (t) >= token[c] &&             \
                (t) <= TOKENS && !BIT(vote[c], n) ->                                                                   \
        printf("node %d: client %d's vote at token %d\n", n, c, t); node_vote(c, n, t) }
#define CLIENT(c, n)                                                                                                   \
    :: d_step { SETS(c, n) && key[n] == 0 -> printf("node %d: SET of client %d\n", n, c); node_set(c, n) }             \
    VOTE(c, n, 1) VOTE(c, n, 2) VOTE(c, n, 3)                                                                          \
    :: d_step { key[n] == c + 1 && !RELIED_ON(c, n) ->                                \
        printf("node %d: the key of client %d ends\n", n, c); key[n] = 0 }
#define CHOICE(c)                                                                                                      \
    :: d_step { at[c] == TRYING && SIZE(vote[c]) >= QUORUM ->                                                          \
        printf("client %d HOLDS the lock, with token %d\n", c, token[c]); win(c) }                                     \
    :: d_step { (at[c] == TRYING || at[c] == HOLDING) -> printf("client %d's validity is over, or it releases\n", c);  \
        leave(c) }

#define BEHIND(n)                                                                                      \
    :: d_step { BIT(fly | repair, n) -> printf("the SET of client 0 to node %d is lost\n", n);                         \
        fly = WITHOUT(fly, n); repair = WITHOUT(repair, n) }                                                           \
    :: d_step { BIT(half, n) && IS_INTACT(n) ->                                                                        \
        printf("node %d: the ZADD of client 0 arrives behind its SET\n", n); half = WITHOUT(half, n);                  \
        vote[0] = (token[0] > fence[n] -> vote[0] | (1 << n) : vote[0]);                                               \
        fence[n] = (token[0] > fence[n] -> token[0] : fence[n]) }

/* ---- client 0 renews ------------------------------------------------------------------------------------------- */

inline close_round() {
    round = 0; proven = 0; extended = 0; not_ours = 0; after_report = 0; after_other = 0;
    waits[0] = (waits[0] == 2 -> 1 : waits[0])
}

inline send_again(n) {
    if
    :: SIZE(set_again | (1 << n)) < QUORUM -> set_again = set_again | (1 << n); repair = repair | (1 << n)
    :: else
    fi
}

/* The SET that was sent to that node before has arrived, or is refused. */
inline note_key(n) {
    repair = WITHOUT(repair, n); fly = WITHOUT(fly, n);
    if
    :: key[n] == 1 -> kept = kept | (1 << n); fence[n] = (fence[n] > token[0] -> fence[n] : token[0])
    :: else -> is_gone = is_gone | (kept & (1 << n)); kept = WITHOUT(kept, n)
    fi
}

inline extend(n) {
    note_key(n);
    if
    :: key[n] == 1 -> extended = extended | (1 << n)
    :: else -> not_ours = not_ours | (1 << n)
    fi;
    if
    :: !proven && N - SIZE(not_ours) < QUORUM -> printf("client 0 finds that its lock is lost\n"); leave(0)
    :: proven && key[n] == 0 -> send_again(n)
    :: else
    fi
}

inline extend_late(n) {
    note_key(n);
    if
    :: key[n] == 0 -> send_again(n)
    :: else
    fi
}

inline proof() {
    assert(!after_report);
    assert(!after_other);
    vote[0] = extended;
    set_again = 0;
    is_gone = 0;
    waits[0] = (waits[0] == 2 -> 1 : 0);
    proven = 1;
    for (i : 0 .. N - 1) {
        if
        :: BIT(not_ours, i) && key[i] == 0 -> send_again(i)
        :: else
        fi
    }
    i = 0
}

#define MAY_ANSWER(n) ((!BIT(repair | fly, n) || key[n] != 0) && IS_INTACT(n))
#define RENEW(n)                                                                                                       \
    :: d_step { round && !BIT(extended | not_ours, n) && MAY_ANSWER(n) ->                                              \
        printf("node %d: extension of client 0\n", n); extend(n) }                                                     \
    :: d_step { at[0] == HOLDING && !round && MAY_ANSWER(n) && key[n] != 1 ->                                          \
        printf("node %d: a late extension of client 0\n", n); extend_late(n) }                                         \
    :: d_step { round && !proven && BIT(not_ours, n) && !BIT(is_gone | repair, n) && SIZE(set_again | (1 << n)) < QUORUM -> \
        printf("client 0 sets its key at node %d, where it never was, and begins to renew anew\n", n);                 \
        send_again(n); close_round() }                                                                                 \
    :: d_step { BIT(repair, n) && key[n] == 0 -> printf("node %d: client 0's second SET arrives\n", n);                \
        repair = WITHOUT(repair, n); key[n] = 1 }
#define RENEWAL                                                                                                        \
    :: d_step { at[0] == HOLDING && !round -> printf("client 0 begins to renew\n");                                    \
        round = 1; after_report = (certain && losses == LOSSES); after_other = (at[1] == HOLDING) }                                          \
    :: d_step { round && !proven && SIZE(extended) >= QUORUM && (extended & (ALL - set_again)) != 0 ->                            \
        printf("client 0 has renewed\n"); proof() }                                                                    \
    :: d_step { round -> printf("client 0's renewal fails\n"); close_round() }

/* ---- the break ------------------------------------------------------------------------------------------------- */

inline propose(t) {
    breaks = RAISES; bound = t; pending = 0; raised = 0; gone = 0; was_gone = 0; confirmed = 0; others = 0;
    lost_since = 0
}

inline delete(n) {
    deleted = deleted || key[n] == 1;
    key[n] = (key[n] == 1 -> 0 : key[n])
}

inline node_break(n, heard) {
    fence[n] = bound;
    half = (NO_RENAME -> half : WITHOUT(half, n));
    if
    :: heard ->
        raised = raised | (1 << n);
        others = (key[n] == 2 && !OTHERS_COUNT -> others | (1 << n) : others);
        gone = ((key[n] == 2 && !OTHERS_COUNT) || (RAISE_APART && key[n] == 1) -> gone : gone | (1 << n))
    :: else
    fi;
    if
    :: RAISE_APART
    :: else -> delete(n)
    fi
}

inline begin_round() {
    breaks = DELETES; pending = ALL; was_gone = gone; confirmed = 0; quiet = (fly == 0 && repair == 0)
}

inline node_delete(n, heard) {
    pending = WITHOUT(pending, n);
    raised = (BIT(lost_since, n) -> WITHOUT(raised, n) : raised);
    if
    :: key[n] == 1 -> raised = (RAISE_KEPT || (!heard && LOST_KEPT) || RAISE_APART -> raised : WITHOUT(raised, n))
    :: else ->
        others = (heard && key[n] == 2 && !BIT(gone, n) && !OTHERS_COUNT -> others | (1 << n) : others);
        confirmed = (heard && BIT(was_gone, n) -> confirmed | (1 << n) : confirmed);
        raised = (heard || LOST_KEPT -> raised : WITHOUT(raised, n))
    fi;
    gone = (heard && !BIT(others, n) -> gone | (1 << n) : gone);
    delete(n)
}

inline report() {
    breaks = BROKEN;
    quiet = quiet || LATE_SET || REPORT_EARLY;
    certain = quiet && (REPORT_EARLY -> raised : (ONE_ROUND -> gone : confirmed)) == ALL;
    assert(!quiet || at[0] != HOLDING || token[0] < bound);
    assert(at[1] != HOLDING || token[1] > bound);
    pending = 0; gone = 0; was_gone = 0; confirmed = 0; others = 0; lost_since = 0; raised = 0
}

#define PROOF (REPORT_EARLY -> raised : (ONE_ROUND -> gone & raised : confirmed & raised))
#define FOUND (SIZE(pending) >= QUORUM && SIZE(gone) >= QUORUM)
#define PROPOSE(t)                                                                                                     \
    :: d_step { (breaks == READS -> FOUND : breaks != BROKEN) && bound < (t) && (t) <= TOKENS ->                                                    \
        printf("the break begins, with fence %d\n", t); propose(t) }
#define BREAK_AT(n)                                                                                                    \
    :: d_step { breaks == READS && !BIT(pending, n) && key[n] == 1 ->                                                  \
        printf("node %d: the break finds client 0's token\n", n);                                                      \
        pending = pending | (1 << n); gone = gone | (1 << n) }                                                         \
    :: d_step { breaks == RAISES && IS_INTACT(n) && fence[n] < bound ->                             \
        printf("node %d: the break raises the fence to %d and deletes the key\n", n, bound); node_break(n, true) }     \
    :: d_step { breaks == RAISES && IS_INTACT(n) && fence[n] < bound ->                             \
        printf("node %d: the same, and the answer is lost\n", n); node_break(n, false) }                               \
    :: d_step { breaks == DELETES && BIT(pending, n) ->                                                                \
        printf("node %d: the break deletes the token again; the key was of client %d\n", n, key[n] - 1);               \
        node_delete(n, true) }                                                                                         \
    :: d_step { breaks == DELETES && BIT(pending, n) ->                                                                \
        printf("node %d: the same, and the answer is lost\n", n); node_delete(n, false) }
#define BREAK                                                                                                          \
    PROPOSE(2) PROPOSE(3)                                                                                   \
    BREAK_AT(0) BREAK_AT(1) BREAK_AT(2)                                                                                \
    :: d_step { (breaks == RAISES || breaks == DELETES) && SIZE(raised) >= QUORUM ->                                   \
        printf("the break begins a round of deletes\n"); begin_round() }                                               \
    :: d_step { (breaks == DELETES || (breaks == RAISES && REPORT_EARLY)) && deleted &&                                \
                SIZE(PROOF) >= (MINORITY -> 1 : QUORUM) ->                                                             \
        printf("the break reports that the lock is BROKEN\n"); report() }

/* ---- a loss ---------------------------------------------------------------------------------------------------- */

inline lose(n) {
    losses--; lost = n; key[n] = 0; fence[n] = 0; half = WITHOUT(half, n); lost_since = lost_since | (1 << n);
    waits[0] = (at[0] == TRYING || at[0] == HOLDING -> 1 + round : 0);
    waits[1] = (at[1] == TRYING || at[1] == HOLDING)
}

inline install(n) { fence[n] = read_fence; lost = N; has_read = 0; read_fence = 0 }

#define LOSS(n)                                                                                                        \
    :: d_step { losses > 0 -> printf("node %d loses its data\n", n); lose(n) }                                         \
    :: d_step { lost != N && lost != (n) && !waits[0] && !waits[1] && !BIT(has_read, n) ->                             \
        printf("fence %d is read from node %d\n", fence[n], n); has_read = has_read | (1 << n);                        \
        read_fence = (fence[n] > read_fence -> fence[n] : read_fence) }                                                \
    :: d_step { lost == (n) && SIZE(has_read) >= QUORUM -> printf("node %d is installed\n", n); install(n) }

/* ---- symmetry -------------------------------------------------------------------------------------------------- */

#if SYMMETRY
hidden int code[N];
hidden int larger;
hidden byte j;

#define SWAP_BITS(mask, a, b) mask = (BIT(mask, a) != BIT(mask, b) -> mask ^ ((1 << (a)) | (1 << (b))) : mask)
inline swap_nodes(a, b) {
    larger = code[a]; code[a] = code[b]; code[b] = larger;
    larger = key[a]; key[a] = key[b]; key[b] = larger;
    larger = fence[a]; fence[a] = fence[b]; fence[b] = larger;
    SWAP_BITS(fly, a, b);
    SWAP_BITS(half, a, b);
    SWAP_BITS(repair, a, b);
    SWAP_BITS(set_again, a, b);
    SWAP_BITS(extended, a, b);
    SWAP_BITS(not_ours, a, b);
    SWAP_BITS(kept, a, b);
    SWAP_BITS(is_gone, a, b);
    SWAP_BITS(vote[0], a, b);
    SWAP_BITS(vote[1], a, b);
    SWAP_BITS(pending, a, b);
    SWAP_BITS(raised, a, b);
    SWAP_BITS(gone, a, b);
    SWAP_BITS(was_gone, a, b);
    SWAP_BITS(confirmed, a, b);
    SWAP_BITS(others, a, b);
    SWAP_BITS(lost_since, a, b);
    SWAP_BITS(has_read, a, b);
    lost = (lost == a -> b : (lost == b -> a : lost))
}

/* Which node is which makes no difference. */
inline sort() {
    for (i : 0 .. N - 1) {
        code[i] = ((key[i] * 4 + fence[i]) * 2 + (lost == i)) << 18;
        code[i] = code[i] + (BIT(fly, i) << 0) +
            (BIT(half, i) << 1) +
            (BIT(repair, i) << 2) +
            (BIT(set_again, i) << 3) +
            (BIT(extended, i) << 4) +
            (BIT(not_ours, i) << 5) +
            (BIT(kept, i) << 6) +
            (BIT(is_gone, i) << 7) +
            (BIT(vote[0], i) << 8) +
            (BIT(vote[1], i) << 9) +
            (BIT(pending, i) << 10) +
            (BIT(raised, i) << 11) +
            (BIT(gone, i) << 12) +
            (BIT(was_gone, i) << 13) +
            (BIT(confirmed, i) << 14) +
            (BIT(others, i) << 15) +
            (BIT(lost_since, i) << 16) +
            (BIT(has_read, i) << 17)
    }
    for (j : 1 .. N - 1) {
        for (i : 0 .. N - 1 - j) {
            if
            :: code[i] > code[i + 1] -> swap_nodes(i, i + 1)
            :: else
            fi
        }
    }
    i = 0
}
#endif

/* ---- the world ------------------------------------------------------------------------------------------------- */

#if OTHER
#define CLIENT_1 CLIENT(1, 0) CLIENT(1, 1) CLIENT(1, 2) CHOICE(1)
#else
#define CLIENT_1
#endif
#if RENEWS
#define RENEWALS RENEW(0) RENEW(1) RENEW(2) RENEWAL
#else
#define RENEWALS
#endif
#if LOSSES
#define LOST LOSS(0) LOSS(1) LOSS(2)
#else
#define LOST
#endif

active proctype world() {
    do
#if SYMMETRY
    :: atomic { if
#endif
    CLIENT(0, 0) CLIENT(0, 1) CLIENT(0, 2) CHOICE(0)
    CLIENT_1
    BEHIND(0) BEHIND(1) BEHIND(2)
    RENEWALS
    BREAK
    LOST
#if SYMMETRY
    fi; d_step { sort() } }
#endif
    od
}
