/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The second half of guarded mode: which nodes may vote, and how a node that lost its data comes
 * back. Pure, as core.h is. Records that were read, answers and time come in. Reads, writes and a
 * time to wake go out.
 *
 * Every node carries a record. It is a register with a version, the nonce. A client that changes
 * the record writes a whole new one with a fresh nonce, and only if the nonce is still the one that
 * it read. The node's fences are a sorted set named after the nonce. So a vote (ZADD XX on that
 * name) fails as soon as the record has changed. All rules about the contents of records are here;
 * a node knows none of them (src/node/record_write.lua).
 *
 * Source of the rules: docs/inside/guarded.md. */
#ifndef RL_GUARD_H
#define RL_GUARD_H

#include "core/core.h"

/* Format 1 had neither replid nor evicted, format 2 no ttl_next. */
#define RL_RECORD_FORMAT 3
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
/* Makes it the next incarnation. (The highest number stays as it is. Only a damaged record has it,
 * and a wrap to 0 would make the record invalid.) */
void rl_incarnation_follow(struct rl_incarnation *incarnation, const char *run_id);

struct rl_member {
    uint64_t id; /* random, not 0 */
    /* As the operator wrote it, without the password. It is for people, and identifies the place of
     * an empty node. */
    char url[RL_URL_BYTES];
    struct rl_incarnation incarnation;
};

enum rl_record_eligibility { RL_RECORD_INTACT = 1, RL_RECORD_RECOVERING = 2 };
enum rl_change_kind { RL_CHANGE_NONE = 0, RL_CHANGE_ADD, RL_CHANGE_REMOVE, RL_CHANGE_TTL_MAX };

/* One step from an epoch to the next. A change of ttl_max takes two: the first announces the new
 * value, the second, the same change again, makes it the only one. */
struct rl_change {
    enum rl_change_kind kind;
    uint64_t id;            /* ADD, REMOVE */
    char url[RL_URL_BYTES]; /* ADD */
    int64_t ttl_ms;         /* TTL_MAX */
};
/* They want the same. Each operator draws a new id for a member to add; its URL identifies what the
 * operator wants. */
bool rl_change_same(const struct rl_change *a, const struct rl_change *b);

struct rl_record {
    uint32_t format;
    uint64_t quorum_id; /* random, not 0 */
    uint64_t node_id;   /* the member that this node is, or was */
    uint32_t epoch;     /* counts changes, from 1 */
    /* The epoch that the last init made: all earlier epochs have ended. 0: unknown. */
    uint32_t begun;
    /* leases of the epoch before have ended, and this record's fences cover that epoch */
    bool settled;
    uint8_t members_count;
    struct rl_member members[RL_MEMBERS_MAX];
    enum rl_record_eligibility eligibility;
    char run_id[RL_RUN_ID_BYTES]; /* the server process that the record was written for, ... */
    /* ... its replication id at that time (another one means that the server may have other data;
     * "": unknown) ... */
    char replid[RL_RUN_ID_BYTES];
    uint64_t evicted; /* ... and the number of keys that it had evicted */
    uint64_t nonce;   /* not 0; when INTACT, also the name of the fences */
    /* ttl_max, and the value that a change under way gives it; they are equal while there is none.
     * Use the three functions below. */
    int64_t ttl_max_ms, ttl_next_ms;
    /* RECOVERING: identifies the loss; an agent that finds another one starts again. INTACT: the
     * last loss that this node has recovered from; 0: none, or an init. */
    uint64_t loss;
    /* RECOVERING: the time since the registration that all agents together have waited */
    int64_t waited_ms;
    /* The acceptor of the next epoch's consensus (docs/inside/guarded.md, membership). */
    uint64_t ballot;          /* promised: no lower ballot is accepted */
    uint64_t accepted_ballot; /* 0: none */
    /* with accepted_ballot 0: the change that made this epoch, if the record has it */
    struct rl_change accepted;
};
/* The record was written for the server process that runs there, and for its present data: the same
 * run_id, replication id and number of evicted keys. (A record of format 1 does not identify its
 * data, so it fits no server.) */
bool rl_record_fits(const struct rl_record *record, const char *run_id, const char *replid,
                    uint64_t evicted);
/* A change of ttl_max is between its two epochs. Until its end a client may use the shorter of both
 * values alone, and a node that lost its data waits for the longer. */
bool rl_record_ttl_pending(const struct rl_record *record);
/* The longest TTL that a lock may be given. */
int64_t rl_record_ttl_allowed(const struct rl_record *record);
/* The longest TTL that a lock may have that is held now. */
int64_t rl_record_ttl_wait(const struct rl_record *record);
/* NULL: none */
const struct rl_member *rl_record_member(const struct rl_record *record, uint64_t id);
bool rl_record_same_members(const struct rl_record *a, const struct rl_record *b);
/* Makes the record of the next epoch. False: the change is impossible (already a member, not a
 * member, too many members, the last member, that ttl_max already, another change of ttl_max is
 * under way, or no epoch number is left). The record is then unchanged. */
bool rl_record_change(struct rl_record *record, const struct rl_change *change);
/* Identifies an init in the records that it writes as recovering: nothing else writes this loss. */
uint64_t rl_loss_of_init(uint64_t quorum_id, uint32_t epoch);
bool rl_record_of_init(const struct rl_record *record);
/* By the first init of its quorum, and never intact since: whether that quorum will exist is open.
 */
bool rl_record_of_first_init(const struct rl_record *record);

enum rl_eligibility {
    /* not connected, or its record was not read since a report that it changed */
    RL_ELIGIBILITY_UNKNOWN = 0,
    RL_ELIGIBILITY_INTACT,
    /* empty, restarted, or its record is in state recovering: does not vote */
    RL_ELIGIBILITY_RECOVERING,
    /* intact, but at an earlier epoch than others: does not vote until its record is updated */
    RL_ELIGIBILITY_BEHIND,
    /* Of another quorum, no longer a member, or replaced by another server: never votes. */
    RL_ELIGIBILITY_FOREIGN,
    RL_ELIGIBILITY_NO_RECORD, /* empty, and no other node's record says which member it should be */
    /* not fit (the caller reported it), or its record has a format that we do not know */
    RL_ELIGIBILITY_REFUSED
};

enum rl_guard_event_type {
    RL_GUARD_UP, /* `node` is connected; `run_id` is its server's */
    RL_GUARD_DOWN,
    /* `node` reported its state: `replid` and `evicted`, whether it is `unfit` (refused until a
     * later STATE says otherwise), and `suspect`: keys of locks may be gone there. Asked before
     * every read, and from time to time. */
    RL_GUARD_STATE,
    /* A push from `node`: its record, or all its data, may have changed. No answer of the node
     * counts until STATE and RECORD have come. `unsent`: the read that is under way was not sent
     * yet, so it shows the change. */
    RL_GUARD_CHANGED,
    RL_GUARD_RECORD,     /* `node` answered a read: `record`, NULL: it has none */
    RL_GUARD_UNREADABLE, /* `node` answered a read, but not with a record of a known format */
    /* `node` answered a write: `done`, or the nonce was not the expected one */
    RL_GUARD_WRITTEN,
    /* `node` answered a read of its fences: `fences` of RL_STRIPES; NULL: that nonce has no
     * fences */
    RL_GUARD_FENCES,
    RL_GUARD_FAILED, /* `node` did not answer its request (read, write or fences) */
    /* the node answered a vote under the known nonce: no fences of that name exist */
    RL_GUARD_NO_FENCES,
    /* a request of ours has changed the nonce of the record and the fences, and nothing else:
     * `expected` is now `nonce` */
    RL_GUARD_RENAMED,
    RL_GUARD_PEEK,   /* read `node`'s record again; until then the known one counts */
    RL_GUARD_JUMPED, /* only `node`'s wall clock moved forward: suspect */
    /* the client ends: record the time waited; from then on, only answers are stepped */
    RL_GUARD_LEAVE,
    RL_GUARD_TICK
};

struct rl_guard_event {
    enum rl_guard_event_type type;
    uint8_t node;
    bool done, unfit, suspect, unsent;
    const char *run_id, *replid;
    uint64_t evicted;
    const struct rl_record *record;
    const int64_t *fences;
    uint64_t expected, nonce;
    uint64_t random; /* every event: 64 fresh random bits */
};

/* The guard has at most one pending operation at each node: `read`, `write` and `fences` name only
 * nodes without one. A write puts guard->node[i].writing, if the nonce there is still
 * node[i].expected. */
struct rl_guard_actions {
    rl_mask read; /* read the record */
    rl_mask write;
    rl_mask fences; /* read the fences of the known nonce */
    /* The server is not the member's incarnation, or no longer is: connect again. */
    rl_mask reconnect;
    bool changed; /* some node's eligibility, or the quorum, changed */
    rl_ns wake_at;
};

enum rl_pending_op { RL_PENDING_NONE = 0, RL_PENDING_READ, RL_PENDING_WRITE, RL_PENDING_FENCES };

struct rl_guard_node {
    char url[RL_URL_BYTES]; /* as this client lists it */
    bool up, unfit;
    bool stated; /* replid and evicted are known from a STATE */
    bool read;   /* the record is known, or its absence is */
    bool reread; /* known, but to be read again */
    bool unreadable, has_record;
    char run_id[RL_RUN_ID_BYTES], replid[RL_RUN_ID_BYTES];
    uint64_t evicted;
    struct rl_record record; /* when read and has_record */
    enum rl_eligibility eligibility;
    uint64_t id; /* the member that it is; 0: unknown */
    enum rl_pending_op pending_op;
    bool stale;       /* the answer under way is older than what is known now */
    uint64_t damaged; /* a nonce whose fences are gone, so the record with that nonce is void */
    struct rl_record writing;
    uint64_t expected; /* the nonce that must be there; 0: no record */
    /* the write raises (and creates) all stripes to at least these; NULL: leaves them */
    const int64_t *floor;
    /* Before the write the fences are under the kept name (else under the expected nonce's). */
    bool was_kept;
    rl_ns again_at;     /* after a failure: no pending operation starts before this */
    rl_ns reconnect_at; /* RL_NEVER: do not connect again */
    /* Superseded: when this node may be claimed, if the server is still the same then; or
     * RL_NEVER. */
    rl_ns reclaim_at;
    /* This server was the member's incarnation, as far as we knew, and has not changed since. */
    bool was_incarnation;
    /* connected again because it was superseded; and it was the same server again */
    bool asked_again, same_again;
    /* Keys may be gone there although the record does not show it. The node's record is to be set
     * to recovering as soon as a majority of the others is intact. */
    bool suspect;
    /* A quarantine later every earlier lease has ended, or was extended there since. It is reckoned
     * anew in each step: a record that is read later may name a longer ttl_max. */
    bool was_suspected;
    rl_ns suspected_at;
    bool distrusted; /* suspect, and therefore no longer counted */
    /* RECOVERING and claimed: is the registration complete? It is when the members of `peeking` had
     * it under these nonces and still have them in a second read: then there was a time at which
     * all of them had it. */
    uint64_t peeks_for;      /* the loss; 0: no peek yet */
    rl_mask peeking, peeked; /* still to answer; answered, unchanged */
    uint64_t peek_nonces[RL_NODES_MAX];
    /* The wait. */
    uint64_t waits_for; /* the loss; 0: not waiting */
    rl_ns waits_since;  /* now minus the time that was surely waited since the registration */
    rl_ns jitter;       /* keeps agents from coming back to it at the same time */
    rl_ns hand_on_at, hand_on_pause;
    bool waited; /* waited long enough, and its record was read again since */
};

struct rl_guard {
    unsigned nodes;
    uint32_t drift_ppm;
    rl_ns drift_fixed;
    bool read_only; /* reads, never writes; for a peek */
    /* Set by the caller before each step: nodes whose last try to connect, or to read the record,
     * has failed. */
    rl_mask unreadable_now;
    /* The quorum id that the user pinned. 0: the one that the nodes name, if they name only one. */
    uint64_t pinned;
    /* Not 0: the listed nodes have records of two quorums, `quorum.quorum_id` and this one, and
     * neither is pinned. Then no lock is taken. A quorum that is decided stays. */
    uint64_t other_quorum;
    struct rl_guard_node node[RL_NODES_MAX];
    /* What the records say at present. */
    bool known;   /* a quorum was found */
    bool decided; /* the quorum is adopted: its id stays; before that no vote counts */
    /* The newest intact record: id, epoch, members (with the newest incarnations), ttl_max. */
    struct rl_record quorum;
    unsigned votes_needed; /* quorum of its members; of the nodes while unknown */
    bool settled;          /* a majority of the members has the epoch as settled */
    /* The guard reads the fences of, and installs, one node at a time. */
    int installing;  /* node; -1 none */
    rl_mask sources; /* nodes whose fences are in `floor` */
    rl_ns follow_at; /* a later epoch is not looked for before this time; 0: none was seen */
    uint64_t random;
    bool leaving;
    int64_t floor[RL_STRIPES];
};
void rl_guard_init(struct rl_guard *guard, unsigned nodes, uint32_t drift_ppm, rl_ns drift_fixed);
void rl_guard_step(struct rl_guard *guard, const struct rl_guard_event *event, rl_ns now,
                   struct rl_guard_actions *actions);

rl_mask rl_guard_intact(const struct rl_guard *guard);
/* Nodes that may vote; none before the quorum is decided. */
rl_mask rl_guard_voters(const struct rl_guard *guard);
/* Nodes whose record names the quorum that was found. It is decided when these are more than half
 * of all nodes. */
unsigned rl_guard_carriers(const struct rl_guard *guard);
/* Nodes that are known not to be eligible: neither intact nor unknown, or not a member. */
rl_mask rl_guard_voided(const struct rl_guard *guard);
/* Of these: superseded, or not a member of the newest list, also while the node cannot be read. */
rl_mask rl_guard_foreign(const struct rl_guard *guard);
/* The time until this recovering node may be installed, as far as we know. -1: it is not
 * recovering, or the time is unknown. */
rl_ns rl_guard_left(const struct rl_guard *guard, unsigned node, rl_ns now);
/* The longest time that a lease can last under this quorum, which a recovering node must wait:
 * ttl_max plus drift. */
rl_ns rl_guard_quarantine(const struct rl_guard *guard);
/* The same under a quorum with this ttl_max. */
rl_ns rl_guard_lease_most(const struct rl_guard *guard, int64_t ttl_ms);
/* node->writing: the quorum's record, with the fields of this node as the member `id`. What it
 * promised or accepted as an acceptor is not part of it. */
struct rl_record *rl_guard_own_record(const struct rl_guard *guard, struct rl_guard_node *node,
                                      uint64_t id, enum rl_record_eligibility eligibility);
/* node->writing is for the server that runs there, over the record that was read: "only if the
 * nonce is still the one that he read". */
void rl_guard_write_over(struct rl_guard_node *node, uint64_t nonce);

#endif
