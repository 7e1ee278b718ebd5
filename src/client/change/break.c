/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Ends another client's lock: the arguments, and the report. */
#include <stdio.h>
#include <string.h>

#include "abi/sized.h"
#include "client/ask/ask.h"
#include "client/locks/locks.h"
#include "change.h"

_Static_assert(sizeof((struct redlock_break_report *)NULL)->verdicts == RL_NODES_MAX * sizeof(int),
               "a verdict for each node");

enum { RETRY_MS = 3000 };

void redlock_break_options_fill(struct redlock_break_options *options, size_t size) {
    const struct redlock_break_options defaults = {.retry_ms = RETRY_MS};
    sized_fill(options, size, &defaults, sizeof defaults);
}

/* ---- the arguments ---- */

static int check(struct redlock_client *client, const void *resource, size_t bytes,
                 const struct redlock_break_options *options, struct redlock_error *error) {
    const size_t prefix = client->options.key_prefix_bytes;
    if (!resource || bytes < 1 || bytes > REDLOCK_RESOURCE_BYTES_MAX - prefix)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "a resource has 1 to %zu bytes (%d with the key prefix)",
                    (size_t)REDLOCK_RESOURCE_BYTES_MAX - prefix, REDLOCK_RESOURCE_BYTES_MAX);
    if (!resource_permitted(client, (struct redlock_bytes){resource, bytes}, error))
        return REDLOCK_BAD_ARGUMENT;
    if (options->token && options->token_bytes > REDLOCK_TOKEN_BYTES_MAX)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a token has at most %d bytes",
                    REDLOCK_TOKEN_BYTES_MAX);
    if (options->retry_ms < 0 || options->retry_ms > REDLOCK_TTL_MS_MAX)
        return fail(error, REDLOCK_BAD_ARGUMENT, "retry_ms is %lld; it must be between 0 and %d",
                    (long long)options->retry_ms, REDLOCK_TTL_MS_MAX);
    if (client->scheme != REDLOCK_SCHEME_SET)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "scheme=setnx: a key there holds a time and no token, so a delete cannot be "
                    "limited to one holder; wait until that time has passed");
    return REDLOCK_OK;
}

static int copy_options(struct redlock_break_options *to, const struct redlock_break_options *from,
                        struct redlock_error *error) {
    redlock_break_options_init(to);
    if (!from || sized_take(to, sizeof *to, from, FIRST_BREAK_OPTIONS)) return REDLOCK_OK;
    return fail(error, REDLOCK_BAD_ARGUMENT,
                "break options of an unknown size: fill them with redlock_break_options_init()");
}

/* ---- the report ---- */

static void put_holder(struct redlock_break_report *report, const struct break_task *task) {
    const struct rl_break *machine = &task->machine;
    const struct break_view *holder = break_holder(task);
    if (!holder) return;
    const struct net_bytes owner = token_owner(holder->token, holder->token_bytes);
    report->owner_bytes = owner.bytes < sizeof report->owner ? owner.bytes : sizeof report->owner;
    if (report->owner_bytes) memcpy(report->owner, owner.data, report->owner_bytes);
    for (unsigned i = 0; i < machine->wish.nodes; i++) {
        const int64_t remaining = task->view[i].remaining_ms;
        if (machine->holder[i] != machine->token || report->remaining_ms == -1) continue;
        if (remaining == -1 || remaining > report->remaining_ms) report->remaining_ms = remaining;
    }
}

static void put_report(const struct break_task *task, struct redlock_break_report *program) {
    const struct rl_break *machine = &task->machine;
    const rl_mask silent = rl_break_silent(machine, break_members(task));
    const bool ok =
        machine->outcome == RL_BREAK_OUTCOME_BROKEN || machine->outcome == RL_BREAK_OUTCOME_FREE;
    struct redlock_break_report report = {.deleted = machine->deleted != 0};
    put_holder(&report, task);
    for (unsigned i = 0; i < machine->wish.nodes; i++) {
        report.verdicts[i] = task->view[i].verdict;
        if (machine->deleted & rl_bit(i)) report.verdicts[i] = REDLOCK_VERDICT_GRANTED;
    }
    if (task->deletes) report.silent = silent;
    report.unlisted = break_unlisted(task);
    report.certain = ok && report.silent == 0 && report.unlisted == 0;
    if (machine->outcome == RL_BREAK_OUTCOME_BROKEN) report.fence = machine->fence;
    sized_fill(program, program->size, &report, sizeof report);
}

/* Why the node does not count; GRANTED: it does. Before a holder is found, an answer counts only
 * from a node that may vote. */
static int reason_of(const struct break_task *task, unsigned node) {
    const int verdict = task->view[node].verdict;
    const bool answered = verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
                          verdict == REDLOCK_VERDICT_DENIED;
    if (!answered) return verdict;
    if (!task->machine.wish.guarded || task->machine.token != 0) return REDLOCK_VERDICT_GRANTED;
    return client_verdict(task->client, node, client_status(task->client, node).verdict);
}

/* A node that answered, and of which the record is being read again, is connected. */
static const char *reason_text(const struct break_task *task, unsigned node) {
    const int reason = reason_of(task, node);
    if (reason == REDLOCK_VERDICT_CONNECTING && task->view[node].verdict != reason)
        return "its record is not known: its data changed";
    return redlock_verdict_text(reason);
}

/* "db2 (timed out), db3 (refused)" */
static void put_silent(const struct break_task *task, rl_mask nodes, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < task->machine.wish.nodes && used + 1 < size; i++) {
        if (!(nodes & rl_bit(i))) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "",
                                 client_status(task->client, i).url, reason_text(task, i));
    }
}

/* What to correct before the command can succeed. NULL: nothing. */
static const char *cure_of(const struct break_task *task, rl_mask nodes) {
    const char *cure = NULL;
    for (unsigned i = 0; i < task->machine.wish.nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        const int reason = reason_of(task, i);
        if (reason == REDLOCK_VERDICT_NOPERM && client_status(task->client, i).native)
            return "allow this user +redlock.break and what redlock doctor names";
        if (reason == REDLOCK_VERDICT_NOPERM)
            cure = "allow this user the commands that redlock doctor names";
        if (reason == REDLOCK_VERDICT_OOM && !cure)
            cure = "raise maxmemory there, and run the command again";
    }
    return cure;
}

static int no_quorum(const struct break_task *task, struct redlock_error *error) {
    char nodes[384];
    const struct rl_break *machine = &task->machine;
    rl_mask missing = 0;
    for (unsigned i = 0; i < machine->wish.nodes; i++) {
        const int reason = reason_of(task, i);
        if (reason != REDLOCK_VERDICT_GRANTED && reason != REDLOCK_VERDICT_NONE)
            missing |= rl_bit(i);
    }
    put_silent(task, missing, nodes, sizeof nodes);
    const char *cure = cure_of(task, missing);
    if (missing == 0)
        return fail(error, REDLOCK_NO_QUORUM,
                    "no token is on a majority of the nodes: read again in a moment");
    if (machine->token == 0)
        return fail(error, REDLOCK_NO_QUORUM,
                    "too few nodes report who holds the lock; not %s; nothing was changed", nodes);
    return fail(error, REDLOCK_NO_QUORUM,
                task->confirms ? "too few nodes report that the lock is gone; not %s; %s"
                               : "too few nodes can raise the fence; not %s; %s",
                nodes,
                cure            ? cure
                : task->deletes ? "run the command again"
                                : "no key was deleted");
}

static int result_of(const struct break_task *task, struct redlock_error *error) {
    const struct break_view *holder = break_holder(task);
    if (task->no_memory) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (task->turned)
        return fail(error, REDLOCK_NO_QUORUM,
                    "the nodes turned out to carry records of a quorum: run the command again");
    if (holder && holder->truncated)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "the key holds more than %d bytes: it cannot be compared, and is hardly a lock",
                    REDLOCK_TOKEN_BYTES_MAX);
    switch (task->machine.outcome) {
    case RL_BREAK_OUTCOME_BROKEN:
    case RL_BREAK_OUTCOME_FREE: return REDLOCK_OK;
    case RL_BREAK_OUTCOME_CHANGED:
        return fail(error, REDLOCK_CONFLICT,
                    "the lock changed hands: another client holds it now, and was left alone");
    default: return no_quorum(task, error);
    }
}

/* ---- a break in the caller's thread ---- */

static void notify(struct break_task *task) {
    struct waiter *waiter = task->context;
    if (task->over) waiter_finish(waiter);
}

static int run(struct redlock_client *client, struct net_bytes key,
               const struct redlock_break_options *options, struct redlock_break_report *report,
               struct redlock_error *error) {
    struct waiter waiter;
    const struct net_bytes named = {options->token, options->token ? options->token_bytes : 0};
    waiter_init(&waiter);
    struct break_task *task =
        break_start(client, key, named, options->retry_ms * RL_MS, notify, &waiter);
    if (!task) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (client_enter(client) != REDLOCK_OK) return fail_forked(error);
    if (!task->over) schedule_wait(&client->schedule, &waiter);
    if (waiter.result == REDLOCK_FORKED) return fail_forked(error);
    int result = result_of(task, error);
    if (result == REDLOCK_OK || result == REDLOCK_CONFLICT || result == REDLOCK_NO_QUORUM)
        put_report(task, report);
    result = client_leave_notifying(client, result);
    break_free(task);
    return result;
}

int redlock_break(struct redlock_client *client, const void *resource, size_t bytes,
                  const struct redlock_break_options *options, struct redlock_break_report *report,
                  struct redlock_error *error) {
    struct redlock_break_options own;
    if (!client) return fail_null(error);
    if (!report || report->size < FIRST_BREAK_REPORT)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "give a report that redlock_break_report_init() has filled");
    int result = copy_options(&own, options, error);
    if (result == REDLOCK_OK) result = check(client, resource, bytes, &own, error);
    if (result != REDLOCK_OK) return result;
    if (client_enter(client) != REDLOCK_OK) return fail_forked(error);
    /* Mode auto learns here whether there are records. */
    gather_majority(client, rl_quorum(client->nodes), LOOK_PATIENCE);
    result = client_leave_notifying(client, client_refusal(client));
    if (result != REDLOCK_OK) return fail(error, result, "%s", redlock_result_text(result));
    const size_t prefix = client->options.key_prefix_bytes;
    char key[REDLOCK_RESOURCE_BYTES_MAX];
    if (prefix) memcpy(key, client->key_prefix, prefix);
    memcpy(key + prefix, resource, bytes);
    return run(client, (struct net_bytes){key, prefix + bytes}, &own, report, error);
}
