/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's half of guarded mode: init, add and remove, and settling what they begin. Pure, as
 * core.h is: what the nodes answer and the time come in; what to ask them, what to report and when
 * to wake come out.
 *
 * The machine puts one question at a time, to several nodes at once, and goes on when all have
 * answered or `answer_timeout` has passed. Whatever it writes is a compare-and-set on what it read,
 * so it holds no lock between two questions: it can be interrupted anywhere, and another operator
 * goes on from what the records say.
 *
 * Source of the rules: docs/guarded.md, membership.
 */
#ifndef RL_MEMBERSHIP_H
#define RL_MEMBERSHIP_H

#include "core/guard.h"

enum rl_membership_kind { RL_MEMBERSHIP_INIT = 1, RL_MEMBERSHIP_ADD, RL_MEMBERSHIP_REMOVE };

/* What the operator asks for. */
struct rl_membership_wish {
    enum rl_membership_kind kind;
    unsigned nodes;       /* that the client lists */
    unsigned node;        /* ADD: which of them */
    uint64_t id;          /* REMOVE: the member */
    rl_mask url_too_long; /* nodes with a URL longer than a record keeps */
    uint64_t quorum_id; /* pinned, or taken by the client; 0: the only one that the records name */
    bool pinned;        /* by the operator */
    bool never_used;    /* INIT: no lock was ever held on these servers */
    int64_t ttl_max_ms, ttl_max_before_ms; /* INIT; 0: not given */
    int64_t ttl_max_ms_default;            /* INIT: of a new quorum, where nothing else says it */
    int64_t fence_floor;                   /* INIT */
    uint32_t drift_ppm;
    rl_ns drift_fixed;
    rl_ns answer_timeout; /* of one question, and of waiting for the nodes to be connected */
};

/* Why not. X(name, class); the front end has a text for each. */
#define RL_PROBLEMS(X)                                                                             \
    X(NONE, NONE)                                                                                  \
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
    X(TWO_QUORUMS, TWO_QUORUMS) /* node, id[0]: the one that is meant */                           \
    X(NO_RECORD, NO_QUORUM)                                                                        \
    X(NO_RECORD_OF, NO_QUORUM)     /* id[0] */                                                     \
    X(MAJORITY_UNHEARD, NO_QUORUM) /* node */                                                      \
    X(TOO_FEW_INTACT, NO_QUORUM)   /* count: intact, needed */                                     \
    X(TOO_FEW_AFTER, NO_QUORUM)    /* count: intact, members, needed then; node: unheard, or -1 */ \
    X(ADDED_UNHEARD, NO_QUORUM)    /* node */                                                      \
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
    RL_CLASS_NONE = 0,
    RL_CLASS_BAD_ARGUMENT,
    RL_CLASS_CONFLICT,
    RL_CLASS_NO_QUORUM, /* nodes are not as they should be: another try may find them otherwise */
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
    RL_MEMBERSHIP_RECORD,   /* `node` said what it is, then answered a read: `record`, NULL: it has
                               none, or one of a format beyond us (`unreadable`) */
    RL_MEMBERSHIP_WRITTEN,  /* `node` answered a write: `done`, or its nonce was another */
    RL_MEMBERSHIP_FENCES,   /* `node` answered for its fences, NULL: there are none of that name;
                               then said what it is */
    RL_MEMBERSHIP_FAILED,   /* `node` did not answer what it was asked */
    RL_MEMBERSHIP_TICK
};

struct rl_membership_event {
    enum rl_membership_event_type type;
    uint8_t node;
    uint32_t question;    /* of answers: which one it answers; those to earlier ones do not count */
    rl_mask ready, twice; /* every event: nodes that can be asked; nodes that are a server that the
                             list has already */
    bool done, unreadable, unfit, old;
    const char *run_id; /* RECORD, WRITTEN, FENCES: of the server that answered, ... */
    const char *replid; /* RECORD, FENCES: ... and what it said of itself */
    uint64_t evicted;
    const struct rl_record *record;
    const int64_t *fences; /* RL_STRIPES */
    uint64_t random;       /* every event: 64 fresh random bits; 0: there are none */
    int64_t wall_us;       /* every event: the wall clock in microseconds; 0: it is out of range */
};

enum rl_membership_ask {
    RL_ASK_NOTHING = 0,
    RL_ASK_GATHER, /* say GATHERED as soon as it is so */
    RL_ASK_READ,   /* what it is, and the record behind it */
    RL_ASK_WRITE,  /* view.node[].writing, by the server of its run_id, if the nonce is still
                      .expected; .was_kept and .floor as the guard's */
    RL_ASK_FENCES  /* by the server of view.node[].run_id, of record.nonce or of the kept name, and
                      what it is behind them */
};

enum rl_membership_report {
    RL_REPORT_NOTHING = 0,
    RL_REPORT_WRITING,
    RL_REPORT_WAITING, /* until every lock of before has ended */
    RL_REPORT_ASKING,
    RL_REPORT_SWITCHING,
    RL_REPORT_GATHERING, /* until a majority is intact */
    RL_REPORT_SETTLING   /* until the locks of before the change have ended */
};

struct rl_membership_actions {
    enum rl_membership_ask ask;
    uint32_t question;
    rl_mask nodes;
    bool kept; /* FENCES: of the kept name */
    enum rl_membership_report report;
    rl_ns left; /* of the wait that is reported; -1: not known */
    bool over;  /* `problem` is the result; no more is to be stepped */
    rl_ns wake_at;
};

enum rl_membership_state {
    RL_MEMBERSHIP_IDLE = 0,
    /* init */
    RL_INIT_PEEK,    /* what is there? */
    RL_INIT_CLAIM,   /* every node is written down as recovering */
    RL_INIT_WAIT,    /* until every lock of before has ended */
    RL_INIT_FLOOR,   /* the highest fences */
    RL_INIT_INSTALL, /* all are made intact */
    RL_INIT_REVIEW,  /* where no answer came: who has it? */
    RL_FINISH_TAKE,  /* a majority is intact: what another init has left is taken in ... */
    RL_FINISH_FENCES,
    RL_FINISH_INSTALL, /* ... and the others are installed */
    RL_FINISH_REVIEW,
    RL_FINISH_PEEK,
    RL_INIT_LAST,
    /* a change */
    RL_CHANGE_PEEK,
    RL_CHANGE_PROMISE,
    RL_CHANGE_PROMISED, /* did all promises stand at one moment? */
    RL_CHANGE_ACCEPT,
    RL_CHANGE_ACCEPTED,
    RL_SWITCH_PEEK,
    RL_SWITCH_WRITE,
    RL_SWITCH_SEEN,
    RL_SWITCH_CLAIM, /* an added node is written down as one that lost its data */
    RL_ADDED_PEEK,
    RL_ADDED_CLAIM,
    RL_ADDED_SEEN,
    /* settling */
    RL_SETTLE_GATHER, /* the witnesses: members of the epoch before that have switched */
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

/* What an init is to write, once it may. */
struct rl_membership_plan {
    struct rl_record record;    /* what all nodes get, but for what is a node's own */
    bool never_intact;          /* whatever is there was left by an init that came to nothing */
    int64_t longest_ttl_max_ms; /* locks that may be held there have ended when it has passed; 0:
                                   none is known */
};

struct rl_membership {
    struct rl_membership_wish wish;
    enum rl_membership_state state;
    struct rl_problem problem;
    /* The question under way. */
    enum { RL_STAGE_NONE, RL_STAGE_PAUSE, RL_STAGE_GATHER, RL_STAGE_ANSWERS } stage;
    enum rl_membership_ask asking;
    bool looks; /* a pause is followed by a look, being gathered by reading */
    uint32_t question;
    rl_mask pending; /* nodes that are yet to answer */
    bool kept;
    /* What came of the last one. */
    rl_mask written, denied;
    rl_mask reported, without; /* fences; none of that name */
    rl_ns looked_at;           /* when the last look began */
    /* Of this step. */
    rl_ns now, wake_at;
    enum rl_membership_report report;
    rl_ns report_left;
    uint64_t random;
    bool seeded;    /* by this event */
    bool no_random; /* some id or nonce could not be drawn: nothing is written from then on */
    int64_t wall_us;
    rl_mask ready, twice;
    rl_mask old;        /* older than records are */
    uint64_t quorum_id; /* that is meant; 0: the only one that the records name */
    /* What the records say together. A node is `up` when its last reading was answered; what it
     * said before does not count. `floor` is what stripes are raised to. */
    struct rl_guard view;
    uint64_t nonces[RL_NODES_MAX]; /* of what was written, to be seen again */
    rl_mask held;                  /* nodes that took it */
    /* A change. */
    struct rl_change wanted, chosen;
    bool made;    /* some acceptor may know of it: then others may bring it to its end */
    bool begun;   /* an accepted one was seen: no other is proposed */
    bool claimed; /* the member that is to be added was one already, and has got its place again */
    uint64_t ballot;
    uint32_t epoch; /* that the switch, or the settling, is from */
    unsigned tries, refused, switches;
    /* Settling. */
    struct {
        bool known, begun; /* which change made the epoch; and it was found, not made by this run */
        struct rl_change last;
        uint32_t epoch;
        rl_mask witnesses;
        unsigned needed, rounds, tries;
        char run_id[RL_NODES_MAX][RL_RUN_ID_BYTES]; /* of the witnesses */
        rl_ns seen[RL_NODES_MAX];                   /* not before this */
        rl_ns until, reported_at;
        rl_mask done;
    } settling;
    /* An init. */
    struct rl_membership_plan plan;
    rl_mask left; /* nodes that are yet to be finished */
};

/* The front end then writes the nodes' URLs into view.node[].url, ahead of BEGIN. */
void rl_membership_init(struct rl_membership *machine, const struct rl_membership_wish *wish);
void rl_membership_step(struct rl_membership *machine, const struct rl_membership_event *event,
                        rl_ns now, struct rl_membership_actions *actions);

#endif
