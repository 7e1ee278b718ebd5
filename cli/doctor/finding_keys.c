/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node whose own keys another program has written.
 */
#include <string.h>

#include "explain/denials.h"
#include "finding_rules.h"
#include "process/message.h"

void judge_own_keys(const struct examined *node, size_t i, struct findings *findings) {
    for (size_t k = 0; k < REDLOCK_OWN_KEYS; k++) {
        const struct redlock_own_key *key = &node->keys[k];
        char name[sizeof key->name * 4];
        if (!key->foreign) continue;
        ERROR("FOREIGN-KEY", i,
              "DEL that key on this server, and keep other programs from names that begin with "
              "redlock: (FOREIGN-KEY in " REDLOCK_DOC "/runbook.md).",
              "Another program wrote redlock's key %s: %s.",
              printable(name, sizeof name, key->name, strlen(key->name)), own_key_fault(key));
    }
}
