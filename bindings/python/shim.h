/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Python sees besides redlock.h. The library's callbacks run in C and only make notes; Python
 * reads them when it likes. So no Python code runs on a thread of the library, holds up a renewal,
 * or runs after the interpreter has ended, and many completions cost one switch to Python.
 */
struct shim;  /* an open client */
struct place; /* a lock or an observer of it */

struct note {
    uint64_t id; /* of the place */
    int done;    /* 1: an operation has ended, with `result` */
    int result;
    int lost;   /* 1: the lock is lost */
    int leader; /* 1: shim_leader() has news */
};
struct leader {
    int state;
    int64_t term, sure_until_ns;
    size_t id_bytes;
    char id[128];
};
enum shim_operation { SHIM_ACQUIRE = 0, SHIM_RELEASE = 1, SHIM_EXTEND = 2, SHIM_DOWNGRADE = 3 };
enum { SHIM_NOT_READY = 1 };

/* The client and its places keep the shim alive: the last one to be freed closes the client. In a
 * child after fork(2) they may be freed, and nothing else. */
int shim_open(const char *nodes, struct redlock_client_options *options, struct shim **shim,
              struct redlock_error *error);
void shim_free(struct shim *shim);
size_t shim_nodes(struct shim *shim);
/* Readable when shim_process() has work. */
int shim_fd(struct shim *shim);
/* Blocks until there is something to process (1), or shim_stop() was called (0). */
int shim_wait(struct shim *shim);
void shim_stop(struct shim *shim);
/* Processes, and takes at most `count` notes, at most one of each place. */
size_t shim_process(struct shim *shim, struct note *notes, size_t count);

/* watched: the loss of the lock is noted. */
int shim_lock_new(struct shim *shim, uint64_t id, const struct redlock_bytes *resources,
                  size_t count, struct redlock_lock_options *options, int watched,
                  struct place **place, struct redlock_error *error);
int shim_observe(struct shim *shim, uint64_t id, const void *resource, size_t bytes,
                 struct place **place, struct redlock_error *error);
void shim_place_free(struct place *place);
/* One try, or SHIM_NOT_READY if fewer than `quorum` nodes are ready: it would wait for them. */
int shim_try(struct place *place, int quorum);
/* `amount`: how long to wait, or the TTL, in milliseconds. */
int shim_start(struct place *place, int operation, int64_t amount);
/* SHIM_ACQUIRE or SHIM_RELEASE of several, in one write to each node. */
void shim_start_many(struct place **places, size_t count, int operation, int64_t amount,
                     int *results);
int shim_extend(struct place *place, int64_t ttl_ms);
int shim_downgrade(struct place *place);
int shim_release(struct place *place);
int64_t shim_validity_ms(struct place *place);
int64_t shim_fence(struct place *place);
uint32_t shim_slot(struct place *place);
size_t shim_token(struct place *place, void *to, size_t size);
int shim_why(struct place *place, int result, struct redlock_why_report *why);
void shim_leader(struct place *place, struct leader *leader);
