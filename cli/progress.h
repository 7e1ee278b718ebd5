/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is shown while a change of the quorum takes its time, and how it ends when somebody has no
 * patience.
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

/* `changes`: from here on a signal ends the process with a word on how to go on. */
void progress_begin(struct progress *progress, bool verbose, bool changes);
/* A redlock_progress_fn: on a terminal a line that is rewritten; elsewhere, with -v, a line for
 * each new thing. */
void progress_report(void *progress, const char *text, int64_t left_ms);
void progress_end(void);

#endif
