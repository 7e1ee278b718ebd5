/* SPDX-License-Identifier: BSD-2-Clause */
#include "denials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/message.h"

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

/* Of the commands that only some locks need. */
static bool is_needed(const struct settings *settings, const char *command, size_t bytes,
                      enum need need) {
    const bool slots = is(command, bytes, "mget", "mget"),
               script = is(command, bytes, "eval", "evalsha");
    if (need != NEED_LOCK || script)
        return need != NEED_LOCK || settings->shared || settings->slots > 0;
    return slots ? settings->slots > 0 : settings->shared;
}

static size_t add(const struct settings *others, const char *commands, enum need need, char *out,
                  size_t size, size_t used) {
    for (const char *at = commands; *at != '\0' && used < size;) {
        const size_t bytes = strcspn(at, " ");
        if (belongs(at, bytes, need) && (others == NULL || is_needed(others, at, bytes, need)))
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
    const size_t used = add(NULL, server->denied, need, out, size, 0);
    /* if it permits any lock, then what slots and shared locks need besides is missing */
    if (used == 0 || need != NEED_LOCK)
        add(session->settings, server->denied_others, need, out, size, used);
    return out;
}

/* Of "job:slot:1" the bytes of "job"; 0: it is not such a name, or cut off. */
static size_t stem_of_slot(const char *name) {
    const size_t bytes = strlen(name), tail = strlen(":slot:1");
    return bytes > tail && strcmp(name + bytes - tail, ":slot:1") == 0 ? bytes - tail : 0;
}

/* "~job ~redlock:shared:job"; those of wait queues are not needed. A lock with slots needs its own
 * name and all names that its slots can have, of which only the first was asked about. */
static void denied_keys(struct session *session, size_t node, const char *resource, char *out,
                        size_t size) {
    struct redlock_own_key keys[REDLOCK_OWN_KEYS];
    size_t used = 0;
    const bool shared = session->settings->shared;
    if (own_keys_take(session, node, resource, keys) != 0) return;
    for (size_t i = 0; i < REDLOCK_OWN_KEYS && used < size; i++) {
        const bool list = strncmp(keys[i].name, "redlock:shared:", 15) == 0,
                   queue = strncmp(keys[i].name, "redlock:wait", 12) == 0;
        char name[sizeof keys[i].name * 4];
        printable(name, sizeof name, keys[i].name, strlen(keys[i].name));
        const int stem = i == 0 && session->settings->slots > 0 ? (int)stem_of_slot(name) : 0;
        if (!(keys[i].denied || stem > 0) || queue || (list && !shared)) continue;
        if (used > 0) used += (size_t)snprintf(out + used, size - used, " ");
        used += (size_t)(stem > 0 ? snprintf(out + used, size - used, "~%.*s ~%.*s:slot:*", stem,
                                             name, stem, name)
                                  : snprintf(out + used, size - used, "~%s", name));
    }
}

const char *own_key_fault(const struct redlock_own_key *key) {
    static char text[64];
    char type[sizeof key->type * 4];
    snprintf(text, sizeof text, "it holds %s%s",
             key->type[0] != '\0' ? "a value of type " : "another type",
             printable(type, sizeof type, key->type, strlen(key->type)));
    return text;
}

int own_keys_take(struct session *session, size_t node, const char *resource,
                  struct redlock_own_key keys[REDLOCK_OWN_KEYS]) {
    const size_t bytes = resource != NULL ? strlen(resource) : 0;
    char *slot = bytes > 0 && session->settings->slots > 0 ? slot_name(resource, 1) : NULL;
    const char *name = slot != NULL ? slot : resource;
    redlock_own_keys_init(keys);
    const int result =
        redlock_own_keys(session->client, node, name, name != NULL ? strlen(name) : 0, keys);
    free(slot);
    return result == REDLOCK_OK ? 0 : -1;
}

/* Neither the scripts of a lock nor what stands in for them: all else that it needs is permitted.
 */
static void denied_ways(const struct redlock_server *server, char *out, size_t size) {
    if (server->last_denied[0] == '\0') return;
    if (server->scripts == REDLOCK_SCRIPTS_DENIED)
        snprintf(out, size, "+eval +evalsha, or +%s and all else that transactions need",
                 server->last_denied);
    else
        snprintf(out, size, "+%s", server->last_denied);
}

char *denied_text(struct session *session, struct denials *denials, size_t node, enum need need,
                  const char *resource, char *out, size_t size) {
    char commands[600];
    denied_commands(session, denials, node, need, commands, sizeof commands);
    if (commands[0] == '\0' && need == NEED_LOCK)
        denied_ways(&denials->servers[node], commands, sizeof commands);
    if (commands[0] == '\0' && resource != NULL) {
        denied_keys(session, node, resource, commands, sizeof commands);
        denials->keys = denials->keys || commands[0] != '\0';
    }
    if (commands[0] != '\0')
        snprintf(out, size, "%s: allow this user %s", redlock_verdict_text(REDLOCK_VERDICT_NOPERM),
                 commands);
    else
        snprintf(out, size, "%s: allow this user the keys and commands of " REDLOCK_DOC "/acl.md",
                 redlock_verdict_text(REDLOCK_VERDICT_NOPERM));
    return out;
}
