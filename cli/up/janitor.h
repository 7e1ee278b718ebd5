/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A process that cleans up after `redlock up`, however that ends. It holds the reading end of a
 * pipe. Only `redlock up` has the writing end, so the pipe closes when that process dies.
 */
#ifndef CLI_JANITOR_H
#define CLI_JANITOR_H

#include <stdbool.h>
#include <sys/types.h>

struct janitor {
    pid_t pid; /* also the process group of the servers */
    /* A process group that is written to it is killed too if this process dies without a message;
     * 0: none. */
    int pipe;
    const char *directory;
    bool removes;
};

/* 0, or -1 after a message. If `remove` is true, the janitor removes `directory`, which outlives
 * it, with its content. */
int janitor_start(struct janitor *janitor, const char *directory, bool remove);
/* The orderly end: waits until everything is removed, and removes it if the janitor was killed. */
void janitor_finish(struct janitor *janitor);

#endif
