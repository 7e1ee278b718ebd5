/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands: one table of them all, and the files that hold them.
 */
#ifndef SERVE_COMMAND_H
#define SERVE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"
#include "script.h"

#define COMMAND_REDIS_VERSION                                                                      \
    "7.0.0" /* whose commands and answers these are, for clients that ask */

struct connection;

enum command_flag {
    COMMAND_OPEN = 1,      /* also before the password */
    COMMAND_LISTENING = 2, /* also while subscribed, in RESP2 */
    COMMAND_IN_MULTI = 4,  /* done at once between MULTI and EXEC */
    COMMAND_MANY_KEYS = 8  /* a plan for each of words[1..] */
};

struct command {
    const char *name; /* in lower case */
    size_t words_min, words_max;
    unsigned flags;
    /* One of the two. `run` answers, or makes the connection busy and answers later. `plan` says
     * what is asked of the key; false: it answered with an error. */
    void (*run)(struct connection *connection);
    bool (*plan)(struct connection *connection, struct plan *plan);
    int first_key; /* which word; 0: none */
};

/* A request of plans under way: one for each key. */
struct job {
    struct plan plan;
    size_t keys_left; /* of several, the words not done yet */
    size_t word;
    int64_t sum;
};

/* Does what words[0..count) of the connection's reader say. */
void command_do(struct connection *connection);
const struct command *command_find(struct script_bytes name);
const struct command *command_at(size_t index); /* NULL: there are no more */

/* Without regard to upper and lower case. */
bool command_is(struct script_bytes word, const char *text);
/* False: it is no whole number. */
bool command_number(struct script_bytes word, int64_t *number);
/* What this gateway does not do: an error that says so, and where it is told what it does. */
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

/* command_client.c: about the connection itself */
void command_auth(struct connection *connection);
void command_hello(struct connection *connection);
void command_client(struct connection *connection);
void command_select(struct connection *connection);
void command_ping(struct connection *connection);
void command_echo(struct connection *connection);
void command_quit(struct connection *connection);
void command_reset(struct connection *connection);

/* command_server.c: about the gateway */
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
