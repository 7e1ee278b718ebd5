/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which commands the nodes do not permit this user, for messages that name the cure. The nodes are
 * asked only when one of them has answered "no permission".
 */
#ifndef CLI_DENIALS_H
#define CLI_DENIALS_H

#include <redlock/admin.h>

#include "failure.h"
#include "frame/session.h"

/* redlock's own keys on a node, for this resource (NULL: the node's own). 0, or -1: not known. */
int own_keys_take(struct session *session, size_t node, const char *resource,
                  struct redlock_own_key keys[REDLOCK_OWN_KEYS]);

/* "it holds a string". Valid until the next call. */
const char *own_key_fault(const struct redlock_own_key *key);

struct denials {
    bool asked, keys; /* keys: a node denies a key */
    struct redlock_server servers[REDLOCK_NODES_MAX];
};

/* "+getrange +pttl"; "": none is known. The first call asks the nodes; `denials` is {0} before. */
char *denied_commands(struct session *session, struct denials *denials, size_t node, enum need need,
                      char *out, size_t size);
/* "no permission (ACL): allow this user +scan", or where no command is denied, the keys of this
 * resource that are, or a hint at the patterns of keys. NULL: no lock is meant. */
char *denied_text(struct session *session, struct denials *denials, size_t node, enum need need,
                  const char *resource, char *out, size_t size);

#endif
