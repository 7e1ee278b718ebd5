/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Membership, step 5: "when a majority of e has switched, wait ttl_max as above (leases of e end or
 * are extended by e + 1), look that they still carry e + 1 unbroken, read the fences from a
 * majority of them, raise them on a majority of e + 1, and mark it settled." (docs/guarded.md)
 */
#include <string.h>

#include "quorum.h"

#define PAUSE (200 * RL_MS)
#define GAP_MIN (2500 * RL_MS) /* looks are a second apart, and a machine may be busy */
#define PATIENCE 20            /* tries, of what takes a moment ... */
#define ROUNDS 5               /* ... and of what takes a wait */

/* What is settled, and by whom. */
struct settling {
    const struct rl_change *last; /* NULL: not known */
    uint32_t epoch;
    rl_mask witnesses;                          /* members of the epoch before that have switched */
    unsigned needed;                            /* of these */
    char run_id[RL_NODES_MAX][RL_RUN_ID_BYTES]; /* of the witnesses */
    rl_ns seen[RL_NODES_MAX];                   /* not before this */
};

static bool any_settled(const struct quorum_work *work) {
    rl_mask intact = rl_guard_intact(&work->view);
    for (unsigned i = 0; i < work->nodes; i++)
        if ((intact & rl_bit(i)) && work->seat[i].record.settled) return true;
    return false;
}

/* Intact as a node of this epoch, also where it is no member any more. */
static bool has_switched(const struct quorum_work *work, unsigned node, uint32_t epoch) {
    const struct quorum_seat *seat = &work->seat[node];
    return quorum_same_server(seat) && seat->record.standing == RL_RECORD_INTACT &&
           seat->record.epoch == epoch && seat->record.quorum_id == work->view.quorum.quorum_id;
}

/* Who was a member of the epoch before: the members, without the one that was added, with the one
 * that was removed. Where the change is not known, as many are asked for as either would need. The
 * records do not name a removed member's body any more, so its switched node may be a former body
 * of it. It counts only where the others could not be a majority without its place anyway: where
 * there was an even number. */
static void find_witnesses(const struct quorum_work *work, struct settling *settling, rl_ns began) {
    const struct rl_change *last = settling->last;
    bool even = work->view.quorum.members_count % 2 == 1; /* with the one that was removed */
    unsigned members = work->view.quorum.members_count;
    bool add = last && last->kind == RL_CHANGE_ADD, remove = last && last->kind == RL_CHANGE_REMOVE;
    settling->needed = rl_quorum(add ? members - 1 : members + 1);
    settling->witnesses = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        if (!has_switched(work, i, settling->epoch)) continue;
        uint64_t id = work->seat[i].record.node_id;
        bool added = add && id == last->id;
        bool removed = even && !rl_record_member(&work->view.quorum, id) &&
                       (!last || (remove && id == last->id));
        if (added || (!removed && work->view.node[i].standing != RL_STANDING_INTACT)) continue;
        settling->witnesses |= rl_bit(i);
        memcpy(settling->run_id[i], work->seat[i].run_id, sizeof settling->run_id[i]);
        settling->seen[i] = began;
    }
}

/* Somebody else has done it, or has gone on from here, which comes after it. */
static bool is_over(const struct quorum_work *work, const struct settling *settling) {
    uint32_t epoch = work->view.quorum.epoch;
    return work->view.known &&
           (epoch > settling->epoch || (epoch == settling->epoch && any_settled(work)));
}

/* A node that could not be asked just now is asked again; one that answers for another server, or
 * recovers, is out; and one that was not looked at for so long that it may have lost its data and
 * recovered meanwhile. */
static bool still_witnesses(struct quorum_work *work, void *context) {
    struct settling *settling = context;
    rl_ns quarantine = quorum_quarantine(work, work->view.quorum.ttl_max_ms);
    rl_ns gap = quarantine > GAP_MIN ? quarantine : GAP_MIN, began = quorum_now(work);
    quorum_look(work);
    if (is_over(work, settling)) return false;
    rl_ns now = quorum_now(work);
    for (unsigned i = 0; i < work->nodes; i++) {
        if (!(settling->witnesses & rl_bit(i)) || !work->seat[i].heard) continue;
        bool same = has_switched(work, i, settling->epoch) &&
                    strcmp(work->seat[i].run_id, settling->run_id[i]) == 0;
        if (!same || now - settling->seen[i] >= gap) settling->witnesses &= (rl_mask)~rl_bit(i);
        settling->seen[i] = began;
    }
    return rl_count(settling->witnesses) >= settling->needed;
}

/* Of the witnesses that can be read now; false: too few. */
static bool read_fences(struct quorum_work *work, struct settling *settling) {
    memset(work->floor, 0, sizeof work->floor);
    for (unsigned tries = 0; tries < PATIENCE; tries++) {
        rl_mask without, heard = 0;
        if (!still_witnesses(work, settling)) return false;
        for (unsigned i = 0; i < work->nodes; i++)
            if (work->seat[i].heard) heard |= rl_bit(i);
        /* All in one pass: what was read earlier was read of records that may have changed
         * since. */
        if (rl_count(quorum_fences(work, settling->witnesses & heard, false, &without)) >=
            settling->needed)
            return true;
        quorum_pause_randomly(work, tries);
    }
    return false;
}

/* Writes to every intact node, again where another came between, until a majority of the members
 * has taken it. */
static bool write_majority(struct quorum_work *work, const struct settling *settling,
                           bool settled) {
    rl_mask done = 0;
    for (unsigned tries = 0; tries < PATIENCE; tries++) {
        if (tries > 0) quorum_pause_randomly(work, tries);
        quorum_look(work);
        if (work->view.quorum.epoch > settling->epoch) return true;
        if (work->view.quorum.epoch < settling->epoch) continue; /* who has it cannot be reached */
        rl_mask intact = rl_guard_intact(&work->view), nodes = intact & (rl_mask)~done;
        for (unsigned i = 0; i < work->nodes; i++) {
            if (!(nodes & rl_bit(i))) continue;
            if (settled && work->seat[i].record.settled) {
                done |= rl_bit(i);
                continue;
            }
            work->seat[i].writing = work->seat[i].record;
            if (settled) work->seat[i].writing.settled = true;
        }
        done |= quorum_write(work, nodes & (rl_mask)~done, !settled);
        done &= intact;
        if (rl_count(done) >= work->view.votes_needed) return true;
    }
    return false;
}

static int fail_too_few(struct quorum_work *work, const struct settling *settling, unsigned found) {
    for (unsigned i = 0; i < work->nodes; i++)
        if (!work->seat[i].heard)
            return quorum_fail_node(
                work, i,
                "The change is in force but not finished, for that too few nodes answer: "
                "run the command again when they do");
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "the change is in force but not finished: %u nodes are intact that have switched to epoch %u, and it "
        "takes %u; run the command again when more nodes have recovered",
        found, settling->epoch, settling->needed);
}

/* OK: there are enough. A node that was added counts where the change is not known, once it has
 * recovered. */
static int gather_witnesses(struct quorum_work *work, struct settling *settling) {
    rl_ns patience = quorum_quarantine(work, work->view.quorum.ttl_max_ms) + PATIENCE * PAUSE;
    rl_ns end = quorum_now(work) + patience, told = 0;
    for (;;) {
        rl_ns began = quorum_now(work);
        quorum_look(work);
        if (is_over(work, settling)) return REDLOCK_OK;
        find_witnesses(work, settling, began);
        if (rl_count(settling->witnesses) >= settling->needed) return REDLOCK_OK;
        rl_ns now = quorum_now(work);
        if (now >= end) return fail_too_few(work, settling, rl_count(settling->witnesses));
        if (now - told > 1000 * RL_MS) {
            quorum_tell(work, "waiting for a majority to be intact", -1);
            told = now;
        }
        quorum_pause(work, PAUSE);
    }
}

static int mark(struct quorum_work *work, const struct settling *settling) {
    if (write_majority(work, settling, true)) return REDLOCK_OK;
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "the change is in force, but a majority could not be told that it is finished: run the command again");
}

int quorum_settle(struct quorum_work *work, const struct rl_change *last) {
    struct settling settling = {.last = last, .epoch = work->view.quorum.epoch};
    for (unsigned tries = 0; tries < ROUNDS; tries++) {
        int result = gather_witnesses(work, &settling);
        if (result != REDLOCK_OK) return result;
        rl_ns span = quorum_quarantine(work, work->view.quorum.ttl_max_ms);
        bool over = is_over(work, &settling);
        if (!over &&
            !quorum_wait(work, span, "waiting until the locks of before the change have ended",
                         still_witnesses, &settling)) {
            if (!is_over(work, &settling))
                continue; /* another of them was lost: from the beginning */
            over = true;
        }
        if (over) return mark(work, &settling);
        if (!read_fences(work, &settling)) continue;
        if (!write_majority(work, &settling, false)) continue;
        return mark(work, &settling);
    }
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "the change is in force but not finished: nodes come and go; run the command again when they are calm");
}
