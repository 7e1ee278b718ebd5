/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock, or why there is none, as JSON: what acquire, extend, release and run print with --json;
 * and what all commands' JSON is made of.
 */
#ifndef CLI_LOCK_JSON_H
#define CLI_LOCK_JSON_H

#include <jansson.h>

#include "frame/session.h"

/* The resource, the result ("ok") and each node's verdict; the fence, if there is one. `lock` may
 * be NULL. */
json_t *lock_json(struct session *session, struct redlock_lock *lock, const char *resource);
/* The same after a failure: the result and the reason, the exit status, and the holder if it is
 * known. The client may not have been opened. */
json_t *failure_json(struct session *session, struct redlock_lock *lock, const char *resource,
                     int status);
/* The failure of a command that is not about one resource. `result` NULL: by the status. */
json_t *command_failure_json(struct session *session, const char *result, int status);
/* Sets "resources", which takes the place of "resource". */
void set_resources(json_t *object, int count, char **resources);
/* A whole text, foreign bytes made printable: JSON is UTF-8. NULL: no memory. */
json_t *bytes_json(const void *bytes, size_t count);
/* The wall clock: "2026-01-31T09:30:00.123Z". */
json_t *time_json(void);
/* Prints the object in a line, and frees it. 0, or -1 when it cannot be written. */
int json_print(json_t *object);

#endif
