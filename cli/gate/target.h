/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The file that a gate replaces: its real path, and its permissions, which stay.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include "process/draft.h"

/* `file` may be absent, and may be a link to a file. 0, or -1 after a message. */
int target_open(struct draft *draft, const char *file);
/* Writes to disk, with the permissions of the file that it will replace. 0, or -1 with errno. */
int target_sync(const struct draft *draft);

#endif
