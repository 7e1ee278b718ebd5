/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The servers of `redlock up`.
 */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H

#include <stdbool.h>

#include <redlock.h>

#include "server.h"

struct servers {
    struct server list[REDLOCK_NODES_MAX];
    size_t count;
    pid_t group; /* the process group of the servers */
    int64_t restart_after_ms;
    int mode;           /* enum redlock_mode */
    int64_t ttl_max_ms; /* GUARDED; 0: the library's default */
    bool quiet, verbose;
    char password[SERVER_PASSWORD_BYTES + 1]; /* of all servers, once they are started */
    char program[PATH_MAX], directory[PATH_MAX];
    char module[PATH_MAX];              /* empty: none */
    char nodes[64 * REDLOCK_NODES_MAX]; /* their URLs, once started */
    char quorum[17];                    /* GUARDED, once started: its id */
};

/* Starts all servers, waits until they answer, and in guarded mode makes them a quorum. 0, or -1:
 * after a message, or because `cancelled` returned true. */
int servers_start(struct servers *servers, bool (*cancelled)(void *context), void *context);
/* A child was reaped: if it was one of the servers, reports that and plans its restart. */
void servers_reaped(struct servers *servers, pid_t pid, int status);
/* The time of the next restart; INT64_MAX: none is planned. */
int64_t servers_next_restart(const struct servers *servers);
void servers_restart_due(struct servers *servers);
void servers_stop(struct servers *servers);

#endif
