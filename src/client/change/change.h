/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What an operator changes: the members of a quorum, and a lock that must end. The machines of
 * src/core decide, over a client's connections: a task sends their questions to the nodes, and the
 * answers to them. The client's mutex protects a task. */
#ifndef RL_CLIENT_CHANGE_H
#define RL_CLIENT_CHANGE_H

#include "core/break.h"
#include "core/membership.h"
#include "net/net.h"
#include "redlock/admin.h"

/* ---- task.c: core/membership.h, for init, add and remove ----
 *
 * The client's guard continues in the background. */

#define TASK_REPORTS 8

struct quorum_task {
    struct redlock_client *client;
    struct quorum_task *next; /* in the client's list */
    struct rl_membership machine;
    struct net_timer timer;
    struct ask *asks; /* of the question that is under way */
    uint32_t asked;   /* its number, or the last one's */
    rl_mask failed;   /* nodes that could not be asked; the machine gets this after its step */
    bool gathering;   /* it waits for the nodes to be connected */
    bool no_memory;
    bool over;
    /* Called after a report or at the end. It must not free the task. */
    void (*notify)(struct quorum_task *task);
    void *context; /* the owner's */
    /* Reports to show, oldest first; one that finds no space is dropped. */
    struct task_report {
        enum rl_membership_report what;
        rl_ns left;
    } reports[TASK_REPORTS];
    unsigned reports_count;
    /* For messages. */
    const char *url[RL_NODES_MAX];
    int verdict[RL_NODES_MAX]; /* of the last question */
    struct net_state state[RL_NODES_MAX];
};

/* These two take the mutex. `wish`: the request; task_start() fills in what the client knows. The
 * caller owns the task and may free it at any time. NULL: no memory, or the process was forked. */
struct quorum_task *task_start(struct redlock_client *client, struct rl_membership_wish wish,
                               void (*notify)(struct quorum_task *task), void *context);
void task_free(struct quorum_task *task); /* stops the task in any state */

/* Call this when nodes were connected, or their records were read. */
void tasks_check(struct redlock_client *client);

/* task_text.c. The mutex is not held. */
const char *task_report_text(enum rl_membership_report report);
int task_problem_result(enum rl_problem_kind kind); /* enum redlock_result */
/* The task's result; *error has the reason. */
int task_result(struct quorum_task *task, struct redlock_error *error);

/* ---- break_task.c: core/break.h ---- */

struct break_task {
    struct redlock_client *client;
    struct rl_break machine;
    struct net_timer timer;
    struct ask *asks; /* whose answers may still come */
    struct net_bytes key, named;
    uint16_t stripe;
    bool no_memory;
    bool turned;   /* the client has turned guarded meanwhile: the break was not */
    bool deletes;  /* the first requests that delete are sent; guarded: with the raise */
    bool confirms; /* ... and, guarded, a majority has raised the fence */
    bool over;
    struct break_task *next; /* of the client's */
    /* Called when the deletes begin, and at the end. It must not free the task. */
    void (*notify)(struct break_task *task);
    void *context; /* the owner's */
    /* What each node reported: its key, and the result of the last delete (or why there is
     * none). */
    struct break_view {
        int read_verdict, verdict;
        int64_t remaining_ms;
        bool truncated;
        size_t token_bytes;
        unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
    } view[RL_NODES_MAX];
    unsigned char bytes[]; /* the key, the named token */
};

/* These two take the mutex. `key` includes the prefix; `named`: the token that must hold the lock,
 * data NULL: any. The caller owns the task and may free it at any time. NULL: no memory, or the
 * process was forked. */
struct break_task *break_start(struct redlock_client *client, struct net_bytes key,
                               struct net_bytes named, rl_ns patience,
                               void (*notify)(struct break_task *task), void *context);
void break_free(struct break_task *task); /* stops it in any state */
/* What is known of the nodes has changed. */
void breaks_check(struct redlock_client *client);

/* The token that is, or was, to be deleted; NULL: none was found. */
const struct break_view *break_holder(const struct break_task *task);
/* Of the listed nodes, those that may be members. */
rl_mask break_members(const struct break_task *task);
/* The members that are not listed, and so were not asked. */
unsigned break_unlisted(const struct break_task *task);

#endif
