/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes locks, and refuses options that no lock can have. */
#include <stdlib.h>
#include <string.h>

#include "lock.h"

/* Nodes keep the record, the fences, the queues, the readers and the leaders of locks under such
 * names. A lock there would destroy those of another lock, or they would destroy it. A name that
 * lacks only the colon is reserved too: its slots would be there ("redlock:shared:slot:1"). */
static const char *reserved_for(struct net_bytes key) {
    static const char *const beginnings[] = {NET_KEY_FENCES,  NET_KEY_TERM,  NET_KEY_WAITING,
                                             NET_KEY_WAITERS, NET_KEY_SETNX, NET_KEY_SHARED};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        const size_t bytes = strlen(beginnings[i]);
        const size_t same = key.bytes == bytes - 1 ? bytes - 1 : bytes;
        if (key.bytes >= same && memcmp(key.data, beginnings[i], same) == 0) return beginnings[i];
    }
    return net_is_text(key, NET_KEY_RECORD) ? NET_KEY_RECORD : NULL;
}

bool resource_permitted(const struct redlock_client *client, struct redlock_bytes resource,
                        struct redlock_error *error) {
    unsigned char head[32]; /* longer than what is reserved, and than what its names begin with */
    const size_t given = client->options.key_prefix_bytes;
    const size_t prefix = given < sizeof head ? given : sizeof head, room = sizeof head - prefix;
    const size_t rest = resource.bytes < room ? resource.bytes : room;
    if (prefix) memcpy(head, client->key_prefix, prefix);
    if (rest) memcpy(head + prefix, resource.data, rest);
    const char *reserved = reserved_for((struct net_bytes){head, prefix + rest});
    if (!reserved) return true;
    return bad_argument(
        error, "the name %s%s is reserved for what nodes keep of locks: choose another resource",
        reserved, strcmp(reserved, NET_KEY_RECORD) == 0 ? "" : "...");
}

static bool resources_valid(const struct redlock_client *client,
                            const struct redlock_bytes *resources, size_t count,
                            struct redlock_error *error) {
    if (count < 1 || count > REDLOCK_RESOURCES_MAX)
        return bad_argument(error, "a lock covers 1 to %d resources, not %zu",
                            REDLOCK_RESOURCES_MAX, count);
    for (size_t i = 0; i < count; i++) {
        if (!resources[i].data || resources[i].bytes == 0)
            return bad_argument(error, "the resource is empty: give it a name of 1 to %d bytes",
                                REDLOCK_RESOURCE_BYTES_MAX);
        /* Compares without adding to resources[i].bytes: that sum could wrap. */
        size_t most = REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes;
        if (resources[i].bytes > most)
            return bad_argument(
                error, "the resource has %zu bytes; at most %zu are allowed (%d with prefix)",
                resources[i].bytes, most, REDLOCK_RESOURCE_BYTES_MAX);
        if (!resource_permitted(client, resources[i], error)) return false;
        for (size_t j = 0; j < i; j++) {
            if (resources[i].bytes == resources[j].bytes &&
                memcmp(resources[i].data, resources[j].data, resources[i].bytes) == 0)
                return bad_argument(error,
                                    "resource %zu is the same as resource %zu: name each once",
                                    i + 1, j + 1);
        }
    }
    return true;
}

static bool slots_valid(const struct redlock_client *client, const struct redlock_bytes *resource,
                        size_t count, struct redlock_error *error) {
    const size_t bytes = client->options.key_prefix_bytes + resource->bytes;
    if (count > 1)
        return bad_argument(error, "a lock with slots covers one resource, not %zu", count);
    if (client->scheme != REDLOCK_SCHEME_SET)
        return bad_argument(error, "scheme=setnx has no slots: leave slots 0");
    if (bytes > SLOTS_RESOURCE_BYTES_MAX)
        return bad_argument(error,
                            "the resource has %zu bytes with its prefix; with slots at most %d are "
                            "allowed",
                            bytes, SLOTS_RESOURCE_BYTES_MAX);
    return true;
}

static bool shared_valid(const struct redlock_client *client,
                         const struct redlock_lock_options *options, size_t count,
                         struct redlock_error *error) {
    if (client->scheme != REDLOCK_SCHEME_SET)
        return bad_argument(
            error, "with scheme=setnx a lock cannot be shared: those programs know no readers");
    if (count > 1)
        return bad_argument(
            error, "a shared lock covers one resource, not %zu: make one lock for each", count);
    if (options->leader || options->slots)
        return bad_argument(error, "a shared lock has no leader and no slots: leave leader and "
                                   "slots 0, or shared");
    return true;
}

int redlock_lock_new_multi(struct redlock_client *client, const struct redlock_bytes *resources,
                           size_t count, const struct redlock_lock_options *options,
                           struct redlock_lock **out, struct redlock_error *error) {
    struct redlock_lock_options checked;
    if (!client || !resources || !out)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "redlock_lock_new: client, resource and lock must not be NULL");
    if (schedule_is_forked(&client->schedule)) return fail_forked(error);
    if (!options_lock(client, &checked, options, error)) return REDLOCK_BAD_ARGUMENT;
    if (!resources_valid(client, resources, count, error)) return REDLOCK_BAD_ARGUMENT;
    if (checked.leader && count > 1)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a leader has one resource, not %zu", count);
    if (checked.leader && checked.slots)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a leader has no slots: leave one of the two 0");
    if (count > 1 && client->scheme != REDLOCK_SCHEME_SET)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "with scheme=setnx a lock covers one resource: make one lock for each");
    if (checked.slots && !slots_valid(client, resources, count, error)) return REDLOCK_BAD_ARGUMENT;
    if (checked.shared && !shared_valid(client, &checked, count, error))
        return REDLOCK_BAD_ARGUMENT;
    struct redlock_lock *lock = lock_alloc(client, resources, count, &checked);
    if (!lock) return fail(error, REDLOCK_NO_MEMORY, "out of memory while making a lock");
    if (client->lock_layout->choose_stripes) client->lock_layout->choose_stripes(lock);
    pthread_mutex_lock(&client->schedule.mutex);
    if (slots_add(lock, checked.slots)) lock->config = lock_config_of(client, &checked);
    pthread_mutex_unlock(&client->schedule.mutex);
    if (!lock->config) {
        lock_dealloc(lock);
        return fail(error, REDLOCK_NO_MEMORY, "out of memory while making a lock");
    }
    lock->timer.fire = lock_on_timer;
    client_ref(client);
    *out = lock;
    return REDLOCK_OK;
}

int redlock_lock_new(struct redlock_client *client, const void *resource, size_t bytes,
                     const struct redlock_lock_options *options, struct redlock_lock **lock,
                     struct redlock_error *error) {
    const struct redlock_bytes one = {resource, bytes};
    return redlock_lock_new_multi(client, &one, 1, options, lock, error);
}
