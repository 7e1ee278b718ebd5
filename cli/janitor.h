/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A process that outlives `redlock up` by a moment, however that ends, and clears up: it holds the
 * reading end of a pipe whose writing end nobody else has.
 */
#ifndef CLI_JANITOR_H
#define CLI_JANITOR_H

#include <stdbool.h>
#include <sys/types.h>

struct janitor {
    pid_t pid; /* also the process group the servers belong to */
    int pipe;
};

/* 0, or -1 after a message. `directory` is removed with all in it when `remove` is true. */
int janitor_start(struct janitor *janitor, const char *directory, bool remove);
/* Names the process group to kill should we die without a word; 0: none. */
void janitor_watch(const struct janitor *janitor, pid_t group);
/* The orderly end: waits until all is removed. */
void janitor_finish(struct janitor *janitor);

#endif
