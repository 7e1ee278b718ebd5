/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_quorum_add() and _remove(): one change of the membership, a decree of consensus with the
 * members as acceptors (docs/guarded.md, membership). An acceptor's state is in its record, so a
 * promise or an acceptance is a compare-and-set like every other: it is done over exactly what was
 * read, and nothing came between a promise and the acceptance that counts on it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quorum.h"

#define ROUNDS 30

/* ---- what is said about it ---- */

struct change_text {
    char text[RL_URL_BYTES + 48];
};

static struct change_text name(const struct rl_change *change) {
    struct change_text to;
    if (change->kind == RL_CHANGE_ADD)
        snprintf(to.text, sizeof to.text, "adding %s as %016" PRIx64, change->url, change->id);
    else
        snprintf(to.text, sizeof to.text, "removing %016" PRIx64, change->id);
    return to;
}

/* The id of a member to be added is drawn anew by each run: its URL says what is wanted. */
static bool is_same(const struct rl_change *a, const struct rl_change *b) {
    if (a->kind != b->kind) return false;
    return a->kind == RL_CHANGE_ADD ? strcmp(a->url, b->url) == 0 : a->id == b->id;
}

static int came_second(struct quorum_work *work, const struct rl_change *first) {
    return quorum_fail(
        work, REDLOCK_CONFLICT,
        "another change came first, %s; it is finished now. If this one is wanted still, run the command again",
        name(first).text);
}

/* ---- the decree ---- */

static bool has_accepted(const struct quorum_work *work, rl_mask nodes, struct rl_change *change) {
    uint64_t highest = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = &work->seat[i].record;
        if (!(nodes & rl_bit(i)) || record->accepted_ballot <= highest) continue;
        highest = record->accepted_ballot;
        if (change) *change = record->accepted;
    }
    return highest > 0;
}

/* Above all that were seen. The lower bits keep two operators apart; the compare-and-set would as
 * well. */
static uint64_t next_ballot(struct quorum_work *work) {
    uint64_t highest = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!seat->heard || seat->empty || seat->unreadable) continue;
        if (seat->record.ballot > highest) highest = seat->record.ballot;
        if (seat->record.accepted_ballot > highest) highest = seat->record.accepted_ballot;
    }
    return ((highest >> 16) + 1) << 16 | (quorum_random(work) & 0xffff);
}

/* "a ballot above all seen, on a majority of e" */
static rl_mask promise(struct quorum_work *work, uint64_t ballot) {
    rl_mask nodes = rl_guard_intact(&work->view);
    for (unsigned i = 0; i < work->nodes; i++) {
        work->seat[i].writing = work->seat[i].record;
        work->seat[i].writing.ballot = ballot;
    }
    return quorum_write(work, nodes, false);
}

/* Only where the promise of this ballot is still the newest record: an acceptor that has lost and
 * found its state since is none of ours. */
static rl_mask accept(struct quorum_work *work, rl_mask promised, uint64_t ballot,
                      const struct rl_change *change) {
    for (unsigned i = 0; i < work->nodes; i++) {
        work->seat[i].writing = work->seat[i].record;
        work->seat[i].writing.accepted_ballot = ballot;
        work->seat[i].writing.accepted = *change;
    }
    return quorum_write(work, promised, false);
}

/* "look once more that their nonces are the ones of these writes": there was a moment when all of
 * them had it. Reads the others too, for what is to be checked next. */
static rl_mask look_again(struct quorum_work *work, rl_mask written) {
    uint64_t nonces[RL_NODES_MAX];
    rl_mask same = 0;
    for (unsigned i = 0; i < work->nodes; i++) nonces[i] = work->seat[i].record.nonce;
    quorum_look(work);
    for (unsigned i = 0; i < work->nodes; i++)
        if ((written & rl_bit(i)) && quorum_same_server(&work->seat[i]) &&
            work->seat[i].record.nonce == nonces[i])
            same |= rl_bit(i);
    return same;
}

/* What is wanted, and whether some acceptor may know of it: then others may bring it to its end. */
struct proposal {
    const struct rl_change *wanted;
    int node; /* ADD: which is to be added; else -1 */
    bool made;
};

/* May the change be made, by what was read last? */
static int check(struct quorum_work *work, const struct proposal *proposal) {
    int result = quorum_check_members(work, proposal->node);
    return result == REDLOCK_OK ? quorum_check_change(work, proposal->wanted, proposal->node)
                                : result;
}

/* One round. `decided`: `chosen` is, which is the one that was found, if one was. With `begun` only
 * such a one will do. Not OK: ours must not be made, and nobody has accepted it. */
static int decree(struct quorum_work *work, struct proposal *proposal, bool begun,
                  struct rl_change *chosen, bool *decided) {
    unsigned needed = work->view.votes_needed;
    uint64_t ballot = next_ballot(work);
    *decided = false;
    /* All promises must stand at one moment: else an acceptor that forgot one of ours may have
     * promised another, and a later ballot finds what both of us have accepted. */
    rl_mask nodes = look_again(work, promise(work, ballot));
    if (rl_count(nodes) < needed) return REDLOCK_OK;
    if (!has_accepted(work, nodes, chosen)) {
        if (begun) return REDLOCK_OK; /* whether ours may be done was not looked at */
        /* Members may have lost their data since the decree began: those of e may still agree, and
         * those that are left of e + 1 be too few for good. A promise binds nobody to our change;
         * what is accepted can never be taken back. */
        int result = check(work, proposal);
        if (result != REDLOCK_OK) return result;
        *chosen = *proposal->wanted;
        proposal->made = true;
    }
    nodes = accept(work, nodes, ballot, chosen);
    *decided = rl_count(nodes) >= needed && rl_count(look_again(work, nodes)) >= needed;
    return REDLOCK_OK;
}

/* ---- the switch ---- */

/* The record of the next epoch says which change has made it, for whoever has to settle it. */
static bool next_record(struct rl_record *record, const struct rl_change *change) {
    if (!rl_record_change(record, change)) return false;
    record->accepted = *change;
    return true;
}

rl_mask quorum_claim(struct quorum_work *work, unsigned node, uint64_t id) {
    struct quorum_seat *seat = &work->seat[node];
    struct rl_record *to = &seat->writing;
    *to = work->view.quorum;
    to->node_id = id;
    to->settled = false;
    to->standing = RL_RECORD_RECOVERING;
    to->loss = quorum_random(work);
    to->waited_ms = 0;
    to->ballot = to->accepted_ballot = 0;
    memset(&to->accepted, 0, sizeof to->accepted);
    rl_body_follow(&((struct rl_member *)rl_record_member(to, id))->body, seat->run_id);
    return quorum_write(work, rl_bit(node), false);
}

/* A node that was added begins as one that lost its data. Whoever finds it empty writes the same,
 * but by its URL. */
static void claim(struct quorum_work *work, const struct rl_change *change) {
    const struct rl_record *quorum = &work->view.quorum;
    for (unsigned i = 0; i < work->nodes && change->kind == RL_CHANGE_ADD; i++) {
        struct quorum_seat *seat = &work->seat[i];
        if (strcmp(seat->url, change->url) != 0 || !seat->heard || seat->unreadable ||
            seat->run_id[0] == '\0')
            continue;
        if (!seat->empty && seat->record.quorum_id != quorum->quorum_id) continue;
        if (!rl_record_member(quorum, change->id)) continue;
        if (!seat->empty && rl_record_member(quorum, seat->record.node_id)) continue;
        quorum_claim(work, i, change->id);
    }
}

/* A server that was a member once: nobody but us would give it its new place. */
static bool lacks_claim(const struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    const struct rl_record *quorum = &work->view.quorum;
    if (!seat->heard || seat->empty || seat->unreadable ||
        seat->record.quorum_id != quorum->quorum_id)
        return false;
    if (rl_record_member(quorum, seat->record.node_id)) return false;
    return quorum_member_at(work, seat->url) != NULL;
}

static int claim_again(struct quorum_work *work, unsigned node) {
    struct rl_change change = {.kind = RL_CHANGE_ADD};
    const struct rl_member *member = quorum_member_at(work, work->seat[node].url);
    snprintf(change.url, sizeof change.url, "%s", work->seat[node].url);
    if (member) change.id = member->id;
    claim(work, &change);
    quorum_look(work);
    if (!lacks_claim(work, node)) return REDLOCK_OK;
    return quorum_fail_node(work, node,
                            "It is a member now, but does not know it yet: run the command again");
}

static int check_added(struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    if (lacks_claim(work, node)) return claim_again(work, node);
    if (!quorum_record_at(work, node) || seat->record.quorum_id == work->view.quorum.quorum_id)
        return REDLOCK_OK;
    return quorum_fail(work, REDLOCK_CONFLICT,
                       "%s was taken into quorum %016" PRIx64
                       " while it was added here: remove it there, or here",
                       seat->url, seat->record.quorum_id);
}

/* Every node that is at `epoch` gets the record of the next. One that has it is enough for all that
 * follows: whoever meets it brings up the others. */
static bool switch_all(struct quorum_work *work, uint32_t epoch, const struct rl_change *change) {
    for (unsigned tries = 0; tries < ROUNDS; tries++) {
        rl_mask nodes = 0;
        if (tries > 0) quorum_pause_randomly(work, tries);
        quorum_look(work);
        for (unsigned i = 0; i < work->nodes; i++) {
            struct quorum_seat *seat = &work->seat[i];
            enum rl_standing standing = work->view.node[i].standing;
            if (standing != RL_STANDING_INTACT && standing != RL_STANDING_BEHIND) continue;
            seat->writing = seat->record;
            if (seat->record.epoch == epoch && next_record(&seat->writing, change))
                nodes |= rl_bit(i);
        }
        quorum_write(work, nodes, false);
        quorum_look(work);
        if (!work->view.known || work->view.quorum.epoch <= epoch) continue;
        claim(work, change);
        if (rl_count(rl_guard_intact(&work->view)) >= work->view.votes_needed) return true;
    }
    return work->view.known && work->view.quorum.epoch > epoch;
}

/* ---- all ---- */

/* The change that made the epoch that is there, if a record says so. */
static bool find_last(const struct quorum_work *work, struct rl_change *last) {
    rl_mask intact = rl_guard_intact(&work->view);
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = &work->seat[i].record;
        if (!(intact & rl_bit(i)) || record->accepted_ballot != 0 ||
            record->accepted.kind == RL_CHANGE_NONE)
            continue;
        *last = record->accepted;
        return true;
    }
    return false;
}

/* OK, and `done`: what was begun is what is wanted now. */
static int settle_begun(struct quorum_work *work, const struct rl_change *wanted, bool *done) {
    struct rl_change last;
    bool known = find_last(work, &last);
    int result = quorum_settle(work, known ? &last : NULL);
    *done = result == REDLOCK_OK && known && is_same(&last, wanted);
    return result;
}

/* `epoch`: that was decided to be the last before it. By now others may have gone on from there. */
static int put_in_force(struct quorum_work *work, uint32_t epoch, const struct rl_change *chosen) {
    quorum_tell(work, "giving all nodes the new list", -1);
    if (!switch_all(work, epoch, chosen))
        return quorum_fail(
            work, REDLOCK_NO_QUORUM,
            "the change was decided (%s), but no node could be told: run the command again",
            name(chosen).text);
    if (work->view.quorum.settled) return REDLOCK_OK;
    return quorum_settle(work, chosen);
}

static bool is_in_force(const struct quorum_work *work, const struct rl_change *change) {
    bool member = rl_record_member(&work->view.quorum, change->id) != NULL;
    return member == (change->kind == RL_CHANGE_ADD);
}

/* One try. `again`: it came to nothing, whatever the result, or what was begun by others is out of
 * the way now. */
static int try_once(struct quorum_work *work, struct proposal *proposal, bool *again) {
    const struct rl_change *wanted = proposal->wanted;
    int node = proposal->node;
    struct rl_change chosen;
    bool done = false;
    *again = true;
    quorum_look(work);
    int result = quorum_check_members(work, node);
    if (result != REDLOCK_OK) return result;
    if (!work->view.settled) {
        result = settle_begun(work, wanted, &done);
        *again = result == REDLOCK_OK && !done;
        if (!done || node < 0) return result;
        quorum_look(work);
        return check_added(work, (unsigned)node);
    }
    *again = false;
    if (proposal->made && is_in_force(work, wanted)) return REDLOCK_OK; /* by whoever found it */
    if (node >= 0 && lacks_claim(work, (unsigned)node)) return claim_again(work, (unsigned)node);
    bool begun = has_accepted(work, rl_guard_intact(&work->view), NULL);
    result = begun ? REDLOCK_OK : quorum_check_change(work, wanted, node);
    if (result != REDLOCK_OK) return result;
    quorum_tell(work, "asking the members", -1);
    bool decided;
    uint32_t epoch = work->view.quorum.epoch;
    result = decree(work, proposal, begun, &chosen, &decided);
    *again = !decided;
    if (!decided) return result;
    result = put_in_force(work, epoch, &chosen);
    if (result != REDLOCK_OK) return result;
    if (!is_same(&chosen, wanted)) return came_second(work, &chosen);
    if (!is_in_force(work, &chosen))
        return quorum_fail(work, REDLOCK_CONFLICT,
                           "it was done (%s), and undone by another who came after",
                           name(&chosen).text);
    return node >= 0 ? check_added(work, (unsigned)node) : REDLOCK_OK;
}

int quorum_change(struct quorum_work *work, struct rl_change *change, int node) {
    struct proposal proposal = {.wanted = change, .node = node};
    unsigned refused = 0;
    work->adding = node;
    quorum_connect(work);
    if (node >= 0 && strlen(work->seat[node].url) >= RL_URL_BYTES)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "the URL is longer than a record keeps, %d bytes: %s", RL_URL_BYTES - 1,
                           work->seat[node].url);
    if (node >= 0) {
        snprintf(change->url, sizeof change->url, "%s", work->seat[node].url);
        change->id = quorum_random(work);
    }
    if (work->no_random) return quorum_fail_random(work);
    for (unsigned tries = 0; tries < ROUNDS; tries++) {
        bool again;
        if (tries > 0) quorum_pause_randomly(work, tries);
        int result = try_once(work, &proposal, &again);
        if (!again) return result;
        /* Nodes that are written to by others at this very moment look as if they did not vote. */
        if (result != REDLOCK_OK && (result != REDLOCK_NO_QUORUM || ++refused == 3)) return result;
    }
    return quorum_fail(
        work, REDLOCK_CONFLICT,
        "others change the quorum at the same time: run the command again when they are done");
}
