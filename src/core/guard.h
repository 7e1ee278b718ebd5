/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode's other half: which nodes may vote, and how a node that has lost its data comes
 * back. Pure, as core.h is: records that were read, answers and time come in; reads, writes and a
 * time to wake come out.
 *
 * Every node carries a record. It is a register with a version, the nonce: whoever changes it
 * writes a whole new record with a fresh nonce, and only if the nonce is still the one that he
 * read. The node's fences are a sorted set named by the nonce, so that a vote (ZADD XX on that
 * name) is void from the moment on that the record has changed. All rules about what is written are
 * here; a node knows none of them (src/node/record_write.lua).
 *
 * Source of the rules: docs/guarded.md.
 */
#ifndef RL_GUARD_H
#define RL_GUARD_H

#include "core/core.h"

#define RL_RECORD_FORMAT 2 /* 1 had neither replid nor evicted */
#define RL_STRIPES 4096
#define RL_MEMBERS_MAX RL_NODES_MAX
#define RL_RUN_ID_BYTES 41
#define RL_URL_BYTES 256

/* The server process that stands for a member. Of two incarnations the one with the higher number
 * counts, then the greater run_id. Number 0: none was ever registered. */
struct rl_incarnation {
    uint32_t number;
    char run_id[RL_RUN_ID_BYTES];
};
int rl_incarnation_compare(const struct rl_incarnation *a, const struct rl_incarnation *b);
/* It becomes the next one. (A number at its end, which only a damaged record has, stays there: 0
 * would make no record.) */
void rl_incarnation_follow(struct rl_incarnation *incarnation, const char *run_id);

struct rl_member {
    uint64_t id;            /* random, not 0 */
    char url[RL_URL_BYTES]; /* as the operator wrote it, without password: for people, and to tell
                               an empty node's place */
    struct rl_incarnation incarnation;
};

enum rl_record_eligibility { RL_RECORD_INTACT = 1, RL_RECORD_RECOVERING = 2 };
enum rl_change_kind { RL_CHANGE_NONE = 0, RL_CHANGE_ADD, RL_CHANGE_REMOVE };

/* One step from an epoch to the next. */
struct rl_change {
    enum rl_change_kind kind;
    uint64_t id;
    char url[RL_URL_BYTES]; /* ADD */
};

struct rl_record {
    uint32_t format;
    uint64_t quorum_id; /* random, not 0 */
    uint64_t node_id;   /* which member this node is, or was */
    uint32_t epoch;     /* counts changes of membership, from 1 */
    uint32_t begun; /* the epoch that the last init made: what is of an epoch before it is over; 0:
                       not told */
    bool settled;   /* leases of the epoch before are over, and its fences are known here */
    uint8_t members_count;
    struct rl_member members[RL_MEMBERS_MAX];
    enum rl_record_eligibility eligibility;
    char run_id[RL_RUN_ID_BYTES]; /* of the server process that it was written for, ... */
    char replid[RL_RUN_ID_BYTES]; /* ... its replication id then: another one means that it may
                                     carry other data; "" unknown */
    uint64_t evicted;             /* ... and how many keys it had evicted */
    uint64_t nonce;               /* not 0; also the name of the fences, when INTACT */
    int64_t ttl_max_ms;
    uint64_t loss;     /* RECOVERING: names the loss; an agent that finds another starts anew */
    int64_t waited_ms; /* RECOVERING: since the registration, by all agents together */
    /* The acceptor of the next epoch's consensus (docs/guarded.md, membership). */
    uint64_t ballot;           /* promised: none below it */
    uint64_t accepted_ballot;  /* 0: none */
    struct rl_change accepted; /* with accepted_ballot 0: the change that made this epoch, where the
                                  record says so */
};
/* Written for the server process that is there, and for the data that it has now: the same run_id,
 * replication id and number of evicted keys. (A record of format 1 does not say for which data: it
 * fits none.) */
bool rl_record_fits(const struct rl_record *record, const char *run_id, const char *replid,
                    uint64_t evicted);
const struct rl_member *rl_record_member(const struct rl_record *record,
                                         uint64_t id); /* NULL: none */
/* The record of the next epoch. False: it cannot be (a member already, not a member, too many, the
 * last one; or the epochs are at their end, and it was left alone). */
bool rl_record_change(struct rl_record *record, const struct rl_change *change);

enum rl_eligibility {
    RL_ELIGIBILITY_UNKNOWN =
        0, /* not connected, or its record has not been read since something said that it changed */
    RL_ELIGIBILITY_INTACT,
    RL_ELIGIBILITY_RECOVERING, /* empty, restarted, or written down as recovering: does not vote */
    RL_ELIGIBILITY_BEHIND,     /* intact, at an earlier epoch than others: does not vote until its
                               record     is brought up */
    RL_ELIGIBILITY_FOREIGN, /* another quorum's, no member any more, or replaced by another server:
                            never votes */
    RL_ELIGIBILITY_NO_RECORD, /* empty, and no other node says what it should be */
    RL_ELIGIBILITY_REFUSED    /* not fit (by the caller's word), or its record is beyond us */
};
const char *rl_eligibility_name(enum rl_eligibility eligibility);

enum rl_guard_event_type {
    RL_GUARD_UP, /* `node` is connected; `run_id` is its server's */
    RL_GUARD_DOWN,
    RL_GUARD_STATE,   /* `node` said what it is now: `replid` and `evicted`, whether it is `unfit`
                         (refused until it says otherwise) and `suspect`: keys of locks may be gone
                         there. Asked ahead of every read, and now and then */
    RL_GUARD_CHANGED, /* pushed by `node`: its record, or all its data, may have changed. Nothing
                         that it says counts before STATE and RECORD have come */
    RL_GUARD_RECORD,  /* `node` answered a read: `record`, NULL: it has none */
    RL_GUARD_UNREADABLE, /* `node` answered a read with something that is no record of a format we
                            know */
    RL_GUARD_WRITTEN,    /* `node` answered a write: `done`, or its nonce was another */
    RL_GUARD_FENCES, /* `node` answered for its fences: `fences` of RL_STRIPES; NULL: there are none
                        of that nonce */
    RL_GUARD_FAILED, /* `node` did not answer what it was asked (read, write or fences) */
    RL_GUARD_NO_FENCES, /* a vote that was sent under the nonce we know says that there are no
                       fences of that name */
    RL_GUARD_PEEK,      /* read `node`'s record again; until then what is known stands */
    RL_GUARD_JUMPED,    /* `node`'s wall clock moved forward alone: suspect */
    RL_GUARD_LEAVE,     /* the client ends: hand on what was waited; step no more but for answers */
    RL_GUARD_TICK
};

struct rl_guard_event {
    enum rl_guard_event_type type;
    uint8_t node;
    bool done, unfit, suspect;
    const char *run_id, *replid;
    uint64_t evicted;
    const struct rl_record *record;
    const int64_t *fences;
    uint64_t random; /* every event: 64 fresh random bits */
};

/* At most one request of the guard is under way at each node: `read`, `write` and `fences` name
 * only nodes that have none. Writes: guard->node[i].writing is the new record, to be written if the
 * nonce is still node[i].expected. */
struct rl_guard_actions {
    rl_mask read; /* read the record */
    rl_mask write;
    rl_mask fences;    /* read the fences of the nonce that is known */
    rl_mask reconnect; /* the server there is not, or no longer, the member's incarnation: connect
                          anew */
    bool changed;      /* some node's eligibility, or the quorum, changed */
    rl_ns wake_at;
};

enum rl_pending_op { RL_PENDING_NONE = 0, RL_PENDING_READ, RL_PENDING_WRITE, RL_PENDING_FENCES };

struct rl_guard_node {
    char url[RL_URL_BYTES]; /* as this client lists it */
    bool up, unfit;
    bool stated; /* replid and evicted are known, by STATE */
    bool read;   /* what the record says, or that there is none, is known */
    bool reread; /* and to be read again all the same */
    bool unreadable, has_record;
    char run_id[RL_RUN_ID_BYTES], replid[RL_RUN_ID_BYTES];
    uint64_t evicted;
    struct rl_record record; /* when read and has_record */
    enum rl_eligibility eligibility;
    uint64_t id; /* which member it is; 0 unknown */
    enum rl_pending_op pending_op;
    bool stale;       /* the answer under way is older than what we know by now */
    uint64_t damaged; /* a nonce whose fences are gone: the record of that nonce is void */
    struct rl_record writing;
    uint64_t expected; /* nonce that must be there; 0: no record */
    const int64_t *
        floor; /* the write raises (and creates) all stripes to at least these; NULL: leaves them */
    bool was_kept;  /* the fences lie under the kept name before the write (else under the expected
                       nonce's) */
    rl_ns again_at; /* after a failure: no pending operation before this */
    rl_ns reconnect_at; /* RL_NEVER: not to be connected anew */
    rl_ns reclaim_at;   /* superseded: when it may be claimed, if it is still the same server then;
                           RL_NEVER */
    bool was_incarnation; /* this server was the member's incarnation, as far as we knew, and is the
                             same since */
    bool asked_again, same_again; /* connected anew because it is superseded; and it was the same
                                     server once more */
    bool suspect; /* keys may be gone there, which its record does not say: it is to be written down
                     as recovering, as soon as a majority of the others is intact */
    rl_ns suspect_until; /* every lease of before has ended, or was extended there since */
    bool distrusted;     /* suspect, and for that not counted any more */
    /* RECOVERING and claimed: is the registration complete? Known as that the members of `peeking`
     * had it by these nonces, and still have them when they are read once more: then there was a
     * moment at which all had it. */
    uint64_t peeks_for;      /* the loss; 0: not looked yet */
    rl_mask peeking, peeked; /* yet to answer; answered, unchanged */
    uint64_t peek_nonces[RL_NODES_MAX];
    /* The wait. */
    uint64_t waits_for; /* the loss; 0: not waiting */
    rl_ns waits_since;  /* now less what was surely waited since the registration */
    rl_ns jitter;       /* agents do not all come back to it in the same moment */
    rl_ns hand_on_at, hand_on_pause;
    bool waited; /* enough, and its record has been looked at again since */
};

struct rl_guard {
    unsigned nodes;
    uint32_t drift_ppm;
    rl_ns drift_fixed;
    bool watch_only;     /* reads, never writes: for looking */
    rl_mask unreachable; /* by the caller, ahead of each step: nodes whose last try to connect has
                            failed */
    uint64_t
        pinned; /* the quorum's id by the user's word; 0: whichever the nodes name, but only one */
    uint64_t other_quorum; /* not 0: records of two quorums are in the list, `quorum.quorum_id` is
                              the one and this the other, and none is pinned. No lock is taken then;
                              the one that is decided stays */
    struct rl_guard_node node[RL_NODES_MAX];
    /* What the records say, as of now. */
    bool known;              /* a quorum was found */
    bool decided;            /* and is taken: its id stays. Before that no vote counts */
    struct rl_record quorum; /* the newest intact record: id, epoch, members (with the newest
                                incarnations), ttl_max */
    unsigned votes_needed;   /* quorum of its members; of the nodes while not known */
    bool settled;            /* a majority of the members says that the epoch is */
    /* One node at a time has its fences read and is installed. */
    int installing;  /* node; -1 none */
    rl_mask sources; /* whose fences are in `floor` */
    uint64_t random;
    bool leaving;
    int64_t floor[RL_STRIPES];
};
void rl_guard_init(struct rl_guard *guard, unsigned nodes, uint32_t drift_ppm, rl_ns drift_fixed);
void rl_guard_step(struct rl_guard *guard, const struct rl_guard_event *event, rl_ns now,
                   struct rl_guard_actions *actions);

rl_mask rl_guard_intact(const struct rl_guard *guard);
rl_mask
rl_guard_voters(const struct rl_guard *guard); /* the same; none before the quorum is decided */
/* Nodes that are known not to vote: neither intact nor merely unknown. */
rl_mask rl_guard_voided(const struct rl_guard *guard);
rl_mask rl_guard_foreign(const struct rl_guard *guard); /* of these: superseded, or no member */
/* How long until this recovering node may be installed, as far as we know; -1: not recovering, or
 * nobody can tell. */
rl_ns rl_guard_left(const struct rl_guard *guard, unsigned node, rl_ns now);
/* What a lease may last under this quorum, and a recovering node must wait: ttl_max and what drift
 * adds. */
rl_ns rl_guard_quarantine(const struct rl_guard *guard);

#endif
