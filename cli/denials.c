/* SPDX-License-Identifier: BSD-2-Clause */
#include "denials.h"

#include <stdio.h>
#include <string.h>

static bool is(const char *command, size_t bytes, const char *one, const char *other) {
    return (bytes == strlen(one) && memcmp(command, one, bytes) == 0) ||
           (bytes == strlen(other) && memcmp(command, other, bytes) == 0);
}

/* A lock is read by GETRANGE and PTTL; PTTL belongs to the commands of a lock, too. */
static bool belongs(const char *command, size_t bytes, enum need need) {
    const bool lists = is(command, bytes, "scan", "redlock.scan"),
               reads = is(command, bytes, "getrange", "redlock.get"),
               ends = is(command, bytes, "pttl", "redlock.pttl");
    switch (need) {
    case NEED_LOCK: return !lists && !reads;
    case NEED_READ: return reads || ends;
    case NEED_LIST: return lists;
    }
    return false;
}

static size_t add(const char *commands, enum need need, char *out, size_t size, size_t used) {
    for (const char *at = commands; *at != '\0' && used < size;) {
        const size_t bytes = strcspn(at, " ");
        if (belongs(at, bytes, need))
            used += (size_t)snprintf(out + used, size - used, "%s+%.*s", used > 0 ? " " : "",
                                     (int)bytes, at);
        at += bytes + (at[bytes] == ' ');
    }
    return used;
}

static void ask(struct session *session, struct denials *denials) {
    const size_t count = redlock_client_nodes(session->client);
    if (denials->asked) return;
    denials->asked = true;
    for (size_t i = 0; i < count; i++) redlock_server_init(&denials->servers[i]);
    /* what is known of the nodes that answered is of use without a majority, too */
    (void)!redlock_server_info(session->client, REDLOCK_SERVER_INFO_PERMISSIONS, denials->servers,
                               count);
}

char *denied_commands(struct session *session, struct denials *denials, size_t node, enum need need,
                      char *out, size_t size) {
    out[0] = '\0';
    ask(session, denials);
    const struct redlock_server *server = &denials->servers[node];
    const size_t used = add(server->denied, need, out, size, 0);
    /* if it permits any lock, then what slots and shared locks need besides is missing */
    if (used == 0 || need != NEED_LOCK) add(server->denied_others, need, out, size, used);
    return out;
}

char *denied_text(struct session *session, struct denials *denials, size_t node, enum need need,
                  char *out, size_t size) {
    char commands[300];
    denied_commands(session, denials, node, need, commands, sizeof commands);
    if (commands[0] != '\0')
        snprintf(out, size, "%s: allow this user %s", redlock_verdict_text(REDLOCK_VERDICT_NOPERM),
                 commands);
    else
        snprintf(out, size, "%s: allow this user the keys and commands of " REDLOCK_DOC "/acl.md",
                 redlock_verdict_text(REDLOCK_VERDICT_NOPERM));
    return out;
}
