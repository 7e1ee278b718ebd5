/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the nodes' records say of the quorum and its members; and the operator's commands: the
 * arguments, and the return. */
#include "abi/sized.h"
#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "change.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void redlock_quorum_options_fill(struct redlock_quorum_options *options, size_t size) {
    const struct redlock_quorum_options defaults = {0};
    sized_fill(options, size, &defaults, sizeof defaults);
}

/* ---- the quorum and its members ---- */

/* For members that have not reported their identity (not connected, for example), the URL
 * identifies the node. */
static int node_of(const struct rl_guard *machine, const struct rl_member *member) {
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == member->id) return (int)i;
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == 0 && strcmp(machine->node[i].url, member->url) == 0)
            return (int)i;
    return -1;
}

static void peek_at(struct redlock_client *client, const struct rl_member *member,
                    struct redlock_member *out) {
    *out = (struct redlock_member){.verdict = REDLOCK_VERDICT_NONE};
    snprintf(out->id, sizeof out->id, "%016" PRIx64, member->id);
    snprintf(out->url, sizeof out->url, "%s", member->url);
    out->node = node_of(&client->guard->machine, member);
    if (out->node < 0) return;
    unsigned node = (unsigned)out->node;
    out->verdict = client_verdict(client, node, client_status(client, node).verdict);
    if (client->guard->machine.node[node].eligibility == RL_ELIGIBILITY_INTACT)
        out->verdict = REDLOCK_VERDICT_GRANTED;
    if (out->verdict == REDLOCK_VERDICT_RECOVERING)
        out->recovering_ms = guard_recovering_ms(client->guard, node);
}

/* This client may have adopted one of them, because more than half of the nodes carry it. The list
 * is still wrong. */
static bool names_two_quorums(const struct rl_guard *machine) {
    const struct rl_guard_node *first = NULL;
    for (unsigned i = 0; i < machine->nodes && !machine->pinned; i++) {
        const struct rl_guard_node *node = &machine->node[i];
        if (!node->up || !node->read || !node->has_record || node->unreadable) continue;
        if (!first) first = node;
        if (node->record.quorum_id != first->record.quorum_id) return true;
    }
    return false;
}

/* The record of each epoch keeps the change that made it, on the nodes that took part. An announced
 * ttl_max is a field of its own. */
static const struct rl_change *last_change(const struct rl_guard *machine) {
    for (unsigned i = 0; i < machine->nodes; i++) {
        const struct rl_guard_node *node = &machine->node[i];
        const struct rl_record *record = &node->record;
        if (!node->up || !node->read || !node->has_record || node->unreadable) continue;
        if (record->quorum_id == machine->quorum.quorum_id &&
            record->epoch == machine->quorum.epoch && record->accepted_ballot == 0 &&
            record->accepted.kind != RL_CHANGE_NONE)
            return &record->accepted;
    }
    return NULL;
}

static void fill_change(struct redlock_quorum_status *out, const struct rl_guard *machine) {
    const struct rl_change *change = last_change(machine);
    if (out->settled) return;
    if (rl_record_ttl_pending(&machine->quorum)) {
        out->change = REDLOCK_QUORUM_CHANGE_TTL_MAX;
        return;
    }
    if (!change) return;
    switch (change->kind) {
    case RL_CHANGE_NONE: return;
    case RL_CHANGE_TTL_MAX: out->change = REDLOCK_QUORUM_CHANGE_TTL_MAX; return;
    case RL_CHANGE_REMOVE: out->change = REDLOCK_QUORUM_CHANGE_REMOVE; break;
    case RL_CHANGE_ADD:
        out->change = REDLOCK_QUORUM_CHANGE_ADD;
        snprintf(out->change_url, sizeof out->change_url, "%s", change->url);
        break;
    }
    snprintf(out->change_id, sizeof out->change_id, "%016" PRIx64, change->id);
}

/* The mutex is held. */
static int peek_at_all(struct redlock_client *client, struct redlock_quorum_status *quorum,
                       struct redlock_member *members, size_t count) {
    const struct rl_guard *machine = &client->guard->machine;
    const struct rl_record *record = &machine->quorum;
    struct redlock_quorum_status seen = {.known = machine->known};
    if (machine->known) {
        if (count < record->members_count) return REDLOCK_BAD_ARGUMENT;
        snprintf(seen.id, sizeof seen.id, "%016" PRIx64, record->quorum_id);
        seen.epoch = record->epoch;
        seen.settled = machine->settled && !rl_record_ttl_pending(record);
        seen.ttl_ms_max = rl_record_ttl_wait(record);
        seen.ttl_ms_allowed = rl_record_ttl_allowed(record);
        seen.ttl_ms_next = record->ttl_next_ms;
        seen.members = record->members_count;
        seen.votes_needed = machine->votes_needed;
        fill_change(&seen, machine);
    }
    for (size_t i = 0; i < seen.members; i++) {
        struct redlock_member member;
        peek_at(client, &record->members[i], &member);
        sized_fill(sized_element(members, i), members->size, &member, sizeof member);
        seen.intact += member.verdict == REDLOCK_VERDICT_GRANTED;
        seen.behind +=
            member.node >= 0 && machine->node[member.node].eligibility == RL_ELIGIBILITY_BEHIND;
    }
    sized_fill(quorum, quorum->size, &seen, sizeof seen);
    if (names_two_quorums(machine)) return REDLOCK_TWO_QUORUMS;
    return machine->decided && seen.intact >= seen.votes_needed ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

/* ---- do intact records have their fences? ---- */

struct fences_look {
    struct ask ask;
    bool missing;
    uint64_t nonces[RL_NODES_MAX];
};

static bool on_fences(struct question *question, unsigned node, const struct net_reply *reply) {
    struct fences_look *look = RL_CONTAINER(question->ask, struct fences_look, ask);
    struct redlock_client *client = look->ask.client;
    if (reply->verdict == REDLOCK_VERDICT_RECOVERING && !client->closing) {
        guard_no_fences(client->guard, node, look->nonces[node]);
        look->missing = true;
    }
    return false;
}

/* A client learns from its votes that a node's fences are gone. One that sends none asks by a vote
 * that confirms nothing: no key holds that token. The guard then reads these records again, and
 * judges the nodes. Waits for that, and otherwise not for a node that hangs. The mutex is held. */
static void look_for_fences(struct redlock_client *client) {
    static const struct net_bytes key = {NET_KEY_RECORD, sizeof NET_KEY_RECORD - 1};
    static const uint16_t stripe = 0;
    struct fences_look *look = ask_new(client, sizeof *look, 1, 0, on_fences);
    if (!look) return;
    memcpy(look->nonces, client->guard->nonces, sizeof look->nonces);
    struct question *question = look->ask.questions;
    question->request = (struct net_request){.op = NET_CONFIRM,
                                             .keys = &key,
                                             .keys_count = 1,
                                             .token = {"-", 1},
                                             .nonces = look->nonces,
                                             .fence = REDLOCK_FENCE_MAX,
                                             .stripes = &stripe,
                                             .stripes_count = 1};
    const rl_ns patience =
        client_node_timeout(client) > LOOK_PATIENCE ? client_node_timeout(client) : LOOK_PATIENCE;
    const rl_mask nodes = client->guard->intact & net_ready(client->net, net_now(client->net));
    ask_send(question, nodes, &question->request, net_now(client->net) + patience);
    ask_wait(&look->ask);
    if (look->missing) gather_majority(client, guard_votes_needed(client->guard), LOOK_PATIENCE);
    ask_unref(&look->ask);
}

int redlock_quorum_peek(struct redlock_client *client, struct redlock_quorum_status *quorum,
                        struct redlock_member *members, size_t count) {
    if (!client || !quorum || (!members && count > 0) || !client->guard)
        return REDLOCK_BAD_ARGUMENT;
    if (quorum->size < FIRST_QUORUM || !sized_array_fits(members, count, FIRST_MEMBER))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather_majority(client, guard_votes_needed(client->guard), LOOK_PATIENCE);
    look_for_fences(client);
    int result = peek_at_all(client, quorum, members, count);
    return client_leave_notifying(client, result);
}

/* ---- the return of a command ---- */

/* Nodes of the command's view that are not intact to the guard, or not known to be. By now the
 * guard may know of a later change, after which some of them are not members. */
static rl_mask behind_in(const struct guard *guard, const struct rl_guard *view) {
    rl_mask intact = rl_guard_intact(view);
    if (guard->machine.quorum.epoch > view->quorum.epoch)
        intact &= (rl_mask)~rl_guard_foreign(&guard->machine);
    rl_mask behind = intact & (rl_mask)~guard->intact;
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        const struct rl_guard_node *node = &guard->machine.node[i];
        if ((intact & rl_bit(i)) &&
            (!node->read || node->reread || node->pending_op == RL_PENDING_READ))
            behind |= rl_bit(i);
    }
    return behind;
}

/* This client's own guard learns what was written, so that it can take locks when the command
 * returns. The mutex is held. */
static void hand_over(struct redlock_client *client, const struct rl_guard *view) {
    struct waiter waiter;
    rl_mask peek = rl_all(client->nodes);
    const rl_ns end = gather_until(client);
    for (rl_ns pause = RL_MS; peek && net_now(client->net) < end;
         pause = pause < 64 * RL_MS ? 2 * pause : pause) {
        for (unsigned i = 0; i < client->nodes; i++)
            if (peek & rl_bit(i)) guard_peek(client->guard, i);
        waiter_init(&waiter);
        schedule_wait_until(&client->schedule, &waiter, net_now(client->net) + pause);
        peek = behind_in(client->guard, view) & net_ready(client->net, net_now(client->net));
    }
}

/* ---- the arguments ---- */

static int check_ttl_max(struct redlock_error *error, const char *name, int64_t ttl_ms) {
    if (ttl_ms == 0 || (ttl_ms >= REDLOCK_TTL_MS_MIN && ttl_ms <= REDLOCK_TTL_MS_MAX))
        return REDLOCK_OK;
    return fail(error, REDLOCK_BAD_ARGUMENT,
                "%s is %lld; it must be between %d and %d, or 0: not given", name,
                (long long)ttl_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX);
}

static int copy_options(struct redlock_quorum_options *to,
                        const struct redlock_quorum_options *from, struct redlock_error *error) {
    redlock_quorum_options_init(to);
    if (!from) return REDLOCK_OK;
    if (!sized_take(to, sizeof *to, from, FIRST_QUORUM_OPTIONS))
        return fail(
            error, REDLOCK_BAD_ARGUMENT,
            "quorum options of an unknown size: fill them with redlock_quorum_options_init()");
    int result = check_ttl_max(error, "ttl_ms_max", to->ttl_ms_max);
    if (result == REDLOCK_OK)
        result = check_ttl_max(error, "ttl_ms_max_before", to->ttl_ms_max_before);
    if (result != REDLOCK_OK || (to->fence_floor >= 0 && to->fence_floor < REDLOCK_FENCE_MAX))
        return result;
    return fail(error, REDLOCK_BAD_ARGUMENT, "fence_floor is %lld; it must be between 0 and %lld",
                (long long)to->fence_floor, (long long)REDLOCK_FENCE_MAX - 1);
}

/* ---- a task in the caller's thread ---- */

static void notify(struct quorum_task *task) {
    if (task->context) waiter_finish(task->context);
}

/* The mutex is released meanwhile, because the callback may take long. False: the callback forked
 * the process. */
static bool show_reports(struct quorum_task *task, const struct redlock_quorum_options *options) {
    struct task_report reports[TASK_REPORTS];
    unsigned count = task->reports_count;
    memcpy(reports, task->reports, sizeof reports);
    task->reports_count = 0;
    if (client_leave_notifying(task->client, REDLOCK_OK) != REDLOCK_OK) return false;
    for (unsigned i = 0; i < count && options->progress; i++)
        options->progress(options->progress_context, task_report_text(reports[i].what),
                          reports[i].left < 0 ? -1 : (reports[i].left + RL_MS - 1) / RL_MS);
    return client_enter(task->client) == REDLOCK_OK;
}

static int run(struct redlock_client *client, struct rl_membership_wish wish,
               const struct redlock_quorum_options *options, struct redlock_error *error) {
    struct redlock_quorum_options own;
    if (!client) return fail_null(error);
    int result = copy_options(&own, options, error);
    if (result != REDLOCK_OK) return result;
    if (client->options.mode != REDLOCK_MODE_GUARDED)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "the client was opened in classic mode: a quorum needs mode GUARDED");
    if (wish.kind == RL_MEMBERSHIP_INIT) wish.ttl_max_ms = own.ttl_ms_max;
    wish.ttl_max_before_ms = own.ttl_ms_max_before;
    wish.fence_floor = own.fence_floor;
    wish.never_used = own.never_used;
    if (schedule_is_forked(&client->schedule)) return fail_forked(error);
    struct quorum_task *task = task_start(client, wish, notify, NULL);
    if (!task) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (client_enter(client) != REDLOCK_OK) return fail_forked(error);
    do {
        if (!task->over && task->reports_count == 0) {
            struct waiter waiter;
            waiter_init(&waiter);
            task->context = &waiter;
            schedule_wait(&client->schedule, &waiter);
            task->context = NULL;
        }
        if (!show_reports(task, &own)) return fail_forked(error);
    } while (!task->over || task->reports_count > 0);
    hand_over(client, &task->machine.view);
    if (client_leave_notifying(client, REDLOCK_OK) != REDLOCK_OK) return fail_forked(error);
    result = task_result(task, error);
    task_free(task);
    return result;
}

int redlock_quorum_init(struct redlock_client *client, const struct redlock_quorum_options *options,
                        struct redlock_error *error) {
    return run(client, (struct rl_membership_wish){.kind = RL_MEMBERSHIP_INIT}, options, error);
}

int redlock_quorum_add(struct redlock_client *client, size_t node,
                       const struct redlock_quorum_options *options, struct redlock_error *error) {
    if (!client) return fail_null(error);
    if (node >= redlock_client_nodes(client))
        return fail(error, REDLOCK_BAD_ARGUMENT, "cannot add node %zu: the client has %zu nodes",
                    node, redlock_client_nodes(client));
    return run(client,
               (struct rl_membership_wish){.kind = RL_MEMBERSHIP_ADD, .node = (unsigned)node},
               options, error);
}

int redlock_quorum_remove(struct redlock_client *client, const char *id,
                          const struct redlock_quorum_options *options,
                          struct redlock_error *error) {
    struct rl_membership_wish wish = {.kind = RL_MEMBERSHIP_REMOVE};
    bool hex = id && strlen(id) == 16 && strspn(id, "0123456789abcdefABCDEF") == 16;
    if (!hex || sscanf(id, "%16" SCNx64, &wish.id) != 1 || wish.id == 0)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "name the member to remove by its id, 16 hexadecimal digits");
    return run(client, wish, options, error);
}

int redlock_quorum_set_ttl_max(struct redlock_client *client, int64_t ttl_ms,
                               const struct redlock_quorum_options *options,
                               struct redlock_error *error) {
    if (ttl_ms < REDLOCK_TTL_MS_MIN || ttl_ms > REDLOCK_TTL_MS_MAX)
        return fail(error, REDLOCK_BAD_ARGUMENT, "ttl_ms is %lld; it must be between %d and %d",
                    (long long)ttl_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX);
    return run(client,
               (struct rl_membership_wish){.kind = RL_MEMBERSHIP_SET_TTL_MAX, .ttl_max_ms = ttl_ms},
               options, error);
}
