/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A configuration file that this program writes. It appears as a whole or not at all, and replaces
 * a file only if that is wanted.
 */
#ifndef CLI_CONFIG_DRAFT_H
#define CLI_CONFIG_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "frame/session.h"
#include "process/draft.h"

/* Whatever forbids the file is found before anything else is done. 0, or the exit status after a
 * message, and nothing has to be closed. */
int config_draft_open(struct draft *draft, const char *path, bool replaces);
/* Writes the session's nodes and how it connects to them, mode guarded, the quorum's id and
 * ttl_max; and gives the file its name. Only the owner may read it if it has a password. 0, or the
 * exit status after a message. */
int config_draft_finish(struct draft *draft, bool replaces, const struct session *session,
                        const char *quorum, int64_t ttl_max_ms);

#endif
