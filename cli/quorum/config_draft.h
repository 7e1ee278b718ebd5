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

struct config_draft {
    const char *path; /* the caller's */
    int fd;
    char *name;    /* of the unfinished file next to it, ... */
    bool is_named; /* ... if it has one: most file systems know unnamed files, so ^C leaves none */
    bool replaces;
};

/* Whatever forbids the file is found before anything else is done. 0, or the exit status after a
 * message. */
int config_draft_open(struct config_draft *draft, const char *path, bool replaces);
/* Writes the session's nodes and how it connects to them, mode guarded, the quorum's id and
 * ttl_max; and gives the file its name. Only the owner may read it if it has a password. 0, or the
 * exit status after a message. */
int config_draft_finish(struct config_draft *draft, const struct session *session,
                        const char *quorum, int64_t ttl_max_ms);
/* Removes what is not finished. */
void config_draft_close(struct config_draft *draft);

#endif
