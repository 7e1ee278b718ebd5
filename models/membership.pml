/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a quorum of guarded mode changes its members (docs/inside/guarded.md, membership): servers 0, 1, 2 are members at first, server
 * 3 may be added, others removed, twice in all; operators are interrupted anywhere and servers lose their data. models/check
 * runs it through spin, with the switches below. Each half is a model of its own, for what one needs of the other is little:
 *  - LEASES = 0: two operators race; never are two different changes chosen for one epoch. There are no clients. That the
 *    next change waits until one is settled is left out: it makes no difference here. A ballot may be used by both, and again.
 *  - LEASES = 1: whatever change is chosen, of two, at any moment at which a majority of the epoch could choose it;
 *    clients acquire and renew through it. No two hold, and tokens grow.
 *
 * Time, network, and what is left out because something else can do it all: redlock.pml and guarded.pml.
 */

#ifndef LEASES
#define LEASES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef CHANGES
#define CHANGES 2
#endif
#ifndef FIRST
#define FIRST 7 /* LEASES: the first members, bit n. 3: servers 0 and 1; 15: all four */
#endif
#ifndef BALLOTS
#define BALLOTS 2 /* up to 4; both operators may use the same one, and again */
#endif

/* Which rule is dropped. */
#ifndef NO_BALLOT
#define NO_BALLOT 0 /* whoever finds nothing accepted on a majority accepts his own */
#endif
#ifndef NO_LOOK_1
#define NO_LOOK_1 0 /* the majority that promised is not looked at again before the first acceptance */
#endif
#ifndef NO_LOOK_2
#define NO_LOOK_2 0 /* the majority that accepted is not looked at again */
#endif
#ifndef AMNESIA
#define AMNESIA 0 /* a node that comes back takes no promises and acceptances over from the others */
#endif
#ifndef UNSETTLED
#define UNSETTLED 0 /* the next change does not wait until the one before is settled */
#endif
#ifndef SETTLE_AT_ONCE
#define SETTLE_AT_ONCE 0 /* settled without the wait */
#endif
#ifndef SETTLE_NO_LOOK
#define SETTLE_NO_LOOK 0 /* servers that have switched one after the other, and are not looked at again */
#endif
#ifndef SETTLE_UNRAISED
#define SETTLE_UNRAISED 0 /* settled without raising fences */
#endif
#ifndef SETTLE_HALF_DOWN
#define SETTLE_HALF_DOWN 0 /* half of an odd epoch, rounded down, settles it too */
#endif
#ifndef SETTLE_MAJORITY
#define SETTLE_MAJORITY 0 /* half of an even epoch does not settle it */
#endif
#ifndef SAME_NONCE
#define SAME_NONCE 0 /* the switch leaves the nonce as it is */
#endif
#ifndef WITNESS
#define WITNESS 0 /* 1: two changes are got through, by a server that was added; LEASES: by a lease, too. The search shows how.
                   * LEASES, 2: by removals from two servers, of which the removed one had lost its data before it switched */
#endif

#define SERVERS 4
#define OPERATORS 2
#define EPOCHS 3

#define INTACT 0
#define RECOVERING 1
byte standing[SERVERS];
byte epoch[SERVERS]; /* 0: no record. What a recovering server holds is what is to be installed, as far as it has been read */
byte sources[SERVERS]; /* bit m: a recovering server n has server m's record and fences */
byte members[EPOCHS + 1]; /* bit n. 0: that epoch has not been chosen */
byte losses = LOSSES;

byte i, j; /* within a step only: 0 between steps */

#define BIT(mask, n) (((mask) >> (n)) & 1)
#define SIZE(mask) (BIT(mask, 0) + BIT(mask, 1) + BIT(mask, 2) + BIT(mask, 3))
#define MAJORITY(e) (SIZE(members[e]) / 2 + 1)
#define IS_MEMBER(n, e) BIT(members[e], n)
#define IS_AT(n, e) (standing[n] == INTACT && epoch[n] == (e))

/* The change that an operator wishes: one server more, or less. 1: server 3 comes; or server 1 goes. 2: server 0 goes; or 1. */
#define CHANGED(mask, change) ((change) == 1 -> (BIT(mask, 3) -> (mask) & 13 : (mask) | 8) :                           \
                                                (BIT(mask, 0) -> (mask) & 14 : (mask) & 13))

inline step_ends() { i = 0; j = 0 }

#if !LEASES
/* ---- who chooses ---------------------------------------------------------------------------------------------- */

byte ballot[SERVERS];
byte accepted_ballot[SERVERS];
byte accepted[SERVERS];

#define AT(o, n) ((o) * SERVERS + (n))
#define IDLE 0
#define PROMISING 1
#define ACCEPTING 2
byte phase[OPERATORS];
byte of_epoch[OPERATORS];
byte my_ballot[OPERATORS];
byte found_ballot[OPERATORS];
byte change[OPERATORS];
byte answer[OPERATORS * SERVERS];
#define PROMISED 1
#define PROMISED_BEFORE 2 /* and the record has changed since, by somebody else */
#define ACCEPTED 3
#define ACCEPTED_BEFORE 4

/* A fresh nonce: nobody else's next write is done there. */
inline record_changes(n) {
    for (i : 0 .. OPERATORS - 1) {
        answer[AT(i, n)] = (answer[AT(i, n)] == PROMISED -> PROMISED_BEFORE :
            (answer[AT(i, n)] == ACCEPTED -> ACCEPTED_BEFORE : answer[AT(i, n)]))
    }
}

inline give_up(o) {
    phase[o] = IDLE; of_epoch[o] = 0; my_ballot[o] = 0; found_ballot[o] = 0; change[o] = 0;
    for (i : 0 .. SERVERS - 1) { answer[AT(o, i)] = 0 }
}

inline propose(o, e, b) {
    phase[o] = PROMISING; of_epoch[o] = e; my_ballot[o] = b; change[o] = o + 1
}

inline promise(o, n) {
    record_changes(n);
    ballot[n] = my_ballot[o];
    if
    :: accepted_ballot[n] > found_ballot[o] -> found_ballot[o] = accepted_ballot[n]; change[o] = accepted[n]
    :: else
    fi;
    answer[AT(o, n)] = PROMISED
}

inline accept(o, n) {
    record_changes(n);
    ballot[n] = my_ballot[o]; accepted_ballot[n] = my_ballot[o]; accepted[n] = change[o];
    answer[AT(o, n)] = ACCEPTED
}

inline choose(o) {
    j = CHANGED(members[of_epoch[o]], change[o]);
    assert(WITNESS || members[of_epoch[o] + 1] == 0 || members[of_epoch[o] + 1] == j);
    members[of_epoch[o] + 1] = j;
    give_up(o)
}

inline forget_acceptor(n) { ballot[n] = 0; accepted_ballot[n] = 0; accepted[n] = 0 }

inline lose(n) {
    losses--;
    record_changes(n);
    standing[n] = RECOVERING; epoch[n] = 0; sources[n] = 0;
    forget_acceptor(n)
}

inline read_record(n, m) {
    if
    :: epoch[m] > epoch[n] -> epoch[n] = epoch[m]; sources[n] = 0; forget_acceptor(n)
    :: else
    fi;
    sources[n] = sources[n] | (1 << m);
    if
    :: !AMNESIA && ballot[m] > ballot[n] -> ballot[n] = ballot[m]
    :: else
    fi;
    if
    :: !AMNESIA && accepted_ballot[m] > accepted_ballot[n] ->
        accepted_ballot[n] = accepted_ballot[m]; accepted[n] = accepted[m]
    :: else
    fi
}

inline install(n) { standing[n] = INTACT; sources[n] = 0 }

inline switch_to(n, e) {
    record_changes(n);
    epoch[n] = e;
    forget_acceptor(n)
}

#define HAS_PROMISED(o, n) (answer[AT(o, n)] == PROMISED || ((NO_LOOK_1 || NO_BALLOT) && answer[AT(o, n)] != 0))
#define HAS_ACCEPTED(o, n) (answer[AT(o, n)] == ACCEPTED || (NO_LOOK_2 && answer[AT(o, n)] == ACCEPTED_BEFORE))
#define COUNT(what, o) (what(o, 0) + what(o, 1) + what(o, 2) + what(o, 3))

#define PROPOSE(o, e, b)                                                                                               \
    :: d_step { phase[o] == IDLE && members[e] != 0 && (e) <= CHANGES && (b) <= BALLOTS ->   \
        printf("operator %d begins to change epoch %d, ballot %d\n", o, e, b); propose(o, e, b); step_ends() }
#define ASK(o, n)                                                                                                      \
    :: d_step { phase[o] == PROMISING && IS_AT(n, of_epoch[o]) && IS_MEMBER(n, of_epoch[o]) &&                         \
        (NO_BALLOT -> answer[AT(o, n)] == 0 : ballot[n] < my_ballot[o]) ->                                             \
        promise(o, n); printf("server %d promises to operator %d, who will propose change %d\n", n, o, change[o]);     \
        step_ends() }                                                                                                  \
    :: d_step { phase[o] == ACCEPTING && IS_AT(n, of_epoch[o]) && (answer[AT(o, n)] == PROMISED ||                     \
        (NO_BALLOT && answer[AT(o, n)] == PROMISED_BEFORE && accepted[n] == 0)) ->                                     \
        accept(o, n); printf("server %d accepts change %d of operator %d\n", n, change[o], o); step_ends() }
#define OPERATOR(o)                                                                                                    \
    PROPOSE(o, 1, 1) PROPOSE(o, 1, 2) PROPOSE(o, 1, 3) PROPOSE(o, 1, 4)                                                \
    PROPOSE(o, 2, 1) PROPOSE(o, 2, 2) PROPOSE(o, 2, 3) PROPOSE(o, 2, 4)                                                \
    ASK(o, 0) ASK(o, 1) ASK(o, 2) ASK(o, 3)                                                                            \
    :: d_step { phase[o] == PROMISING && COUNT(HAS_PROMISED, o) >= MAJORITY(of_epoch[o]) ->                            \
        phase[o] = ACCEPTING; step_ends() }                                                                            \
    :: d_step { phase[o] == ACCEPTING && COUNT(HAS_ACCEPTED, o) >= MAJORITY(of_epoch[o]) ->                            \
        printf("operator %d: change %d of epoch %d is CHOSEN\n", o, change[o], of_epoch[o]); choose(o); step_ends() }  \
    :: d_step { phase[o] != IDLE -> printf("operator %d is interrupted\n", o); give_up(o); step_ends() }
#define MAY_BE_READ(n) true
#define WORLD OPERATOR(0) OPERATOR(1)

#else
/* ---- who holds ------------------------------------------------------------------------------------------------ */

#define AT(c, n) ((c) * SERVERS + (n))
#define IDLE 0
#define TRYING 1
#define HOLDING 2
byte at[CLIENTS];
byte token[CLIENTS];
bit renewing[CLIENTS];
byte votes[CLIENTS]; /* bit n */
byte view[CLIENTS];  /* the epoch of its votes; without one, 0: it may be a client that knows nothing yet */
byte key[SERVERS];
byte fence[SERVERS];
byte won;

/* Waits, also the settler's own (at place SERVERS): as in guarded.pml. */
byte waits[CLIENTS * (SERVERS + 1)];
#define WAIT(c, n) waits[(c) * (SERVERS + 1) + (n)]
#if CLIENTS > 2
#define WAITS(n) (WAIT(0, n) || WAIT(1, n) || WAIT(2, n))
#else
#define WAITS(n) (WAIT(0, n) || WAIT(1, n))
#endif

/* The settler of epoch 2, who may be anybody. Epoch 3 is the last here. */
#define SWITCHING 0
#define SETTLING 1 /* a majority of epoch 1 has switched: waits */
#define RAISING 2
#define SETTLED 3
byte settling;
byte switched; /* bit n: server n was there then, unbroken since */
byte settle_floor;
byte lost_since; /* bit n: lost since the fences were read: it may have been raised before */
#if SETTLE_NO_LOOK
byte once_switched;
#endif
#if WITNESS
bit first_epoch, renewed, lost_behind;
#endif

/* So many that every majority of epoch 1 includes one of them: half of an even number, a majority of an odd one. */
#if SETTLE_MAJORITY
#define ENOUGH (SIZE(FIRST) / 2 + 1)
#elif SETTLE_HALF_DOWN
#define ENOUGH (SIZE(FIRST) / 2)
#else
#define ENOUGH ((SIZE(FIRST) + 1) / 2)
#endif

inline begin_wait(n) {
    for (i : 0 .. CLIENTS - 1) { WAIT(i, n) = (at[i] == IDLE -> 0 : 1 + renewing[i]) }
}

inline choose(e, change) {
    members[e + 1] = CHANGED(members[e], change);
    if
    :: !BIT(members[e], 3) && BIT(members[e + 1], 3) -> begin_wait(3) /* it is claimed now: later waits for more */
    :: else
    fi
}

inline lose(n) {
    losses--;
#if WITNESS
    lost_behind = (members[2] == 2 && n == 0 && epoch[0] == 1);
#endif
    standing[n] = RECOVERING; epoch[n] = 0; sources[n] = 0; key[n] = 0; fence[n] = 0;
    switched = switched & (255 - (1 << n));
    lost_since = lost_since | (settling == RAISING -> 1 << n : 0);
    begin_wait(n)
}

inline read_record(n, m) {
    if
    :: epoch[m] > epoch[n] -> epoch[n] = epoch[m]; sources[n] = 0
    :: else
    fi;
    sources[n] = sources[n] | (1 << m);
    fence[n] = (fence[m] > fence[n] -> fence[m] : fence[n])
}

inline install(n) { standing[n] = INTACT; sources[n] = 0 }

inline switch_to(n, e) {
    epoch[n] = e;
#if SETTLE_NO_LOOK
    once_switched = once_switched | (e == 2 -> 1 << n : 0);
#endif
}

/* A vote is one of the epoch that the record says, to a client that has read it. */
#define COUNTS_FOR(c, n) (standing[n] == INTACT && epoch[n] >= view[c] && IS_MEMBER(n, VIEW(c, n)))
#if SAME_NONCE
#define VIEW(c, n) (view[c] != 0 -> view[c] : epoch[n])
#else
#define VIEW(c, n) epoch[n]
#endif
inline learn(c, n) {
    if
    :: VIEW(c, n) > view[c] -> view[c] = epoch[n]; votes[c] = 0
    :: else
    fi
}

inline node_vote(c, n, t) {
    if
    :: t > token[c] -> votes[c] = 0; view[c] = 0; token[c] = t
    :: else
    fi;
    fence[n] = t;
    learn(c, n);
    votes[c] = votes[c] | (1 << n)
}

inline node_extend(c, n) {
    renewing[c] = 1;
    fence[n] = (fence[n] > token[c] -> fence[n] : token[c]);
    learn(c, n);
    votes[c] = votes[c] | (1 << n)
}

inline win(c) {
    at[c] = HOLDING;
    for (i : 0 .. CLIENTS - 1) { assert(WITNESS || i == c || at[i] != HOLDING) }
    assert(WITNESS || token[c] > won);
    won = (token[c] > won -> token[c] : won);
#if WITNESS
    first_epoch = (view[c] == 1);
#endif
    votes[c] = 0; view[c] = 0
}

inline leave(c) {
    at[c] = IDLE; token[c] = 0; renewing[c] = 0; votes[c] = 0; view[c] = 0;
    for (i : 0 .. SERVERS - 1) { key[i] = (key[i] == c + 1 -> 0 : key[i]) }
    for (i : 0 .. SERVERS) { WAIT(c, i) = 0 }
}

inline give_up_renewal(c) {
    renewing[c] = 0; votes[c] = 0; view[c] = 0;
    for (i : 0 .. SERVERS) { WAIT(c, i) = (WAIT(c, i) == 2 -> 1 : WAIT(c, i)) }
}

inline end_renewal(c) {
    renewing[c] = 0;
    for (i : 0 .. SERVERS - 1) { key[i] = (key[i] == c + 1 && !BIT(votes[c], i) -> 0 : key[i]) }
    for (i : 0 .. SERVERS) { WAIT(c, i) = (WAIT(c, i) == 2 -> 1 : 0) }
#if WITNESS
    renewed = first_epoch && view[c] == 3;
#endif
    votes[c] = 0; view[c] = 0
}

#define VOTE(c, n, t)                                                                                                  \
    :: d_step { at[c] == TRYING && (t) <= TOKENS && key[n] == c + 1 && (t) > fence[n] && (t) >= token[c] &&            \
        COUNTS_FOR(c, n) -> node_vote(c, n, t);                                                                        \
        printf("server %d: client %d's vote at token %d, in epoch %d\n", n, c, t, view[c]); step_ends() }
#define REQUEST(c, n)                                                                                                  \
    :: d_step { at[c] != HOLDING && key[n] == 0 && epoch[n] != 0 -> printf("server %d: SET of client %d\n", n, c);     \
        at[c] = TRYING; key[n] = c + 1; step_ends() }                                                                  \
    VOTE(c, n, 1) VOTE(c, n, 2) VOTE(c, n, 3)                                                                          \
    :: d_step { at[c] == HOLDING && key[n] == 0 && epoch[n] != 0 ->                                                    \
        printf("server %d: client %d repairs its key\n", n, c); key[n] = c + 1; step_ends() }                          \
    :: d_step { at[c] == HOLDING && key[n] == c + 1 && !BIT(votes[c], n) && COUNTS_FOR(c, n) -> node_extend(c, n);     \
        printf("server %d: extension of client %d, in epoch %d\n", n, c, view[c]); step_ends() }
#define CLIENT(c)                                                                                                      \
    REQUEST(c, 0) REQUEST(c, 1) REQUEST(c, 2) REQUEST(c, 3)                                                            \
    :: d_step { at[c] == TRYING && SIZE(votes[c] & members[view[c]]) >= MAJORITY(view[c]) ->                           \
        printf("client %d HOLDS the lock with token %d, by epoch %d\n", c, token[c], view[c]); win(c); step_ends() }   \
    :: d_step { at[c] != IDLE -> printf("client %d's validity is over, or it releases\n", c); leave(c); step_ends() }  \
    :: d_step { renewing[c] && SIZE(votes[c] & members[view[c]]) >= MAJORITY(view[c]) ->                               \
        printf("client %d has renewed, by epoch %d\n", c, view[c]); end_renewal(c); step_ends() }                      \
    :: d_step { renewing[c] -> printf("client %d's renewal fails\n", c); give_up_renewal(c); step_ends() }

#define CAN_RAISE(n) (IS_MEMBER(n, 2) && standing[n] == INTACT && epoch[n] >= 2)
#define CAN_READ(n) (standing[n] == INTACT && BIT(switched, n))
#define HAS_SWITCHED(n) (IS_MEMBER(n, 1) && standing[n] == INTACT && epoch[n] >= 2)
#define ALL_SWITCHED (HAS_SWITCHED(0) | (HAS_SWITCHED(1) << 1) | (HAS_SWITCHED(2) << 2) | (HAS_SWITCHED(3) << 3))
#if SETTLE_NO_LOOK
#define TO_SETTLE once_switched
#else
#define TO_SETTLE ALL_SWITCHED
#endif
inline begin_settling() {
    settling = SETTLING; switched = TO_SETTLE;
    for (i : 0 .. CLIENTS - 1) { WAIT(i, SERVERS) = (at[i] == IDLE || SETTLE_AT_ONCE -> 0 : 1 + renewing[i]) }
}
inline settle_read(n, m) {
    settling = RAISING; switched = 0;
    settle_floor = (fence[n] > fence[m] -> fence[n] : fence[m]);
}
inline settle_raise(but) {
    settling = SETTLED;
    for (i : 0 .. SERVERS - 1) {
        fence[i] = (CAN_RAISE(i) && i != but && fence[i] < settle_floor && !SETTLE_UNRAISED -> settle_floor : fence[i])
    }
    settle_floor = 0; lost_since = 0
}
/* As early as it may be, read from as few as may be (one or two), and raised as late, on as few. An interruption changes
 * nothing: another settler may begin later. A removed server that has switched counts, too: the code is stricter. */
#define SETTLE_BY(n, m)                                                                                                \
    :: d_step { settling == SETTLING && !WAITS(SERVERS) && CAN_READ(n) && CAN_READ(m) && ((n) == (m)) == (ENOUGH == 1) -> \
        settle_read(n, m);                                                                                             \
        printf("fence %d is read from servers %d and %d to settle epoch 2\n", settle_floor, n, m); step_ends() }
#define RAISED(but, n) ((n) != (but) && IS_MEMBER(n, 2) && (CAN_RAISE(n) || BIT(lost_since, n)))
#define SETTLE_BUT(n)                                                                                                  \
    :: d_step { settling == RAISING && COUNT(RAISED, n) == MAJORITY(2) ->                                              \
        printf("epoch 2 is settled: fences of its servers but %d are raised to %d\n", n, settle_floor);               \
        settle_raise(n); step_ends() }
#define CHOOSE(e, change)                                                                                              \
    :: d_step { members[e] != 0 && members[(e) + 1] == 0 && ((e) == 1 || settling == SETTLED || UNSETTLED) &&          \
        COUNT(CAN_CHOOSE, e) >= MAJORITY(e) ->                                                                         \
        choose(e, change); printf("epoch %d is chosen: members %d\n", (e) + 1, members[(e) + 1]); step_ends() }
#define CAN_CHOOSE(e, n) (IS_AT(n, e) && IS_MEMBER(n, e))
#define COUNT(what, o) (what(o, 0) + what(o, 1) + what(o, 2) + what(o, 3))
#define MAY_BE_READ(n) (!WAITS(n))
#if CLIENTS > 2
#define CLIENT_2 CLIENT(2)
#else
#define CLIENT_2
#endif
#define WORLD                                                                                                          \
    CLIENT(0) CLIENT(1) CLIENT_2                                                                                       \
    CHOOSE(1, 1) CHOOSE(1, 2) CHOOSE(2, 1) CHOOSE(2, 2)                                                                \
    :: d_step { settling == SWITCHING && members[2] != 0 && SIZE(TO_SETTLE) >= ENOUGH ->                               \
        printf("enough of epoch 1 have switched: the wait to settle epoch 2 begins\n"); begin_settling();              \
        step_ends() }                                                                                                  \
    SETTLE_BY(0, 1) SETTLE_BY(0, 2) SETTLE_BY(1, 2) SETTLE_BY(0, 3) SETTLE_BY(1, 3) SETTLE_BY(2, 3)                    \
    SETTLE_BY(0, 0) SETTLE_BY(1, 1) SETTLE_BY(2, 2) SETTLE_BY(3, 3)                                                    \
    SETTLE_BUT(0) SETTLE_BUT(1) SETTLE_BUT(2) SETTLE_BUT(3) SETTLE_BUT(SERVERS)
#endif

/* ---- servers -------------------------------------------------------------------------------------------------- */

/* A recovering server is one of the newest epoch that was read, and only servers of that epoch are its sources. */
#define READ(n, m)                                                                                                     \
    :: d_step { (n) != (m) && standing[n] == RECOVERING && standing[m] == INTACT && MAY_BE_READ(n) &&                  \
        !BIT(sources[n], m) && epoch[m] >= epoch[n] && IS_MEMBER(n, epoch[m]) && IS_MEMBER(m, epoch[m]) ->             \
        printf("agent of server %d reads server %d, which is at epoch %d\n", n, m, epoch[m]);                          \
        read_record(n, m); step_ends() }
#define SWITCH(n, e)                                                                                                   \
    :: d_step { members[e] != 0 && IS_AT(n, (e) - 1) ->                                                                \
        printf("server %d is switched to epoch %d\n", n, e); switch_to(n, e); step_ends() }
#define SERVER(n)                                                                                                      \
    READ(n, 0) READ(n, 1) READ(n, 2) READ(n, 3)                                                                        \
    :: d_step { standing[n] == RECOVERING && epoch[n] != 0 && SIZE(sources[n]) >= MAJORITY(epoch[n]) ->                \
        printf("server %d is installed at epoch %d\n", n, epoch[n]); install(n); step_ends() }                         \
    SWITCH(n, 2) SWITCH(n, 3)                                                                                          \
    :: d_step { losses && standing[n] == INTACT -> printf("server %d loses its data\n", n); lose(n); step_ends() }

active proctype world() {
    d_step {
        members[1] = FIRST;
        for (i : 0 .. SERVERS - 1) {
            epoch[i] = BIT(FIRST, i);
            standing[i] = (BIT(FIRST, i) -> INTACT : RECOVERING)
        }
        i = 0
    }
    do
    WORLD
    SERVER(0) SERVER(1) SERVER(2) SERVER(3)
#if WITNESS == 2 && LEASES
    :: d_step { lost_behind && members[3] != 0 -> assert(false) }
#elif WITNESS && LEASES
    :: d_step { losses == 0 && standing[3] == INTACT && renewed -> assert(false) }
#elif WITNESS
    :: d_step { losses == 0 && IS_AT(3, 3) -> assert(false) }
#endif
    od
}
