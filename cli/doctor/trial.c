/* SPDX-License-Identifier: BSD-2-Clause */
#include "trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <redlock/admin.h>

#include "process/boottime.h"

#define TTL_MS 3000
#define TAKE_WITHIN_MS 1000
#define WAIT_MS 150
#define STRAGGLERS_MS 50

struct trial {
    struct session session;
    struct tried *tried;
    char resource[40];
    int64_t ttl_ms;
    char denied[REDLOCK_NODES_MAX][24], unknown[REDLOCK_NODES_MAX][24]; /* as last seen */
};

static void note_change(char *step, char *last, const char *now) {
    if (strcmp(last, now) == 0) return;
    snprintf(step, 24, "%s", now);
    snprintf(last, 24, "%s", now);
}

static bool all_answered(struct redlock_lock *lock, int *verdicts, size_t nodes) {
    redlock_verdicts(lock, verdicts, nodes);
    for (size_t i = 0; i < nodes; i++)
        if (verdicts[i] == REDLOCK_VERDICT_NONE) return false;
    return true;
}

/* A majority is enough for the result, and the others answer a little later. */
static void note(struct trial *trial, enum trial_step step, struct redlock_lock *lock) {
    struct redlock_server servers[REDLOCK_NODES_MAX];
    int verdicts[REDLOCK_NODES_MAX] = {0};
    const size_t nodes = redlock_client_nodes(trial->session.client);
    for (int tick = 0; !all_answered(lock, verdicts, nodes) && tick < STRAGGLERS_MS; tick++)
        session_live_until(&trial->session, now_ns() + MS);
    for (size_t i = 0; i < nodes; i++) redlock_server_init(&servers[i]);
    /* what the nodes refused is known here, also where they do not answer now */
    (void)!redlock_server_info(trial->session.client, REDLOCK_SERVER_INFO_CLOCK, servers, nodes);
    for (size_t i = 0; i < nodes; i++) {
        struct tried *tried = &trial->tried[i];
        tried->verdict[step] = verdicts[i];
        note_change(tried->denied[step], trial->denied[i], servers[i].last_denied);
        note_change(tried->unknown[step], trial->unknown[i], servers[i].last_unknown);
    }
}

/* NULL: this client has no such locks. */
static struct redlock_lock *new_lock(const struct trial *trial, int shared, uint32_t slots) {
    struct redlock_lock_options options;
    struct redlock_lock *lock = NULL;
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    redlock_lock_options_init(&options);
    default_owner(trial->session.settings, owner, sizeof owner);
    options.owner = owner;
    options.ttl_ms = trial->ttl_ms;
    options.shared = shared;
    options.slots = slots;
    if (redlock_lock_new(trial->session.client, trial->resource, strlen(trial->resource), &options,
                         &lock, NULL) != REDLOCK_OK)
        return NULL;
    return lock;
}

/* What is not free is waited for; the keys and the messages of the queue are used then. */
static void wait_in_vain(struct trial *trial) {
    struct redlock_lock *lock = new_lock(trial, 0, 0);
    if (lock == NULL) return;
    (void)!redlock_acquire(lock, WAIT_MS);
    note(trial, TRIAL_WAIT, lock);
    redlock_lock_free(lock);
}

static int try_plain(struct trial *trial) {
    struct redlock_lock *lock = new_lock(trial, 0, 0);
    if (lock == NULL) return REDLOCK_SYSTEM;
    const int taken = redlock_acquire(lock, TAKE_WITHIN_MS);
    note(trial, TRIAL_TAKE, lock);
    int extended = taken, released = taken;
    if (taken == REDLOCK_OK) {
        extended = redlock_extend(lock, 2 * trial->ttl_ms); /* longer: so that it has to write */
        note(trial, TRIAL_EXTEND, lock);
        wait_in_vain(trial);
        released = redlock_release(lock);
        note(trial, TRIAL_RELEASE, lock);
    }
    redlock_lock_free(lock);
    return taken != REDLOCK_OK ? taken : extended != REDLOCK_OK ? extended : released;
}

static void try_other(struct trial *trial, enum trial_step step, int shared, uint32_t slots) {
    struct redlock_lock *lock = new_lock(trial, shared, slots);
    if (lock == NULL) return;
    const int taken = redlock_acquire(lock, 0);
    note(trial, step, lock);
    if (taken == REDLOCK_OK) redlock_release(lock);
    redlock_lock_free(lock);
}

static bool draw_name(struct trial *trial) {
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return false;
    snprintf(trial->resource, sizeof trial->resource, "redlock:doctor:%016" PRIx64, number);
    return true;
}

/* Longer than the node timeout, and no extension is longer than the quorum allows. */
static void set_times(struct trial *trial, struct settings *own, int64_t ttl_ms_max) {
    if (trial->ttl_ms < 2 * own->client.node_timeout_ms)
        trial->ttl_ms = 2 * own->client.node_timeout_ms;
    if (ttl_ms_max > 0 && ttl_ms_max / 2 < trial->ttl_ms) trial->ttl_ms = ttl_ms_max / 2;
    if (trial->ttl_ms < REDLOCK_TTL_MS_MIN) trial->ttl_ms = REDLOCK_TTL_MS_MIN;
    if (own->client.node_timeout_ms >= trial->ttl_ms) own->client.node_timeout_ms = 0;
}

int trial_take(const struct settings *settings, int64_t ttl_ms_max, struct tried *tried) {
    struct settings own = *settings;
    own.verbose = false;
    own.only_looks = true;
    struct trial trial = {.tried = tried, .ttl_ms = TTL_MS};
    set_times(&trial, &own, ttl_ms_max);
    if (!draw_name(&trial) || session_open(&trial.session, &own) != 0) return REDLOCK_SYSTEM;
    session_connect(&trial.session);
    const int result = try_plain(&trial);
    if (result == REDLOCK_OK) {
        try_other(&trial, TRIAL_SHARE, 1, 0);
        try_other(&trial, TRIAL_SLOT, 0, 2);
    }
    session_close(&trial.session);
    return result;
}
