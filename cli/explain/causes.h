/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why nodes do not count for a lock, as a sentence: "db2 and db3 timed out".
 */
#ifndef CLI_CAUSES_H
#define CLI_CAUSES_H

#include <stddef.h>

#include "frame/session.h"

/* "HOST:PORT" of a node, or the path of its socket. */
char *node_name(struct session *session, size_t node, char *out, size_t size);
/* The nodes by what they answered. Those that granted, or have no verdict, are left out. Returns
 * how many nodes the text names. */
size_t causes_text(struct session *session, const int *verdicts, size_t count, char *out,
                   size_t size);

#endif
