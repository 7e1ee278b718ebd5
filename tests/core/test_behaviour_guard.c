/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guard does with drawn records and events (behaviour.h). Servers answer as servers do,
 * but their records change as no protocol allows: a reader must cope with each of them. */
#include "behaviour.h"

#include "core/guard.h"

#define EVENTS 120
#define FENCES 4
#define DRAWS_ZERO (0 - UINT64_C(0x9e3779b97f4a7c15)) /* the first number drawn from it is 0 */

/* A request under way. */
struct sent {
    enum rl_pending_op what;
    bool executed, done;
    struct rl_record record; /* WRITE: to be written. READ: the answer */
    bool has_record;
    uint64_t expected;
};

struct server {
    char run_id[RL_RUN_ID_BYTES], replid[RL_RUN_ID_BYTES];
    uint64_t evicted;
    bool up, has_record, unfit, suspect;
    struct rl_record record;
    const int64_t *fences;
    struct sent sent;
};

static struct rl_guard guard;
static struct rl_guard_actions actions;
static struct server server[RL_NODES_MAX];
static unsigned nodes, names;
static uint64_t tampers, fails; /* one in so many events; 0: none */
static bool unreadable, leaves, strangers;
static int64_t fences[FENCES][RL_STRIPES];

/* ---- servers and their records ---- */

/* No two are the same. Their order and their length are drawn. */
static void draw_name(char *name) {
    const int first = (int)('a' + draw(26)), more = (int)draw(3);
    snprintf(name, RL_RUN_ID_BYTES, "%c%.*s%u", first, more, "--", ++names);
}

static uint64_t near_number(uint64_t number) { return number + draw(3) - (number > 0); }

static int64_t draw_ttl_ms(void) {
    static const int64_t some[] = {20, 300, 1000, 1000, 8000};
    return some[draw(5)];
}

static void tamper_with_acceptor(struct rl_record *record) {
    record->ballot = draw(6);
    record->accepted_ballot = draw(4);
    record->accepted.kind = record->accepted_ballot ? RL_CHANGE_REMOVE : RL_CHANGE_NONE;
    record->accepted.id = record->accepted_ballot ? 1 + draw(3) : 0;
}

static void begin_servers(void) {
    unsigned members = nodes;
    if (one_in(6)) members = 1 + (unsigned)draw(RL_MEMBERS_MAX);
    struct rl_record base = {.format = RL_RECORD_FORMAT,
                             .quorum_id = 1,
                             .members_count = (uint8_t)members,
                             .eligibility = RL_RECORD_INTACT};
    base.epoch = 1 + (uint32_t)draw(2);
    base.begun = (uint32_t)draw(2);
    base.settled = !one_in(4);
    base.ttl_max_ms = base.ttl_next_ms = draw_ttl_ms();
    if (one_in(6)) base.ttl_next_ms = draw_ttl_ms();
    memset(server, 0, sizeof server);
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        draw_name(server[i].run_id);
        draw_name(server[i].replid);
        base.members[i].id = 1 + i;
        snprintf(base.members[i].url, RL_URL_BYTES, "n%u", i);
        base.members[i].incarnation.number = 1 + (uint32_t)draw(2);
        memcpy(base.members[i].incarnation.run_id, server[i].run_id, RL_RUN_ID_BYTES);
    }
    for (unsigned i = members; i < RL_NODES_MAX; i++) base.members[i] = (struct rl_member){0};
    for (unsigned i = 0; i < nodes; i++) {
        struct rl_record *record = &server[i].record;
        *record = base;
        record->node_id = 1 + i;
        record->nonce = 1000 + i;
        memcpy(record->run_id, server[i].run_id, RL_RUN_ID_BYTES);
        memcpy(record->replid, server[i].replid, RL_RUN_ID_BYTES);
        if (one_in(4)) tamper_with_acceptor(record);
        server[i].has_record = i < members || one_in(2);
        server[i].fences = fences[draw(FENCES)];
        server[i].unfit = one_in(30);
        server[i].suspect = one_in(60);
    }
}

static void lose_record(struct server *at) {
    at->has_record = false;
    memset(&at->record, 0, sizeof at->record);
}

/* By a first init of one of two quorums, which has not finished. */
static void begin_init(struct rl_record *record) {
    record->quorum_id = one_in(3) ? 2 : 1;
    record->epoch = 1;
    record->begun = 0;
    record->eligibility = one_in(3) ? RL_RECORD_INTACT : RL_RECORD_RECOVERING;
    record->loss = rl_loss_of_init(record->quorum_id, record->epoch);
}

static void restart(struct server *at) {
    draw_name(at->run_id);
    draw_name(at->replid);
    at->evicted = 0;
    if (!one_in(4)) lose_record(at);
}

static uint64_t draw_loss(const struct rl_record *record) {
    const uint64_t some[] = {0, 1, 2, rl_loss_of_init(record->quorum_id, record->epoch)};
    return some[draw(4)];
}

static void tamper_with_incarnation(struct rl_record *record) {
    const unsigned at = (unsigned)draw(record->members_count);
    struct rl_incarnation *incarnation = &record->members[at].incarnation;
    if (one_in(2)) incarnation->number = (uint32_t)near_number(incarnation->number);
    if (one_in(2)) memcpy(incarnation->run_id, server[draw(nodes)].run_id, RL_RUN_ID_BYTES);
    if (one_in(4)) draw_name(incarnation->run_id);
    if (one_in(2)) memcpy(incarnation->run_id, server[at].run_id, RL_RUN_ID_BYTES);
}

static void tamper_with_members(struct rl_record *record) {
    struct rl_change change = {.kind = one_in(2) ? RL_CHANGE_ADD : RL_CHANGE_REMOVE};
    const unsigned at = (unsigned)draw(record->members_count);
    change.id = 1 + draw(RL_NODES_MAX);
    snprintf(change.url, sizeof change.url, "n%u", (unsigned)draw(nodes + 1));
    switch (draw(5)) {
    case 0: (void)rl_record_change(record, &change); break;
    case 1: record->members[at].id = change.id; break;
    case 2: memcpy(record->members[at].url, change.url, sizeof change.url); break;
    case 3: {
        const struct rl_member first = record->members[0];
        record->members[0] = record->members[at];
        record->members[at] = first;
        break;
    }
    default: (void)rl_record_change(record, &change); break;
    }
}

static void claim(struct server *at) {
    struct rl_record *record = &at->record;
    record->eligibility = RL_RECORD_RECOVERING;
    record->loss = draw_loss(record);
    record->waited_ms = (int64_t)draw(2000);
    if (one_in(3)) return;
    memcpy(record->run_id, at->run_id, RL_RUN_ID_BYTES);
    memcpy(record->replid, at->replid, RL_RUN_ID_BYTES);
    record->evicted = at->evicted;
    struct rl_member *member = (struct rl_member *)rl_record_member(record, record->node_id);
    if (member && !one_in(6)) rl_incarnation_follow(&member->incarnation, at->run_id);
}

static void tamper(unsigned index) {
    struct server *at = &server[index];
    struct rl_record *record = &at->record;
    if (!at->has_record || one_in(12)) {
        const struct server *from = &server[draw(nodes)];
        if (from->has_record) at->record = from->record;
        at->has_record |= from->has_record;
        return;
    }
    switch (draw(18)) {
    case 0: record->epoch = (uint32_t)near_number(record->epoch) + (record->epoch == 1); break;
    case 1: record->begun = (uint32_t)near_number(record->begun); break;
    case 2: record->settled = !record->settled; break;
    case 3: record->node_id = 1 + draw(nodes + 1); break;
    case 4: record->quorum_id = 1 + draw(2); break;
    case 5: claim(at); break;
    case 6: tamper_with_incarnation(record); break;
    case 7: tamper_with_members(record); break;
    case 8: record->ttl_max_ms = draw_ttl_ms(); break;
    case 9: record->ttl_next_ms = draw_ttl_ms(); break;
    case 10: tamper_with_acceptor(record); break;
    case 11: record->eligibility = RL_RECORD_INTACT; break;
    case 12: record->waited_ms = (int64_t)draw(2000); break;
    case 13: record->format = 1 + (uint32_t)draw(RL_RECORD_FORMAT); break;
    case 14: at->fences = fences[draw(FENCES)]; break;
    case 15: memcpy(record->run_id, server[draw(nodes)].run_id, RL_RUN_ID_BYTES); break;
    case 16: record->loss = draw_loss(record); break;
    default: lose_record(at); break;
    }
    if (at->has_record && !one_in(4)) record->nonce = 2000 + draw(100);
}

/* An operator changes the quorum, or an init renews it: most servers have the new record. */
static void tamper_with_most(void) {
    struct rl_change change = {.kind = one_in(2) ? RL_CHANGE_REMOVE : RL_CHANGE_TTL_MAX};
    change.id = 1 + draw(nodes);
    change.ttl_ms = draw_ttl_ms();
    draw_name(change.url);
    const unsigned other = (unsigned)draw(nodes); /* is registered in the place of this one */
    const uint64_t kind = draw(6), quorum_id = 1 + draw(2);
    uint32_t epoch = 0;
    for (unsigned i = 0; i < nodes; i++)
        if (server[i].record.epoch > epoch) epoch = server[i].record.epoch;
    for (unsigned i = 0; i < nodes; i++) {
        struct rl_record *record = &server[i].record;
        if (!server[i].has_record || one_in(4)) continue;
        if (kind == 0) record->epoch = record->begun = epoch + 1;
        if (kind == 0 && one_in(6)) claim(&server[i]);
        if (kind == 1) (void)rl_record_change(record, &change);
        if (kind == 2) record->settled = !one_in(4);
        if (kind == 5) record->quorum_id = quorum_id;
        if ((kind == 3 || kind == 4) && other < record->members_count) {
            record->members[other].incarnation.number += kind == 3;
            memcpy(record->members[other].incarnation.run_id, change.url, RL_RUN_ID_BYTES);
        }
        record->nonce = 3000 + draw(100);
    }
}

/* ---- what the machine did ---- */

static void fold_text(const char *text) { folded = rl_fnv1a(folded, text, strlen(text)); }

static void fold_record(const struct rl_record *record) {
    fold((int64_t)record->quorum_id);
    fold((int64_t)record->node_id);
    fold(record->epoch | (int64_t)record->begun << 32);
    fold(record->settled | record->members_count << 8 | (int64_t)record->eligibility << 16);
    fold((int64_t)record->nonce);
    fold(record->ttl_max_ms | record->ttl_next_ms << 32);
    fold((int64_t)record->loss);
    fold(record->waited_ms);
    fold((int64_t)record->ballot);
    fold((int64_t)record->accepted_ballot);
    fold((int64_t)record->accepted.id | (int64_t)record->accepted.kind << 32);
    fold((int64_t)record->evicted | (int64_t)record->format << 32);
    fold_text(record->run_id);
    fold_text(record->replid);
    for (unsigned i = 0; i < record->members_count; i++) {
        fold((int64_t)record->members[i].id | (int64_t)record->members[i].incarnation.number << 32);
        fold_text(record->members[i].incarnation.run_id);
        fold_text(record->members[i].url);
    }
}

static void fold_quorum(void) {
    const struct rl_record *quorum = &guard.quorum;
    fold(guard.known | guard.decided << 1 | guard.settled << 2);
    fold((int64_t)quorum->quorum_id | (int64_t)guard.other_quorum << 32);
    fold(guard.votes_needed);
    fold(rl_guard_quarantine(&guard));
    fold(rl_guard_intact(&guard) | (int64_t)rl_guard_voters(&guard) << 16 |
         (int64_t)rl_guard_voided(&guard) << 32 | (int64_t)rl_guard_foreign(&guard) << 48);
    fold(rl_guard_carriers(&guard));
    fold(quorum->epoch | (int64_t)quorum->members_count << 32);
    fold(quorum->ttl_max_ms | quorum->ttl_next_ms << 32);
    for (unsigned i = 0; i < quorum->members_count; i++) {
        fold((int64_t)quorum->members[i].id | (int64_t)quorum->members[i].incarnation.number << 32);
        fold_text(quorum->members[i].incarnation.run_id);
    }
}

static void fold_step(void) {
    fold(actions.read | (int64_t)actions.write << 16 | (int64_t)actions.fences << 32 |
         (int64_t)actions.reconnect << 48);
    fold(actions.changed);
    fold(actions.wake_at);
    fold_quorum();
    for (unsigned i = 0; i < nodes; i++) {
        const struct rl_guard_node *node = &guard.node[i];
        fold((int64_t)node->eligibility | node->suspect << 8 | node->distrusted << 9 |
             (int64_t)node->id << 16);
        fold(rl_guard_left(&guard, i, now));
        if (!(actions.write & rl_bit(i))) continue;
        fold_record(&node->writing);
        fold((int64_t)node->expected | (int64_t)node->was_kept << 32);
        fold(node->floor != NULL);
        for (unsigned s = 0; node->floor && s < RL_STRIPES; s++) fold(node->floor[s]);
    }
}

/* ---- requests ---- */

static void execute(unsigned index) {
    struct server *at = &server[index];
    struct sent *sent = &at->sent;
    if (sent->executed) return;
    sent->executed = true;
    if (sent->what == RL_PENDING_READ) {
        sent->has_record = at->has_record;
        sent->record = at->record;
    }
    if (sent->what != RL_PENDING_WRITE) return;
    sent->done = sent->expected == (at->has_record ? at->record.nonce : 0);
    if (!sent->done) return;
    at->record = sent->record;
    at->has_record = true;
}

static void send_requests(void) {
    for (unsigned i = 0; i < nodes; i++) {
        if (!((actions.read | actions.write | actions.fences) & rl_bit(i))) continue;
        struct sent *sent = &server[i].sent;
        sent->what = guard.node[i].pending_op;
        sent->executed = sent->done = false;
        if (sent->what == RL_PENDING_WRITE) {
            sent->record = guard.node[i].writing;
            sent->expected = guard.node[i].expected;
        }
        if (one_in(2)) execute(i);
    }
}

static void step(struct rl_guard_event event) {
    event.random = one_in(40) ? DRAWS_ZERO : rl_splitmix64(&random_state);
    guard.unreadable_now = unreadable ? few(2) : 0;
    rl_guard_step(&guard, &event, now, &actions);
    fold_step();
    send_requests();
}

static void plain(enum rl_guard_event_type type, unsigned index) {
    step((struct rl_guard_event){.type = type, .node = (uint8_t)index});
}

static void state(unsigned index) {
    const struct server *at = &server[index];
    step((struct rl_guard_event){.type = RL_GUARD_STATE,
                                 .node = (uint8_t)index,
                                 .replid = at->replid,
                                 .evicted = at->evicted,
                                 .unfit = at->unfit,
                                 .suspect = at->suspect});
}

static void answer(unsigned index) {
    static struct rl_record record;
    struct sent *sent = &server[index].sent;
    struct rl_guard_event event = {.node = (uint8_t)index};
    const enum rl_pending_op what = sent->what;
    if (what == RL_PENDING_NONE) return;
    execute(index);
    sent->what = RL_PENDING_NONE;
    if (fails && one_in(fails)) {
        plain(RL_GUARD_FAILED, index);
        return;
    }
    event.done = sent->done;
    record = sent->record;
    switch (what) {
    case RL_PENDING_READ:
        if (!one_in(20)) state(index);
        event.type = fails && one_in(2 * fails) ? RL_GUARD_UNREADABLE : RL_GUARD_RECORD;
        event.record = sent->has_record ? &record : NULL;
        break;
    case RL_PENDING_WRITE: event.type = RL_GUARD_WRITTEN; break;
    default:
        event.type = RL_GUARD_FENCES;
        event.fences = one_in(12) ? NULL : server[index].fences;
        break;
    }
    step(event);
}

/* An answer that nobody waits for: the machine has given the request up. */
static void answer_nobody(unsigned index) {
    const enum rl_guard_event_type some[] = {RL_GUARD_RECORD, RL_GUARD_WRITTEN, RL_GUARD_FENCES,
                                             RL_GUARD_FAILED, RL_GUARD_UNREADABLE};
    static struct rl_record record;
    record = server[index].record;
    struct rl_guard_event event = {.type = some[draw(5)],
                                   .node = (uint8_t)index,
                                   .record = server[index].has_record ? &record : NULL};
    event.fences = fences[draw(FENCES)];
    event.done = one_in(2);
    if (server[index].sent.what != RL_PENDING_NONE) return;
    step(event);
}

/* ---- connections ---- */

static void connect(unsigned index) {
    if (server[index].up) return;
    server[index].up = true;
    step((struct rl_guard_event){
        .type = RL_GUARD_UP, .node = (uint8_t)index, .run_id = server[index].run_id});
}

static void disconnect(unsigned index) {
    if (!server[index].up) return;
    server[index].up = false;
    server[index].sent.what = RL_PENDING_NONE;
    plain(RL_GUARD_DOWN, index);
}

static void reconnect(rl_mask which) {
    for (unsigned i = 0; i < nodes; i++) {
        if (!(which & rl_bit(i)) || one_in(3)) continue;
        disconnect(i);
        if (one_in(4)) restart(&server[i]);
        connect(i);
    }
}

/* ---- the walk ---- */

static void pass_time(void) {
    const struct rl_guard_node *node = &guard.node[draw(nodes)];
    for (unsigned i = 0; i < nodes; i++) /* most of all one that waits */
        if (guard.node[i].waits_for != 0 && one_in(2)) node = &guard.node[i];
    const rl_ns quarantine = rl_guard_quarantine(&guard);
    switch (draw(12)) {
    case 0: pass(beside(node->again_at)); break;
    case 1: pass(beside(node->reconnect_at)); break;
    case 2: pass(beside(node->reclaim_at)); break;
    case 3:
        if (node->was_suspected) pass(beside(node->suspected_at + quarantine));
        break;
    case 4:
        if (node->waits_for) pass(beside(node->waits_since + quarantine + node->jitter));
        break;
    case 5:
        if (node->waits_for) pass(beside(node->hand_on_at));
        break;
    case 6: pass(beside(guard.follow_at)); break;
    case 7: pass(now + (rl_ns)draw(3)); break;
    case 8: pass(now + (rl_ns)draw(400) * RL_MS); break;
    default: pass(beside(actions.wake_at)); break;
    }
    plain(RL_GUARD_TICK, (unsigned)draw(nodes));
}

static void disturb(unsigned index) {
    struct server *at = &server[index];
    switch (draw(16)) {
    case 0:
    case 1: disconnect(index); break;
    case 2:
        disconnect(index);
        restart(at);
        break;
    case 3: state(index); break;
    case 4: plain(RL_GUARD_CHANGED, index); break;
    case 5: plain(RL_GUARD_NO_FENCES, index); break;
    case 6: plain(RL_GUARD_PEEK, index); break;
    case 7: plain(RL_GUARD_JUMPED, index); break;
    case 8: answer_nobody(index); break;
    case 9: at->evicted = draw(2); break;
    case 10: at->unfit = one_in(2); break;
    case 11: at->suspect = one_in(2); break;
    case 12: draw_name(at->replid); break;
    case 13:
        if (one_in(2)) lose_record(at);
        break;
    case 14:
        if (leaves && one_in(4)) plain(RL_GUARD_LEAVE, index);
        break;
    default: connect(index); break;
    }
}

static void begin_guard(void) {
    const uint32_t drift_ppm = one_in(2) ? 10000 : 0;
    rl_guard_init(&guard, nodes, drift_ppm, one_in(2) ? 2 * RL_MS : 0);
    guard.read_only = one_in(8);
    guard.pinned = one_in(8) ? 1 + draw(2) : 0;
    for (unsigned i = 0; i < nodes; i++)
        snprintf(guard.node[i].url, RL_URL_BYTES, one_in(strangers ? 2 : 20) ? "x%u" : "n%u", i);
}

static void walk(void) {
    static const uint64_t rates[] = {0, 10, 30, 90};
    nodes = one_in(4) ? 1 + (unsigned)draw(RL_NODES_MAX) : 3 + 2 * (unsigned)draw(2);
    terms.nodes = (uint8_t)nodes; /* for few() */
    names = 0;
    now = (rl_ns)(1 + draw(3)) * 10000 * RL_MS;
    tampers = rates[draw(4)];
    fails = rates[draw(4)];
    unreadable = one_in(6);
    leaves = one_in(4);
    strangers = one_in(5);
    begin_servers();
    for (unsigned i = 0; i < nodes && strangers; i++)
        if (server[i].has_record && one_in(2)) begin_init(&server[i].record);
    for (unsigned i = 0; i < nodes && tampers; i++)
        if (one_in(tampers / 2)) tamper(i);
    begin_guard();
    for (unsigned i = 0; i < nodes; i++)
        if (!one_in(strangers ? 3 : 10)) connect(i);
    const uint64_t disturbs = 6 + draw(30);
    for (unsigned i = 0; i < EVENTS; i++) {
        const unsigned index = (unsigned)draw(nodes);
        if (one_in(disturbs)) disturb(index);
        if (tampers && one_in(8 * tampers)) tamper_with_most();
        if (tampers && one_in(tampers)) {
            tamper(index);
            if (!one_in(3)) plain(one_in(2) ? RL_GUARD_CHANGED : RL_GUARD_PEEK, index);
        }
        for (unsigned n = 0, at = (unsigned)draw(nodes); n < nodes; n++)
            if (one_in(2)) answer((at + n) % nodes);
        if (actions.reconnect) reconnect(actions.reconnect);
        if (!one_in(3)) pass_time();
        if (one_in(20)) connect((unsigned)draw(nodes));
    }
}

/* Most changes show in a few walks, so those come first. */
enum kind { FEW, MANY, KINDS };

static const unsigned walks[KINDS] = {[FEW] = 20, [MANY] = 800};
static const struct kept_number kept[KINDS] = {
    [FEW] = {"few walks", UINT64_C(0xe8d5682cc0d9befe)},
    [MANY] = {"many walks", UINT64_C(0x0ea4469b869b397b)},
};

static void draw_fences(void) {
    memset(fences, 0, sizeof fences);
    for (unsigned i = 1; i < FENCES; i++) {
        for (unsigned n = 0; n < 3; n++) {
            const uint64_t stripe = draw(RL_STRIPES);
            fences[i][stripe] = (int64_t)draw(9);
        }
        fences[i][0] = (int64_t)draw(9);
        fences[i][RL_STRIPES - 1] = (int64_t)draw(9);
    }
}

static uint64_t number_of(unsigned kind) {
    random_state = kind;
    draw_fences();
    for (unsigned i = 0; i < walks[kind]; i++) walk();
    return folded;
}

static uint64_t number_of_few(unsigned kind) { return number_of(kind + FEW); }
static uint64_t number_of_many(unsigned kind) { return number_of(kind + MANY); }

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(&kept[FEW], 1, number_of_few);
    assert_kept(&kept[MANY], 1, number_of_many);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour_guard", tests, NULL, NULL);
}
