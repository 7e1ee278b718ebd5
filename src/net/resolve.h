/* SPDX-License-Identifier: BSD-2-Clause Names to addresses without blocking: getaddrinfo(3) in a
 * thread that lives as long as one question. */
#ifndef RL_NET_RESOLVE_H
#define RL_NET_RESOLVE_H

#include <stdbool.h>
#include <sys/socket.h>

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct addresses {
    unsigned count;
    struct {
        struct sockaddr_storage at;
        socklen_t bytes;
    } each[RESOLVE_ADDRESSES_MAX];
};

struct resolve_job;

/* True when the host is an address already. */
bool resolve_numeric(const char *host, const char *port, struct addresses *addresses);
/* Writes to `kick_fd`, an eventfd, when done, unless it was dropped before. NULL: no memory or no
 * thread. */
struct resolve_job *resolve_start(const char *host, const char *port, int kick_fd);
/* True when the job is done; *failure is NULL, or a static text that says why there are no
 * addresses. */
bool resolve_done(const struct resolve_job *job, struct addresses *addresses, const char **failure);
/* Forgets the job, done or not, and never waits: its thread ends when getaddrinfo(3) does, and uses
 * nothing of ours but its own memory. `forked`: in a child, where the thread does not exist. */
void resolve_drop(struct resolve_job *job, bool forked);

#endif
