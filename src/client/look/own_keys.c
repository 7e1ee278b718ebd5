/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a server has under our own names, and whether this user may use them: for messages that name
 * the key. Each question changes nothing (policy/permission.c). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "abi/sized.h"
#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "look.h"

enum { QUESTIONS = 4 }; /* of each key */

static const struct kind {
    const char *head;        /* before the lock's key; with `whole`, all of the name */
    bool whole;              /* of the node, and not of a lock */
    const char *type, *read; /* what it is, and a command that reads nothing else */
} kinds[REDLOCK_OWN_KEYS] = {
    {"", false, NULL, NULL},
    {NET_KEY_SHARED, false, "zset", "ZSCORE %k"},
    {NET_KEY_WAITING, false, "zset", "ZSCORE %k"},
    {NET_KEY_WAITERS, false, "zset", "ZSCORE %k"},
    {NET_KEY_SETNX, false, "hash", NULL},
    {NET_KEY_RECORD, true, "hash", "HGET " NET_KEY_RECORD},
    {NET_KEY_KEPT, true, "zset", "ZSCORE %k"},
    {NET_KEY_FENCES, true, "zset", "ZSCORE %k"}, /* and the nonce */
};

struct own_keys {
    struct ask ask;
    struct redlock_own_key seen[REDLOCK_OWN_KEYS];
    struct net_bytes names[REDLOCK_OWN_KEYS];
};

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    struct own_keys *own = RL_CONTAINER(question->ask, struct own_keys, ask);
    const size_t i = (size_t)(question - own->ask.questions) / QUESTIONS;
    struct redlock_own_key *seen = &own->seen[i];
    (void)node;
    /* A denied command is the same with each key. */
    if (reply->verdict == REDLOCK_VERDICT_NOPERM && reply->denied[0] == '\0') seen->denied = 1;
    if (reply->verdict == REDLOCK_VERDICT_WRONGTYPE && kinds[i].type) seen->foreign = 1;
    if (question->request.op == NET_TYPE && reply->verdict == REDLOCK_VERDICT_GRANTED) {
        copy_text(reply->value, seen->type, sizeof seen->type);
        if (kinds[i].type && strcmp(seen->type, kinds[i].type) != 0) seen->foreign = 1;
    }
    return false;
}

/* The name, if this client uses it on this node; else the empty one. */
static struct net_bytes name_of(struct redlock_client *client, unsigned node, unsigned i,
                                struct net_bytes resource, char *at) {
    const struct kind *kind = &kinds[i];
    const size_t head = strlen(kind->head), prefix = client->options.key_prefix_bytes;
    const bool setnx = client->scheme != REDLOCK_SCHEME_SET;
    struct net_bytes name = {at, head};
    memcpy(at, kind->head, head);
    if (kind->whole) {
        const struct rl_guard_node *known =
            client->guard ? &client->guard->machine.node[node] : NULL;
        if (!known) return (struct net_bytes){NULL, 0};
        if (kind->head[head - 1] != ':') return name;
        if (!known->has_record || known->record.nonce == 0) return (struct net_bytes){NULL, 0};
        snprintf(at + head, NET_NONCE_BYTES + 1, "%016" PRIx64, known->record.nonce);
        name.bytes += NET_NONCE_BYTES;
        return name;
    }
    if (resource.bytes == 0 || (kind->type && setnx != (strcmp(kind->head, NET_KEY_SETNX) == 0)))
        return (struct net_bytes){NULL, 0};
    if (prefix) memcpy(at + head, client->key_prefix, prefix);
    memcpy(at + head + prefix, resource.data, resource.bytes);
    name.bytes += prefix + resource.bytes;
    return name;
}

static struct own_keys *own_keys_new(struct redlock_client *client, unsigned node,
                                     struct net_bytes resource) {
    const size_t most =
        sizeof NET_KEY_FENCES + NET_NONCE_BYTES + client->options.key_prefix_bytes + resource.bytes;
    struct own_keys *own = ask_new(client, sizeof *own, (size_t)REDLOCK_OWN_KEYS * QUESTIONS,
                                   REDLOCK_OWN_KEYS * most, on_answer);
    if (!own) return NULL;
    for (unsigned i = 0; i < REDLOCK_OWN_KEYS; i++) {
        own->names[i] = name_of(client, node, i, resource, ask_room(&own->ask, most));
        copy_text(own->names[i], own->seen[i].name, sizeof own->seen[i].name);
    }
    return own;
}

static void ask(struct own_keys *own, unsigned node, unsigned i, unsigned nth,
                struct net_request request, rl_ns until) {
    struct question *question = &own->ask.questions[QUESTIONS * i + nth];
    question->request = request;
    question->request.keys = &own->names[i];
    question->request.keys_count = 1;
    ask_send(question, rl_bit(node), &question->request, until);
}

static void ask_permission(struct own_keys *own, unsigned node, unsigned i, unsigned question,
                           const char *text, rl_ns until) {
    const bool native = client_status(own->ask.client, node).native;
    const struct net_permission *permission;
    for (unsigned row = 0; (permission = net_permission(native, row)); row++) {
        if (strncmp(permission->text, text, strlen(text)) != 0) continue;
        ask(own, node, i, question,
            (struct net_request){.op = NET_SERVER_INFO,
                                 .question = (enum net_question)(NET_ASK_MAY + row)},
            until);
        return;
    }
}

/* On a native node only the lock's key is one of the server's. */
static void ask_all(struct own_keys *own, unsigned node, rl_ns until) {
    const bool native = client_status(own->ask.client, node).native;
    if (native && own->names[0].bytes > 0)
        ask_permission(own, node, 0, 0, "REDLOCK.LOCK %k", until);
    for (unsigned i = 0; !native && i < REDLOCK_OWN_KEYS; i++) {
        if (own->names[i].bytes == 0) continue;
        ask_permission(own, node, i, 0, "PTTL %k", until);
        ask_permission(own, node, i, 1, "PEXPIRE %k", until);
        if (!kinds[i].type) continue;
        ask(own, node, i, 2, (struct net_request){.op = NET_TYPE}, until);
        if (kinds[i].read) ask_permission(own, node, i, 3, kinds[i].read, until);
    }
    ask_wait(&own->ask);
}

int redlock_own_keys(struct redlock_client *client, size_t node, const void *resource, size_t bytes,
                     struct redlock_own_key *keys) {
    if (!client || !keys || (!resource && bytes > 0) || node >= client->nodes ||
        !sized_array_fits(keys, REDLOCK_OWN_KEYS, FIRST_OWN_KEY))
        return REDLOCK_BAD_ARGUMENT;
    if (bytes > REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    const struct net_bytes named = {resource, bytes};
    struct own_keys *own = own_keys_new(client, (unsigned)node, named);
    if (own) {
        ask_all(own, (unsigned)node, gather_until(client));
        for (unsigned i = 0; i < REDLOCK_OWN_KEYS; i++)
            sized_fill(sized_element(keys, i), keys->size, &own->seen[i], sizeof own->seen[i]);
        ask_unref(&own->ask);
    }
    return client_leave_notifying(client, own ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}
