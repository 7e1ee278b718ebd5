/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim.h"

#include <string.h>

/* Of the thread that is in rg_process(). Elsewhere `done` runs only inside redlock_lock_free(), for
 * an operation that nobody waits for any more. */
static _Thread_local struct rg_box *box_of_thread;

/* Without memory it ends, as Go does. */
static void add_event(const struct rg_event *event) {
    struct rg_box *box = box_of_thread;
    if (!box) {
        free(event->leader);
        return;
    }
    if (box->count == box->room) {
        box->room = box->room ? 2 * box->room : 64;
        box->events = realloc(box->events, box->room * sizeof *box->events);
        if (!box->events) abort();
    }
    box->events[box->count++] = *event;
}

static void on_done(void *context, struct redlock_lock *lock, int result) {
    (void)context;
    const uintptr_t id = (uintptr_t)redlock_lock_context(lock);
    add_event(&(struct rg_event){.kind = RG_DONE, .result = result, .id = id});
}

static void on_change(void *id, struct redlock_lock *lock, int change) {
    (void)lock;
    if (change != REDLOCK_CHANGE_LOST) return;
    add_event(&(struct rg_event){.kind = RG_LOST, .id = (uintptr_t)id});
}

static void on_leader(void *id, const struct redlock_leader *leader) {
    struct rg_leader *seen = calloc(1, sizeof *seen);
    if (!seen) abort();
    seen->state = leader->state;
    seen->term = leader->term;
    seen->sure_until_ns = leader->sure_until_ns;
    seen->id_bytes = leader->id.bytes < sizeof seen->id ? leader->id.bytes : sizeof seen->id;
    if (seen->id_bytes > 0) memcpy(seen->id, leader->id.data, seen->id_bytes);
    add_event(&(struct rg_event){.kind = RG_LEADER, .id = (uintptr_t)id, .leader = seen});
}

int rg_open(const char *nodes, const struct rg_client_terms *terms, struct redlock_client **client,
            char **text) {
    struct redlock_client_options options;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.queue = 1;
    options.node_timeout_ms = terms->node_timeout_ms;
    options.mode = terms->mode;
    options.recover = terms->recover;
    options.quorum = terms->quorum;
    options.key_prefix = terms->key_prefix;
    options.key_prefix_bytes = terms->key_prefix_bytes;
    options.user = terms->user;
    options.password_file = terms->password_file;
    options.tls_ca_file = terms->tls_ca_file;
    options.tls_cert_file = terms->tls_cert_file;
    options.tls_key_file = terms->tls_key_file;
    const int result = redlock_client_open(nodes, &options, client, &error);
    if (result != REDLOCK_OK) *text = strdup(error.text);
    return result;
}

int rg_lock_new(struct redlock_client *client, const char *names, const size_t *lengths,
                size_t count, const struct rg_lock_terms *terms, const char *owner,
                size_t owner_bytes, uintptr_t id, struct redlock_lock **lock, int64_t *ttl_ms,
                char **text) {
    struct redlock_bytes resources[REDLOCK_RESOURCES_MAX + 1]; /* one more is refused */
    struct redlock_lock_options options;
    struct redlock_error error;
    size_t at = 0;
    if (count > REDLOCK_RESOURCES_MAX) count = REDLOCK_RESOURCES_MAX + 1;
    for (size_t i = 0; i < count; at += lengths[i], i++)
        resources[i] = (struct redlock_bytes){names + at, lengths[i]};
    redlock_lock_options_init(&options);
    if (terms->ttl_ms != 0) options.ttl_ms = terms->ttl_ms;
    options.hold_ms_max = terms->hold_ms_max;
    options.renew = !terms->no_renewal;
    options.leader = terms->leader;
    options.shared = terms->shared;
    options.slots = terms->slots;
    options.owner = owner_bytes > 0 ? owner : NULL;
    options.owner_bytes = owner_bytes;
    options.on_change = on_change;
    options.on_change_context = (void *)id;
    *ttl_ms = options.ttl_ms;
    const int result = redlock_lock_new_multi(client, resources, count, &options, lock, &error);
    if (result != REDLOCK_OK) *text = strdup(error.text);
    return result;
}

void rg_start(int start, struct redlock_lock **locks, size_t count, int *results) {
    if (start == RG_RELEASE) {
        if (redlock_release_many_start(locks, count, results, on_done, NULL)) return;
    } else {
        const int64_t wait_ms = start == RG_TRY ? 0 : REDLOCK_WAIT_FOREVER;
        if (redlock_acquire_many_start(locks, count, wait_ms, results, on_done, NULL)) return;
    }
}

int rg_block(int start, struct redlock_lock *lock) {
    if (start == RG_RELEASE) return redlock_release(lock);
    return redlock_acquire(lock, start == RG_TRY ? 0 : REDLOCK_WAIT_FOREVER);
}

int rg_extend(struct redlock_lock *lock, int64_t ttl_ms) {
    return redlock_extend_start(lock, ttl_ms, on_done, NULL);
}

int rg_downgrade(struct redlock_lock *lock) { return redlock_downgrade_start(lock, on_done, NULL); }

int rg_process(struct redlock_client *client, struct rg_box *box) {
    box->count = 0;
    box_of_thread = box;
    const int result = redlock_process(client);
    box_of_thread = NULL;
    return result;
}

void rg_free(struct redlock_lock **locks, size_t count) {
    for (size_t i = 0; i < count; i++) redlock_lock_free(locks[i]);
}

int64_t rg_left_ns(struct redlock_lock *lock) {
    const int64_t left = redlock_validity_end_ns(lock) - redlock_now_ns();
    return left < 0 || redlock_lock_state(lock) == REDLOCK_STATE_LOST ? 0 : left;
}

void rg_why(struct redlock_client *client, struct redlock_lock *lock, int result, bool silent,
            int *better, char **sentence, char **cure) {
    struct redlock_why_report why;
    int verdicts[REDLOCK_NODES_MAX];
    const size_t nodes = redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX);
    size_t unasked = 0;
    for (size_t i = 0; i < nodes; i++) {
        unasked += verdicts[i] == REDLOCK_VERDICT_NONE;
        if (silent && verdicts[i] == REDLOCK_VERDICT_NONE) verdicts[i] = REDLOCK_VERDICT_TIMEOUT;
    }
    redlock_why_report_init(&why);
    if (redlock_why(client, lock, result, verdicts, &why) != REDLOCK_OK) return;
    /* It waited behind others of this client, for a lock that none of them got. */
    if (why.result == REDLOCK_CANCELLED && unasked == nodes)
        (void)redlock_why(client, lock, REDLOCK_HELD, NULL, &why);
    *better = why.result;
    *sentence = strdup(why.sentence);
    *cure = strdup(why.cure);
}

int rg_observe(struct redlock_client *client, const char *name, size_t bytes, uintptr_t id,
               struct redlock_observer **observer, char **text) {
    struct redlock_error error;
    const int result =
        redlock_observe_start(client, name, bytes, on_leader, (void *)id, observer, &error);
    if (result != REDLOCK_OK) *text = strdup(error.text);
    return result;
}
