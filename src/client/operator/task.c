/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Carries out the requests of the operator's machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/guarding/guarding.h"
#include "operator.h"

/* It lives until the last node has answered, which may be after the task has ended. */
struct task_question {
    unsigned refs;            /* one for the task, one for each busy call */
    struct quorum_task *task; /* NULL: no task waits for it any more */
    struct redlock_client *client;
    uint32_t number;
    enum rl_membership_ask what;
    uint64_t nonces[RL_NODES_MAX];
    int64_t floor[RL_STRIPES];
    struct net_request state;
    struct net_call states[RL_NODES_MAX];
    struct net_request requests[RL_NODES_MAX];
    struct net_call calls[RL_NODES_MAX];
    struct task_answer {
        bool stated, has_fences;
        int verdict;
        struct net_state state;
        int64_t *fences; /* kept until the state that was asked after them has come */
    } answers[RL_NODES_MAX];
    struct record_text texts[RL_NODES_MAX];
};

static void question_unref(struct task_question *question) {
    if (--question->refs > 0) return;
    for (unsigned i = 0; i < RL_NODES_MAX; i++) free(question->answers[i].fences);
    free(question);
}

static void question_leave(struct quorum_task *task) {
    if (!task->question) return;
    task->question->task = NULL;
    question_unref(task->question);
    task->question = NULL;
}

/* ---- asking ---- */

static bool post(struct task_question *question, unsigned node, const struct net_request *request,
                 struct net_call *calls, rl_ns until) {
    struct net *net = question->client->net;
    if (!net_send(net, rl_bit(node), request, calls, until, net_now(net))) return false;
    question->refs++;
    return true;
}

/* The value of a record and of fences depends on the server's data. A change of the data between
 * the two questions shows when the state comes first and the record is compared with it, or when
 * the state comes after the fences. */
static bool post_all(struct task_question *question, unsigned node, rl_ns until) {
    const struct net_request *request = &question->requests[node];
    if (question->what == RL_ASK_READ &&
        !post(question, node, &question->state, question->states, until))
        return false;
    if (!post(question, node, request, question->calls, until)) return false;
    return question->what != RL_ASK_FENCES ||
           post(question, node, &question->state, question->states, until);
}

static net_answered_fn on_answer;

static struct task_question *question_new(struct quorum_task *task,
                                          const struct rl_membership_actions *actions) {
    static const enum net_op ops[] = {[RL_ASK_READ] = NET_RECORD,
                                      [RL_ASK_WRITE] = NET_RECORD_WRITE,
                                      [RL_ASK_FENCES] = NET_FENCES};
    struct task_question *question = calloc(1, sizeof *question);
    if (!question) return NULL;
    question->refs = 1;
    question->task = task;
    question->client = task->client;
    question->number = actions->question;
    question->what = actions->ask;
    question->state = (struct net_request){.op = NET_STATE};
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        const struct rl_guard_node *node = &task->machine.view.node[i];
        question->nonces[i] = node->record.nonce;
        question->requests[i] = (struct net_request){
            .op = ops[actions->ask], .nonces = question->nonces, .was_kept = actions->kept};
        question->calls[i].owner = question->states[i].owner = question;
        question->calls[i].answered = question->states[i].answered = on_answer;
        if (!(actions->nodes & rl_bit(i))) continue;
        if (actions->ask == RL_ASK_WRITE) {
            question->requests[i] = guard_write_request(node, &question->texts[i]);
            if (node->floor) {
                memcpy(question->floor, node->floor, sizeof question->floor);
                question->requests[i].floor = question->floor;
            }
        }
        if (actions->ask != RL_ASK_FENCES) continue;
        question->answers[i].fences = malloc(RL_STRIPES * sizeof question->answers[i].fences[0]);
        if (question->answers[i].fences) continue;
        question_unref(question);
        return NULL;
    }
    return question;
}

static void ask(struct quorum_task *task, const struct rl_membership_actions *actions) {
    const unsigned nodes = task->machine.wish.nodes;
    rl_ns until = net_now(task->client->net) + task->machine.wish.answer_timeout;
    question_leave(task);
    for (unsigned i = 0; i < nodes; i++) { /* the reason, if it never answers */
        if (actions->ask != RL_ASK_READ && !(actions->nodes & rl_bit(i))) continue;
        int verdict = client_status(task->client, i).verdict;
        task->verdict[i] = verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : verdict;
    }
    task->question = question_new(task, actions);
    if (!task->question) {
        task->no_memory = task->over = true;
        return;
    }
    for (unsigned i = 0; i < nodes; i++)
        if ((actions->nodes & rl_bit(i)) && !post_all(task->question, i, until))
            task->failed |= rl_bit(i);
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
            next.question = task->question->number;
            while (!(task->failed & rl_bit(next.node))) next.node++;
            task->failed &= (rl_mask)~rl_bit(next.node);
        }
        step_once(task, next);
    }
    if (task->over) question_leave(task);
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
static void deliver(struct task_question *question, unsigned node, struct rl_membership_event event,
                    int verdict) {
    struct quorum_task *task = question->task;
    struct net_node_status status = client_status(question->client, node);
    task->verdict[node] = verdict;
    event.node = (uint8_t)node;
    event.question = question->number;
    event.run_id = status.run_id;
    event.replid = question->answers[node].state.replid;
    event.evicted = question->answers[node].state.evicted;
    step(task, event);
}

static bool is_old(const char *version) {
    unsigned major = 0, minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

static void take_record(struct task_question *question, unsigned node,
                        const struct net_reply *reply) {
    const struct task_answer *answer = &question->answers[node];
    bool reported =
        reply->verdict == REDLOCK_VERDICT_GRANTED || reply->verdict == REDLOCK_VERDICT_ABSENT;
    struct rl_membership_event event = {.type = RL_MEMBERSHIP_FAILED};
    struct rl_record record;
    char why[FITNESS_TEXT_BYTES] = "";
    if (reported && answer->stated) {
        fitness_judge(question->client, &answer->state, why, sizeof why);
        event.type = RL_MEMBERSHIP_RECORD;
        event.unfit = why[0] != '\0';
        event.old = is_old(client_status(question->client, node).version);
        question->task->state[node] = answer->state;
        if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
            event.unreadable = !record_read(&record, reply->items, reply->items_count);
            event.record = event.unreadable ? NULL : &record;
        }
    }
    deliver(question, node, event, answer->stated ? reply->verdict : answer->verdict);
}

/* The server announces a change of its record to all connections except the one that made it. So
 * this client's own guard is notified here. */
static void take_written(struct task_question *question, unsigned node,
                         const struct net_reply *reply) {
    bool done = reply->verdict == REDLOCK_VERDICT_GRANTED;
    bool reported = done || reply->verdict == REDLOCK_VERDICT_DENIED;
    if (done) guard_peek(question->client->guard, node);
    if (!question->task) return;
    deliver(question, node,
            (struct rl_membership_event){
                .type = reported ? RL_MEMBERSHIP_WRITTEN : RL_MEMBERSHIP_FAILED, .done = done},
            reply->verdict);
}

static void take_state(struct task_question *question, unsigned node,
                       const struct net_reply *reply) {
    struct task_answer *answer = &question->answers[node];
    answer->stated = reply->verdict == REDLOCK_VERDICT_GRANTED;
    if (answer->stated) answer->state = *reply->state;
    if (question->what == RL_ASK_READ) { /* the record comes after it */
        answer->verdict = reply->verdict;
        return;
    }
    bool reported = answer->has_fences || answer->verdict == REDLOCK_VERDICT_RECOVERING;
    struct rl_membership_event event = {.type = RL_MEMBERSHIP_FAILED};
    if (reported && answer->stated) {
        event.type = RL_MEMBERSHIP_FENCES;
        event.fences = answer->has_fences ? answer->fences : NULL;
    }
    deliver(question, node, event, answer->verdict);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct task_question *question = call->owner;
    struct task_answer *answer = &question->answers[call->node];
    if (question->what == RL_ASK_WRITE) {
        take_written(question, call->node, reply);
    } else if (!question->task) { /* the next question was put meanwhile */
    } else if (call->request == &question->state) {
        take_state(question, call->node, reply);
    } else if (question->what == RL_ASK_READ) {
        take_record(question, call->node, reply);
    } else {
        answer->verdict = reply->verdict;
        answer->has_fences = reply->verdict == REDLOCK_VERDICT_GRANTED;
        if (answer->has_fences)
            memcpy(answer->fences, reply->fences, RL_STRIPES * sizeof answer->fences[0]);
    }
    question_unref(question);
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
    question_leave(task);
    client_leave(client);
    free(task);
}
