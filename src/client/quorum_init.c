/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_quorum_init(): records where there are none, or over those of a quorum that has lost its
 * data for good.
 *
 * First every node is written down as recovering: from then on none votes. Then every lock that was
 * held before ends. Then all are made intact, with fences above everything that was found.
 * Interrupted before the last step, it has left nodes that do not vote, and is begun again; within
 * the last step, nodes that are intact and some that are not yet, and the next run installs these.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quorum.h"

#define TRIES 10 /* where others write at the same time */

/* ---- the last step ---- */

/* Returns who has our record. Where somebody has not, all are read once more. */
static rl_mask install(struct quorum_work *work, rl_mask nodes, int64_t ttl_max_ms) {
    for (unsigned i = 0; i < work->nodes; i++) {
        struct rl_record *to = &work->seat[i].writing;
        if (!(nodes & rl_bit(i))) continue;
        *to = work->seat[i].record;
        to->standing = RL_RECORD_INTACT;
        to->loss = 0;
        to->waited_ms = 0;
        to->ttl_max_ms = ttl_max_ms;
    }
    rl_mask written = quorum_write(work, nodes, true);
    if (written == nodes) return written;
    /* An answer may have been lost, not the write. */
    quorum_look(work);
    for (unsigned i = 0; i < work->nodes; i++)
        if ((nodes & rl_bit(i)) && quorum_same_server(&work->seat[i]) &&
            work->seat[i].record.nonce == work->seat[i].writing.nonce)
            written |= rl_bit(i);
    return written;
}

static int fail_left(struct quorum_work *work, rl_mask left) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!(left & rl_bit(i))) continue;
        if (!seat->heard)
            return quorum_fail_node(
                work, i, "It went away before its record was complete: run the command again");
        if (quorum_same_server(seat))
            return quorum_fail(
                work, REDLOCK_CONFLICT,
                "%s was written to by another meanwhile: look who that is, and run the command again",
                seat->url);
        return quorum_fail(
            work, REDLOCK_NO_QUORUM,
            "%s restarted or lost its data before its record was complete: run the command again",
            seat->url);
    }
    return REDLOCK_OK;
}

static void raise_floor(struct quorum_work *work, int64_t fence) {
    for (unsigned i = 0; i < RL_STRIPES; i++)
        if (fence > work->floor[i]) work->floor[i] = fence;
}

/* By now the fences that were anywhere lie under the kept name: recovering records took them
 * there. */
static int find_floor(struct quorum_work *work) {
    rl_mask without, all = rl_all(work->nodes), told = quorum_fences(work, all, true, &without);
    for (unsigned i = 0; i < work->nodes; i++)
        if (!((told | without) & rl_bit(i)))
            return quorum_fail_node(work, i, "Its fences must be read: run the command again");
    raise_floor(work, work->options.fence_floor);
    raise_floor(work, quorum_wall_us(work));
    return REDLOCK_OK;
}

/* Nodes that the init of this very epoch has left recovering, of the servers that it knew. */
static rl_mask left_by_init(const struct quorum_work *work) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (!record || !quorum_is_of_init(record) ||
            record->quorum_id != work->view.quorum.quorum_id)
            continue;
        const struct rl_member *member = rl_record_member(&work->view.quorum, record->node_id);
        if (record->epoch != work->view.quorum.epoch || !member ||
            !quorum_same_server(&work->seat[i]))
            continue;
        if (strcmp(member->body.run_id, record->run_id) == 0) nodes |= rl_bit(i);
    }
    return nodes;
}

static rl_mask left_by_others(const struct quorum_work *work) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < work->nodes; i++)
        if (quorum_left_by_other(work, i)) nodes |= rl_bit(i);
    return nodes;
}

/* To the quorum that came about, nodes where another init was faster are members without their
 * data. */
static rl_mask take_over(struct quorum_work *work, rl_mask nodes) {
    rl_mask taken = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        uint64_t id = nodes & rl_bit(i) ? quorum_left_by_other(work, i) : 0;
        if (id) taken |= quorum_claim(work, i, id);
    }
    return taken;
}

/* A majority is intact: by a run before this one that came to its last step, or by this one. Who is
 * not intact yet has never voted in this epoch, so there is nothing that it could have forgotten.
 * Every client that is about brings such a node back as well, and whoever writes first makes the
 * other read again. */
static int finish(struct quorum_work *work, rl_mask nodes) {
    for (unsigned tries = 0; tries < TRIES; tries++) {
        nodes &= (rl_mask)~rl_guard_intact(&work->view);
        nodes &= (rl_mask)~take_over(work, nodes);
        if (!nodes) return REDLOCK_OK;
        if (nodes & (rl_mask)~left_by_init(work)) break;
        rl_mask without, told = quorum_fences(work, rl_guard_intact(&work->view), false, &without);
        if (rl_count(told) >= work->view.votes_needed) {
            for (unsigned i = 0; i < work->nodes; i++)
                memcpy(work->seat[i].record.members, work->view.quorum.members,
                       sizeof work->view.quorum.members);
            nodes &= (rl_mask)~install(work, nodes, work->view.quorum.ttl_max_ms);
            if (!nodes) return REDLOCK_OK;
        }
        quorum_pause_randomly(work, tries);
        quorum_look(work);
    }
    return fail_left(work, nodes);
}

/* ---- in between ---- */

/* Until it is over a record says the longest ttl_max that is known: where we are interrupted, it is
 * all that the next init may find of the quorum that was there. */
static int write_recovering(struct quorum_work *work, const struct quorum_plan *plan) {
    rl_mask all = rl_all(work->nodes);
    for (unsigned i = 0; i < work->nodes; i++) {
        struct rl_record *to = &work->seat[i].writing;
        *to = plan->record;
        to->node_id = plan->record.members[i].id;
        to->standing = RL_RECORD_RECOVERING;
        to->loss = quorum_loss_of_init(to->quorum_id, to->epoch);
        if (plan->ttl_max_ms_longest > to->ttl_max_ms) to->ttl_max_ms = plan->ttl_max_ms_longest;
    }
    rl_mask written = quorum_write(work, all, false);
    for (unsigned i = 0; i < work->nodes; i++) {
        if (written & rl_bit(i)) continue;
        if (work->seat[i].verdict == REDLOCK_VERDICT_DENIED)
            return quorum_fail(
                work, REDLOCK_CONFLICT,
                "%s was written to by another at the same moment: look who that is, and run the command again",
                work->seat[i].url);
        return quorum_fail_node(work, i,
                                "It must be reachable for this: run the command again when it is");
    }
    return REDLOCK_OK;
}

/* The nonces that were written, and who has them no more. */
struct watch {
    uint64_t nonce[RL_NODES_MAX];
    rl_mask heard, changed;
};

static bool is_unbroken(struct quorum_work *work, void *context) {
    struct watch *watch = context;
    watch->heard = quorum_look(work);
    watch->changed = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!seat->heard) continue;
        if (!quorum_same_server(seat) || seat->record.nonce != watch->nonce[i])
            watch->changed |= rl_bit(i);
    }
    return watch->changed == 0;
}

static int fail_changed(struct quorum_work *work, const struct watch *watch) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!(watch->changed & rl_bit(i))) continue;
        if (quorum_record_at(work, i) && seat->record.nonce != watch->nonce[i])
            return quorum_fail(
                work, REDLOCK_CONFLICT,
                "%s was written to by another meanwhile: look who that is, and run the command again",
                seat->url);
        return quorum_fail(
            work, REDLOCK_NO_QUORUM,
            "%s restarted or lost its data meanwhile, so that it has not waited: run the command again",
            seat->url);
    }
    for (unsigned i = 0; i < work->nodes; i++)
        if (!(watch->heard & rl_bit(i)))
            return quorum_fail_node(
                work, i, "It must be reachable for this: run the command again when it is");
    return REDLOCK_OK;
}

static int wait_out(struct quorum_work *work, const struct quorum_plan *plan) {
    struct watch watch = {.changed = 0};
    for (unsigned i = 0; i < work->nodes; i++) watch.nonce[i] = work->seat[i].record.nonce;
    quorum_wait(work, quorum_quarantine(work, plan->ttl_max_ms_longest),
                "waiting until every lock that was held before has ended", is_unbroken, &watch);
    return fail_changed(work, &watch);
}

/* ---- all ---- */

static int check_nodes(struct quorum_work *work) {
    quorum_connect(work);
    for (unsigned i = 0; i < work->nodes; i++) {
        int verdict = work->seat[i].verdict;
        if (verdict == REDLOCK_VERDICT_TWICE_LISTED)
            return quorum_fail(work, REDLOCK_TWICE_LISTED,
                               "%s is a server that the list has already: leave one of them out",
                               work->seat[i].url);
        if (strlen(work->seat[i].url) >= RL_URL_BYTES)
            return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                               "a URL is longer than a record keeps, %d bytes: %s",
                               RL_URL_BYTES - 1, work->seat[i].url);
    }
    quorum_look(work);
    return quorum_check_fit(work, rl_all(work->nodes));
}

static int check_records(struct quorum_work *work, struct quorum_plan *plan) {
    for (unsigned i = 0; i < work->nodes; i++) {
        if (work->seat[i].unreadable)
            return quorum_fail(
                work, REDLOCK_NO_QUORUM,
                "%s has a record that this version cannot read: use the version that wrote it; or if it is "
                "not needed any more, DEL " NET_KEY_RECORD " there",
                work->seat[i].url);
    }
    return quorum_plan_begin(work, plan);
}

/* What a majority was given by us, the floor too, holds for who was made intact by another. */
static int install_all(struct quorum_work *work, const struct quorum_plan *plan) {
    rl_mask all = rl_all(work->nodes), written = install(work, all, plan->record.ttl_max_ms);
    if (written == all) return REDLOCK_OK;
    return rl_count(written) < rl_quorum(work->nodes) ? fail_left(work, all & (rl_mask)~written)
                                                      : finish(work, all & (rl_mask)~written);
}

/* Where every record is gone, nobody but the operator knows how long the locks of the lost quorum
 * may last. */
static int check_wait_known(struct quorum_work *work, const struct quorum_plan *plan) {
    if (work->options.never_used || plan->ttl_max_ms_longest > 0) return REDLOCK_OK;
    return quorum_fail(
        work, REDLOCK_BAD_ARGUMENT,
        "no node has a record, so nothing says how long locks that are held on these servers may last: give the longest "
        "ttl_max that they ever had (--ttl-max 10m, or ttl-max in the configuration file); or for servers on which no lock "
        "was ever held, never_used (--never-used)");
}

static int begin_anew(struct quorum_work *work, struct quorum_plan *plan) {
    if (work->options.never_used && !plan->never_intact)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "these servers were used before: quorum %016" PRIx64
                           " has left records there. never_used (--never-used) "
                           "is for new servers alone: leave it out",
                           plan->record.quorum_id);
    quorum_plan_records(work, plan);
    int result = check_wait_known(work, plan);
    if (result != REDLOCK_OK) return result;
    quorum_tell(work, "writing records", -1);
    result = write_recovering(work, plan);
    if (result == REDLOCK_OK && !work->options.never_used) result = wait_out(work, plan);
    if (result == REDLOCK_OK) result = find_floor(work);
    return result == REDLOCK_OK ? install_all(work, plan) : result;
}

int quorum_init(struct quorum_work *work) {
    struct quorum_plan plan;
    int result = check_nodes(work);
    if (result == REDLOCK_OK) result = check_records(work, &plan);
    if (result != REDLOCK_OK) return result;
    unsigned intact = rl_count(rl_guard_intact(&work->view));
    bool alive = work->view.known && intact >= work->view.votes_needed;
    rl_mask unfinished = alive ? left_by_init(work) | left_by_others(work) : 0;
    if (alive && !unfinished)
        return quorum_fail(
            work, REDLOCK_CONFLICT,
            "quorum %016" PRIx64
            " has a majority that is intact (%u of %u members), so there is nothing to be "
            "begun anew: nodes that lost their data come back by themselves; add and remove change the list",
            work->view.quorum.quorum_id, intact, work->view.quorum.members_count);
    result = alive ? finish(work, unfinished) : begin_anew(work, &plan);
    if (result != REDLOCK_OK) return result;
    quorum_look(work);
    return REDLOCK_OK;
}
