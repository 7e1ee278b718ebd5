/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands: one table of all of them, and the functions that carry them out.
 */
#ifndef SERVE_COMMAND_H
#define SERVE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "key/key.h"
#include "connection/plan.h"
#include "script/key_call.h"

/* The Redis version that clients see, for clients that ask. */
#define COMMAND_REDIS_VERSION "7.0.0"

struct connection;

/* The clock that TIME shows, since 1970. */
static inline int64_t wall_clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

enum command_flag {
    COMMAND_NO_AUTH = 1,  /* allowed before the password */
    COMMAND_PUBSUB = 2,   /* allowed while subscribed, in RESP2 */
    COMMAND_IN_MULTI = 4, /* runs at once between MULTI and EXEC */
    COMMAND_MANY_KEYS = 8 /* makes a plan for each of words[1..] */
};

struct command {
    const char *name; /* in lower case */
    size_t words_min, words_max;
    unsigned flags;
    int first_key; /* index of the word; 0: no key */
    /* Answers, or makes the connection busy and answers later. NULL: the command is a plan. */
    void (*run)(struct connection *connection);
    enum key_command asks;
    enum plan_shape shape;
    /* Adds to the plan what the words say; false: it has answered with an error. NULL: nothing. */
    bool (*plan)(struct connection *connection, struct plan *plan);
};

/* Executes the command in words[0..count) of the connection's reader. */
void command_do(struct connection *connection);
const struct command *command_find(struct bytes name);
const struct command *command_at(size_t index); /* NULL: past the last one */

/* command_lock.c: commands about a lock */
bool plan_set(struct connection *connection, struct plan *plan);
bool plan_setnx(struct connection *connection, struct plan *plan);
bool plan_expire(struct connection *connection, struct plan *plan);
bool plan_delifeq(struct connection *connection, struct plan *plan);
bool plan_delex(struct connection *connection, struct plan *plan);
bool plan_fence(struct connection *connection, struct plan *plan);
/* A number of milliseconds, or of seconds: a length, or a time of day, which becomes a length now.
 * False after an error. */
bool plan_ttl(struct connection *connection, struct bytes word, int64_t unit_ms, bool at,
              int64_t *ttl_ms);
/* The length from now to a time of day, by the clock that TIME shows; less than 0: it has passed.
 */
int64_t left_until_ms(int64_t time_of_day_ms);
/* As a key_op_program. */
enum program_step plan_step(struct plan *plan, struct key_op *op, const struct answer *answer,
                            struct key_call *call, struct answer *result);
/* Begins the job's next operation. */
void job_begin(struct connection *connection);

/* command_client.c: commands about the connection itself */
void command_auth(struct connection *connection);
void command_hello(struct connection *connection);
void command_client(struct connection *connection);
void command_select(struct connection *connection);
void command_ping(struct connection *connection);
void command_echo(struct connection *connection);
void command_quit(struct connection *connection);
void command_reset(struct connection *connection);

/* command_server.c: commands about the gateway */
void command_info(struct connection *connection);
void command_command(struct connection *connection);
void command_config(struct connection *connection);
void command_time(struct connection *connection);
void command_role(struct connection *connection);
void command_cluster(struct connection *connection);

/* command_channel.c */
void command_subscribe(struct connection *connection);
void command_unsubscribe(struct connection *connection);

/* command_script.c */
void command_eval(struct connection *connection);
void command_evalsha(struct connection *connection);
void command_script(struct connection *connection);

/* command_refuse.c */
/* Counts a refused request, and makes an open transaction fail. */
void command_refused(struct connection *connection);
/* The same, and answers that this gateway does not support the request, with a pointer to the
 * documentation. */
void command_refuse(struct connection *connection, const char *what, const char *why);

/* transaction.c: WATCH, MULTI, EXEC on one key. Clients without scripts send a compare-and-delete
 * or a compare-and-expire this way. */
void command_watch(struct connection *connection);
void command_unwatch(struct connection *connection);
void command_multi(struct connection *connection);
void command_exec(struct connection *connection);
void command_discard(struct connection *connection);

/* Whether the client has sent MULTI. */
bool transaction_is_open(const struct connection *connection);
/* Keeps the plan for EXEC, and answers. */
void transaction_queue(struct connection *connection, const struct plan *plan);
/* A command between MULTI and EXEC was refused: EXEC will do nothing. */
void transaction_break(struct connection *connection);
/* The memory that it takes, approximate; 0: no transaction. */
size_t transaction_weight(const struct connection *connection);
void transaction_free(struct connection *connection);

/* renewal.c */
void command_renew(struct connection *connection);
/* The connection's renewals end, and the client is not notified. */
void renewals_end(struct connection *connection);
/* A lock of this key has ended. */
void renewals_key_ended(struct key *key);
/* Frees what is left: the loop has ended. */
void renewals_close(struct gateway *gateway);
/* The memory that they take, approximate. */
size_t renewals_weight(const struct connection *connection);

#endif
