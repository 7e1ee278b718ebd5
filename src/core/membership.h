/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's half of guarded mode: init, add, remove, set-ttl-max, and settling the epochs that
 * they begin. Pure, as core.h is. The nodes' answers and the time come in. Questions to nodes,
 * reports and a time to wake go out.
 *
 * The machine asks one question at a time, of several nodes at once. It continues when all have
 * answered or `answer_timeout` has passed. Each write is a compare-and-set on what was read, so the
 * machine holds no lock between two questions. It can be interrupted anywhere, and another operator
 * continues from the records.
 *
 * Source of the rules: docs/inside/guarded.md, membership. */
#ifndef RL_MEMBERSHIP_H
#define RL_MEMBERSHIP_H

#include "core/guard.h"

enum rl_membership_kind {
    RL_MEMBERSHIP_INIT = 1,
    RL_MEMBERSHIP_ADD,
    RL_MEMBERSHIP_REMOVE,
    RL_MEMBERSHIP_SET_TTL_MAX
};

/* What the operator asks for. */
struct rl_membership_wish {
    enum rl_membership_kind kind;
    unsigned nodes;       /* how many the client lists */
    unsigned node;        /* ADD: the node to add */
    uint64_t id;          /* REMOVE: the member */
    rl_mask url_too_long; /* nodes with a URL longer than a record keeps */
    /* pinned by the operator, or decided by the client; 0: the only one that the records name */
    uint64_t quorum_id;
    bool pinned;               /* the operator pinned it */
    bool never_used;           /* INIT: no lock was ever held on these servers */
    int64_t ttl_max_ms;        /* SET_TTL_MAX; INIT, 0: not given */
    int64_t ttl_max_before_ms; /* INIT; 0: not given */
    int64_t ttl_max_ms_default;
    /* INIT: for a new quorum, where neither records nor operator give one */
    int64_t fence_floor; /* INIT */
    uint32_t drift_ppm;
    rl_ns drift_fixed;
    rl_ns answer_timeout; /* for one question, and for waiting until the nodes are connected */
};

/* The reason for a failure. X(name, class); the front end has a text for each, and a result of the
 * class's name. */
#define RL_PROBLEMS(X)                                                                             \
    X(NONE, OK)                                                                                    \
    X(NO_RANDOM, SYSTEM)                 /* the event brought no random bits */                    \
    X(TWICE_LISTED, TWICE_LISTED)        /* node */                                                \
    X(URL_TOO_LONG, BAD_ARGUMENT)        /* node */                                                \
    X(LISTED_URL_TOO_LONG, BAD_ARGUMENT) /* node */                                                \
    /* A server is not fit to hold a record: node. */                                              \
    X(MUST_ANSWER, NO_QUORUM)                                                                      \
    X(NO_RUN_ID, NO_QUORUM)                                                                        \
    X(TOO_OLD, NO_QUORUM)                                                                          \
    X(UNFIT, NO_QUORUM)                                                                            \
    /* A change must not be made. */                                                               \
    X(TWO_QUORUMS, TWO_QUORUMS) /* node, id[0]: the quorum that is meant */                        \
    X(NO_RECORD, NO_QUORUM)                                                                        \
    X(NO_RECORD_OF, NO_QUORUM)     /* id[0] */                                                     \
    X(MAJORITY_UNHEARD, NO_QUORUM) /* node */                                                      \
    X(TOO_FEW_INTACT, NO_QUORUM)   /* count: intact, needed */                                     \
    /* change; count: intact, members, needed then; node: unheard, or -1 */                        \
    X(TOO_FEW_AFTER, NO_QUORUM)                                                                    \
    X(ADDED_UNHEARD, NO_QUORUM)       /* node */                                                   \
    X(ADDED_UNREADABLE, BAD_ARGUMENT) /* node */                                                   \
    X(OF_OTHER_QUORUM, BAD_ARGUMENT)  /* node, id[0] */                                            \
    X(ALREADY_MEMBER, BAD_ARGUMENT)   /* node, id[0], url */                                       \
    X(MEMBERS_FULL, BAD_ARGUMENT)                                                                  \
    X(QUORUM_OF_ONE, BAD_ARGUMENT) /* url */                                                       \
    X(NOT_A_MEMBER, BAD_ARGUMENT)  /* id: the member, the quorum */                                \
    X(LAST_MEMBER, BAD_ARGUMENT)   /* id[0] */                                                     \
    /* A change that was begun. */                                                                 \
    X(OTHERS_CHANGE, CONFLICT)                                                                     \
    X(CAME_SECOND, CONFLICT)       /* change */                                                    \
    X(UNDONE, CONFLICT)            /* change */                                                    \
    X(NOT_SWITCHED, NO_QUORUM)     /* change */                                                    \
    X(CLAIM_UNKNOWN, NO_QUORUM)    /* node */                                                      \
    X(TAKEN_ELSEWHERE, CONFLICT)   /* node, id[0] */                                               \
    X(SETTLERS_UNHEARD, NO_QUORUM) /* node */                                                      \
    X(SETTLERS_TOO_FEW, NO_QUORUM) /* count: found, epoch, needed */                               \
    X(NOT_MARKED, NO_QUORUM)                                                                       \
    X(NOT_SETTLED, NO_QUORUM)                                                                      \
    /* An init. */                                                                                 \
    X(UNREADABLE, NO_QUORUM)          /* node */                                                   \
    X(MEMBERS_UNLISTED, BAD_ARGUMENT) /* node, id[0], count: unlisted, members; url */             \
    X(ALIVE, CONFLICT)                /* id[0], count: intact, members */                          \
    X(USED_BEFORE, BAD_ARGUMENT)      /* id[0] */                                                  \
    X(WAIT_UNKNOWN, BAD_ARGUMENT)                                                                  \
    X(MUST_BE_REACHABLE, NO_QUORUM)  /* node */                                                    \
    X(WRITTEN_NOW, CONFLICT)         /* node */                                                    \
    X(WRITTEN_MEANWHILE, CONFLICT)   /* node */                                                    \
    X(LOST_WHILE_WAITING, NO_QUORUM) /* node */                                                    \
    X(FENCES_UNREAD, NO_QUORUM)      /* node */                                                    \
    X(WENT_AWAY, NO_QUORUM)          /* node */                                                    \
    X(LOST_UNFINISHED, NO_QUORUM)    /* node */

enum rl_problem_kind {
#define RL_ENUM(name, class) RL_PROBLEM_##name,
    RL_PROBLEMS(RL_ENUM)
#undef RL_ENUM
};
enum rl_problem_class {
    RL_CLASS_OK = 0,
    RL_CLASS_BAD_ARGUMENT,
    RL_CLASS_CONFLICT,
    RL_CLASS_NO_QUORUM, /* nodes are not in the needed state; another try may succeed */
    RL_CLASS_TWICE_LISTED,
    RL_CLASS_TWO_QUORUMS,
    RL_CLASS_SYSTEM
};
enum rl_problem_class rl_problem_class(enum rl_problem_kind kind);
const char *rl_problem_name(enum rl_problem_kind kind);

struct rl_problem {
    enum rl_problem_kind kind;
    int node; /* -1: none */
    unsigned count[3];
    uint64_t id[2];
    struct rl_change change;
    char url[RL_URL_BYTES];
};

enum rl_membership_event_type {
    RL_MEMBERSHIP_BEGIN,
    RL_MEMBERSHIP_GATHERED, /* every node is connected, or its last try to connect has failed */
    /* `node` reported its server info, then answered a read with `record`. NULL: it has no record,
     * or one of an unknown format (`unreadable`). */
    RL_MEMBERSHIP_RECORD,
    /* `node` answered a write: `done`, or the nonce was not the expected one */
    RL_MEMBERSHIP_WRITTEN,
    /* `node` answered a read of its fences, then reported its server info. NULL: there are none of
     * that name. */
    RL_MEMBERSHIP_FENCES,
    RL_MEMBERSHIP_FAILED, /* `node` did not answer its question */
    RL_MEMBERSHIP_TICK
};

struct rl_membership_event {
    enum rl_membership_event_type type;
    uint8_t node;
    /* Answers: the question that they answer. Answers to earlier questions do not count. */
    uint32_t question;
    /* Every event: nodes that can take a question; nodes whose server is already in the list. */
    rl_mask ready, twice;
    bool done, unreadable, unfit, old;
    const char *run_id; /* RECORD, WRITTEN, FENCES: of the server that answered, ... */
    const char *replid; /* RECORD, FENCES: ... and its replication id */
    uint64_t evicted;
    const struct rl_record *record;
    const int64_t *fences; /* RL_STRIPES */
    uint64_t random;       /* every event: 64 fresh random bits; 0: none could be drawn */
    int64_t wall_us;       /* every event: the wall clock in microseconds; 0: out of range */
};

enum rl_membership_ask {
    RL_ASK_NOTHING = 0,
    RL_ASK_GATHER, /* send GATHERED as soon as it holds */
    RL_ASK_READ,   /* the server info, then the record */
    /* Write view.node[].writing, on the server with its run_id, if the nonce is still `.expected`;
     * `.was_kept` and `.floor` as in the guard. */
    RL_ASK_WRITE,
    /* Read the fences of record.nonce, or of the kept name, on the server of view.node[].run_id;
     * then the server info. */
    RL_ASK_FENCES
};

enum rl_membership_report {
    RL_REPORT_NOTHING = 0,
    RL_REPORT_WRITING,
    RL_REPORT_WAITING, /* until every earlier lock has ended */
    RL_REPORT_ASKING,
    RL_REPORT_SWITCHING,
    RL_REPORT_GATHERING, /* until a majority is intact */
    RL_REPORT_SETTLING   /* until the locks from before the change have ended */
};

struct rl_membership_actions {
    enum rl_membership_ask ask;
    uint32_t question;
    rl_mask nodes;
    bool kept; /* FENCES: those of the kept name */
    enum rl_membership_report report;
    rl_ns left; /* of the reported wait; -1: unknown */
    bool over;  /* `problem` is the result; do not step the machine again */
    rl_ns wake_at;
};

enum rl_membership_state {
    RL_MEMBERSHIP_IDLE = 0,
    /* init */
    RL_INIT_PEEK,    /* read what is there */
    RL_INIT_PROVE,   /* a majority is intact by its records: does it have its fences? */
    RL_INIT_CLAIM,   /* write every node's record as recovering */
    RL_INIT_WAIT,    /* until every earlier lock has ended */
    RL_INIT_FLOOR,   /* read the highest fences */
    RL_INIT_INSTALL, /* make all records intact */
    RL_INIT_REVIEW,  /* after missing answers: whose record is on the node? */
    RL_FINISH_TAKE,  /* a majority is intact: take over what another init left ... */
    RL_FINISH_FENCES,
    RL_FINISH_INSTALL, /* ... and install the other nodes */
    RL_FINISH_REVIEW,
    RL_FINISH_PEEK,
    RL_INIT_LAST,
    /* a change */
    RL_CHANGE_PEEK,
    RL_CHANGE_PROMISE,
    RL_CHANGE_PROMISED, /* were all promises in place at the same time? */
    RL_CHANGE_ACCEPT,
    RL_CHANGE_ACCEPTED,
    RL_SWITCH_PEEK,
    RL_SWITCH_WRITE,
    RL_SWITCH_SEEN,
    RL_SWITCH_CLAIM, /* write the added node's record as that of a node that lost its data */
    RL_ADDED_PEEK,
    RL_ADDED_CLAIM,
    RL_ADDED_SEEN,
    /* settling */
    RL_SETTLE_GATHER, /* find the witnesses: members of the epoch before that have switched */
    RL_SETTLE_WAIT,
    RL_SETTLE_PEEK,
    RL_SETTLE_FENCES,
    RL_RAISE_PEEK,
    RL_RAISE_WRITE,
    RL_MARK_PEEK,
    RL_MARK_WRITE,
    RL_MEMBERSHIP_OVER
};
const char *rl_membership_state_name(enum rl_membership_state state);

/* What an init will write. */
struct rl_membership_plan {
    struct rl_record record; /* the same for all nodes, except a node's own fields */
    bool never_intact;       /* all records there were left by an init that did not finish */
    bool used;               /* a lock may have been held under a record that is there */
    /* After this time all locks that may be held there have ended. 0: no ttl_max is known. */
    int64_t longest_ttl_max_ms;
};

struct rl_membership {
    struct rl_membership_wish wish;
    enum rl_membership_state state;
    struct rl_problem problem;
    /* The question under way. */
    enum { RL_STAGE_NONE, RL_STAGE_PAUSE, RL_STAGE_GATHER, RL_STAGE_ANSWERS } stage;
    enum rl_membership_ask asking;
    bool looks; /* a pause, then a peek: the machine gathers by reading */
    uint32_t question;
    rl_mask pending; /* nodes that have not answered yet */
    bool kept;
    /* The results of the last question. */
    rl_mask written, denied;
    rl_mask reported, without; /* fences were read; no fences of that name */
    /* Valid during one step. */
    rl_ns now, wake_at;
    enum rl_membership_report report;
    rl_ns report_left;
    uint64_t random;
    bool seeded;    /* this event brought random bits */
    bool no_random; /* An id or nonce could not be drawn. From then on nothing is written. */
    int64_t wall_us;
    rl_mask ready, twice;
    rl_mask old;        /* servers too old for records */
    uint64_t quorum_id; /* the quorum that is meant; 0: the only one that the records name */
    /* What the records say together. A node is `up` when it answered its last read; earlier answers
     * do not count. `floor` is the value to which stripes are raised. */
    struct rl_guard view;
    uint64_t nonces[RL_NODES_MAX]; /* of the records that were written, to recognise them later */
    rl_mask held;                  /* nodes that took the write */
    /* A change. */
    struct rl_change wanted, chosen;
    bool made;      /* some acceptor may have accepted it, so another operator may complete it */
    bool overtaken; /* another operator's change was found accepted, and chosen */
    bool claimed;   /* the member to be added was a member already, and has its place again */
    uint64_t ballot;
    uint32_t epoch; /* the epoch that the switch, or the settling, starts from */
    unsigned tries, refused, switches;
    /* Settling. */
    struct {
        struct rl_change last; /* that made the epoch; NONE: unknown */
        bool begun;            /* it was found, not made by this run */
        uint32_t epoch;
        rl_mask witnesses;
        unsigned needed, rounds, tries;
        uint64_t loss[RL_NODES_MAX]; /* the last one of each witness */
        rl_ns until, reported_at;
        rl_mask done;
    } settling;
    /* An init. */
    struct rl_membership_plan plan;
    rl_mask left;     /* nodes that are not finished yet */
    unsigned rereads; /* how often intact records without fences were read again */
};

/* After it and before BEGIN the front end writes the nodes' URLs into view.node[].url. */
void rl_membership_init(struct rl_membership *machine, const struct rl_membership_wish *wish);
void rl_membership_step(struct rl_membership *machine, const struct rl_membership_event *event,
                        rl_ns now, struct rl_membership_actions *actions);

#endif
