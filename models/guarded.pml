/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode (docs/inside/guarded.md): clients that acquire, renew, repair and release one resource, on nodes that lose their
 * data, while agents bring such nodes back. models/check runs it through spin, with the switches below.
 *
 * Time and network are those of redlock.pml: a bound may come at any moment after it was begun, a request arrives at any
 * time or never, and which way an answer takes makes no difference. What guarded mode adds is small, because the nonce does
 * it: a vote under the nonce that a client knows is a vote of a node that is intact at that moment, with the record that
 * this client has read. So a vote here asks the node's standing, and what else that record says is known from then on.
 *
 * What makes it finite, and small: of two runs, of which the second can do all that the first can, the first is left out.
 *  - A key whose client has gone on, or that lies behind an older bound, only stands in the way, which delay does too: it
 *    is gone at once. Where it would have been extended again, repair sets it again. So a bound that comes is a release.
 *  - T1 is taken just before the first SET arrives, or the first extension of a renewal: an earlier one comes sooner, and
 *    is waited for by more. A SET may arrive twice.
 *  - A higher fence only refuses more. So whoever votes chooses any token above the node's fence (the highest seen and the
 *    clock are hints); to choose a higher one than before is the re-raise, and voids his votes so far. The ZADD of one who
 *    did not get the key is left out, and so is what a lost node had left of its fences; ROLLBACK brings that back in.
 *  - A loss is noticed in the vote's own step, whoever claims the node; and its wait begins at once: one that is begun later
 *    waits for more. Only a second body must be registered before (TWO_BODIES). ROLLBACK is such a loss too: the node comes
 *    back as another process, so its record is void. A node that goes back as the same process is ROUND_TRIP.
 *  - What a ROUND_TRIP brings back of keys, a SET that arrives twice brings back as well: so all its keys are gone.
 *  - Several agents are one: what they write is a compare-and-set, so their steps fall in one order.
 */

#ifndef N
#define N 3 /* 3, 5 */
#endif
#ifndef CLIENTS
#define CLIENTS 2 /* 2, 3 */
#endif
#ifndef TOKENS
#define TOKENS 3 /* the highest, at most 3: there are no more wins than that in a run */
#endif
#ifndef LOSSES
#define LOSSES 1 /* how often a node loses its data, whichever; when too few are left to read from, nothing goes on */
#endif
#define QUORUM (N / 2 + 1)

/* Nodes and clients in an order of their own, for less states; a story then calls them by changing numbers. */
#ifndef SYMMETRY
#define SYMMETRY 0
#endif

/* What else may happen. */
#ifndef ROLLBACK
#define ROLLBACK 0 /* a node comes back with any of its former fences, not only without (everysec, a lagging replica) */
#endif
#ifndef ROUND_TRIP
/* A loss may also be that a node goes back to older data and keeps its process, run_id, record and nonce: a full resync from
 * its own promoted replica, and it is promoted back. By its record it is intact. Two things say otherwise. A client that
 * was connected before hears of it (the watch), and the push comes before the answer to any later vote: answers and pushes
 * keep their order on a connection. A client that connects later finds that the server's replication id is not the one in
 * the record. Such a client does not count that node, nor read its fences; one of them claims it, at any time. */
#define ROUND_TRIP 0
#endif
#ifndef TWO_BODIES
#define TWO_BODIES 0 /* one loss is that member 0 gets a second body, a promoted replica, beside the first, which lives on */
#endif
#ifndef VM_STOP
#define VM_STOP 0 /* a client stops, and no clock of its own sees it. Exclusion is lost then; tokens are what is asserted */
#endif
#ifndef CONFIRM
#define CONFIRM 0 /* a majority of the voters is asked once more */
#endif

/* Which rule is dropped. */
#ifndef NO_WATCH
#define NO_WATCH 0 /* ROUND_TRIP: a client that was connected before does not hear of it */
#endif
#ifndef PUSH_IGNORED
#define PUSH_IGNORED 0 /* ROUND_TRIP: it hears, and still counts the answers to what was under way */
#endif
#ifndef NO_COMPARE
#define NO_COMPARE 0 /* ROUND_TRIP: a client that connects later does not compare the replication ids */
#endif
#ifndef ID_KEPT
#define ID_KEPT 0 /* ROUND_TRIP: one that hears compares the record with the id that it read when it connected */
#endif
#ifndef READ_UNWATCHED
#define READ_UNWATCHED 0 /* ROUND_TRIP: fences are read from a node that went back, too */
#endif
#ifndef REJOIN_EMPTY
#define REJOIN_EMPTY 0 /* a node that lost its data votes at once (ROLLBACK: one that went back in time; its run_id unchecked) */
#endif
#ifndef NO_WAIT
#define NO_WAIT 0 /* fences are read at once */
#endif
#ifndef READ_EARLY
#define READ_EARLY 0 /* fences are read while the wait goes on; the node is installed after it */
#endif
#ifndef READ
#define READ QUORUM /* from how many nodes */
#endif
#ifndef ANY_SOURCE
#define ANY_SOURCE 0 /* from recovering ones too */
#endif
#ifndef FLOOR_ZERO
#define FLOOR_ZERO 0 /* what was read is not installed */
#endif
#ifndef NO_REGISTRATION
#define NO_REGISTRATION 0 /* the second body waits and is installed, nobody else is told */
#endif
#ifndef NO_LOOK
#define NO_LOOK 0 /* registered on a majority, one after the other, and not looked at again */
#endif
#ifndef OLD_VOTE
#define OLD_VOTE 0 /* votes of a body count on after its client has learnt of a newer one */
#endif
#ifndef RAISE_BLIND
#define RAISE_BLIND 0 /* TWO_BODIES: the fence is raised at the second body because the key was set at the first */
#endif
#ifndef OLD_BODIES
#define OLD_BODIES 0 /* a node is installed without the newest bodies of the others */
#endif
#ifndef EXTEND_UNCHECKED
#define EXTEND_UNCHECKED 0 /* an extension asks the key only */
#endif
#ifndef EXTEND_UNRAISED
#define EXTEND_UNRAISED 0 /* an extension leaves the fence as it is */
#endif
#ifndef EVICTION
/* A key goes, and record and fences stay. 1: nobody knows. It may as well have ended early, by a clock step, or by commands
 * of a replica that was the master for a short while: after a partial resync nothing is pushed. 2: the count of evicted
 * keys is not the one in the record, and that is noticed before the node's next vote counts; it is a loss. */
#define EVICTION 0
#endif
#ifndef QUORUM_FROM_LIST
#define QUORUM_FROM_LIST 0 /* N = 5: client 0 is told of nodes 0, 1, 2 only and believes its list, not the record */
#endif
#ifndef REPAIR_STRICT
#define REPAIR_STRICT 0 /* repair is a vote: the fence must be raised */
#endif

/* 0: no two hold, tokens grow. 1, 2: something good never happens, for which spin must find how it does. 3: no lease is
 * stuck, that is, one that could not be renewed although a majority of nodes is intact and nobody else's key stands there. */
#ifndef WITNESS
#define WITNESS 0
#endif

/* Not asserted is that no two hold. 1: a client that begins when another has won gets a higher token, and no token is given
 * twice. 2: it gets no lower token. */
#ifndef TOKENS_ONLY
#define TOKENS_ONLY VM_STOP
#endif

#define SERVERS (N + TWO_BODIES) /* server n is member n; server N the second body of member 0 */
#define AT(c, n) ((c) * SERVERS + (n))

#define IDLE 0
#define TRYING 1
#define CONFIRMING 2
#define HOLDING 3
byte at[CLIENTS];
byte token[CLIENTS]; /* the proposal; when it holds, the fencing token */
bit renewing[CLIENTS];
byte vote[CLIENTS * SERVERS]; /* counts: at the proposal, or for the renewal */
#define COUNTS 1
#define BEFORE_LOSS 2 /* it counts, but is none any more: what the confirm round is for */
#define CONFIRMED 3

#define INTACT 0
#define WAITING 1 /* and reading, when it waits for nothing */
#define UNREGISTERED 2
#define ABSENT 3
byte standing[SERVERS];
byte key[SERVERS]; /* c + 1: holds the token of what client c is at now. 0: no key */
byte fence[SERVERS];
byte waits[CLIENTS * SERVERS]; /* the node waits for: 1 the bound of this client's validity, 2 that of its renewal */
byte floor[SERVERS];
bit has_read[SERVERS * SERVERS]; /* AT(n, m): what is to be installed at n has seen m's fences */
byte losses = LOSSES;
byte won; /* the highest token of all that won */

#if TWO_BODIES
bit told[SERVERS];  /* the record there names the second body */
bit knows[CLIENTS]; /* has read one that does */
bit agent_knows[SERVERS];
#if RAISE_BLIND
bit had_key[CLIENTS]; /* at the first body, in this attempt */
#endif
#if NO_LOOK
bit believed[SERVERS];
#endif
#endif
#if ROUND_TRIP
bit went_back[SERVERS];         /* the record there is older than it seems: the replication id is not the one in it */
bit trusts[CLIENTS * SERVERS];  /* the client counts that node although it went back: for a rule that is dropped */
#endif
#if VM_STOP
bit due[CLIENTS];             /* the bound of its validity has come, and it does not know */
bit set_done[CLIENTS * SERVERS]; /* SET was OK under this nonce: its ZADD arrives, the key may be gone */
#endif
#if TOKENS_ONLY
byte won_before[CLIENTS];     /* `won` when it began */
byte won_all;                 /* bit t: token t won */
#endif
#if WITNESS
byte seen[CLIENTS]; /* 1: held, 2: and renewed */
byte lost;
#endif

/* Within a step only. They need not be part of a state, but a search for the shortest story (BFS) wants them to be. */
#if SYMMETRY
hidden byte i, j, k, other;
hidden int larger;
hidden int code[SERVERS + CLIENTS];
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
#if ROUND_TRIP
    SWAP(went_back, a, b);
#endif
    for (j : 0 .. CLIENTS - 1) {
        SWAP(vote, AT(j, a), AT(j, b));
        SWAP(waits, AT(j, a), AT(j, b));
#if ROUND_TRIP
        SWAP(trusts, AT(j, a), AT(j, b));
#endif
#if VM_STOP
        SWAP(set_done, AT(j, a), AT(j, b));
#endif
    }
    for (j : 0 .. SERVERS - 1) { SWAP(has_read, AT(a, j), AT(b, j)) }
    for (j : 0 .. SERVERS - 1) { SWAP(has_read, AT(j, a), AT(j, b)) }
#if TWO_BODIES
    SWAP(told, a, b);
    SWAP(agent_knows, a, b);
#if NO_LOOK
    SWAP(believed, a, b);
#endif
#endif
}

inline swap_clients(a, b) {
    larger = code[a]; code[a] = code[b]; code[b] = larger;
    SWAP(at, a, b);
    SWAP(token, a, b);
    SWAP(renewing, a, b);
    for (j : 0 .. SERVERS - 1) {
        SWAP(vote, AT(a, j), AT(b, j));
        SWAP(waits, AT(a, j), AT(b, j));
#if ROUND_TRIP
        SWAP(trusts, AT(a, j), AT(b, j));
#endif
        key[j] = (key[j] == a + 1 -> b + 1 : (key[j] == b + 1 -> a + 1 : key[j]));
#if VM_STOP
        SWAP(set_done, AT(a, j), AT(b, j));
#endif
    }
#if TWO_BODIES
    SWAP(knows, a, b);
#endif
#if VM_STOP
    SWAP(due, a, b);
#endif
#if TOKENS_ONLY
    SWAP(won_before, a, b);
#endif
}

/* Which client is which makes no difference, nor which node is (but member 0 when it has two bodies). Whatever order they
 * are brought into, it is the same world; the better the order, the less states. */
inline sort() {
    for (i : 0 .. CLIENTS - 1) {
        code[i] = at[i] * 8 + token[i] * 2 + renewing[i];
#if TWO_BODIES
        code[i] = code[i] * 2 + knows[i];
#endif
#if VM_STOP
        code[i] = code[i] * 2 + due[i];
#endif
#if TOKENS_ONLY
        code[i] = code[i] * 4 + won_before[i];
#endif
        code[i] = code[i] * 4096;
        for (j : 0 .. SERVERS - 1) {
            code[i] = code[i] + (vote[AT(i, j)] != 0) * 512 + (key[j] == i + 1) * 64 + waits[AT(i, j)] * 4 +
                (vote[AT(i, j)] != 0 && key[j] == i + 1)
        }
    }
    for (k : 1 .. CLIENTS - 1) {
        for (i : 0 .. CLIENTS - 1 - k) {
            if
            :: code[i] > code[i + 1] -> swap_clients(i, i + 1)
            :: else
            fi
        }
    }
    for (i : 0 .. N - 1) {
        code[i] = ((standing[i] * 4 + key[i]) * 4 + fence[i]) * 4 + floor[i];
        for (j : 0 .. CLIENTS - 1) {
            code[i] = (code[i] * 4 + vote[AT(j, i)]) * 3 + waits[AT(j, i)]
        }
        code[i] = code[i] * 8;
        for (j : 0 .. SERVERS - 1) { code[i] = code[i] + has_read[AT(i, j)] + (has_read[AT(j, i)] << 1) }
#if ROUND_TRIP
        code[i] = code[i] * 2 + went_back[i];
#endif
#if TWO_BODIES
        code[i] = (code[i] * 2 + told[i]) * 2 + agent_knows[i];
#endif
#if VM_STOP
        for (j : 0 .. CLIENTS - 1) { code[i] = code[i] * 2 + set_done[AT(j, i)] }
#endif
    }
    for (k : 1 .. N - 1 - TWO_BODIES) {
        for (i : TWO_BODIES .. N - 1 - k) {
            if
            :: code[i] > code[i + 1] -> swap_nodes(i, i + 1)
            :: else
            fi
        }
    }
    i = 0 /* spin wants a step to end with something simple */
}
#endif

inline step_ends() { i = 0 }

/* ---- clients -------------------------------------------------------------------------------------------------- */

/* A node whose votes count for this client, and whose fences an agent reads. */
#if ROUND_TRIP
#define IS_INTACT_FOR(c, n) (standing[n] == INTACT && (!went_back[n] || trusts[AT(c, n)]))
#define IS_SOURCE(m) (standing[m] == INTACT && (!went_back[m] || READ_UNWATCHED))
/* No vote of it is under way any more, and it hears what it ignored. */
inline nothing_under_way(c) {
    for (i : 0 .. SERVERS - 1) { trusts[AT(c, i)] = (PUSH_IGNORED -> 0 : trusts[AT(c, i)]) }
}
#else
#define IS_INTACT_FOR(c, n) (standing[n] == INTACT)
#define IS_SOURCE(m) (standing[m] == INTACT)
inline nothing_under_way(c) { skip }
#endif

/* The second body counts for whoever knows it, and the first for who does not. */
#if TWO_BODIES
#define IS_BODY(c, n) ((n) != 0 || !knows[c])
#define VOTED(c, n) (vote[AT(c, n)] != 0 || ((n) == 0 && vote[AT(c, N)] != 0))
inline learn(c, n) {
    if
    :: (told[n] || n == N) && !knows[c] -> knows[c] = 1; vote[AT(c, 0)] = (OLD_VOTE -> vote[AT(c, 0)] : 0)
    :: else
    fi
}
#else
#define IS_BODY(c, n) true
#define VOTED(c, n) (vote[AT(c, n)] != 0)
inline learn(c, n) { skip }
#endif
#define CHECKED(c, n) (vote[AT(c, n)] == CONFIRMED)
#if N == 5
#define COUNT(what, c) (what(c, 0) + what(c, 1) + what(c, 2) + what(c, 3) + what(c, 4))
#else
#define COUNT(what, c) (what(c, 0) + what(c, 1) + what(c, 2))
#endif
#if QUORUM_FROM_LIST
#define NEEDED(c) ((c) == 0 -> 2 : QUORUM)
#define LISTED(c, n) ((c) != 0 || (n) < 3)
#else
#define NEEDED(c) QUORUM
#define LISTED(c, n) true
#endif

inline forget_votes(c) {
    for (i : 0 .. SERVERS - 1) { vote[AT(c, i)] = 0 }
}

inline node_set(c, n) {
#if TOKENS_ONLY
    won_before[c] = (at[c] == IDLE -> won : won_before[c]);
#endif
#if VM_STOP
    set_done[AT(c, n)] = 1;
#endif
#if RAISE_BLIND
    had_key[c] = had_key[c] || n == 0;
#endif
    at[c] = (at[c] == IDLE -> TRYING : at[c]);
    key[n] = c + 1
}

/* ZADD behind the SET, or the script that raises it again: at t. */
inline node_vote(c, n, t) {
    if
    :: t > token[c] -> forget_votes(c); token[c] = t
    :: else
    fi;
    fence[n] = t;
    learn(c, n);
    vote[AT(c, n)] = COUNTS
}

inline win(c) {
    at[c] = HOLDING;
    forget_votes(c);
    nothing_under_way(c);
#if WITNESS
    seen[c] = 1;
#elif TOKENS_ONLY
    assert(TOKENS_ONLY == 2 || token[c] > won_before[c] && !(won_all & (1 << token[c])));
    assert(token[c] >= won_before[c]);
    won_all = won_all | (1 << token[c]);
#else
    for (i : 0 .. CLIENTS - 1) { assert(i == c || at[i] != HOLDING) }
    assert(token[c] > won);
#endif
    won = (token[c] > won -> token[c] : won)
}

/* It goes on: released, given up, or its bound has come. */
inline leave(c) {
    at[c] = IDLE;
    token[c] = 0;
    renewing[c] = 0;
    forget_votes(c);
    nothing_under_way(c);
    for (i : 0 .. SERVERS - 1) {
        waits[AT(c, i)] = 0;
        key[i] = (key[i] == c + 1 -> 0 : key[i]);
#if VM_STOP
        set_done[AT(c, i)] = 0;
#endif
    }
#if VM_STOP
    due[c] = 0;
#endif
#if TOKENS_ONLY
    won_before[c] = 0;
#endif
#if RAISE_BLIND
    had_key[c] = 0;
#endif
}

inline node_extend(c, n) {
    renewing[c] = 1;
    if
    :: EXTEND_UNCHECKED
    :: else ->
        fence[n] = (EXTEND_UNRAISED || fence[n] > token[c] -> fence[n] : token[c]);
        learn(c, n)
    fi;
    vote[AT(c, n)] = COUNTS
}

/* The renewal got no majority: another may be begun. */
inline give_up_renewal(c) {
    renewing[c] = 0;
    forget_votes(c);
    nothing_under_way(c);
    for (i : 0 .. SERVERS - 1) { waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : waits[AT(c, i)]) }
}

inline end_renewal(c) {
    renewing[c] = 0;
    for (i : 0 .. SERVERS - 1) {
        key[i] = (key[i] == c + 1 && vote[AT(c, i)] == 0 -> 0 : key[i]);
        waits[AT(c, i)] = (waits[AT(c, i)] == 2 -> 1 : 0)
    }
    forget_votes(c);
    nothing_under_way(c);
#if WITNESS
    seen[c] = 2;
#endif
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

#if N == 5
#define IS_INTACT(n) (standing[n] == INTACT)
#define INTACT_COUNT (IS_INTACT(0) + IS_INTACT(1) + IS_INTACT(2) + IS_INTACT(3) + IS_INTACT(4))
#else
#define IS_INTACT(n) (standing[n] == INTACT)
#define INTACT_COUNT (IS_INTACT(0) + IS_INTACT(1) + IS_INTACT(2))
#endif

/* Each bound that was begun must come: that is what ttl_max comes to. */
inline begin_wait(n) {
    standing[n] = WAITING;
    for (i : 0 .. CLIENTS - 1) { waits[AT(i, n)] = (at[i] == IDLE || NO_WAIT -> 0 : 1 + renewing[i]) }
#if VM_STOP
    for (i : 0 .. CLIENTS - 1) { waits[AT(i, n)] = (due[i] -> 0 : waits[AT(i, n)]) }
#endif
}

inline forget_data(n, left) {
    losses--;
#if WITNESS
    lost++;
#endif
    key[n] = 0;
    fence[n] = left;
    floor[n] = 0;
    for (i : 0 .. SERVERS - 1) { has_read[AT(n, i)] = 0 }
#if VM_STOP
    for (i : 0 .. CLIENTS - 1) {
        vote[AT(i, n)] = (CONFIRM && vote[AT(i, n)] == COUNTS -> BEFORE_LOSS : vote[AT(i, n)]);
        set_done[AT(i, n)] = 0
    }
#endif
#if TWO_BODIES
    told[n] = 0;
    agent_knows[n] = 0;
#endif
#if ROUND_TRIP
    went_back[n] = 0;
    for (i : 0 .. CLIENTS - 1) { trusts[AT(i, n)] = 0 }
#endif
}

inline lose(n, left) {
    forget_data(n, left);
    if
    :: REJOIN_EMPTY
    :: else -> begin_wait(n)
    fi
}

#if ROUND_TRIP
/* What comes back may be from before its recovery began: then nothing of that is left. */
inline go_back(n, left) {
    forget_data(n, left);
    went_back[n] = 1;
    standing[n] = INTACT;
    for (i : 0 .. CLIENTS - 1) {
        waits[AT(i, n)] = 0;
        trusts[AT(i, n)] = (NO_WATCH || (PUSH_IGNORED && (at[i] == TRYING || renewing[i])))
    }
}

/* The new nonce voids all that anybody knew. */
inline claim(n) {
    went_back[n] = 0;
    for (i : 0 .. CLIENTS - 1) { trusts[AT(i, n)] = 0 }
    begin_wait(n)
}
#endif

#if CLIENTS > 2
#define WAITS(n) (waits[AT(0, n)] || waits[AT(1, n)] || waits[AT(2, n)])
#else
#define WAITS(n) (waits[AT(0, n)] || waits[AT(1, n)])
#endif

inline read_fences(n, m) {
    has_read[AT(n, m)] = 1;
    floor[n] = (fence[m] > floor[n] -> fence[m] : floor[n]);
#if TWO_BODIES
    if
    :: (told[m] || m == N) && !OLD_BODIES -> agent_knows[n] = 1; has_read[AT(n, 0)] = 0
    :: else
    fi
#endif
}

#define HAS_READ(n, m) (has_read[AT(n, m)])
#if TWO_BODIES
#define SOURCE(n, m) ((m) != 0 || !agent_knows[n])
#define HAS_READ_MEMBER_0(n) (HAS_READ(n, 0) || HAS_READ(n, N))
#define IS_SUPERSEDED(n) ((n) == 0 && agent_knows[n]) /* its agent gives way */
#else
#define SOURCE(n, m) true
#define HAS_READ_MEMBER_0(n) HAS_READ(n, 0)
#define IS_SUPERSEDED(n) false
#endif
#if N == 5
#define READS(n) (HAS_READ_MEMBER_0(n) + HAS_READ(n, 1) + HAS_READ(n, 2) + HAS_READ(n, 3) + HAS_READ(n, 4))
#else
#define READS(n) (HAS_READ_MEMBER_0(n) + HAS_READ(n, 1) + HAS_READ(n, 2))
#endif

inline install(n) {
    standing[n] = INTACT;
    fence[n] = (FLOOR_ZERO || fence[n] > floor[n] -> fence[n] : floor[n]);
    floor[n] = 0;
    for (i : 0 .. SERVERS - 1) { has_read[AT(n, i)] = 0 }
#if TWO_BODIES
    told[n] = agent_knows[n];
    agent_knows[n] = 0
#endif
}

/* ---- what may happen ------------------------------------------------------------------------------------------ */

#define VOTE(c, n, t)                                                                                                  \
    :: d_step { at[c] == TRYING && (t) <= TOKENS && (t) > fence[n] && (t) >= token[c] && IS_INTACT_FOR(c, n) &&        \
        IS_BODY(c, n) && HAS_KEY(c, n) ->                                                                              \
        printf("server %d: client %d's vote at token %d\n", n, c, t); node_vote(c, n, t); step_ends() }

#if VM_STOP
#define HAS_KEY(c, n) (key[n] == c + 1 || set_done[AT(c, n)])
#define BOUND(c)                                                                                                       \
    :: d_step { at[c] != IDLE && !due[c] -> printf("client %d's validity is over, and its clock stood\n", c);          \
        due[c] = 1; for (i : 0 .. SERVERS - 1) { waits[AT(c, i)] = 0 } step_ends() }
#define KEY_ENDS(n)                                                                                                    \
    :: d_step { key[n] != 0 && due[key[n] - 1] -> printf("server %d: the key of client %d ends\n", n, key[n] - 1);     \
        key[n] = 0; step_ends() }
#elif EVICTION == 1
#define HAS_KEY(c, n) (key[n] == c + 1)
#define BOUND(c)
#define KEY_ENDS(n)                                                                                                    \
    :: d_step { key[n] != 0 -> printf("server %d: the key of client %d is evicted\n", n, key[n] - 1); key[n] = 0; step_ends() }
#else
#if RAISE_BLIND
#define HAS_KEY(c, n) (key[n] == c + 1 || ((n) == N && had_key[c]))
#else
#define HAS_KEY(c, n) (key[n] == c + 1)
#endif
#define BOUND(c)
#define KEY_ENDS(n)
#endif

#define REQUEST(c, n)                                                                                                  \
    :: d_step { (at[c] == IDLE || at[c] == TRYING) && key[n] == 0 && standing[n] != ABSENT && IS_BODY(c, n) &&         \
        LISTED(c, n) ->                                                                                                \
        printf("server %d: SET of client %d\n", n, c); node_set(c, n); step_ends() }                                        \
    VOTE(c, n, 1) VOTE(c, n, 2) VOTE(c, n, 3)                                                                          \
    :: d_step { at[c] == HOLDING && key[n] == 0 && standing[n] != ABSENT && IS_BODY(c, n) && LISTED(c, n) &&           \
        (!REPAIR_STRICT || (standing[n] == INTACT && fence[n] < token[c])) ->                                          \
        printf("server %d: client %d repairs its key\n", n, c); key[n] = c + 1; step_ends() }                               \
    :: d_step { at[c] == HOLDING && key[n] == c + 1 && vote[AT(c, n)] == 0 &&                                          \
        (EXTEND_UNCHECKED || (IS_INTACT_FOR(c, n) && IS_BODY(c, n))) ->                                                \
        printf("server %d: extension of client %d\n", n, c); node_extend(c, n); step_ends() }                               \
    CONFIRMATION(c, n)                                                                                                 \
    DECEPTION(c, n)

#if CONFIRM
#define MAJORITY CONFIRMING
#define CONFIRMATION(c, n)                                                                                             \
    :: d_step { at[c] == CONFIRMING && vote[AT(c, n)] == COUNTS && key[n] == c + 1 && fence[n] == token[c] &&          \
        IS_INTACT_FOR(c, n) -> printf("server %d: confirms its vote for client %d\n", n, c);                           \
        vote[AT(c, n)] = CONFIRMED; step_ends() }
#define CONFIRMED_WIN(c)                                                                                               \
    :: d_step { at[c] == CONFIRMING && COUNT(CHECKED, c) >= NEEDED(c) ->                                               \
        printf("client %d HOLDS the lock with token %d\n", c, token[c]); win(c); step_ends() }
#define HAS_MAJORITY(c) printf("client %d has a majority at token %d, and asks once more\n", c, token[c]); at[c] = CONFIRMING
#else
#define CONFIRMATION(c, n)
#define CONFIRMED_WIN(c)
#define HAS_MAJORITY(c) printf("client %d HOLDS the lock with token %d\n", c, token[c]); win(c)
#endif

#if ROUND_TRIP && NO_COMPARE
#define DECEPTION(c, n)                                                                                                \
    :: d_step { went_back[n] && !trusts[AT(c, n)] ->                                                                   \
        printf("server %d: client %d connects anew and compares no replication id\n", n, c);                           \
        trusts[AT(c, n)] = 1; step_ends() }
#elif ROUND_TRIP && ID_KEPT
#define DECEPTION(c, n)                                                                                                \
    :: d_step { went_back[n] && !trusts[AT(c, n)] ->                                                                   \
        printf("server %d: client %d hears of it, and finds the replication id that it knows in the record\n", n, c);  \
        trusts[AT(c, n)] = 1; step_ends() }
#else
#define DECEPTION(c, n)
#endif

#define CLIENT(c)                                                                                                      \
    :: d_step { at[c] == TRYING && COUNT(VOTED, c) >= NEEDED(c) -> HAS_MAJORITY(c); step_ends() }                           \
    CONFIRMED_WIN(c)                                                                                                   \
    :: d_step { at[c] != IDLE -> printf("client %d's validity is over, or it releases\n", c); leave(c); step_ends() }       \
    :: d_step { renewing[c] && COUNT(VOTED, c) >= NEEDED(c) ->                                                         \
        printf("client %d has renewed\n", c); end_renewal(c); step_ends() }                                                 \
    :: d_step { renewing[c] -> printf("client %d's renewal fails\n", c); give_up_renewal(c); step_ends() }                  \
    BOUND(c)

#define READ_FROM(n, m)                                                                                                \
    :: d_step { (n) != (m) && standing[n] == WAITING && (READ_EARLY || !WAITS(n)) && !HAS_READ(n, m) && SOURCE(n, m) && \
        (IS_SOURCE(m) || (ANY_SOURCE && standing[m] != ABSENT)) && IS_OTHER(n, m) ->                          \
        printf("agent of server %d reads fence %d from server %d\n", n, fence[m], m); read_fences(n, m); step_ends() }

#if ROUND_TRIP
#define WENT_BACK(n, left)                                                                                             \
    :: d_step { MAY_LOSE(n) && MAY_GO_BACK(n) && (left) <= fence[n] ->                                                 \
        printf("server %d goes back to fence %d, and is the same by its record\n", n, left); go_back(n, left); step_ends() }
#define CLAIMED(n)                                                                                                     \
    :: d_step { went_back[n] -> printf("server %d: somebody who noticed claims it\n", n); claim(n); step_ends() }
#if ROLLBACK
#define GOES_BACK(n) WENT_BACK(n, 0) WENT_BACK(n, 1) WENT_BACK(n, 2) WENT_BACK(n, 3) CLAIMED(n)
#else
#define GOES_BACK(n) WENT_BACK(n, 0) CLAIMED(n)
#endif
#else
#define GOES_BACK(n)
#endif

#if ROLLBACK
#define LOST_BACK(n, left)                                                                                             \
    :: d_step { MAY_LOSE(n) && (left) <= fence[n] -> printf("server %d goes back to fence %d\n", n, left);             \
        lose(n, left); step_ends() }
#define LOST(n) LOST_BACK(n, 0) LOST_BACK(n, 1) LOST_BACK(n, 2) LOST_BACK(n, 3)
#elif EVICTION == 2
#define LOST(n)                                                                                                        \
    :: d_step { MAY_LOSE(n) && key[n] != 0 && standing[n] == INTACT ->                                                 \
        printf("server %d: the key of client %d is evicted, and that is noticed\n", n, key[n] - 1);                    \
        lose(n, fence[n]); step_ends() }
#else
#define LOST(n)                                                                                                        \
    :: d_step { MAY_LOSE(n) -> printf("server %d loses its data\n", n); lose(n, 0); step_ends() }
#endif

#if TWO_BODIES
/* The first body is not lost once there is a second: it would be out of the way. */
#define MAY_GO_BACK(n) ((n) != N || standing[n] == INTACT) /* the second body has no older record that names it intact */
#define MAY_LOSE(n) (losses && standing[n] != ABSENT && standing[n] != UNREGISTERED && ((n) != 0 || standing[N] == ABSENT))
#define IS_OTHER(n, m) ((n) + (m) != N || ((n) != 0 && (m) != 0))
#else
#define MAY_LOSE(n) losses
#define MAY_GO_BACK(n) true
#define IS_OTHER(n, m) true
#endif

#if N == 5
#define READS_OF(n) READ_FROM(n, 0) READ_FROM(n, 1) READ_FROM(n, 2) READ_FROM(n, 3) READ_FROM(n, 4)
#else
#define READS_OF(n) READ_FROM(n, 0) READ_FROM(n, 1) READ_FROM(n, 2)
#endif
#define NODE(n)                                                                                                        \
    LOST(n)                                                                                                            \
    GOES_BACK(n)                                                                                                       \
    KEY_ENDS(n)                                                                                                        \
    READS_OF(n)                                                                                                        \
    :: d_step { standing[n] == WAITING && !WAITS(n) && READS(n) >= READ && !IS_SUPERSEDED(n) ->                       \
        printf("server %d is installed at fence %d\n", n, floor[n]); install(n); step_ends() }

#if TWO_BODIES
#if NO_LOOK
#define BELIEVED(n) believed[n]
#else
#define BELIEVED(n) (told[n] && IS_SOURCE(n))
#endif
#if N == 5
#define REGISTERED (BELIEVED(1) + BELIEVED(2) + BELIEVED(3) + BELIEVED(4))
#else
#define REGISTERED (BELIEVED(1) + BELIEVED(2))
#endif
inline promote() {
    losses--;
    standing[N] = UNREGISTERED;
    if
    :: NO_REGISTRATION -> begin_wait(N)
    :: else
    fi
}
inline node_register(n) {
    told[n] = 1;
#if NO_LOOK
    believed[n] = 1;
#endif
}
#define REGISTER(n)                                                                                                    \
    :: d_step { standing[N] == UNREGISTERED && IS_SOURCE(n) && !told[n] ->                                             \
        printf("the second body of member 0 is registered at server %d\n", n); node_register(n); step_ends() }
#define SECOND_BODY                                                                                                    \
    :: d_step { losses && standing[N] == ABSENT && standing[0] == INTACT ->                   \
        printf("member 0 gets a second body, server %d; server 0 lives on\n", N); promote(); step_ends() }                  \
    :: d_step { standing[N] == UNREGISTERED && REGISTERED >= QUORUM ->                                                 \
        printf("the registration is complete: the wait begins\n"); begin_wait(N); step_ends() }                             \
    NODE(N)                                                                                                            \
    READ_FROM(1, N) READ_FROM(2, N) REGISTER(1) REGISTER(2) SECOND_BODY_OF_5
#if N == 5
#define SECOND_BODY_OF_5 READ_FROM(3, N) READ_FROM(4, N) REGISTER(3) REGISTER(4)
#else
#define SECOND_BODY_OF_5
#endif
#define REQUEST_2(c) REQUEST(c, N)
#else
#define SECOND_BODY
#define REQUEST_2(c)
#endif

#if N == 5
#define NODES NODE(0) NODE(1) NODE(2) NODE(3) NODE(4)
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2) REQUEST(c, 3) REQUEST(c, 4) REQUEST_2(c)
#else
#define NODES NODE(0) NODE(1) NODE(2)
#define REQUESTS(c) REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2) REQUEST_2(c)
#endif

/* Nodes that are intact and where client 0's lease can be extended, now or after a repair. */
#define USABLE(c, n) (standing[n] == INTACT && (key[n] == c + 1 || (key[n] == 0 && (!REPAIR_STRICT || fence[n] < token[c]))))
#define OTHERS_KEY(c, n) (key[n] != 0 && key[n] != c + 1)

active proctype world() {
#if TWO_BODIES
    standing[N] = ABSENT;
#endif
    do
#if SYMMETRY
    :: atomic { if
#endif
    CLIENT(0)
    REQUESTS(0)
    CLIENT(1)
    REQUESTS(1)
#if CLIENTS > 2
    CLIENT(2)
    REQUESTS(2)
#endif
    NODES
    SECOND_BODY
#if WITNESS == 1 /* all losses are recovered from, and every client held after all, the last with the highest token */
    :: d_step { losses == 0 && INTACT_COUNT == N && seen[0] && at[1] == HOLDING && token[1] == 3 -> assert(false) }
#elif WITNESS == 2 /* a lease is carried on across the losses, and through more nodes than a majority lost, by repair */
    :: d_step { losses == 0 && lost >= QUORUM && INTACT_COUNT == N && at[0] == HOLDING && token[0] == 1 && seen[0] == 2 ->
        assert(false) }
#elif WITNESS == 3
    :: d_step { at[0] == HOLDING && INTACT_COUNT >= QUORUM && COUNT(OTHERS_KEY, 0) == 0 && COUNT(USABLE, 0) < QUORUM ->
        assert(false) }
#endif
#if SYMMETRY
    fi; d_step { sort() } }
#endif
    od
}
