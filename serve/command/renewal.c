/* SPDX-License-Identifier: BSD-2-Clause
 *
 * REDLOCK.RENEW: the gateway extends a lock again and again, for a client that stays connected. A
 * renewal is an operation like SET ... IFEQ, at each third of the TTL, and not an option of the
 * library's lock: so it has its turn between the commands and scripts on the key, and it renews
 * only a lock that has the client's value.
 *
 * The kernel keeps the connection of a client that is stopped. So a renewal has an end: a TTL after
 * the client's last bytes, or a time that the client gives (MAX).
 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "connection/connection.h"
#include "loop/gateway.h"

#define RENEWED_TTL_MS_MIN 1000 /* bounds the renewals in a second */
#define RENEWED_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)
enum { RENEWALS_MAX = 64, WHY_BYTES = 256 };

struct renewal {
    struct gateway *gateway;
    struct connection *connection; /* NULL: it has ended, and its operation has not */
    struct key *key;
    LIST_ENTRY(renewal) of_connection; /* or in the gateway's list of those that have ended */
    LIST_ENTRY(renewal) of_key;
    struct event timer;
    int64_t ttl_ms;
    int64_t until_ns; /* MAX; 0: as long as the client sends something within each TTL */
    int64_t lost_ns;  /* the lock counts as lost if it is not renewed before then */
    bool busy;        /* its operation has not ended */
    bool released;    /* the client has ended the lock, or been told of its end */
    struct plan plan;
    struct key_op op;
    char why[WHY_BYTES]; /* it was not renewed */
    size_t value_bytes;
    char value[];
};

static struct renewal *renewal_of(struct key_op *op) {
    return (struct renewal *)(void *)((char *)op - offsetof(struct renewal, op));
}

static void set_timer(struct renewal *renewal, int64_t after_ns) {
    if (after_ns < 0) after_ns = 0;
    const struct timeval after = {.tv_sec = (time_t)(after_ns / 1000000000),
                                  .tv_usec = (suseconds_t)(after_ns % 1000000000 / 1000)};
    evtimer_add(&renewal->timer, &after);
}

/* ---- the end ---- */

/* Its struct lives on until its operation ends. */
static void end(struct renewal *renewal) {
    renewal->gateway->metrics.renewed--;
    event_del(&renewal->timer);
    LIST_REMOVE(renewal, of_connection);
    LIST_REMOVE(renewal, of_key);
    renewal->connection = NULL;
    if (renewal->busy && key_op_abandon(&renewal->op)) renewal->busy = false;
    key_unwatch(renewal->key);
    if (renewal->busy)
        LIST_INSERT_HEAD(&renewal->gateway->renewals_ended, renewal, of_connection);
    else
        free(renewal);
}

static enum metric_renewal reason_of(const char *why) {
    return strncmp(why, "LOST ", 5) == 0     ? RENEWAL_LOST
           : strncmp(why, "SILENT ", 7) == 0 ? RENEWAL_SILENT
           : strncmp(why, "MAX ", 4) == 0    ? RENEWAL_MAX
                                             : RENEWAL_NO_QUORUM;
}

/* A client that speaks RESP2 has no place for a message that it has not asked for. */
static void end_and_report(struct renewal *renewal, const char *why) {
    struct connection *connection = renewal->connection;
    struct reply *reply = &connection->reply;
    renewal->gateway->metrics.renewals_ended[reason_of(why)]++;
    if (reply->protocol == 3 && !connection->last && connection_may_write(connection)) {
        reply_push(reply, 3);
        reply_text(reply, "redlock.lost");
        reply_bytes(reply, renewal->key->name.data, renewal->key->name.bytes);
        reply_text(reply, why);
    }
    end(renewal);
    connection_flush(connection);
}

void renewals_end(struct connection *connection) {
    while (!LIST_EMPTY(&connection->renewals)) end(LIST_FIRST(&connection->renewals));
}

void renewals_close(struct gateway *gateway) {
    while (!LIST_EMPTY(&gateway->renewals_ended)) {
        struct renewal *renewal = LIST_FIRST(&gateway->renewals_ended);
        LIST_REMOVE(renewal, of_connection);
        step_abandon(&renewal->op);
        free(renewal);
    }
}

/* The key's operations run one at a time: the one that runs has ended the lock, or seen its end. */
static bool ends_it(const struct connection *connection, const struct key *key) {
    return connection->busy && connection->exchange != NULL && connection->exchange->op.running &&
           connection->exchange->op.key == key;
}

/* Of another client's release, the next operation finds out. Not at once: the caller is at work on
 * the key. */
void renewals_key_ended(struct key *key) {
    struct renewal *renewal;
    LIST_FOREACH(renewal, &key->renewals, of_key) {
        renewal->released |= ends_it(renewal->connection, key);
        event_active(&renewal->timer, 0, 0);
    }
}

size_t renewals_weight(const struct connection *connection) {
    size_t weight = 0;
    const struct renewal *renewal;
    LIST_FOREACH(renewal, &connection->renewals, of_connection)
    weight +=
        sizeof *renewal + renewal->value_bytes + sizeof *renewal->key + renewal->key->name.bytes;
    return weight;
}

/* ---- a renewal ---- */

/* Keys expire after the TTL, and validity ends a little before: a tenth is more than clock drift
 * takes. */
static int64_t lost_at_ns(const struct key_op *op) {
    return op->since_ns + op->call.ttl_ms * GATEWAY_MS / 10 * 9;
}

static enum program_step program(struct key_op *op, const struct answer *answer,
                                 struct key_call *call, struct answer *result) {
    return plan_step(&renewal_of(op)->plan, op, answer, call, result);
}

static void over(struct key_op *op, const struct answer *result) {
    struct renewal *renewal = renewal_of(op);
    renewal->busy = false;
    if (renewal->connection == NULL) {
        LIST_REMOVE(renewal, of_connection);
        free(renewal);
    } else if (renewal->released) {
        end(renewal);
    } else if (result->kind == ANSWER_ERROR) {
        int64_t after_ns = renewal->ttl_ms * GATEWAY_MS / 10;
        const int64_t left_ns = renewal->lost_ns - gateway_now_ns();
        if (after_ns > left_ns) after_ns = left_ns;
        snprintf(renewal->why, sizeof renewal->why, "%.*s", (int)result->bytes.bytes,
                 result->bytes.data);
        set_timer(renewal, after_ns);
    } else if (result->kind == ANSWER_NIL) {
        end_and_report(renewal, "LOST the lock was released by another client, or has expired");
    } else {
        const bool last = renewal->plan.call.ttl_ms < renewal->ttl_ms;
        renewal->lost_ns = lost_at_ns(op);
        snprintf(renewal->why, sizeof renewal->why, "%s",
                 last ? "MAX the time for which it was to be renewed ends"
                      : "NOQUORUM not renewed in time");
        set_timer(renewal,
                  last ? renewal->lost_ns - gateway_now_ns() : renewal->ttl_ms * GATEWAY_MS / 3);
    }
}

static void begin(struct renewal *renewal, int64_t now_ns) {
    const int64_t left_ms = (renewal->until_ns - now_ns) / GATEWAY_MS;
    int64_t ttl_ms = renewal->ttl_ms;
    if (renewal->until_ns != 0 && left_ms < ttl_ms) ttl_ms = left_ms;
    renewal->plan = (struct plan){.shape = PLAN_IF_SAME,
                                  .call = {.command = KEY_EXTEND,
                                           .value = {renewal->value, renewal->value_bytes},
                                           .ttl_ms = ttl_ms > 1 ? ttl_ms : 1}};
    renewal->busy = true;
    if (key_op_begin(&renewal->op, renewal->gateway, renewal->key->name, program, over)) return;
    renewal->busy = false;
    set_timer(renewal, renewal->ttl_ms * GATEWAY_MS / 10);
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
    struct renewal *renewal = context;
    const int64_t now_ns = gateway_now_ns(), ttl_ns = renewal->ttl_ms * GATEWAY_MS;
    (void)fd;
    (void)what;
    if (renewal->released) {
        end(renewal);
    } else if (renewal->busy) {
        return; /* over() goes on */
    } else if (now_ns >= renewal->lost_ns) {
        end_and_report(renewal, renewal->why);
    } else if (renewal->until_ns == 0 && now_ns - renewal->connection->heard_ns >= ttl_ns) {
        end_and_report(renewal, "SILENT no request came within the time to live");
    } else {
        begin(renewal, now_ns);
    }
}

/* ---- the command ---- */

/* NULL: none. */
static struct renewal *find(const struct connection *connection, struct bytes key) {
    struct renewal *renewal;
    LIST_FOREACH(renewal, &connection->renewals, of_connection) {
        if (bytes_equal(renewal->key->name, key)) return renewal;
    }
    return NULL;
}

/* The lock has just been extended by this operation. False: out of memory. */
static bool bind_lock(struct connection *connection, const struct key_op *op) {
    const struct job *job = &connection->exchange->job;
    const struct bytes value = job->plan.call.value;
    struct renewal *before = find(connection, job->plan.key);
    struct renewal *renewal = calloc(1, sizeof *renewal + value.bytes);
    struct key *key = renewal != NULL ? key_watch(connection->gateway, job->plan.key) : NULL;
    if (key == NULL) {
        free(renewal);
        return false;
    }
    if (before != NULL) end(before);
    renewal->gateway = connection->gateway;
    renewal->connection = connection;
    renewal->key = key;
    renewal->ttl_ms = job->plan.call.ttl_ms;
    renewal->until_ns =
        job->renew_max_ms > 0 ? gateway_now_ns() + job->renew_max_ms * GATEWAY_MS : 0;
    renewal->lost_ns = lost_at_ns(op);
    renewal->value_bytes = value.bytes;
    memcpy(renewal->value, value.data, value.bytes);
    LIST_INSERT_HEAD(&connection->renewals, renewal, of_connection);
    LIST_INSERT_HEAD(&key->renewals, renewal, of_key);
    renewal->gateway->metrics.renewed++;
    evtimer_assign(&renewal->timer, connection->gateway->base, on_timer, renewal);
    set_timer(renewal, renewal->ttl_ms * GATEWAY_MS / 3);
    return true;
}

static enum program_step first_program(struct key_op *op, const struct answer *answer,
                                       struct key_call *call, struct answer *result) {
    return plan_step(&connection_of(op)->exchange->job.plan, op, answer, call, result);
}

static void first_over(struct key_op *op, const struct answer *result) {
    struct connection *connection = connection_of(op);
    if (connection_is_open(connection)) {
        if (result->kind != ANSWER_STATUS || bind_lock(connection, op))
            reply_value(&connection->reply, result);
        else
            reply_error(&connection->reply, "OOM out of memory: the lock is not renewed");
    }
    connection_answered(connection);
}

/* False after an error. *max_ms stays 0 without MAX. */
static bool read_times(struct connection *connection, int64_t *ttl_ms, int64_t *max_ms) {
    const struct request_reader *reader = &connection->exchange->reader;
    if (!plan_ttl(connection, reader->words[3], 1, false, ttl_ms)) return false;
    if (*ttl_ms < RENEWED_TTL_MS_MIN || *ttl_ms > REDLOCK_TTL_MS_MAX) {
        command_refuse(connection, "REDLOCK.RENEW with this time to live",
                       "a lock is renewed to live for 1 second to 24 hours");
        return false;
    }
    if (reader->count == 4) return true;
    if (reader->count != 6 || !command_is(reader->words[4], "max")) {
        reply_error(&connection->reply,
                    "ERR syntax error: REDLOCK.RENEW key value milliseconds [MAX milliseconds]");
        return false;
    }
    if (!plan_ttl(connection, reader->words[5], 1, false, max_ms)) return false;
    if (*max_ms >= *ttl_ms && *max_ms <= RENEWED_MAX_MS) return true;
    command_refuse(connection, "REDLOCK.RENEW with this MAX",
                   "it is from the time to live to 366 days");
    return false;
}

void command_renew(struct connection *connection) {
    const struct bytes *words = connection->exchange->reader.words;
    struct job *job = &connection->exchange->job;
    int64_t ttl_ms = 0, max_ms = 0;
    if (!read_times(connection, &ttl_ms, &max_ms)) return;
    size_t count = 0;
    const struct renewal *renewal;
    LIST_FOREACH(renewal, &connection->renewals, of_connection) count += !renewal->released;
    if (count >= RENEWALS_MAX && find(connection, words[1]) == NULL) {
        command_refuse(connection, "more than 64 locks to renew",
                       "take further ones by another connection");
        return;
    }
    *job =
        (struct job){.plan = {.key = words[1],
                              .call = {.command = KEY_EXTEND, .value = words[2], .ttl_ms = ttl_ms},
                              .shape = PLAN_IF_SAME},
                     .renew_max_ms = max_ms};
    connection_begin(connection, job->plan.key, first_program, first_over);
}
