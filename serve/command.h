/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands: one table of all of them, and the functions that carry them out.
 */
#ifndef SERVE_COMMAND_H
#define SERVE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"
#include "script.h"

/* The Redis version that clients see, for clients that ask. */
#define COMMAND_REDIS_VERSION "7.0.0"

struct connection;

enum command_flag {
    COMMAND_OPEN = 1,      /* allowed before the password */
    COMMAND_LISTENING = 2, /* allowed while subscribed, in RESP2 */
    COMMAND_IN_MULTI = 4,  /* runs at once between MULTI and EXEC */
    COMMAND_MANY_KEYS = 8  /* makes a plan for each of words[1..] */
};

struct command {
    const char *name; /* in lower case */
    size_t words_min, words_max;
    unsigned flags;
    /* A command has one of the two. `run` answers, or makes the connection busy and answers later.
     * `plan` fills in what the command asks of the key; false: it has answered with an error.
     */
    void (*run)(struct connection *connection);
    bool (*plan)(struct connection *connection, struct plan *plan);
    int first_key; /* index of the word; 0: no key */
};

/* A request that is under way as a series of plans: one for each key. */
struct job {
    struct plan plan;
    size_t keys_left; /* the words of a command with several keys that are still to do */
    size_t word;
    int64_t sum;
};

/* Executes the command in words[0..count) of the connection's reader. */
void command_do(struct connection *connection);
const struct command *command_find(struct script_bytes name);
const struct command *command_at(size_t index); /* NULL: past the last one */

/* Compares without regard to upper and lower case. */
bool command_is(struct script_bytes word, const char *text);
/* False: the word is not a whole number. */
bool command_number(struct script_bytes word, int64_t *number);
/* Answers that this gateway does not support the request, with a pointer to the documentation. */
void command_refuse(struct connection *connection, const char *what, const char *why);
void command_wrong_words(struct connection *connection, const char *name);

/* command_lock.c */
bool plan_get(struct connection *connection, struct plan *plan);
bool plan_set(struct connection *connection, struct plan *plan);
bool plan_setnx(struct connection *connection, struct plan *plan);
bool plan_exists(struct connection *connection, struct plan *plan);
bool plan_pttl(struct connection *connection, struct plan *plan);
bool plan_ttl(struct connection *connection, struct plan *plan);
bool plan_delete(struct connection *connection, struct plan *plan);
bool plan_pexpire(struct connection *connection, struct plan *plan);
bool plan_expire(struct connection *connection, struct plan *plan);
bool plan_fence(struct connection *connection, struct plan *plan);
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
void command_psubscribe(struct connection *connection);
void command_punsubscribe(struct connection *connection);

/* command_script.c */
void command_eval(struct connection *connection);
void command_evalsha(struct connection *connection);
void command_script(struct connection *connection);

#endif
