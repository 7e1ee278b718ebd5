/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What `run` and `wait` report while they wait for a lock.
 */
#ifndef CLI_VERDICT_H
#define CLI_VERDICT_H

#include <stdbool.h>

#include <redlock.h>

#include "frame/session.h"

/* Prints who waits for the resource when no majority answers; with -v, also who holds it. True when
 * it printed something. `lock` NULL: the command takes none. `limit`: the next text, or "" for a
 * command without the option. */
#define WAIT_SETS_LIMIT "; --wait sets a limit"
bool report_waiting(struct session *session, struct redlock_lock *lock, const char *resource,
                    const char *limit);

#endif
