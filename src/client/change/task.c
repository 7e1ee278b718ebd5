/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Carries out the requests of the operator's machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "change.h"

/* What is asked of some nodes, each by a request of its own, and their state. */
enum { MAIN, STATE, QUESTIONS };

struct inquiry {
    struct ask ask;
    uint32_t number;
    enum rl_membership_ask what;
    uint64_t nonces[RL_NODES_MAX];
    int64_t floor[RL_STRIPES];
    struct net_request requests[RL_NODES_MAX];
    struct known {
        bool stated, has_fences;
        int verdict;
        struct net_state state;
        int64_t *fences; /* kept until the state that was asked after them has come */
    } known[RL_NODES_MAX];
    struct record_text texts[RL_NODES_MAX];
};

/* ---- asking ---- */

/* The value of a record and of fences depends on the server's data. A change of the data between
 * the two questions shows when the state comes first and the record is compared with it, or when
 * the state comes after the fences. */
static bool post(struct inquiry *inquiry, unsigned node, rl_ns until) {
    struct question *main = &inquiry->ask.questions[MAIN], *state = &inquiry->ask.questions[STATE];
    const rl_mask to = rl_bit(node);
    if (inquiry->what == RL_ASK_READ && !ask_send(state, to, &state->request, until)) return false;
    if (!ask_send(main, to, &inquiry->requests[node], until)) return false;
    return inquiry->what != RL_ASK_FENCES || ask_send(state, to, &state->request, until);
}

static ask_answered_fn on_answer;

static struct inquiry *inquiry_new(struct quorum_task *task,
                                   const struct rl_membership_actions *actions) {
    static const enum net_op ops[] = {[RL_ASK_READ] = NET_RECORD,
                                      [RL_ASK_WRITE] = NET_RECORD_WRITE,
                                      [RL_ASK_FENCES] = NET_FENCES};
    const size_t fences = actions->ask == RL_ASK_FENCES ? RL_STRIPES * sizeof(int64_t) : 0;
    struct inquiry *inquiry = ask_new(task->client, sizeof *inquiry, QUESTIONS,
                                      rl_count(actions->nodes) * fences, on_answer);
    if (!inquiry) return NULL;
    ask_join(&inquiry->ask, task, &task->asks);
    inquiry->number = task->asked = actions->question;
    inquiry->what = actions->ask;
    inquiry->ask.questions[STATE].request = (struct net_request){.op = NET_STATE};
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        const struct rl_guard_node *node = &task->machine.view.node[i];
        inquiry->nonces[i] = node->record.nonce;
        inquiry->requests[i] = (struct net_request){
            .op = ops[actions->ask], .nonces = inquiry->nonces, .was_kept = actions->kept};
        if (!(actions->nodes & rl_bit(i))) continue;
        if (fences) inquiry->known[i].fences = ask_room(&inquiry->ask, fences);
        if (actions->ask != RL_ASK_WRITE) continue;
        inquiry->requests[i] = guard_write_request(node, &inquiry->texts[i]);
        if (!node->floor) continue;
        memcpy(inquiry->floor, node->floor, sizeof inquiry->floor);
        inquiry->requests[i].floor = inquiry->floor;
    }
    return inquiry;
}

static void ask(struct quorum_task *task, const struct rl_membership_actions *actions) {
    const unsigned nodes = task->machine.wish.nodes;
    rl_ns until = net_now(task->client->net) + task->machine.wish.answer_timeout;
    asks_leave(&task->asks);
    for (unsigned i = 0; i < nodes; i++) /* the reason, if it never answers */
        if (actions->ask == RL_ASK_READ || (actions->nodes & rl_bit(i)))
            task->verdict[i] = ask_silence(task->client, i);
    struct inquiry *inquiry = inquiry_new(task, actions);
    if (!inquiry) {
        task->no_memory = task->over = true;
        return;
    }
    for (unsigned i = 0; i < nodes; i++)
        if ((actions->nodes & rl_bit(i)) && !post(inquiry, i, until)) task->failed |= rl_bit(i);
    ask_unref(&inquiry->ask);
}

/* ---- steps ---- */

static void step_once(struct quorum_task *task, struct rl_membership_event event) {
    struct net *net = task->client->net;
    struct rl_membership_actions actions;
    int64_t wall_us = net_wall_us(net);
    event.wall_us = wall_us < REDLOCK_FENCE_MAX ? wall_us : 0;
    if (net_random(net, &event.random, sizeof event.random) != 0) event.random = 0;
    event.ready = net_ready(net, net_now(net));
    for (unsigned i = 0; i < task->machine.wish.nodes; i++)
        if (client_status(task->client, i).verdict == REDLOCK_VERDICT_TWICE_LISTED)
            event.twice |= rl_bit(i);
    rl_membership_step(&task->machine, &event, net_now(net), &actions);
    if (actions.ask != RL_ASK_NOTHING) task->failed = 0; /* the question before has ended */
    task->gathering = actions.ask == RL_ASK_GATHER;
    task->over = actions.over;
    if (actions.ask != RL_ASK_NOTHING && !task->gathering) ask(task, &actions);
    if (actions.report != RL_REPORT_NOTHING && task->reports_count < TASK_REPORTS)
        task->reports[task->reports_count++] =
            (struct task_report){.what = actions.report, .left = actions.left};
    net_timer_set(net, &task->timer, task->over ? RL_NEVER : actions.wake_at);
}

static bool is_gathered(const struct quorum_task *task) {
    return task->gathering && client_settled(task->client) == rl_all(task->machine.wish.nodes);
}

static void step(struct quorum_task *task, struct rl_membership_event event) {
    if (task->over) return;
    unsigned before = task->reports_count;
    step_once(task, event);
    while (!task->over && (task->failed || is_gathered(task))) {
        struct rl_membership_event next = {.type = RL_MEMBERSHIP_GATHERED};
        if (task->failed) {
            next.type = RL_MEMBERSHIP_FAILED;
            next.question = task->asked;
            while (!(task->failed & rl_bit(next.node))) next.node++;
            task->failed &= (rl_mask)~rl_bit(next.node);
        }
        step_once(task, next);
    }
    if (task->over) asks_leave(&task->asks);
    if ((task->over || task->reports_count > before) && task->notify) task->notify(task);
}

static void on_timer(struct net_timer *timer) {
    step(RL_CONTAINER(timer, struct quorum_task, timer),
         (struct rl_membership_event){.type = RL_MEMBERSHIP_TICK});
}

void tasks_check(struct redlock_client *client) {
    for (struct quorum_task *task = client->tasks, *next; task; task = next) {
        next = task->next;
        if (is_gathered(task))
            step(task, (struct rl_membership_event){.type = RL_MEMBERSHIP_GATHERED});
    }
}

/* ---- answers ---- */

/* Passes the answer on while the reply's memory is valid. */
static void deliver(struct inquiry *inquiry, unsigned node, struct rl_membership_event event,
                    int verdict) {
    struct quorum_task *task = inquiry->ask.asker;
    struct net_node_status status = client_status(inquiry->ask.client, node);
    task->verdict[node] = verdict;
    event.node = (uint8_t)node;
    event.question = inquiry->number;
    event.run_id = status.run_id;
    event.replid = inquiry->known[node].state.replid;
    event.evicted = inquiry->known[node].state.evicted;
    step(task, event);
}

static bool is_old(const char *version) {
    unsigned major = 0, minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

static void take_record(struct inquiry *inquiry, unsigned node, const struct net_reply *reply) {
    const struct known *known = &inquiry->known[node];
    bool reported =
        reply->verdict == REDLOCK_VERDICT_GRANTED || reply->verdict == REDLOCK_VERDICT_ABSENT;
    struct rl_membership_event event = {.type = RL_MEMBERSHIP_FAILED};
    struct rl_record record;
    char why[FITNESS_TEXT_BYTES] = "";
    if (reported && known->stated) {
        fitness_judge(inquiry->ask.client, &known->state, why, sizeof why);
        event.type = RL_MEMBERSHIP_RECORD;
        event.unfit = why[0] != '\0';
        event.old = is_old(client_status(inquiry->ask.client, node).version);
        ((struct quorum_task *)inquiry->ask.asker)->state[node] = known->state;
        if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
            event.unreadable = !record_read(&record, reply->items, reply->items_count);
            event.record = event.unreadable ? NULL : &record;
        }
    }
    deliver(inquiry, node, event, known->stated ? reply->verdict : known->verdict);
}

/* The server announces a change of its record to all connections except the one that made it. So
 * this client's own guard is notified here. */
static void take_written(struct inquiry *inquiry, unsigned node, const struct net_reply *reply) {
    bool done = reply->verdict == REDLOCK_VERDICT_GRANTED;
    bool reported = done || reply->verdict == REDLOCK_VERDICT_DENIED;
    if (done) guard_peek(inquiry->ask.client->guard, node);
    if (!inquiry->ask.asker) return;
    deliver(inquiry, node,
            (struct rl_membership_event){
                .type = reported ? RL_MEMBERSHIP_WRITTEN : RL_MEMBERSHIP_FAILED, .done = done},
            reply->verdict);
}

static void take_state(struct inquiry *inquiry, unsigned node, const struct net_reply *reply) {
    struct known *known = &inquiry->known[node];
    known->stated = reply->verdict == REDLOCK_VERDICT_GRANTED;
    if (known->stated) known->state = *reply->state;
    if (inquiry->what == RL_ASK_READ) { /* the record comes after it */
        known->verdict = reply->verdict;
        return;
    }
    bool reported = known->has_fences || known->verdict == REDLOCK_VERDICT_RECOVERING;
    struct rl_membership_event event = {.type = RL_MEMBERSHIP_FAILED};
    if (reported && known->stated) {
        event.type = RL_MEMBERSHIP_FENCES;
        event.fences = known->has_fences ? known->fences : NULL;
    }
    deliver(inquiry, node, event, known->verdict);
}

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    struct inquiry *inquiry = RL_CONTAINER(question->ask, struct inquiry, ask);
    struct known *known = &inquiry->known[node];
    if (inquiry->what == RL_ASK_WRITE) {
        take_written(inquiry, node, reply);
    } else if (!inquiry->ask.asker) { /* the next question was put meanwhile */
    } else if (question == &inquiry->ask.questions[STATE]) {
        take_state(inquiry, node, reply);
    } else if (inquiry->what == RL_ASK_READ) {
        take_record(inquiry, node, reply);
    } else {
        known->verdict = reply->verdict;
        known->has_fences = reply->verdict == REDLOCK_VERDICT_GRANTED;
        if (known->has_fences)
            memcpy(known->fences, reply->fences, RL_STRIPES * sizeof known->fences[0]);
    }
    return false;
}

/* ---- beginning and end ---- */

static void fill_in(struct quorum_task *task, struct rl_membership_wish wish) {
    struct redlock_client *client = task->client;
    const struct rl_guard *guard = &client->guard->machine;
    for (unsigned i = 0; i < client->nodes; i++) {
        task->url[i] = client_status(client, i).url;
        if (strlen(task->url[i]) >= RL_URL_BYTES) wish.url_too_long |= rl_bit(i);
    }
    wish.nodes = client->nodes;
    wish.pinned = guard->pinned != 0;
    wish.quorum_id = guard->pinned ? guard->pinned : guard->decided ? guard->quorum.quorum_id : 0;
    wish.ttl_max_ms_default = REDLOCK_QUORUM_TTL_MS_MAX;
    wish.drift_ppm = client->options.drift_ppm;
    wish.drift_fixed = client->options.drift_ms * RL_MS;
    wish.answer_timeout = client->options.connect_timeout_ms * RL_MS;
    rl_membership_init(&task->machine, &wish);
    for (unsigned i = 0; i < client->nodes; i++)
        record_place(task->machine.view.node[i].url, task->url[i]);
}

struct quorum_task *task_start(struct redlock_client *client, struct rl_membership_wish wish,
                               void (*notify)(struct quorum_task *task), void *context) {
    struct quorum_task *task = calloc(1, sizeof *task);
    if (!task) return NULL;
    if (client_enter(client) != REDLOCK_OK) {
        free(task);
        return NULL;
    }
    task->client = client;
    task->timer.fire = on_timer;
    task->notify = notify;
    task->context = context;
    task->next = client->tasks;
    client->tasks = task;
    fill_in(task, wish);
    step(task, (struct rl_membership_event){.type = RL_MEMBERSHIP_BEGIN});
    client_leave(client);
    return task;
}

void task_free(struct quorum_task *task) {
    struct redlock_client *client = task->client;
    struct quorum_task **at = &client->tasks;
    if (client_enter(client) != REDLOCK_OK) return;
    while (*at != task) at = &(*at)->next;
    *at = task->next;
    net_timer_set(client->net, &task->timer, RL_NEVER);
    asks_leave(&task->asks);
    client_leave(client);
    free(task);
}
