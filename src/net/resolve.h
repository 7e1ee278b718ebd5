/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Resolves names without blocking: getaddrinfo(3) runs in a thread, one for each lookup. */
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
/* Writes to `kick_fd`, an eventfd, when done, unless the job was dropped before. NULL: no memory or
 * no thread. */
struct resolve_job *resolve_start(const char *host, const char *port, int kick_fd);
/* True when the job is done; *failure is NULL, or a static text with the reason for the failure. */
bool resolve_done(const struct resolve_job *job, struct addresses *addresses, const char **failure);
/* Drops the job, done or not, and never waits. Its thread ends when getaddrinfo(3) does, and uses
 * only memory of its own. `forked`: in a child, where the thread does not exist. */
void resolve_drop(struct resolve_job *job, bool forked);

#endif
