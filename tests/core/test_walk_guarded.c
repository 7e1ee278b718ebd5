/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A random walk of two clients over five nodes of guarded mode, for one resource. Nodes lose their
 * data, change their nonces, recover; requests are carried out in order and some time later, their
 * answers are told later still or lost; clients read records late; one client has a clock that is
 * behind, or none, so that it must raise its proposals.
 *
 * What must hold: no two clients hold at once, and every token is above all that were won before.
 *
 * The seed is printed; REDLOCK_WALK_SEED=N repeats a walk.
 */
#include "machine.h"
#include "core/mix.h"

#include <stdlib.h>

#define STEPS 5000000
#define NODES 5
#define CLIENTS 2
#define QUEUE 24

enum op { OP_SET, OP_RAISE, OP_CONFIRM, OP_RELEASE };

struct request {
    enum op op;
    unsigned token;
    int64_t fence;
    uint64_t nonce; /* which the client knew */
    bool done, lost;
    enum rl_vote vote;
    int64_t reported; /* the fence in the answer */
};

struct line { /* from one client to one node */
    struct request queue[QUEUE];
    unsigned queued;
};

struct node {
    unsigned token; /* 0: no key */
    rl_ns ends;
    int64_t fence;
    uint64_t nonce; /* the fences are found by this name only */
    bool recovering, registered;
    rl_ns registered_at;
};

enum view { VIEW_READING, VIEW_INTACT, VIEW_RECOVERING };

struct client {
    struct line line[NODES];
    enum view view[NODES];
    uint64_t nonce[NODES];
    struct rl_terms terms;
    struct rl_retry_rules retry;
    struct rl_acquire acquire;
    unsigned token, wants;
    rl_ns wake_at, holds_until; /* 0: holds nothing */
    rl_ns clock_behind;         /* RL_NEVER: no clock */
    rl_mask asked, unreleased;
    int64_t proposal;
    /* The same count as the core's, kept by other means: for which fence a node has voted, and
     * whether it confirmed. */
    int64_t voted[NODES];
    rl_mask confirmed;
};

static struct world {
    uint64_t random, nonces;
    rl_ns now;
    struct node node[NODES];
    struct client client[CLIENTS];
    unsigned tokens;
    int64_t won_fence; /* the highest */
    unsigned won, raised, late_joins, confirmed, refused, dropped, lost, registered, recovered,
        over;
} w;

static uint64_t draw(uint64_t below) { return rl_splitmix64(&w.random) % below; }

/* ---- nodes ---- */

static bool knows_fences(const struct node *node, const struct request *request) {
    return !node->recovering && node->nonce == request->nonce;
}

static bool raise_fence(struct node *node, const struct request *request) {
    if (!knows_fences(node, request) || node->fence >= request->fence) return false;
    node->fence = request->fence;
    return true;
}

static void carry_out(struct node *node, struct request *request) {
    bool mine = node->token == request->token;
    request->done = true;
    switch (request->op) {
    case OP_SET: {
        bool set = node->token == 0;
        bool raised = raise_fence(node, request); /* tried whatever the SET said */
        if (set) node->token = request->token, node->ends = w.now + 1000 * RL_MS;
        request->vote = !set ? RL_VOTE_DENIED : raised ? RL_VOTE_GRANTED : RL_VOTE_STALE;
        break;
    }
    case OP_RAISE:
        request->vote = raise_fence(node, request) ? RL_VOTE_GRANTED : RL_VOTE_STALE;
        request->reported = knows_fences(node, request) ? node->fence : 0;
        break;
    case OP_CONFIRM:
        request->vote = !knows_fences(node, request)            ? RL_VOTE_FAILED
                        : mine && node->fence == request->fence ? RL_VOTE_GRANTED
                                                                : RL_VOTE_STALE;
        break;
    case OP_RELEASE:
        request->vote = mine ? RL_VOTE_GRANTED : RL_VOTE_ABSENT;
        if (mine) node->token = 0;
        break;
    }
}

static unsigned count_intact(void) {
    unsigned intact = 0;
    for (unsigned n = 0; n < NODES; n++) intact += !w.node[n].recovering;
    return intact;
}

/* All that it had is gone; a majority stays. Restarted, it closes its connections; flushed, it says
 * nothing. */
static void lose_data(unsigned n, bool restarted) {
    if (w.node[n].recovering || count_intact() <= rl_quorum(NODES)) return;
    w.node[n] = (struct node){.nonce = ++w.nonces, .recovering = true};
    w.lost++;
    for (unsigned c = 0; c < CLIENTS && restarted; c++) {
        struct client *client = &w.client[c];
        client->view[n] = VIEW_READING;
        for (unsigned i = 0; i < client->line[n].queued; i++) {
            struct request *request = &client->line[n].queue[i];
            if (!request->done)
                request->lost = request->done = true, request->vote = RL_VOTE_FAILED;
        }
    }
}

/* The new incarnation is made known: every node that is intact changes its nonce, and its fences
 * stay. */
static void register_incarnation(struct node *node) {
    for (unsigned n = 0; n < NODES; n++)
        if (!w.node[n].recovering) w.node[n].nonce = ++w.nonces;
    node->registered = true;
    node->registered_at = w.now;
    w.registered++;
}

/* After the wait, with the highest fence of any majority that is intact. */
static void recover(struct node *node) {
    if (w.now < node->registered_at + 1010 * RL_MS) return;
    unsigned skip = count_intact() - rl_quorum(NODES);
    for (unsigned i = 0, first = (unsigned)draw(NODES); i < NODES; i++) {
        const struct node *source = &w.node[(first + i) % NODES];
        if (source->recovering) continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        if (source->fence > node->fence) node->fence = source->fence;
    }
    node->recovering = node->registered = false;
    node->nonce = ++w.nonces;
    w.recovered++;
}

static void agent(struct node *node) {
    if (!node->recovering) return;
    if (node->registered)
        recover(node);
    else
        register_incarnation(node);
}

static void pass(rl_ns time) {
    w.now += time;
    for (unsigned n = 0; n < NODES; n++)
        if (w.node[n].token != 0 && w.node[n].ends <= w.now) w.node[n].token = 0;
}

/* While no client moves, nearly all nodes lose their data, but never a majority at once. */
static void disaster(void) {
    for (unsigned first = 0; first < NODES - 1; first += 2) {
        for (unsigned n = first; n < first + 2; n++) lose_data(n, draw(2) != 0);
        for (unsigned n = first; n < first + 2; n++)
            if (w.node[n].recovering && !w.node[n].registered) register_incarnation(&w.node[n]);
        pass(1100 * RL_MS);
        for (unsigned n = first; n < first + 2; n++) agent(&w.node[n]);
    }
}

/* ---- clients ---- */

static rl_mask in_view(const struct client *client, enum view view) {
    rl_mask mask = 0;
    for (unsigned n = 0; n < NODES; n++)
        if (client->view[n] == view) mask |= rl_bit(n);
    return mask;
}

static void send(struct client *client, rl_mask mask, enum op op, int64_t fence) {
    for (unsigned n = 0; n < NODES; n++) {
        if ((mask & rl_bit(n)) == 0) continue;
        struct line *line = &client->line[n];
        assert_true(line->queued < QUEUE);
        for (unsigned i = 0; i < line->queued && op != OP_RELEASE; i++) /* one question at a time */
            assert_true(line->queue[i].op == OP_RELEASE || line->queue[i].token != client->token);
        line->queue[line->queued++] = (struct request){
            .op = op, .token = client->token, .fence = fence, .nonce = client->nonce[n]};
    }
}

static void begin_try(struct client *client, const struct rl_actions *actions) {
    assert_int_equal(client->unreleased, 0);
    assert_true(actions->fresh_token);
    client->token = ++w.tokens;
    client->asked = client->unreleased = actions->acquire;
    client->confirmed = 0;
    memset(client->voted, 0, sizeof client->voted);
}

static void check_actions(struct client *client, const struct rl_actions *actions,
                          const struct rl_event *event) {
    rl_mask askable = event->ready & (rl_mask)~event->voided;
    assert_int_equal((actions->acquire | actions->raise) & ~askable, 0);
    assert_true(actions->acquire == 0 || rl_count(actions->acquire) >= rl_quorum(NODES));
    assert_int_equal((actions->raise | actions->confirm) & ~client->asked, 0);
    assert_true(actions->acquire == 0 || actions->fence > client->proposal);
    if (actions->acquire | actions->raise | actions->confirm) {
        assert_true(actions->fence >= client->proposal &&
                    actions->fence == client->acquire.attempt.fence);
        assert_true(actions->confirm == 0 || actions->fence == client->proposal);
        w.late_joins += actions->raise != 0 && actions->fence == client->proposal;
        client->proposal = actions->fence;
    }
    if (actions->release != 0)
        assert_int_equal(actions->release, client->asked); /* everywhere we asked */
    client->unreleased &= (rl_mask)~actions->release;
}

static unsigned count_votes(const struct client *client) {
    unsigned count = 0;
    for (unsigned n = 0; n < NODES; n++) count += client->voted[n] == client->proposal;
    return count;
}

static void check_won(const struct client *client) {
    const struct rl_attempt *attempt = &client->acquire.attempt;
    assert_int_equal(attempt->fence, client->proposal);
    assert_true(attempt->fence > w.won_fence); /* unique, and above all before */
    assert_true(count_votes(client) >= rl_quorum(NODES));
    if (client->terms.confirm) assert_true(rl_count(client->confirmed) >= rl_quorum(NODES));
    assert_true(attempt->validity_end > w.now);
    for (unsigned c = 0; c < CLIENTS; c++)
        assert_true(w.client[c].holds_until <= w.now); /* one at a time */
}

static void begin(struct client *client);

static void give(struct client *client, struct rl_event event) {
    struct rl_actions actions;
    event.ready = in_view(client, VIEW_INTACT);
    event.voided = in_view(client, VIEW_RECOVERING);
    event.settled = rl_all(NODES);
    event.fence_hint = client->clock_behind == RL_NEVER ? 0 : (w.now - client->clock_behind) / 1000;
    for (unsigned n = 0; n < NODES; n++)
        if (event.voided & rl_bit(n)) w.dropped += client->voted[n] != 0, client->voted[n] = 0;
    enum rl_attempt_state before = client->acquire.attempt.state;
    rl_acquire_step(&client->acquire, &event, w.now, &actions);
    check_actions(client, &actions, &event);
    if (actions.acquire != 0) begin_try(client, &actions);
    send(client, actions.acquire, OP_SET, actions.fence);
    send(client, actions.raise, OP_RAISE, actions.fence);
    send(client, actions.confirm, OP_CONFIRM, actions.fence);
    send(client, actions.release, OP_RELEASE, 0);
    client->wake_at = actions.wake_at;
    w.refused +=
        before == RL_ATTEMPT_CONFIRMING && client->acquire.attempt.state == RL_ATTEMPT_LOST;
    if (actions.outcome == RL_OUTCOME_NONE) return;
    if (actions.outcome != RL_OUTCOME_OK) {
        assert_int_equal(client->unreleased, 0);
        w.over++;
        begin(client);
        return;
    }
    check_won(client);
    w.won++;
    w.raised += client->acquire.attempt.raises != 0;
    w.confirmed += client->terms.confirm;
    w.won_fence = client->proposal;
    client->holds_until = client->acquire.attempt.validity_end;
}

static void begin(struct client *client) {
    client->wants++;
    client->proposal = 0;
    client->holds_until = 0;
    client->asked = client->unreleased = 0;
    client->terms.confirm = draw(3) == 0;
    if (client == &w.client[1]) client->clock_behind = draw(2) ? RL_NEVER : 5 * RL_MS;
    client->retry.retries_max = (uint32_t)draw(4);
    rl_acquire_init(&client->acquire, &client->terms, &client->retry);
    give(client, (struct rl_event){.type = RL_EVENT_START, .seed = draw(UINT64_MAX)});
}

static void let_go(struct client *client) {
    if (client->acquire.state != RL_ACQUIRE_WON) return;
    send(client, client->asked, OP_RELEASE, 0);
    begin(client);
}

static void hear(struct client *client, unsigned n) {
    struct line *line = &client->line[n];
    if (line->queued == 0 || !line->queue[0].done) return;
    struct request request = line->queue[0];
    memmove(line->queue, line->queue + 1, --line->queued * sizeof request);
    if (request.token != client->token || client->asked == 0) return;
    if (request.op != OP_RELEASE && draw(60) == 0)
        request.lost = true, request.vote = RL_VOTE_FAILED;
    bool gone = request.op == OP_RAISE && request.vote == RL_VOTE_STALE && request.reported == 0;
    if (gone && client->view[n] == VIEW_INTACT) client->view[n] = VIEW_READING;
    if (request.vote == RL_VOTE_GRANTED && request.op == OP_CONFIRM) client->confirmed |= rl_bit(n);
    if (request.vote == RL_VOTE_GRANTED && request.op <= OP_RAISE) client->voted[n] = request.fence;
    give(client,
         (struct rl_event){.type = request.op == OP_RELEASE ? RL_EVENT_UNLOCKED : RL_EVENT_VOTE,
                           .node = (uint8_t)n,
                           .vote = request.vote,
                           .fence = request.vote == RL_VOTE_STALE ? request.reported : 0});
}

static void work(struct client *client, unsigned n) {
    struct line *line = &client->line[n];
    for (unsigned i = 0; i < line->queued; i++) {
        if (line->queue[i].done) continue;
        carry_out(&w.node[n], &line->queue[i]);
        return;
    }
}

/* A record is read: when something said that it changed, and once in a while. */
static void read_record(struct client *client, unsigned n) {
    if (client->view[n] == VIEW_INTACT && draw(10) != 0) return;
    client->view[n] = w.node[n].recovering ? VIEW_RECOVERING : VIEW_INTACT;
    client->nonce[n] = w.node[n].nonce;
    give(client, (struct rl_event){.type = RL_EVENT_NODES, .node = (uint8_t)n});
}

static void caller(struct client *client) {
    if (client->acquire.state == RL_ACQUIRE_WON) {
        if (client->holds_until <= w.now || draw(8) == 0) let_go(client);
    } else if (draw(60) == 0) {
        give(client, (struct rl_event){.type = RL_EVENT_CANCEL});
    } else if (draw(8) == 0) {
        give(client, (struct rl_event){.type = RL_EVENT_WAKE});
    }
}

static void pass_time(void) {
    pass(draw(2000) == 0 ? (rl_ns)draw(2000) * RL_MS : (rl_ns)draw(RL_MS / 2));
    for (unsigned c = 0; c < CLIENTS; c++)
        if (w.now >= w.client[c].wake_at && draw(4) != 0)
            give(&w.client[c], (struct rl_event){.type = RL_EVENT_TICK});
}

static void step(void) {
    struct client *client = &w.client[draw(CLIENTS)];
    unsigned n = (unsigned)draw(NODES);
    uint64_t choice = draw(1000);
    if (choice < 350)
        work(client, n);
    else if (choice < 700)
        hear(client, n);
    else if (choice < 850)
        pass_time();
    else if (choice < 960)
        read_record(client, n);
    else if (choice < 980)
        caller(client);
    else if (choice < 998)
        agent(&w.node[n]);
    else if (draw(20) != 0)
        lose_data(n, draw(2) != 0);
    else
        disaster();
}

static void test_walk(void **state) {
    (void)state;
    const char *wanted = getenv("REDLOCK_WALK_SEED");
    w.random = wanted ? strtoull(wanted, NULL, 0) : 20240229;
    printf("REDLOCK_WALK_SEED=%llu\n", (unsigned long long)w.random);
    w.now = 10000 * RL_MS;
    for (unsigned n = 0; n < NODES; n++) w.node[n].nonce = ++w.nonces;
    for (unsigned c = 0; c < CLIENTS; c++) {
        struct client *client = &w.client[c];
        client->terms = test_terms(NODES);
        client->terms.guarded = true;
        client->retry = (struct rl_retry_rules){
            .deadline = RL_NEVER, .delay_min = 5 * RL_MS, .delay_max = 25 * RL_MS};
        client->retry.connect_timeout = 100 * RL_MS;
        begin(client);
    }
    for (unsigned i = 0; i < STEPS; i++) step();
    printf(
        "won %u, of these raised %u, confirmed %u; joined a raise %u, not confirmed %u, votes dropped %u\n"
        "over %u, data lost %u, registered %u, recovered %u\n",
        w.won, w.raised, w.confirmed, w.late_joins, w.refused, w.dropped, w.over, w.lost,
        w.registered, w.recovered);
    /* A walk that never came by proves nothing. */
    assert_true(w.won > 1000 && w.raised > 300 && w.confirmed > 300 && w.over > 1000);
    assert_true(w.late_joins > 500 && w.refused > 100 && w.dropped > 100);
    assert_true(w.lost > 200 && w.registered > 200 && w.recovered > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walk)};
    return cmocka_run_group_tests_name("walk_guarded", tests, NULL, NULL);
}
