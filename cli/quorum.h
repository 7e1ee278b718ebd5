/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The servers of `redlock up`.
 */
#ifndef CLI_QUORUM_H
#define CLI_QUORUM_H

#include <stdbool.h>

#include <redlock.h>

#include "server.h"

struct quorum {
    struct server servers[REDLOCK_NODES_MAX];
    size_t count;
    pid_t group; /* the process group they belong to */
    int64_t restart_after_ms;
    bool quiet, verbose;
    char program[PATH_MAX], directory[PATH_MAX];
    char nodes[64 * REDLOCK_NODES_MAX]; /* their URLs, once started */
};

/* Starts all and waits until they answer. 0, or -1: after a message, or because `cancelled` said so. */
int quorum_start(struct quorum *quorum, bool (*cancelled)(void *context), void *context);
/* A child was reaped: if it was one of the servers, tells of it and plans its restart. */
void quorum_reaped(struct quorum *quorum, pid_t pid, int status);
/* When the next restart is due; INT64_MAX: none is. */
int64_t quorum_next_restart(const struct quorum *quorum);
void quorum_restart_due(struct quorum *quorum);
void quorum_stop(struct quorum *quorum);

#endif
