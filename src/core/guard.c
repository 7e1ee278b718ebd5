/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What happened to the nodes, and what to ask them. The machine keeps no list of steps. Each step
 * derives from all that is known which nodes may vote (eligibility.c), and which request to each
 * idle node advances its recovery. If a request is lost, or another agent does the work first, the
 * records show it. */
#include <assert.h>
#include <string.h>

#include "core/mix.h"
#include "core/eligibility.h"

#define RETRY_PAUSE (100 * RL_MS)
#define RECONNECT_PAUSE (1000 * RL_MS)
#define FOLLOW_PAUSE (1000 * RL_MS)
#define HAND_ON_FIRST (500 * RL_MS)
#define HAND_ON_PAUSE_MAX (8000 * RL_MS)
#define HAND_ON_PART 8 /* of the time waited */
#define JITTER_MAX (250 * RL_MS)

void rl_guard_init(struct rl_guard *guard, unsigned nodes, uint32_t drift_ppm, rl_ns drift_fixed) {
    assert(nodes >= 1 && nodes <= RL_NODES_MAX);
    /* Not all of it: memory that nobody touches costs a program's start nothing. The floor is
     * cleared before it is filled. */
    const size_t behind_nodes = offsetof(struct rl_guard, known);
    memset(guard, 0, offsetof(struct rl_guard, node));
    memset(guard->node, 0, nodes * sizeof guard->node[0]);
    memset((char *)guard + behind_nodes, 0, offsetof(struct rl_guard, floor) - behind_nodes);
    guard->nodes = nodes;
    guard->drift_ppm = drift_ppm;
    guard->drift_fixed = drift_fixed;
    guard->installing = -1;
    guard->votes_needed = rl_quorum(nodes);
    for (unsigned i = 0; i < nodes; i++)
        guard->node[i].reconnect_at = guard->node[i].reclaim_at = RL_NEVER;
}

/* Every event brings a new seed. Not 0. */
static uint64_t draw(struct rl_guard *guard) {
    uint64_t z = rl_splitmix64(&guard->random);
    return z ? z : 1;
}

static rl_mask bit_of(const struct rl_guard *guard, const struct rl_guard_node *node) {
    return rl_bit((unsigned)(node - guard->node));
}

static bool is_majority_intact(const struct rl_guard *guard) {
    return rl_count(rl_guard_intact(guard)) >= guard->votes_needed;
}

rl_ns rl_guard_lease_most(const struct rl_guard *guard, int64_t ttl_ms) {
    const struct rl_terms terms = {.drift_ppm = guard->drift_ppm,
                                   .drift_fixed = guard->drift_fixed};
    return ttl_ms * RL_MS + rl_drift(&terms, ttl_ms * RL_MS);
}

rl_ns rl_guard_quarantine(const struct rl_guard *guard) {
    return rl_guard_lease_most(guard, rl_record_ttl_wait(&guard->quorum));
}

rl_ns rl_guard_left(const struct rl_guard *guard, unsigned index, rl_ns now) {
    const struct rl_guard_node *node = &guard->node[index];
    if (node->eligibility != RL_ELIGIBILITY_RECOVERING || !guard->known) return -1;
    rl_ns waited = 0;
    /* it may have waited long enough, but the fences are read from a majority */
    if (!is_majority_intact(guard)) return -1;
    if (node->waits_for != 0)
        waited = now - node->waits_since;
    else if (eligibility_is_claimed(guard, node))
        waited = node->record.waited_ms * RL_MS;
    rl_ns left = rl_guard_quarantine(guard) - waited;
    return left > 0 ? left : 0;
}

/* ---- what happened --------------------------------------------------------------------------- */

static void stop_waiting(struct rl_guard_node *node) { node->waits_for = node->peeks_for = 0; }

/* Keys of leases may be gone there. That matters until each of these leases has ended, or was
 * extended there since. */
static void suspect(const struct rl_guard *guard, struct rl_guard_node *node, rl_ns now) {
    if (!guard->known) return; /* none of its votes was ever counted */
    /* A recovering node votes for no client, and the client that makes it intact reads its state
     * first. A suspicion that outlived the recovery would set the node to recovering again when its
     * vote is needed. */
    if (node->read && node->has_record && node->record.eligibility == RL_RECORD_RECOVERING) return;
    node->suspect = node->was_suspected = true;
    node->suspected_at = now;
}

static void trust(struct rl_guard_node *node) {
    node->suspect = node->was_suspected = node->distrusted = false;
}

/* Answers for this installation do not count for the next: they may be older than its wait. */
static void stop_installing(struct rl_guard *guard) {
    guard->installing = -1;
    guard->sources = 0;
    for (unsigned i = 0; i < guard->nodes; i++)
        if (guard->node[i].pending_op == RL_PENDING_FENCES) guard->node[i].stale = true;
}

static void came_up(struct rl_guard_node *node, const char *run_id) {
    size_t bytes = strlen(run_id);
    assert(bytes < sizeof node->run_id);
    node->up = true;
    node->same_again = node->asked_again && strcmp(node->run_id, run_id) == 0;
    node->asked_again = false;
    node->unfit = node->stated = node->read = node->reread = node->stale = false;
    if (strcmp(node->run_id, run_id) != 0) { /* else its keys may still be missing */
        node->was_incarnation = false;
        trust(node);
    }
    memcpy(node->run_id, run_id, bytes + 1);
    node->pending_op = RL_PENDING_NONE;
    node->again_at = 0;
    node->reconnect_at = RL_NEVER;
    if (!node->same_again) node->reclaim_at = RL_NEVER;
    node->damaged = 0;
    stop_waiting(node);
}

static void went_down(struct rl_guard *guard, unsigned index) {
    struct rl_guard_node *node = &guard->node[index];
    node->up = node->stated = node->read = node->reread = false;
    node->pending_op = RL_PENDING_NONE;
    node->reconnect_at = RL_NEVER;
    /* the time since was not observed; the wait that was handed on still counts */
    stop_waiting(node);
    if (guard->installing == (int)index) stop_installing(guard);
}

/* A change found here is a change of data: another record, or a recovery that must start again. */
static void state_came(struct rl_guard *guard, struct rl_guard_node *node,
                       const struct rl_guard_event *event, rl_ns now) {
    if (!node->up) return;
    assert(strlen(event->replid) < sizeof node->replid);
    memcpy(node->replid, event->replid, strlen(event->replid) + 1);
    node->evicted = event->evicted;
    node->unfit = event->unfit;
    node->stated = true;
    if (event->suspect) suspect(guard, node, now);
}

/* A request under way may have been answered before the change. */
static void changed(struct rl_guard_node *node, bool unsent) {
    if (!node->up) return;
    node->stated = node->read = false;
    if (node->pending_op == RL_PENDING_READ && !unsent) node->stale = true;
}

static void record_came(struct rl_guard_node *node, const struct rl_record *record, bool readable) {
    if (node->pending_op != RL_PENDING_READ) return;
    node->pending_op = RL_PENDING_NONE;
    node->reread = node->stale; /* it was sent before the change was reported */
    if (node->stale) {
        node->stale = false;
        return;
    }
    node->read = true;
    node->unreadable = !readable;
    node->has_record = record != NULL;
    if (!record) return;
    node->record = *record;
    /* Another client suspected the node too and was faster. The wait that it started is enough. */
    if (record->eligibility == RL_RECORD_RECOVERING && eligibility_fits(node)) trust(node);
}

static void written(struct rl_guard *guard, unsigned index, bool done) {
    struct rl_guard_node *node = &guard->node[index];
    if (node->pending_op != RL_PENDING_WRITE) return;
    node->pending_op = RL_PENDING_NONE;
    if (guard->installing == (int)index) stop_installing(guard);
    /* Another client was faster. A recovering node does not vote, whatever the new record says. */
    if (!done) {
        node->read = node->eligibility == RL_ELIGIBILITY_RECOVERING;
        node->reread = true;
        return;
    }
    node->record = node->writing;
    node->read = node->has_record = true;
    node->unreadable = false;
    /* else it was sent before the suspicion */
    if (node->record.eligibility == RL_RECORD_RECOVERING) trust(node);
}

/* A record changes together with the name of its fences. So if a second read still finds that
 * nonce, the fences alone were removed. */
static void no_fences(struct rl_guard_node *node) {
    if (!node->read || !node->has_record) return;
    node->damaged = node->record.nonce;
    if (node->pending_op == RL_PENDING_READ) node->stale = true;
    /* the answer to a write shows it */
    if (node->pending_op != RL_PENDING_WRITE) node->read = false;
}

static void fences_came(struct rl_guard *guard, unsigned index, const int64_t *fences) {
    struct rl_guard_node *node = &guard->node[index];
    if (node->pending_op != RL_PENDING_FENCES) return;
    node->pending_op = RL_PENDING_NONE;
    bool stale = node->stale, wanted = !stale && guard->installing >= 0;
    node->stale = false;
    if (!fences && !stale) no_fences(node);
    if (!fences) {
        node->read = false;
        return;
    }
    if (!wanted || node->eligibility != RL_ELIGIBILITY_INTACT) return;
    for (unsigned i = 0; i < RL_STRIPES; i++)
        if (fences[i] > guard->floor[i]) guard->floor[i] = fences[i];
    guard->sources |= rl_bit(index);
}

/* It is unknown whether a write took effect. */
static void failed(struct rl_guard *guard, unsigned index, rl_ns now) {
    struct rl_guard_node *node = &guard->node[index];
    if (node->pending_op == RL_PENDING_NONE) return;
    if (node->pending_op == RL_PENDING_WRITE) node->read = false;
    if (guard->installing == (int)index) stop_installing(guard);
    node->pending_op = RL_PENDING_NONE;
    node->stale = false;
    node->again_at = now + RETRY_PAUSE;
}

static void renamed(struct rl_guard_node *node, const struct rl_guard_event *event) {
    /* it may be older, or of the old name */
    if (node->pending_op == RL_PENDING_READ || node->pending_op == RL_PENDING_FENCES)
        node->stale = true;
    if (node->record.nonce == event->expected) node->record.nonce = event->nonce;
}

static void take(struct rl_guard *guard, const struct rl_guard_event *event, rl_ns now) {
    assert(event->node < guard->nodes);
    struct rl_guard_node *node = &guard->node[event->node];
    switch (event->type) {
    case RL_GUARD_UP: came_up(node, event->run_id); break;
    case RL_GUARD_DOWN: went_down(guard, event->node); break;
    case RL_GUARD_STATE: state_came(guard, node, event, now); break;
    case RL_GUARD_CHANGED: changed(node, event->unsent); break;
    case RL_GUARD_RECORD: record_came(node, event->record, true); break;
    case RL_GUARD_UNREADABLE: record_came(node, NULL, false); break;
    case RL_GUARD_WRITTEN: written(guard, event->node, event->done); break;
    case RL_GUARD_FENCES: fences_came(guard, event->node, event->fences); break;
    case RL_GUARD_FAILED: failed(guard, event->node, now); break;
    case RL_GUARD_NO_FENCES: no_fences(node); break;
    case RL_GUARD_RENAMED: renamed(node, event); break;
    case RL_GUARD_PEEK: node->reread = true; break;
    case RL_GUARD_JUMPED: suspect(guard, node, now); break;
    case RL_GUARD_LEAVE: guard->leaving = true; break;
    case RL_GUARD_TICK: break;
    }
}

/* ---- what is to be written ------------------------------------------------------------------- */

void rl_guard_write_over(struct rl_guard_node *node, uint64_t nonce) {
    struct rl_record *to = &node->writing;
    node->expected = node->has_record ? node->record.nonce : 0;
    node->was_kept = !node->has_record || node->record.eligibility == RL_RECORD_RECOVERING;
    to->format = RL_RECORD_FORMAT;
    memcpy(to->run_id, node->run_id, sizeof to->run_id);
    memcpy(to->replid, node->replid, sizeof to->replid);
    to->evicted = node->evicted;
    to->nonce = nonce;
}

static void write_record(struct rl_guard *guard, struct rl_guard_node *node,
                         struct rl_guard_actions *actions) {
    rl_guard_write_over(node, draw(guard));
    node->pending_op = RL_PENDING_WRITE;
    actions->write |= bit_of(guard, node);
}

struct rl_record *rl_guard_own_record(const struct rl_guard *guard, struct rl_guard_node *node,
                                      uint64_t id, enum rl_record_eligibility eligibility) {
    struct rl_record *to = &node->writing;
    *to = guard->quorum;
    to->node_id = id;
    to->eligibility = eligibility;
    to->settled = false;
    to->loss = node->record.loss;
    to->waited_ms = 0;
    to->ballot = to->accepted_ballot = 0;
    memset(&to->accepted, 0, sizeof to->accepted);
    node->floor = NULL;
    return to;
}

/* Step 1. */
static void claim(struct rl_guard *guard, struct rl_guard_node *node,
                  struct rl_guard_actions *actions) {
    struct rl_record *to = rl_guard_own_record(guard, node, node->id, RL_RECORD_RECOVERING);
    to->loss = draw(guard);
    for (unsigned i = 0; i < to->members_count; i++) {
        struct rl_incarnation *incarnation = &to->members[i].incarnation;
        if (to->members[i].id == node->id && strcmp(incarnation->run_id, node->run_id) != 0)
            rl_incarnation_follow(incarnation, node->run_id);
    }
    stop_waiting(node);
    node->reclaim_at = RL_NEVER;
    node->same_again = false; /* next time it must be seen again */
    write_record(guard, node, actions);
}

/* Step 2, at an intact node: writes the newest known incarnations. */
static void register_incarnations(struct rl_guard *guard, struct rl_guard_node *node,
                                  struct rl_guard_actions *actions) {
    node->writing = node->record;
    for (unsigned i = 0; i < node->writing.members_count; i++) {
        struct rl_member *member = &node->writing.members[i];
        struct rl_incarnation incarnation;
        if (eligibility_newest_incarnation(guard, member->id, &incarnation) &&
            rl_incarnation_compare(&member->incarnation, &incarnation) < 0)
            member->incarnation = incarnation;
    }
    node->floor = NULL;
    write_record(guard, node, actions);
}

/* Step 5. The node takes over what the sources promised and accepted for the next epoch. (A node
 * whose fences were read before this epoch, and that is behind by now, is not a source: what it
 * accepted has led to this epoch.) */
static void install(struct rl_guard *guard, struct rl_guard_node *node, rl_mask sources,
                    struct rl_guard_actions *actions) {
    struct rl_record *to = rl_guard_own_record(guard, node, node->id, RL_RECORD_INTACT);
    to->settled = guard->settled;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_record *from = &guard->node[i].record;
        if (!(sources & rl_bit(i))) continue;
        assert(i != (unsigned)guard->installing && from->epoch == to->epoch);
        if (from->ballot > to->ballot) to->ballot = from->ballot;
        if (from->accepted_ballot <= to->accepted_ballot) continue;
        to->accepted_ballot = from->accepted_ballot;
        to->accepted = from->accepted;
    }
    for (unsigned i = 0; i < to->members_count; i++)
        (void)eligibility_newest_incarnation(guard, to->members[i].id, &to->members[i].incarnation);
    node->floor = guard->floor;
    write_record(guard, node, actions);
}

static void hand_on(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                    struct rl_guard_actions *actions) {
    const rl_ns pause = node->hand_on_pause;
    int64_t waited_ms = (now - node->waits_since) / RL_MS,
            enough_ms = rl_guard_quarantine(guard) / RL_MS + 1;
    /* the most that a record can hold, whatever it held before */
    if (waited_ms > enough_ms) waited_ms = enough_ms;
    node->hand_on_pause =
        node->hand_on_pause < HAND_ON_PAUSE_MAX / 2 ? node->hand_on_pause * 2 : HAND_ON_PAUSE_MAX;
    node->hand_on_at = now + node->hand_on_pause;
    if (waited_ms <= node->record.waited_ms) return;
    /* Another agent wrote during this pause, or not long ago. Every agent reads each record that is
     * written, so if each of them wrote, the reads would grow with the square of their number. */
    const int64_t gained_ms = waited_ms - node->record.waited_ms;
    const bool little = 2 * gained_ms * RL_MS < pause || gained_ms < waited_ms / HAND_ON_PART;
    if (little && !guard->leaving) return;
    node->writing = node->record;
    node->writing.waited_ms = waited_ms;
    node->floor = NULL;
    write_record(guard, node, actions);
}

/* ---- a node that recovers -------------------------------------------------------------------- */

/* Step 2 ends. Our reads show that one member after the other had the registration. But the first
 * may have lost it before the last got it, and recovered from others that did not have it yet. */
static void begin_peek(struct rl_guard *guard, struct rl_guard_node *node) {
    node->peeks_for = node->record.loss;
    node->peeked = 0;
    node->peeking = rl_guard_intact(guard);
    for (unsigned i = 0; i < guard->nodes; i++) {
        struct rl_guard_node *other = &guard->node[i];
        if (!(node->peeking & rl_bit(i))) continue;
        node->peek_nonces[i] = other->record.nonce;
        other->reread = true;
        /* that request was sent before */
        if (other->pending_op == RL_PENDING_READ) other->stale = true;
    }
}

static bool is_registered(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now) {
    if (!eligibility_is_registered(guard, node)) {
        node->peeks_for = 0;
        return false;
    }
    if (node->peeks_for != node->record.loss) {
        begin_peek(guard, node);
        return false;
    }
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *other = &guard->node[i];
        bool unread = other->up && !other->unfit &&
                      (!other->stated || !other->read || (other->has_record && other->reread));
        if (!(node->peeking & rl_bit(i)) || unread) continue;
        node->peeking &= (rl_mask)~rl_bit(i);
        bool same = other->eligibility == RL_ELIGIBILITY_INTACT &&
                    other->record.nonce == node->peek_nonces[i];
        if (same && eligibility_has_registered(other, node)) node->peeked |= rl_bit(i);
    }
    if (rl_count(node->peeked) >= guard->votes_needed) return true;
    if (node->peeking == 0) { /* other clients write there too: try again later */
        node->peeks_for = 0;
        node->again_at = now + RETRY_PAUSE;
    }
    return false;
}

/* Step 3 begins: the registration is now known to be complete. The waited time in the record was
 * also waited after it. */
static void start_waiting(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now) {
    rl_ns since = now - node->record.waited_ms * RL_MS;
    if (node->waits_for == node->record.loss) {
        /* another agent has waited longer */
        if (since < node->waits_since) node->waits_since = since;
        return;
    }
    rl_ns jitter_max = rl_record_ttl_wait(&guard->quorum) * RL_MS / 16;
    if (jitter_max > JITTER_MAX) jitter_max = JITTER_MAX;
    node->waits_for = node->record.loss;
    node->waits_since = since;
    node->waited = false;
    node->jitter = (rl_ns)(draw(guard) % (uint64_t)(jitter_max + 1));
    node->hand_on_pause = HAND_ON_FIRST;
    node->hand_on_at = now + HAND_ON_FIRST;
}

/* Steps 4 and 5. */
static void finish(struct rl_guard *guard, struct rl_guard_node *node,
                   struct rl_guard_actions *actions) {
    int index = (int)(node - guard->node);
    if (!node->waited) { /* most likely another agent has installed it meanwhile */
        node->waited = node->reread = true;
        return;
    }
    if (guard->installing < 0) {
        guard->installing = index;
        memset(guard->floor, 0, sizeof guard->floor);
    }
    if (guard->installing != index) return;
    rl_mask sources = guard->sources & rl_guard_intact(guard);
    assert(!(sources & rl_bit((unsigned)index)));
    if (rl_count(sources) >= guard->votes_needed) install(guard, node, sources, actions);
}

/* Another server was registered in this one's place. If that server lives, two servers stand for
 * one member, and registering again at once would never end. So first we connect again, because
 * most likely the other server is behind that address by now. Only if it is still the same server,
 * for a whole quarantine, it gets the place back, as a server that lost its data. */
static void give_way(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                     struct rl_guard_actions *actions) {
    stop_waiting(node);
    /* another node can be installed now */
    if (guard->installing == (int)(node - guard->node)) stop_installing(guard);
    if (!node->same_again || now < node->reclaim_at || guard->leaving ||
        eligibility_is_double(guard, node))
        return;
    if (is_majority_intact(guard)) claim(guard, node, actions);
}

static void recover(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                    struct rl_guard_actions *actions) {
    assert(node->id != 0 && guard->known);
    if (eligibility_is_superseded(guard, node)) {
        give_way(guard, node, now, actions);
        return;
    }
    if (!eligibility_is_claimed(guard, node)) {
        if (is_majority_intact(guard) && !guard->leaving) claim(guard, node, actions);
        return;
    }
    if (node->waits_for != node->record.loss && !is_registered(guard, node, now)) return;
    start_waiting(guard, node, now);
    rl_ns enough = node->waits_since + rl_guard_quarantine(guard);
    if (node->hand_on_at == RL_NEVER) return; /* the client ends, and has recorded the time */
    if (guard->leaving) {
        hand_on(guard, node, now, actions);
        node->hand_on_at = RL_NEVER;
    } else if (now >= enough + node->jitter) {
        finish(guard, node, actions);
    } else if (now >= node->hand_on_at) {
        hand_on(guard, node, now, actions);
    }
}

/* ---- what is to be asked --------------------------------------------------------------------- */

static bool lacks_incarnation(const struct rl_guard *guard, const struct rl_guard_node *node) {
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *other = &guard->node[i];
        if (other == node || other->eligibility != RL_ELIGIBILITY_RECOVERING ||
            !eligibility_is_claimed(guard, other))
            continue;
        const struct rl_member *member = rl_record_member(&node->record, other->id);
        if (member && rl_incarnation_compare(&member->incarnation,
                                             eligibility_claimed_incarnation(other)) < 0)
            return true;
    }
    return false;
}

static void plan_write(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                       struct rl_guard_actions *actions) {
    rl_mask bit = bit_of(guard, node);
    switch (node->eligibility) {
    case RL_ELIGIBILITY_INTACT:
        if (guard->leaving) break;
        if (lacks_incarnation(guard, node)) {
            register_incarnations(guard, node, actions);
        } else if (guard->installing >= 0 && !(guard->sources & bit)) {
            node->pending_op = RL_PENDING_FENCES;
            actions->fences |= bit;
        }
        break;
    case RL_ELIGIBILITY_BEHIND:
        if (guard->leaving) break;
        /* a record of a later epoch was chosen: any client may bring a node up to it */
        rl_guard_own_record(guard, node, node->id, RL_RECORD_INTACT);
        write_record(guard, node, actions);
        break;
    case RL_ELIGIBILITY_RECOVERING: recover(guard, node, now, actions); break;
    case RL_ELIGIBILITY_FOREIGN:
        if (eligibility_is_superseded(guard, node)) give_way(guard, node, now, actions);
        break;
    default: break;
    }
}

/* Refused by this client, and soon by all others: the record shows it to clients that have not read
 * the node's state yet. */
static void plan_refused(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                         struct rl_guard_actions *actions) {
    if (!node->suspect || !guard->known || guard->read_only || guard->leaving) return;
    if (node->pending_op != RL_PENDING_NONE || now < node->again_at || !node->read ||
        node->reread || !node->has_record)
        return;
    bool votes = node->record.eligibility == RL_RECORD_INTACT &&
                 node->record.quorum_id == guard->quorum.quorum_id && eligibility_fits(node) &&
                 rl_record_member(&guard->quorum, node->id);
    if (votes && is_majority_intact(guard)) claim(guard, node, actions);
}

static void plan(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now,
                 struct rl_guard_actions *actions) {
    rl_mask bit = bit_of(guard, node);
    if (!node->up) return;
    if (node->unfit) {
        plan_refused(guard, node, now, actions);
        return;
    }
    if (now >= node->reconnect_at) {
        node->reconnect_at = RL_NEVER;
        node->asked_again = true;
        actions->reconnect |= bit;
        return;
    }
    if (node->pending_op != RL_PENDING_NONE || now < node->again_at) return;
    if (node->read && !node->reread && !guard->read_only) plan_write(guard, node, now, actions);
    if (node->pending_op != RL_PENDING_NONE || (node->read && !node->reread)) return;
    node->pending_op = RL_PENDING_READ;
    actions->read |= bit;
}

/* ---- when to look again ---------------------------------------------------------------------- */

/* Work that was due by now was done in this step, or waits for an answer or for again_at. */
static void wake_by(struct rl_guard_actions *actions, rl_ns at, rl_ns now) {
    if (at > now && at < actions->wake_at) actions->wake_at = at;
}

static void plan_wake(const struct rl_guard *guard, const struct rl_guard_node *node, rl_ns now,
                      struct rl_guard_actions *actions) {
    if (!node->up || node->unfit) return;
    wake_by(actions, node->reconnect_at, now);
    if (node->pending_op != RL_PENDING_NONE) return; /* its answer wakes us */
    wake_by(actions, node->again_at, now);
    if (guard->read_only && node->distrusted)
        wake_by(actions, node->suspected_at + rl_guard_quarantine(guard), now);
    if (guard->read_only || guard->leaving) return;
    wake_by(actions, node->reclaim_at, now);
    if (node->eligibility != RL_ELIGIBILITY_RECOVERING || node->waits_for == 0) return;
    wake_by(actions, node->waits_since + rl_guard_quarantine(guard) + node->jitter, now);
    wake_by(actions, node->hand_on_at, now);
}

/* ---- what has come of it --------------------------------------------------------------------- */

static void review(struct rl_guard *guard, struct rl_guard_node *node, rl_ns now) {
    if (!node->up || !node->read) return;
    bool waits =
        node->eligibility == RL_ELIGIBILITY_RECOVERING && node->waits_for == node->record.loss;
    if (node->waits_for != 0 && !waits) {
        stop_waiting(node);
        /* This is another loss. What was read for the loss before was read before this one's
         * wait. */
        if (guard->installing == (int)(node - guard->node) && node->pending_op == RL_PENDING_NONE)
            stop_installing(guard);
    }
    bool in_place = node->eligibility != RL_ELIGIBILITY_RECOVERING &&
                    node->eligibility != RL_ELIGIBILITY_FOREIGN;
    if (in_place || !eligibility_is_superseded(guard, node)) {
        node->reconnect_at = node->reclaim_at = RL_NEVER;
        return;
    }
    if (node->reconnect_at == RL_NEVER) node->reconnect_at = now + RECONNECT_PAUSE;
    if (node->reclaim_at == RL_NEVER) node->reclaim_at = now + rl_guard_quarantine(guard);
}

/* Distrusts one suspect node, whose votes are void from then on. Enough others must remain: one
 * client with a broken clock must not take the quorum down. */
static bool distrust_one(struct rl_guard *guard) {
    if (rl_count(rl_guard_intact(guard)) <= guard->votes_needed) return false;
    for (unsigned i = 0; i < guard->nodes; i++) {
        struct rl_guard_node *node = &guard->node[i];
        if (!node->suspect || node->distrusted || node->eligibility != RL_ELIGIBILITY_INTACT)
            continue;
        node->distrusted = true;
        /* the answer may be from before */
        if (node->pending_op == RL_PENDING_READ) node->stale = true;
        return true;
    }
    return false;
}

static bool shows_later_epoch(const struct rl_guard *guard, const struct rl_guard_node *node) {
    return guard->known && node->read && node->has_record &&
           node->record.quorum_id == guard->quorum.quorum_id &&
           node->record.epoch > guard->quorum.epoch;
}

/* A client that sends votes meets a changed nonce. One that sends none would not learn a later
 * epoch from nodes that announce no changes. So it reads all records again in two cases. A node
 * that does not vote shows a later epoch: a member that was added and must recover; the others may
 * carry that epoch too. Or fewer than a majority are intact for a while, so no votes are sent: a
 * later epoch may need fewer nodes. Both may last long (`quorum init` waits for ttl_max), so there
 * is a pause between two rounds of reads. */
static void follow_epoch(struct rl_guard *guard, rl_ns now) {
    bool waits = guard->known && !is_majority_intact(guard), later = false;
    for (unsigned i = 0; i < guard->nodes; i++) later |= shows_later_epoch(guard, &guard->node[i]);
    bool begins = guard->follow_at == 0 && !later;
    if (!later && !waits) guard->follow_at = 0;
    if ((!later && !waits) || now < guard->follow_at) return;
    guard->follow_at = now + FOLLOW_PAUSE;
    if (begins) return;
    for (unsigned i = 0; i < guard->nodes; i++)
        if (guard->node[i].read) guard->node[i].reread = true;
}

/* ---- the step -------------------------------------------------------------------------------- */

void rl_guard_step(struct rl_guard *guard, const struct rl_guard_event *event, rl_ns now,
                   struct rl_guard_actions *actions) {
    memset(actions, 0, sizeof *actions);
    actions->wake_at = RL_NEVER;
    guard->random = event->random;
    uint32_t epoch = guard->quorum.epoch;
    take(guard, event, now);
    for (unsigned i = 0; i < guard->nodes; i++) {
        struct rl_guard_node *node = &guard->node[i];
        /* A client that may not claim the node waits itself; all others wait for a recovery. */
        if (node->was_suspected && (guard->read_only || !node->distrusted)) {
            node->suspect = now < node->suspected_at + rl_guard_quarantine(guard);
            node->distrusted = node->distrusted && node->suspect;
        }
    }
    actions->changed = eligibility_judge(guard);
    while (distrust_one(guard)) actions->changed |= eligibility_judge(guard);
    follow_epoch(guard, now);
    if (guard->quorum.epoch != epoch && guard->installing >= 0 &&
        guard->node[guard->installing].pending_op == RL_PENDING_NONE)
        stop_installing(guard); /* the nodes to ask have changed */
    for (unsigned i = 0; i < guard->nodes; i++) review(guard, &guard->node[i], now);
    if (guard->installing >= 0 && guard->node[guard->installing].pending_op == RL_PENDING_NONE &&
        guard->node[guard->installing].eligibility != RL_ELIGIBILITY_RECOVERING)
        stop_installing(guard);
    /* Two rounds: the node that begins an installation may come after the nodes that it asks. */
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < guard->nodes; i++) plan(guard, &guard->node[i], now, actions);
    for (unsigned i = 0; i < guard->nodes; i++) plan_wake(guard, &guard->node[i], now, actions);
    wake_by(actions, guard->follow_at, now);
}
