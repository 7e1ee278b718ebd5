/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Delta debugging (Zeller's ddmin) over the actions of a plan: removes ever smaller parts, as long
 * as the same rule stays broken.
 */
#include "explore.h"

static size_t members(const struct plan_mask *mask, size_t count, size_t *each) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (plan_mask_has(mask, i)) each[found++] = i;
    return found;
}

static bool still_broken(struct player *player, const struct plan *plan, enum check_rule rule,
                         const struct plan_mask *mask) {
    struct outcome outcome;
    player_play(player, plan, mask, &outcome);
    for (size_t i = 0; i < outcome.count; i++)
        if (outcome.violations[i].rule == rule) return true;
    return false;
}

static struct plan_mask without(const struct plan_mask *mask, const size_t *each, size_t from,
                                size_t to) {
    struct plan_mask less = *mask;
    for (size_t i = from; i < to; i++) plan_mask_set(&less, each[i], false);
    return less;
}

size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask) {
    size_t each[PLAN_ACTIONS_MAX], runs = 0, parts = 2;
    for (size_t left = members(mask, plan->count, each); left > 0 && parts <= 2 * left;) {
        if (parts > left) parts = left;
        bool found = false;
        for (size_t part = 0; part < parts && !found; part++) {
            struct plan_mask less =
                without(mask, each, left * part / parts, left * (part + 1) / parts);
            runs++;
            found = still_broken(player, plan, rule, &less);
            if (found) *mask = less;
        }
        if (!found && parts == left) break;
        parts = found ? (parts > 2 ? parts - 1 : 2) : parts * 2;
        left = members(mask, plan->count, each);
    }
    return runs;
}
