/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One task of an operator's (init, add, remove): core/membership.h over a client's connections. It
 * puts the machine's questions to the nodes and hands it their answers; it decides nothing. The
 * client's guard goes on in the background. A task is under the client's mutex.
 */
#ifndef RL_CLIENT_OPERATOR_TASK_H
#define RL_CLIENT_OPERATOR_TASK_H

#include "core/membership.h"
#include "net/net.h"
#include "redlock.h"

#define TASK_REPORTS 8

struct question;

struct quorum_task {
    struct redlock_client *client;
    struct quorum_task *next; /* of the client's */
    struct rl_membership machine;
    struct net_timer timer;
    struct question *question; /* under way, or the last one; NULL: none yet */
    rl_mask failed;            /* could not be asked: the machine is notified after its step */
    bool gathering;            /* it waits for the nodes to be connected */
    bool no_memory;
    bool over;
    void (*notify)(struct quorum_task *task); /* something was reported, or it is over. It must not
                                                 free the task */
    void *context;                            /* the owner's */
    /* What is to be shown, oldest first; one that finds no place is dropped. */
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

/* These two take the mutex. `wish`: what is asked for; what the client knows is filled in here. The
 * task is the caller's, to be freed at any time. NULL: no memory, or the process was forked. */
struct quorum_task *task_start(struct redlock_client *client, struct rl_membership_wish wish,
                               void (*notify)(struct quorum_task *task), void *context);
void task_free(struct quorum_task *task); /* it stops, wherever it is */

/* Nodes were connected, or their records read. */
void tasks_check(struct redlock_client *client);
void task_reply(struct net_call *call, const struct net_reply *reply);

/* task_text.c. The mutex is not held. */
const char *task_report_text(enum rl_membership_report report);
/* The task's result, and why. */
int task_result(struct quorum_task *task, struct redlock_error *error);

#endif
