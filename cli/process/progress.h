/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The progress of a membership change, and the message when the user interrupts it.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool verbose;
    char last[200];
    int64_t reported_at;
};

/* `changes`: from here on, a signal ends the process with a message that says how to continue. */
void progress_begin(struct progress *progress, bool verbose, bool changes);
/* A redlock_progress_fn: on a terminal it rewrites one line; elsewhere, with -v, it writes a line
 * for each new step. */
void progress_report(void *progress, const char *text, int64_t left_ms);
void progress_end(void);

#endif
