/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One task of an operator (init, add, remove): core/membership.h over a client's connections. It
 * sends the machine's questions to the nodes, and the nodes' answers to the machine. It decides
 * nothing. The client's guard continues in the background. The client's mutex protects a task. */
#ifndef RL_CLIENT_OPERATOR_TASK_H
#define RL_CLIENT_OPERATOR_TASK_H

#include "core/membership.h"
#include "net/net.h"
#include "redlock.h"

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
/* The task's result; *error has the reason. */
int task_result(struct quorum_task *task, struct redlock_error *error);

#endif
