/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `redlock run --metrics-file`: one run in the format of node_exporter's textfile collector. The
 * file is replaced as a whole. A thread of its own writes it, so that a slow disk delays neither
 * renewals nor signals. A file that cannot be written costs one warning.
 */
#ifndef CLI_METRICS_FILE_H
#define CLI_METRICS_FILE_H

#include <redlock.h>

#include "frame/settings.h"
#include "outcome.h"

/* 0, or the exit status after a message: what has that name must not be replaced. */
int metrics_file_check(const struct settings *settings);

/* The rest does nothing without --metrics-file. All but the last are for the holder. */
void metrics_file_begin(const struct settings *settings, const char *resource);
void metrics_file_follow(struct redlock_client *client); /* what happens to its lock */
void metrics_file_warn(void); /* once, if the file could not be written */
/* The last content; waits for it, but not long. */
void metrics_file_end(const struct outcome *outcome);
/* For the front: without a holder, or after it was killed. */
void metrics_file_outcome(const struct settings *settings, const char *resource,
                          const struct outcome *outcome);

#endif
