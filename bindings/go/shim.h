/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Go calls in place of the library where one call is to do the work of many: a call from C
 * into Go costs far more than one from Go into C, so no callback enters Go. They leave events in a
 * box, and one call returns all of them. */
#ifndef REDLOCK_GO_SHIM_H
#define REDLOCK_GO_SHIM_H

#if !__has_include(<redlock.h>)
#error                                                                                             \
    "redlock.h is not found. This copy of the module has no library for this platform: install libredlock-dev, and build with -tags dynamic (PKG_CONFIG_PATH names the folder of redlock.pc)"
#endif

#include <redlock.h>

#include <stdbool.h>
#include <stdlib.h>

enum rg_kind { RG_DONE, RG_LOST, RG_LEADER };

struct rg_leader {
    int state;
    int64_t term, sure_until_ns;
    size_t id_bytes;
    char id[REDLOCK_OWNER_BYTES_MAX];
};

struct rg_event {
    int kind, result;
    uintptr_t id;             /* of the lock; RG_LEADER: of the observer */
    struct rg_leader *leader; /* RG_LEADER: the reader frees it */
};

struct rg_box {
    struct rg_event *events;
    size_t count, room;
};

struct rg_client_terms {
    int64_t node_timeout_ms;
    int mode, recover;
    const char *key_prefix, *quorum, *user, *password_file, *tls_ca_file, *tls_cert_file,
        *tls_key_file;
    size_t key_prefix_bytes;
};

struct rg_lock_terms {
    int64_t ttl_ms, hold_ms_max;
    int no_renewal, leader, shared;
    uint32_t slots;
};

/* *text: why it failed, to be freed. */
int rg_open(const char *nodes, const struct rg_client_terms *terms, struct redlock_client **client,
            char **text);
/* `names`: the names of the resources, one behind the other. */
int rg_lock_new(struct redlock_client *client, const char *names, const size_t *lengths,
                size_t count, const struct rg_lock_terms *terms, const char *owner,
                size_t owner_bytes, uintptr_t id, struct redlock_lock **lock, int64_t *ttl_ms,
                char **text);

enum rg_start { RG_ACQUIRE, RG_TRY, RG_RELEASE };
/* Starts the same operation for all of them. results[i] is OK if a done event of locks[i] follows.
 */
void rg_start(int start, struct redlock_lock **locks, size_t count, int *results);
/* One of these, with its result. */
int rg_block(int start, struct redlock_lock *lock);
int rg_extend(struct redlock_lock *lock, int64_t ttl_ms);
int rg_downgrade(struct redlock_lock *lock);

/* Runs what waits, and leaves the events in the box. */
int rg_process(struct redlock_client *client, struct rg_box *box);
void rg_free(struct redlock_lock **locks, size_t count);

/* For how long the lock is surely ours; 0: it is lost. */
int64_t rg_left_ns(struct redlock_lock *lock);

/* `silent`: nodes that have not answered yet are too late. `sentence` and `cure` are to be freed.
 */
void rg_why(struct redlock_client *client, struct redlock_lock *lock, int result, bool silent,
            int *better, char **sentence, char **cure);

int rg_observe(struct redlock_client *client, const char *name, size_t bytes, uintptr_t id,
               struct redlock_observer **observer, char **text);

#endif
