/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's machine: its questions, one after the other, and the step. The handlers of the
 * answers are in membership_init.c, membership_change.c and membership_settle.c. */
#include <assert.h>
#include <string.h>

#include "core/mix.h"
#include "core/membership_inside.h"

/* ---- states ---------------------------------------------------------------------------------- */

#define TO(state) (UINT64_C(1) << (state))
#define OVER TO(RL_MEMBERSHIP_OVER)
#define LAST (TO(RL_INIT_LAST) | OVER)
#define SETTLES TO(RL_SETTLE_GATHER)

/* The handler of each state, called when its question is answered, and the states that may
 * follow. */
static const struct {
    const char *name;
    void (*answered)(struct rl_membership *m);
    uint64_t to;
} states[] = {
    [RL_MEMBERSHIP_IDLE] = {"idle", NULL, TO(RL_INIT_PEEK) | TO(RL_CHANGE_PEEK)},

    [RL_INIT_PEEK] = {"reading the records", membership_init_read,
                      TO(RL_INIT_CLAIM) | TO(RL_INIT_PROVE) | OVER},
    [RL_INIT_PROVE] = {"reading whether fences are there", membership_init_proven,
                       TO(RL_INIT_PEEK) | TO(RL_FINISH_TAKE) | OVER},
    [RL_INIT_CLAIM] = {"writing records", membership_init_claimed,
                       TO(RL_INIT_PEEK) | TO(RL_INIT_WAIT) | TO(RL_INIT_FLOOR) | OVER},
    [RL_INIT_WAIT] = {"waiting", membership_init_watched,
                      TO(RL_INIT_WAIT) | TO(RL_INIT_FLOOR) | OVER},
    [RL_INIT_FLOOR] = {"reading fences", membership_init_floored, TO(RL_INIT_INSTALL) | OVER},
    [RL_INIT_INSTALL] = {"installing", membership_init_installed, TO(RL_INIT_REVIEW) | LAST},
    [RL_INIT_REVIEW] = {"reading which nodes are installed", membership_init_reviewed,
                        TO(RL_FINISH_TAKE) | LAST},
    [RL_FINISH_TAKE] = {"taking in what is left", membership_finish_taken,
                        TO(RL_FINISH_FENCES) | LAST},
    [RL_FINISH_FENCES] = {"reading fences to finish", membership_finish_fenced,
                          TO(RL_FINISH_INSTALL) | TO(RL_FINISH_PEEK) | OVER},
    [RL_FINISH_INSTALL] = {"installing what is left", membership_finish_installed,
                           TO(RL_FINISH_REVIEW) | LAST},
    [RL_FINISH_REVIEW] = {"reading which nodes are finished", membership_finish_reviewed,
                          TO(RL_FINISH_PEEK) | LAST},
    [RL_FINISH_PEEK] = {"reading again", membership_finish_read, TO(RL_FINISH_TAKE) | OVER},
    [RL_INIT_LAST] = {"reading at the end", membership_ok, OVER},

    [RL_CHANGE_PEEK] = {"reading the records", membership_change_read,
                        TO(RL_CHANGE_PEEK) | TO(RL_CHANGE_PROMISE) | TO(RL_ADDED_CLAIM) | SETTLES |
                            OVER},
    [RL_CHANGE_PROMISE] = {"promising", membership_change_written, TO(RL_CHANGE_PROMISED) | OVER},
    [RL_CHANGE_PROMISED] = {"reading which nodes promised", membership_change_promised,
                            TO(RL_CHANGE_ACCEPT) | TO(RL_CHANGE_PEEK) | OVER},
    [RL_CHANGE_ACCEPT] = {"accepting", membership_change_written, TO(RL_CHANGE_ACCEPTED) | OVER},
    [RL_CHANGE_ACCEPTED] = {"reading which nodes accepted", membership_change_accepted,
                            TO(RL_SWITCH_PEEK) | TO(RL_CHANGE_PEEK) | OVER},
    [RL_SWITCH_PEEK] = {"reading which nodes are to switch", membership_switch_read,
                        TO(RL_SWITCH_WRITE) | TO(RL_CHANGE_PEEK) | OVER},
    [RL_SWITCH_WRITE] = {"switching", membership_switch_written, TO(RL_SWITCH_SEEN) | OVER},
    [RL_SWITCH_SEEN] = {"reading which nodes switched", membership_switch_seen,
                        TO(RL_SWITCH_PEEK) | TO(RL_SWITCH_CLAIM) | OVER},
    [RL_SWITCH_CLAIM] = {"writing down the added", membership_switch_claimed,
                         TO(RL_SWITCH_PEEK) | TO(RL_ADDED_CLAIM) | TO(RL_CHANGE_PEEK) | SETTLES |
                             OVER},
    [RL_ADDED_PEEK] = {"reading the added node", membership_added_read, TO(RL_ADDED_CLAIM) | OVER},
    [RL_ADDED_CLAIM] = {"writing down the added again", membership_added_claimed,
                        TO(RL_ADDED_SEEN) | OVER},
    [RL_ADDED_SEEN] = {"reading the added node again", membership_added_seen,
                       TO(RL_CHANGE_PEEK) | OVER},

    [RL_SETTLE_GATHER] = {"gathering witnesses", membership_settle_gathered,
                          SETTLES | TO(RL_SETTLE_WAIT) | TO(RL_MARK_PEEK) | OVER},
    [RL_SETTLE_WAIT] = {"waiting for leases", membership_settle_waited,
                        SETTLES | TO(RL_SETTLE_WAIT) | TO(RL_SETTLE_PEEK) | TO(RL_MARK_PEEK) |
                            OVER},
    [RL_SETTLE_PEEK] = {"reading the witnesses", membership_settle_read,
                        SETTLES | TO(RL_SETTLE_FENCES) | OVER},
    [RL_SETTLE_FENCES] = {"reading their fences", membership_settle_fenced,
                          SETTLES | TO(RL_SETTLE_PEEK) | TO(RL_RAISE_PEEK) | OVER},
    [RL_RAISE_PEEK] = {"reading which fences are to be raised", membership_raise_read,
                       SETTLES | TO(RL_RAISE_PEEK) | TO(RL_RAISE_WRITE) | TO(RL_MARK_PEEK) | OVER},
    [RL_RAISE_WRITE] = {"raising fences", membership_raise_written,
                        SETTLES | TO(RL_RAISE_PEEK) | TO(RL_MARK_PEEK) | OVER},
    [RL_MARK_PEEK] = {"reading which nodes are settled", membership_mark_read,
                      TO(RL_MARK_PEEK) | TO(RL_MARK_WRITE) | TO(RL_CHANGE_PEEK) |
                          TO(RL_ADDED_PEEK) | TO(RL_ADDED_CLAIM) | OVER},
    [RL_MARK_WRITE] = {"marking it settled", membership_mark_written,
                       TO(RL_MARK_PEEK) | TO(RL_CHANGE_PEEK) | TO(RL_ADDED_PEEK) |
                           TO(RL_ADDED_CLAIM) | OVER},
    [RL_MEMBERSHIP_OVER] = {"over", NULL, 0},
};

const char *rl_membership_state_name(enum rl_membership_state state) { return states[state].name; }

/* The only place where the state changes. */
static void move(struct rl_membership *m, enum rl_membership_state to) {
    assert(states[m->state].to & TO(to));
    assert(m->stage == RL_STAGE_NONE);
    /* A decision, a raise or a mark needs a majority of answers. */
    if (to == RL_CHANGE_ACCEPT) assert(rl_count(m->held) >= m->view.votes_needed && m->ballot != 0);
    if (to == RL_SWITCH_PEEK && m->state == RL_CHANGE_ACCEPTED) assert(m->chosen.kind != 0);
    m->state = to;
}

const char *rl_problem_name(enum rl_problem_kind kind) {
    static const char *const names[] = {
#define RL_NAME(name, class) #name,
        RL_PROBLEMS(RL_NAME)
#undef RL_NAME
    };
    return names[kind];
}

enum rl_problem_class rl_problem_class(enum rl_problem_kind kind) {
    static const unsigned char classes[] = {
#define RL_CLASS(name, class) RL_CLASS_##class,
        RL_PROBLEMS(RL_CLASS)
#undef RL_CLASS
    };
    return (enum rl_problem_class)classes[kind];
}

void rl_membership_init(struct rl_membership *m, const struct rl_membership_wish *wish) {
    assert(wish->kind >= RL_MEMBERSHIP_INIT && wish->kind <= RL_MEMBERSHIP_SET_TTL_MAX);
    assert(wish->kind != RL_MEMBERSHIP_SET_TTL_MAX || wish->ttl_max_ms > 0);
    assert(wish->kind != RL_MEMBERSHIP_ADD || wish->node < wish->nodes);
    memset(m, 0, sizeof *m);
    m->wish = *wish;
    m->quorum_id = wish->quorum_id;
    rl_guard_init(&m->view, wish->nodes, wish->drift_ppm, wish->drift_fixed);
}

/* ---- chance and results ---------------------------------------------------------------------- */

/* Never 0. Every event brings a new seed. */
static uint64_t draw(struct rl_membership *m) {
    uint64_t number = rl_splitmix64(&m->random);
    return number ? number : 1;
}

uint64_t membership_random(struct rl_membership *m) {
    if (!m->seeded) m->no_random = true;
    return draw(m);
}

struct rl_problem *membership_problem(struct rl_membership *m, enum rl_problem_kind kind) {
    memset(&m->problem, 0, sizeof m->problem);
    m->problem.kind = kind;
    m->problem.node = -1;
    return &m->problem;
}

bool membership_refuse(struct rl_membership *m, enum rl_problem_kind kind, unsigned node) {
    membership_problem(m, kind)->node = (int)node;
    return false;
}

void membership_end(struct rl_membership *m) {
    if (m->no_random) membership_problem(m, RL_PROBLEM_NO_RANDOM);
    move(m, RL_MEMBERSHIP_OVER);
    m->wake_at = RL_NEVER;
}

void membership_fail(struct rl_membership *m, enum rl_problem_kind kind, int node) {
    membership_problem(m, kind)->node = node;
    membership_end(m);
}

void membership_ok(struct rl_membership *m) {
    membership_problem(m, RL_PROBLEM_NONE);
    membership_end(m);
}

/* ---- what was read --------------------------------------------------------------------------- */

int membership_unheard(const struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (!m->view.node[i].up) return (int)i;
    return -1;
}

void membership_remember(struct rl_membership *m, rl_mask nodes) {
    m->held = nodes;
    for (unsigned i = 0; i < m->wish.nodes; i++) m->nonces[i] = m->view.node[i].record.nonce;
}

rl_mask membership_unchanged(const struct rl_membership *m, rl_mask nodes) {
    rl_mask same = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if ((nodes & rl_bit(i)) && membership_same_server(m, i) &&
            m->view.node[i].record.nonce == m->nonces[i])
            same |= rl_bit(i);
    return same;
}

/* The only quorum that the records name; 0: there is none, or there are two. */
static uint64_t only_quorum(const struct rl_membership *m) {
    uint64_t id = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        bool added = m->wish.kind == RL_MEMBERSHIP_ADD && i == m->wish.node;
        const struct rl_record *record = added ? NULL : membership_record_at(m, i);
        if (record && id != 0 && record->quorum_id != id) return 0;
        if (record) id = record->quorum_id;
    }
    return id;
}

void membership_judge(struct rl_membership *m) {
    struct rl_guard *view = &m->view;
    memset(&view->quorum, 0, sizeof view->quorum);
    view->known = view->decided = view->settled = false;
    view->votes_needed = rl_quorum(m->wish.nodes);
    view->pinned = m->quorum_id ? m->quorum_id : only_quorum(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) view->node[i].id = 0;
    (void)eligibility_judge(view);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void ask(struct rl_membership *m, enum rl_membership_ask what, rl_mask nodes,
                struct rl_membership_actions *actions) {
    m->asking = what;
    m->pending = nodes;
    m->question++;
    m->stage = what == RL_ASK_GATHER ? RL_STAGE_GATHER : RL_STAGE_ANSWERS;
    m->wake_at = m->now + m->wish.answer_timeout;
    actions->ask = what;
    actions->question = m->question;
    actions->nodes = nodes;
    actions->kept = m->kept;
}

void membership_peek(struct rl_membership *m, enum rl_membership_state state, rl_ns pause) {
    move(m, state);
    m->looks = true;
    m->stage = RL_STAGE_PAUSE;
    m->wake_at = m->now + (pause > 0 ? pause : 0);
}

void membership_peek_again(struct rl_membership *m, enum rl_membership_state state,
                           unsigned tries) {
    rl_ns most = (rl_ns)(tries < 10 ? tries : 10) * 20 * RL_MS;
    membership_peek(m, state, (rl_ns)(draw(m) % (uint64_t)(most + 1)));
}

/* A node that lost its data must not get an intact record, whichever identity it has now. */
static bool may_write(const struct rl_membership *m, unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    return at->up &&
           (at->writing.eligibility == RL_RECORD_RECOVERING || membership_same_server(m, node));
}

/* A question without nodes is answered at once. */
static void put(struct rl_membership *m, enum rl_membership_ask what, rl_mask nodes) {
    m->asking = what;
    m->pending = nodes;
    m->looks = false;
    m->stage = RL_STAGE_PAUSE; /* the question goes out with the step's actions */
    m->wake_at = m->now;
}

void membership_write(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                      bool floor) {
    move(m, state);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        rl_guard_write_over(&m->view.node[i], membership_random(m));
        m->view.node[i].floor = floor ? m->view.floor : NULL;
        if (!may_write(m, i)) nodes &= (rl_mask)~rl_bit(i);
    }
    m->written = m->denied = 0;
    if (m->no_random)
        membership_end(m);
    else
        put(m, RL_ASK_WRITE, nodes);
}

void membership_fences(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                       bool kept) {
    move(m, state);
    m->kept = kept;
    m->reported = m->without = 0;
    put(m, RL_ASK_FENCES, nodes);
}

void membership_claim(struct rl_membership *m, unsigned node, uint64_t id) {
    struct rl_guard_node *at = &m->view.node[node];
    struct rl_record *to = rl_guard_own_record(&m->view, at, id, RL_RECORD_RECOVERING);
    to->loss = membership_random(m);
    rl_incarnation_follow(&((struct rl_member *)rl_record_member(to, id))->incarnation, at->run_id);
}

void membership_report(struct rl_membership *m, enum rl_membership_report report, rl_ns left) {
    m->report = report;
    m->report_left = left;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void record_came(struct rl_guard_node *at, const struct rl_membership_event *event) {
    assert(strlen(event->run_id) < sizeof at->run_id && strlen(event->replid) < sizeof at->replid);
    memcpy(at->run_id, event->run_id, strlen(event->run_id) + 1);
    memcpy(at->replid, event->replid, strlen(event->replid) + 1);
    at->evicted = event->evicted;
    at->unfit = event->unfit;
    at->unreadable = event->unreadable;
    at->has_record = event->record != NULL;
    at->up = at->stated = at->read = true;
    if (event->record)
        at->record = *event->record;
    else
        memset(&at->record, 0, sizeof at->record);
}

static void written(struct rl_membership *m, unsigned node, bool done) {
    struct rl_guard_node *at = &m->view.node[node];
    if (!done) {
        m->denied |= rl_bit(node);
        return;
    }
    at->record = at->writing;
    at->has_record = true;
    m->written |= rl_bit(node);
}

/* Fences depend on the node's data. They count only if the data are still those of the record's
 * read. */
static void fences_came(struct rl_membership *m, const struct rl_membership_event *event) {
    const struct rl_guard_node *at = &m->view.node[event->node];
    if (strcmp(event->replid, at->replid) != 0 || event->evicted != at->evicted) return;
    if (!event->fences) {
        m->without |= rl_bit(event->node);
        return;
    }
    m->reported |= rl_bit(event->node);
    for (unsigned i = 0; i < RL_STRIPES; i++)
        if (event->fences[i] > m->view.floor[i]) m->view.floor[i] = event->fences[i];
}

/* An answer to an earlier question is too late. */
static void take(struct rl_membership *m, const struct rl_membership_event *event) {
    rl_mask bit = rl_bit(event->node);
    if (m->stage != RL_STAGE_ANSWERS || event->question != m->question || !(m->pending & bit))
        return;
    enum rl_membership_ask answers = event->type == RL_MEMBERSHIP_RECORD    ? RL_ASK_READ
                                     : event->type == RL_MEMBERSHIP_WRITTEN ? RL_ASK_WRITE
                                                                            : RL_ASK_FENCES;
    m->pending &= (rl_mask)~bit;
    if (event->type == RL_MEMBERSHIP_FAILED) return;
    assert(answers == m->asking);
    if (answers == RL_ASK_READ) {
        record_came(&m->view.node[event->node], event);
        m->old = event->old ? m->old | bit : m->old & (rl_mask)~bit;
    } else if (strcmp(event->run_id, m->view.node[event->node].run_id) != 0) {
        /* A server that restarted under the same address may have an older record and older fences.
         * Its answer counts only if it is the server that was meant. */
    } else if (answers == RL_ASK_WRITE) {
        written(m, event->node, event->done);
    } else {
        fences_came(m, event);
    }
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Earlier knowledge of a node does not count when the node cannot be asked now. */
static void read_all(struct rl_membership *m, struct rl_membership_actions *actions) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_guard_node *at = &m->view.node[i];
        at->up = at->stated = at->read = false;
    }
    ask(m, RL_ASK_READ, m->ready & rl_all(m->wish.nodes), actions);
}

/* The question has all the answers that it will get. */
static void answered(struct rl_membership *m) {
    m->stage = RL_STAGE_NONE;
    if (m->asking == RL_ASK_READ) membership_judge(m);
    states[m->state].answered(m);
}

static bool is_due(const struct rl_membership *m) { return m->now >= m->wake_at; }

/* Moves one stage further. False: it waits for an event. */
static bool advance(struct rl_membership *m, const struct rl_membership_event *event,
                    struct rl_membership_actions *actions) {
    switch (m->stage) {
    case RL_STAGE_PAUSE:
        if (!is_due(m) || actions->ask != RL_ASK_NOTHING) return false;
        if (!m->looks && m->pending) {
            ask(m, m->asking, m->pending, actions);
        } else if (!m->looks) {
            answered(m);
            return true;
        } else {
            ask(m, RL_ASK_GATHER, 0, actions);
        }
        return false;
    case RL_STAGE_GATHER:
        if (event->type != RL_MEMBERSHIP_GATHERED && !is_due(m)) return false;
        read_all(m, actions);
        return m->pending == 0;
    case RL_STAGE_ANSWERS:
        if (m->pending && !is_due(m)) return false;
        answered(m);
        return true;
    case RL_STAGE_NONE: break;
    }
    return false;
}

void rl_membership_step(struct rl_membership *m, const struct rl_membership_event *event, rl_ns now,
                        struct rl_membership_actions *actions) {
    assert(event->node < m->wish.nodes);
    assert(m->state != RL_MEMBERSHIP_OVER);
    memset(actions, 0, sizeof *actions);
    m->now = now;
    m->random = event->random;
    m->seeded = event->random != 0;
    m->wall_us = event->wall_us;
    m->ready = event->ready;
    m->twice = event->twice;
    m->report = RL_REPORT_NOTHING;
    if (event->type == RL_MEMBERSHIP_BEGIN)
        membership_peek(m, m->wish.kind == RL_MEMBERSHIP_INIT ? RL_INIT_PEEK : RL_CHANGE_PEEK, 0);
    else if (event->type >= RL_MEMBERSHIP_RECORD && event->type <= RL_MEMBERSHIP_FAILED)
        take(m, event);
    while (advance(m, event, actions)) continue;
    actions->report = m->report;
    actions->left = m->report_left;
    actions->over = m->state == RL_MEMBERSHIP_OVER;
    actions->wake_at = m->wake_at;
}
