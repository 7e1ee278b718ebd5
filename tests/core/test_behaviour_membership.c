/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What operators' machines do in drawn worlds (behaviour.h): one or two operators, one after the
 * other or at the same time, and nodes to which things happen. */
#include "behaviour.h"
#include "core/membership_inside.h"

#define EVENTS 900
enum { QUORUM = 0xaa, OTHER = 0xab, FORMER = 60, STRIPES = 3, OPERATORS = 2 };
static const unsigned stripes[STRIPES] = {0, 1, RL_STRIPES - 1};

static struct node {
    bool up, unfit, old, nameless, unreadable, has_record;
    unsigned name, process, data; /* name its URL, its run_id, and its replication id */
    uint64_t evicted;
    struct rl_record record;
    int64_t fences[STRIPES];
} nodes[RL_NODES_MAX];

static struct operator_ {
    struct rl_membership machine;
    struct rl_membership_actions asked;
    rl_mask waits; /* nodes whose answer has not come */
    bool gathers, runs;
    rl_ns wake_at;
} operators[OPERATORS];

enum kind { INIT, UNFINISHED, ADD, REMOVE, TTL_MAX, TWO, KINDS };
static const unsigned walks[KINDS] = {[INIT] = 12000,  [UNFINISHED] = 6000, [ADD] = 8000,
                                      [REMOVE] = 3000, [TTL_MAX] = 3000,    [TWO] = 4000};
static enum kind kind_now;
static unsigned nodes_count;
static uint64_t calm;  /* something happens one in so many times */
static bool contended; /* a client's guard writes before most writes of operators */
static bool lossy;     /* many answers are lost */
static rl_mask twice;
static int64_t wall_us; /* at time 0 */

/* ---- what is compared ---- */

static void fold_text(const char *text) { folded = rl_fnv1a(folded, text, strlen(text) + 1); }

static void fold_change(const struct rl_change *change) {
    fold(change->kind);
    fold((int64_t)change->id);
    fold(change->ttl_ms);
    fold_text(change->url);
}

static void fold_record(const struct rl_record *record) {
    fold(record->format | (int64_t)record->eligibility << 32);
    fold((int64_t)record->quorum_id);
    fold((int64_t)record->node_id);
    fold(record->epoch);
    fold(record->begun);
    fold(record->settled | record->members_count << 1);
    for (unsigned i = 0; i < record->members_count; i++) {
        fold((int64_t)record->members[i].id);
        fold(record->members[i].incarnation.number);
        fold_text(record->members[i].incarnation.run_id);
        fold_text(record->members[i].url);
    }
    fold_text(record->run_id);
    fold_text(record->replid);
    fold((int64_t)record->evicted);
    fold((int64_t)record->nonce);
    fold(record->ttl_max_ms);
    fold(record->ttl_next_ms);
    fold((int64_t)record->loss);
    fold(record->waited_ms);
    fold((int64_t)record->ballot);
    fold((int64_t)record->accepted_ballot);
    fold_change(&record->accepted);
}

static void fold_write(const struct rl_membership *m, unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    fold_record(&at->writing);
    fold((int64_t)at->expected);
    fold(at->was_kept | (at->floor != NULL) << 1);
    for (unsigned i = 0; i < STRIPES && at->floor; i++) fold(at->floor[stripes[i]]);
}

static void fold_problem(const struct rl_problem *problem) {
    fold(problem->kind | (int64_t)rl_problem_class(problem->kind) << 32);
    fold(problem->node);
    for (unsigned i = 0; i < 3; i++) fold(problem->count[i]);
    for (unsigned i = 0; i < 2; i++) fold((int64_t)problem->id[i]);
    fold_change(&problem->change);
    fold_text(problem->url);
}

static void fold_all(const struct rl_membership *m, const struct rl_membership_actions *actions) {
    fold((int64_t)actions->ask | (int64_t)m->state << 8 | (int64_t)actions->nodes << 16 |
         (int64_t)actions->question << 32);
    fold(actions->kept | actions->over << 1 | (int64_t)actions->report << 2);
    if (actions->report) fold(actions->left);
    fold(actions->wake_at);
    for (unsigned i = 0; i < nodes_count && actions->ask == RL_ASK_WRITE; i++)
        if (actions->nodes & rl_bit(i)) fold_write(m, i);
    if (actions->over) fold_problem(&m->problem);
}

/* ---- the nodes ---- */

/* Some are shorter than others. */
static void name_run_id(char to[RL_RUN_ID_BYTES], unsigned process) {
    snprintf(to, RL_RUN_ID_BYTES, "%.*s%u", (int)(process % 3), "xy", process);
}

static void name_replid(char to[RL_RUN_ID_BYTES], unsigned data) {
    snprintf(to, RL_RUN_ID_BYTES, "%.*sr%u", (int)(data + 2) % 3, "xy", data);
}

static void name_url(char to[RL_URL_BYTES], unsigned node) {
    snprintf(to, RL_URL_BYTES, "node%u", node);
}

static struct rl_record new_record(unsigned node, unsigned members, int64_t ttl_max_ms) {
    struct rl_record record = {.format = RL_RECORD_FORMAT,
                               .quorum_id = QUORUM,
                               .node_id = node + 1,
                               .epoch = 1,
                               .begun = 1,
                               .settled = true,
                               .members_count = (uint8_t)members,
                               .eligibility = RL_RECORD_INTACT,
                               .nonce = 100 + node,
                               .ttl_max_ms = ttl_max_ms,
                               .ttl_next_ms = ttl_max_ms};
    name_run_id(record.run_id, nodes[node].process);
    name_replid(record.replid, 0);
    for (unsigned i = 0; i < members; i++) {
        record.members[i].id = i + 1;
        name_url(record.members[i].url, i);
        record.members[i].incarnation.number = 1;
        name_run_id(record.members[i].incarnation.run_id, i);
    }
    return record;
}

/* An init's claim. */
static void leave_by_init(unsigned node, uint64_t quorum_id, uint32_t epoch) {
    struct rl_record *record = &nodes[node].record;
    if (!nodes[node].has_record) *record = new_record(node, nodes_count, 500);
    nodes[node].has_record = true;
    record->quorum_id = quorum_id;
    record->epoch = record->begun = epoch;
    record->eligibility = RL_RECORD_RECOVERING;
    record->loss = rl_loss_of_init(quorum_id, epoch);
    record->waited_ms = one_in(2) ? 10 : 0;
    record->nonce += 1000;
    name_run_id(record->run_id, nodes[node].process);
}

/* A client's guard: it lost its data. */
static void claim(unsigned node) {
    struct rl_record *record = &nodes[node].record;
    if (!nodes[node].has_record) return;
    record->eligibility = RL_RECORD_RECOVERING;
    record->loss = 70 + draw(3);
    record->nonce += 1000;
    name_run_id(record->run_id, nodes[node].process);
    for (unsigned i = 0; i < record->members_count; i++)
        if (record->members[i].id == record->node_id)
            rl_incarnation_follow(&record->members[i].incarnation, record->run_id);
}

/* A client's guard has brought it back, or up to date. */
static void recover(unsigned node) {
    const struct rl_record *newest = NULL;
    struct rl_record *record = &nodes[node].record;
    for (unsigned i = 0; i < nodes_count; i++) {
        const struct rl_record *other = &nodes[i].record;
        if (i == node || !nodes[i].has_record || other->eligibility != RL_RECORD_INTACT) continue;
        if (!newest || other->epoch > newest->epoch) newest = other;
    }
    if (!newest) return;
    const uint64_t nonce = nodes[node].has_record ? record->nonce + 1000 : 5000 + node;
    uint64_t id = node + 1;
    char url[RL_URL_BYTES];
    name_url(url, nodes[node].name);
    for (unsigned i = 0; i < newest->members_count; i++)
        if (strcmp(newest->members[i].url, url) == 0) id = newest->members[i].id;
    *record = *newest;
    record->node_id = id;
    record->nonce = nonce;
    record->ballot = record->accepted_ballot = 0;
    name_run_id(record->run_id, nodes[node].process);
    name_replid(record->replid, nodes[node].data);
    record->evicted = nodes[node].evicted;
    nodes[node].has_record = true;
    for (unsigned i = 0; i < nodes_count; i++)
        for (unsigned k = 0; k < nodes[i].record.members_count; k++) {
            struct rl_member *member = &nodes[i].record.members[k];
            if (member->id != id || strcmp(member->incarnation.run_id, record->run_id) == 0)
                continue;
            rl_incarnation_follow(&member->incarnation, record->run_id);
        }
}

/* A client's guard keeps the time that it waited. Or what looks like that is another's. */
static void hand_on(unsigned node) {
    struct rl_record *record = &nodes[node].record;
    record->waited_ms++;
    record->nonce += 1000;
    if (one_in(2)) return;
    const uint64_t which = draw(5);
    if (which == 0) record->node_id++;
    if (which == 1) nodes[node].process += 20;
    if (which == 2) record->quorum_id = record->quorum_id == OTHER ? QUORUM : OTHER;
    if (which == 3) record->epoch++;
    record->loss = which == 4 ? 70 : rl_loss_of_init(record->quorum_id, record->epoch);
}

/* Its data are a copy of another's. */
static void copy(unsigned node, unsigned of) {
    nodes[node].record = nodes[of].record;
    nodes[node].has_record = nodes[of].has_record;
    if (one_in(2)) name_run_id(nodes[node].record.run_id, nodes[node].process);
}

static void happen(unsigned node) {
    struct node *at = &nodes[node];
    struct rl_record *record = &at->record;
    if (!at->has_record) record->epoch = 1;
    switch (draw(24)) {
    case 0:
    case 1:
    case 2: at->up = !at->up; break;
    case 3: at->process += 20; break;
    case 4:
        at->process += 20;
        at->has_record = false;
        break;
    case 5: at->has_record = false; break;
    case 6: at->data++; break;
    case 7: at->evicted++; break;
    case 8: at->unfit = !at->unfit; break;
    case 9: claim(node); break;
    case 10: hand_on(node); break;
    case 11: {
        const uint32_t epoch = one_in(2) ? record->epoch : 1 + (uint32_t)draw(2);
        leave_by_init(node, one_in(2) ? QUORUM : OTHER, epoch);
        break;
    }
    case 12:
        if (record->accepted_ballot == 0) record->accepted.kind = RL_CHANGE_NONE;
        break;
    case 13: record->settled = !record->settled; break;
    case 14: at->unreadable = one_in(4); break;
    case 15: record->nonce += 1000; break;
    case 16: record->quorum_id = OTHER; break;
    case 18: at->nameless = !at->nameless; break;
    case 19: copy(node, (unsigned)draw(nodes_count)); break;
    case 17: record->node_id = FORMER + node; break;
    default: recover(node); break;
    }
}

/* ---- the beginning ---- */

static void draw_epoch(unsigned members, int64_t ttl_max_ms) {
    const uint32_t epochs[] = {1, 1, 2, 2, 3, 7, UINT32_MAX - 1, UINT32_MAX};
    const uint32_t epoch = epochs[draw(one_in(5) ? 8 : 5)];
    const bool settled = !one_in(3), first = epoch == 1 || one_in(3);
    const int64_t nexts[] = {ttl_max_ms / 2, ttl_max_ms * 2};
    const int64_t next = one_in(5) ? nexts[draw(2)] : ttl_max_ms;
    const enum rl_change_kind kind = (enum rl_change_kind)draw(4);
    for (unsigned i = 0; i < nodes_count; i++) {
        struct rl_record *record = &nodes[i].record;
        nodes[i].has_record = i < members;
        if (i >= members) continue;
        *record = new_record(i, members, ttl_max_ms);
        record->epoch = epoch;
        record->begun = first ? epoch : 1;
        record->settled = settled;
        record->accepted.kind = epoch > 1 ? kind : RL_CHANGE_NONE;
        record->accepted.id = members;
        record->accepted.ttl_ms = ttl_max_ms;
        if (kind == RL_CHANGE_ADD) name_url(record->accepted.url, members - 1);
        record->ttl_next_ms = next;
        if (one_in(8)) record->format = 1 + (uint32_t)draw(2);
        if (one_in(6)) record->accepted.kind = RL_CHANGE_NONE;
        const uint64_t ballot = one_in(8) ? draw(3) << 16 : 0;
        if (ballot) record->ballot = record->accepted_ballot = ballot | draw(4);
        if (one_in(20)) record->ballot = 0;
        if (one_in(8)) record->ballot += 1 << 16;
        if (record->accepted_ballot > 0) record->accepted.kind = RL_CHANGE_REMOVE;
        if (record->accepted_ballot > 0) record->accepted.id = 1 + draw(members);
        if (settled || !one_in(4) || record->epoch == 1) continue;
        record->epoch--; /* it has not switched */
        record->settled = true;
        record->accepted_ballot = 0;
        memset(&record->accepted, 0, sizeof record->accepted);
        if (kind == RL_CHANGE_ADD && members > 1) record->members_count--;
    }
}

/* The server to be added has a record: of a former member, or of another quorum. */
static void begin_former(unsigned members) {
    const unsigned last = nodes_count - 1;
    nodes[last].record = new_record(last, members, 500);
    nodes[last].has_record = true;
    nodes[last].record.node_id = FORMER + last;
    if (one_in(4)) nodes[last].record.quorum_id = OTHER;
}

/* A server that is no member, or one by another name. */
static void begin_stranger(unsigned members) {
    struct node *last = &nodes[nodes_count - 1];
    last->name = 17;
    last->process = one_in(2) ? 17 : (unsigned)draw(members);
    if (!one_in(4)) last->has_record = false;
    last->unreadable = one_in(12);
    if (last->has_record) last->record.node_id = FORMER;
}

static void begin_world(void) {
    static const int64_t ttls[] = {300, 600, 1000, 2000, 2400, 3000};
    nodes_count = one_in(12) ? 8 + (unsigned)draw(8) : 1 + (unsigned)draw(6);
    const bool full = kind_now == ADD && one_in(20);
    if (full) nodes_count = 12;
    const unsigned some[] = {nodes_count, nodes_count - 1, 1 + (unsigned)draw(nodes_count),
                             1 + (unsigned)draw(RL_NODES_MAX), RL_NODES_MAX};
    unsigned members = some[draw(nodes_count > 7 ? 5 : 4)];
    if (kind_now == INIT && one_in(2)) members = 0;
    if (kind_now == ADD && one_in(2)) members = nodes_count - 1;
    if (kind_now == REMOVE && one_in(2)) members = nodes_count;
    if (full) members = RL_NODES_MAX;
    memset(nodes, 0, sizeof nodes);
    calm = one_in(3) ? 100000 : 5 + draw(40);
    lossy = one_in(10);
    contended = one_in(kind_now <= UNFINISHED ? 5 : 20);
    twice = one_in(40) ? rl_bit((unsigned)draw(nodes_count)) : 0;
    now = (rl_ns)draw(3);
    const int64_t walls[] = {0, 100, INT64_C(1700000000000000), INT64_C(4294967295000000), 2000000};
    wall_us = walls[draw(5)];
    for (unsigned i = 0; i < nodes_count; i++) {
        nodes[i].up = !one_in(30);
        nodes[i].name = nodes[i].process = i;
        for (unsigned k = 0; k < STRIPES; k++) nodes[i].fences[k] = (int64_t)draw(30);
    }
    if (members) draw_epoch(members, ttls[draw(6)]);
    if (kind_now == ADD && members && one_in(3)) begin_former(members);
    if (members && (full || one_in(kind_now == ADD ? 4 : 12))) begin_stranger(members);
    const bool lost = kind_now == INIT && one_in(2);
    const uint64_t odd = one_in(3) ? 4 : 40;
    const uint32_t epoch = members && one_in(2) ? nodes[0].record.epoch : 1;
    for (unsigned i = 0; i < nodes_count; i++) {
        if (lost && !one_in(4)) claim(i);
        if (one_in(odd * 2)) leave_by_init(i, one_in(3) ? OTHER : QUORUM, epoch);
        if (one_in(odd * 4)) nodes[i].record.quorum_id = OTHER;
        if (one_in(odd * 2)) happen(i);
        if (one_in(odd * 20)) nodes[i].old = true;
        if (one_in(odd * 20)) nodes[i].nameless = true;
        if (one_in(odd * 6)) nodes[i].record.node_id = FORMER + i;
    }
}

/* Some nodes are intact, mostly a majority, and an init has not reached the others. */
static void begin_unfinished(void) {
    nodes_count = 2 + (unsigned)draw(5);
    const unsigned intact = one_in(4) ? 1 + (unsigned)draw(nodes_count) : rl_quorum(nodes_count);
    const unsigned first = (unsigned)draw(nodes_count);
    const bool changed = one_in(5), odd = one_in(3);
    for (unsigned i = 0; i < nodes_count; i++) {
        nodes[i] = (struct node){.up = true, .name = i, .process = i, .has_record = true};
        for (unsigned k = 0; k < STRIPES; k++) nodes[i].fences[k] = (int64_t)draw(30);
        nodes[i].record = new_record(i, nodes_count, 500);
        struct rl_record *record = &nodes[i].record;
        if ((i + first) % nodes_count < intact) {
            record->epoch += changed;
            if (one_in(5)) record->members[draw(nodes_count)].incarnation.number++;
            continue;
        }
        leave_by_init(i, one_in(3) ? OTHER : QUORUM, 1);
        record->waited_ms = 0;
        if (odd && one_in(4)) record->begun = (uint32_t)draw(2);
        if (odd && one_in(4)) record->node_id = 1 + draw(nodes_count);
        if (odd && one_in(4)) record->members_count--;
        if (odd && one_in(4)) nodes[i].process += 20;
        if (odd && one_in(6)) happen(i);
    }
}

static struct rl_membership_wish draw_wish(bool first) {
    struct rl_membership_wish wish = {.kind = RL_MEMBERSHIP_INIT,
                                      .nodes = nodes_count,
                                      .node = (unsigned)draw(nodes_count),
                                      .drift_fixed = 2 * RL_MS,
                                      .ttl_max_ms_default = 700};
    bool empty = true;
    for (unsigned i = 0; i < nodes_count; i++) empty = empty && !nodes[i].has_record;
    if (!first || kind_now == TWO)
        wish.kind = (enum rl_membership_kind)(empty || one_in(6) ? 1 : 2 + draw(3));
    else if (kind_now != UNFINISHED)
        wish.kind = (enum rl_membership_kind[]){[INIT] = RL_MEMBERSHIP_INIT,
                                                [ADD] = RL_MEMBERSHIP_ADD,
                                                [REMOVE] = RL_MEMBERSHIP_REMOVE,
                                                [TTL_MAX] = RL_MEMBERSHIP_SET_TTL_MAX}[kind_now];
    /* the servers without a record are those to add */
    const bool any = one_in(6);
    for (unsigned i = 0; i < nodes_count; i++)
        if (!any && (!nodes[i].has_record || nodes[i].record.node_id >= FORMER)) wish.node = i;
    if (one_in(wish.kind == RL_MEMBERSHIP_INIT ? 2 : 4))
        wish.quorum_id = one_in(8) ? OTHER : QUORUM;
    wish.pinned = wish.quorum_id && one_in(2);
    wish.url_too_long = one_in(30) ? rl_bit((unsigned)draw(nodes_count)) : 0;
    wish.never_used = one_in(3);
    const int64_t ttls[] = {0, 0, 1, 400, 1100, 2500};
    wish.ttl_max_ms = wish.kind == RL_MEMBERSHIP_INIT ? ttls[draw(6)] : 1 + (int64_t)draw(3000);
    const struct rl_record *record = &nodes[draw(nodes_count)].record;
    wish.id = record->members[draw(RL_MEMBERS_MAX) % (record->members_count + 1u)].id;
    if (record->ttl_next_ms && one_in(3)) wish.ttl_max_ms = record->ttl_next_ms;
    if (record->ttl_max_ms && one_in(4)) wish.ttl_max_ms = record->ttl_max_ms;
    wish.ttl_max_before_ms = one_in(3) ? 500 : one_in(8);
    wish.fence_floor = one_in(3) ? (int64_t)draw(60) : 0;
    wish.drift_ppm = one_in(2) ? 10000 : 0;
    wish.answer_timeout = (rl_ns)(1 + draw(10)) * 30 * RL_MS;
    return wish;
}

/* ---- the operators ---- */

static void step(struct operator_ *op, struct rl_membership_event *event) {
    struct rl_membership_actions actions;
    event->random = one_in(400) ? 0 : draw(UINT64_MAX);
    event->wall_us = wall_us ? wall_us + now / 1000 : 0;
    for (unsigned i = 0; i < nodes_count; i++)
        if (nodes[i].up && !one_in(calm)) event->ready |= rl_bit(i);
    event->twice = twice;
    rl_membership_step(&op->machine, event, now, &actions);
    fold_all(&op->machine, &actions);
    op->wake_at = actions.wake_at;
    op->runs = !actions.over;
    if (event->type == RL_MEMBERSHIP_GATHERED) op->gathers = false;
    if (actions.ask == RL_ASK_NOTHING) return;
    op->asked = actions;
    op->waits = actions.nodes;
    op->gathers = actions.ask == RL_ASK_GATHER;
}

static void start(struct operator_ *op, bool first) {
    const struct rl_membership_wish wish = draw_wish(first);
    memset(&op->machine, 0x5a, sizeof op->machine);
    rl_membership_init(&op->machine, &wish);
    for (unsigned i = 0; i < nodes_count; i++)
        name_url(op->machine.view.node[i].url, nodes[i].name);
    /* it lists the server by another name, or as the place of another one */
    const unsigned other = (unsigned)draw(17);
    if (one_in(12)) name_url(op->machine.view.node[draw(nodes_count)].url, other);
    step(op, &(struct rl_membership_event){.type = RL_MEMBERSHIP_BEGIN});
}

/* The request takes effect. */
static bool write_at(const struct operator_ *op, unsigned node) {
    const struct rl_guard_node *at = &op->machine.view.node[node];
    struct node *to = &nodes[node];
    if (contended && to->has_record && !one_in(10))
        to->record.waited_ms++, to->record.nonce += 1000;
    if (at->expected != (to->has_record ? to->record.nonce : 0)) return false;
    to->record = at->writing;
    to->has_record = true;
    to->unreadable = false;
    for (unsigned i = 0; i < STRIPES && at->floor; i++)
        if (at->floor[stripes[i]] > to->fences[i]) to->fences[i] = at->floor[stripes[i]];
    return true;
}

static void answer(struct operator_ *op, unsigned node) {
    static int64_t fences[RL_STRIPES];
    static struct rl_record record;
    char run_id[RL_RUN_ID_BYTES], replid[RL_RUN_ID_BYTES];
    const struct node *at = &nodes[node];
    struct rl_membership_event event = {.type = RL_MEMBERSHIP_FAILED, .node = (uint8_t)node};
    const bool writes = op->asked.ask == RL_ASK_WRITE;
    event.question = op->asked.question - one_in(60);
    if (at->up && !one_in(calm)) {
        event.type = op->asked.ask == RL_ASK_READ ? RL_MEMBERSHIP_RECORD
                     : writes                     ? RL_MEMBERSHIP_WRITTEN
                                                  : RL_MEMBERSHIP_FENCES;
        if (writes) event.done = write_at(op, node);
        if (one_in(lossy ? 6 : 2 * calm))
            event.type = RL_MEMBERSHIP_FAILED; /* the answer is lost */
    }
    record = at->record;
    for (unsigned i = 0; i < STRIPES; i++) fences[stripes[i]] = at->fences[i];
    name_run_id(run_id, at->process);
    name_replid(replid, at->data);
    event.run_id = at->nameless ? "" : run_id;
    event.replid = replid;
    event.evicted = at->evicted;
    event.unfit = at->unfit;
    event.old = at->old;
    event.unreadable = at->unreadable;
    event.record = at->has_record && !at->unreadable ? &record : NULL;
    event.fences = at->fences[0] > 0 ? fences : NULL;
    op->waits &= (rl_mask)~rl_bit(node);
    step(op, &event);
}

static void pass_some(const struct operator_ *op) {
    const struct rl_membership *m = &op->machine;
    rl_ns at = op->wake_at;
    if (m->state == RL_SETTLE_GATHER || m->state == RL_SETTLE_WAIT || m->state == RL_INIT_WAIT) {
        if (one_in(4)) at = m->settling.until;
        if (one_in(6)) at = m->settling.reported_at + 1000 * RL_MS;
    }
    pass(beside(at));
}

static void turn(struct operator_ *op) {
    const unsigned any = (unsigned)draw(nodes_count);
    if ((op->asked.nodes & rl_bit(any)) && one_in(60)) { /* once more, or too late */
        answer(op, any);
    } else if (one_in(100)) {
        step(op, &(struct rl_membership_event){.type = RL_MEMBERSHIP_GATHERED});
    } else if (op->waits && !one_in(40)) {
        unsigned node = (unsigned)draw(nodes_count);
        while (!(op->waits & rl_bit(node))) node = (node + 1) % nodes_count;
        answer(op, node);
    } else if (op->gathers && !one_in(10)) {
        step(op, &(struct rl_membership_event){.type = RL_MEMBERSHIP_GATHERED});
    } else {
        pass_some(op);
        for (unsigned i = 0; i < nodes_count && op->asked.ask == RL_ASK_WRITE; i++)
            if ((op->waits & rl_bit(i)) && one_in(2)) write_at(op, i);
        step(op, &(struct rl_membership_event){.type = RL_MEMBERSHIP_TICK});
    }
}

static void walk(void) {
    const bool two = kind_now == TWO || one_in(8);
    begin_world();
    if (kind_now == UNFINISHED) begin_unfinished();
    operators[1].runs = false;
    start(&operators[0], true);
    for (unsigned i = 0; i < EVENTS; i++) {
        struct operator_ *op = &operators[two && one_in(2)];
        if (op->runs) turn(op);
        if (one_in(calm)) happen((unsigned)draw(nodes_count));
        if (op->runs) continue;
        if (one_in(3)) return;
        start(op, false);
    }
}

static const struct kept_number kept[KINDS] = {
    [INIT] = {"init", UINT64_C(0x524b7ac5b3c8c509)},
    [UNFINISHED] = {"unfinished", UINT64_C(0x3c2cf9bab1a54159)},
    [ADD] = {"add", UINT64_C(0xf1e3e092dcf82313)},
    [REMOVE] = {"remove", UINT64_C(0x6d3b060e32b8b7f9)},
    [TTL_MAX] = {"ttl_max", UINT64_C(0xd9c42da10471a888)},
    [TWO] = {"two", UINT64_C(0x456b2c2031c092b5)},
};

static uint64_t number_of(unsigned kind) {
    kind_now = (enum kind)kind;
    for (unsigned i = 0; i < walks[kind]; i++) walk();
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of membership", tests, NULL, NULL);
}
