/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock, or why there is none, as JSON: what acquire, extend, release and run print with --json.
 */
#ifndef CLI_LOCK_JSON_H
#define CLI_LOCK_JSON_H

#include <jansson.h>

#include "session.h"

/* The resource, the result ("ok") and each node's verdict; the fence, if there is one. `lock` may
 * be NULL. */
json_t *lock_json(struct session *session, struct redlock_lock *lock, const char *resource);
/* The same after a failure: the result and the reason, the exit status, and the holder if it is
 * known. The client may not have been opened. */
json_t *failure_json(struct session *session, struct redlock_lock *lock, const char *resource,
                     int status);

#endif
