/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One seed in detail: its options, its actions, its exchange as text, and the smallest part of it
 * that still fails.
 */
#include "explore.h"

/* ---- the smallest part that fails ------------------------------------------------------------ */

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

/* Delta debugging (Zeller's ddmin): removes ever smaller parts, as long as the same rule stays
 * broken. */
size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask) {
    size_t each[PLAN_ACTIONS_MAX], runs = 0, parts = 2;
    for (size_t left = members(mask, plan->count, each); left > 0 && parts <= 2 * left;) {
        if (parts > left) parts = left;
        bool found = false;
        for (size_t part = 0; part < parts && !found; part++) {
            struct plan_mask less = *mask;
            for (size_t i = left * part / parts; i < left * (part + 1) / parts; i++)
                plan_mask_set(&less, each[i], false);
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

/* ---- one seed ------------------------------------------------------------------------------- */

static void shrink_and_report(struct player *player, struct plan *plan, struct plan_mask *mask,
                              struct outcome *outcome) {
    size_t each[PLAN_ACTIONS_MAX], before = members(mask, plan->count, each);
    plan->options.record_messages = 0;
    size_t runs = shrink(player, plan, outcome->violations[0].rule, mask);
    printf("%zu actions of %zu are enough (%zu runs):\n", members(mask, plan->count, each), before,
           runs);
    plan->options.record_messages = 1;
    player_play(player, plan, mask, outcome);
}

int explore_one(const struct explore_options *options) {
    static struct plan plan;
    struct plan_mask mask;
    struct outcome outcome;
    plan_draw(&plan, options->seed, &options->wish);
    plan.options.record_messages = options->trace || options->shrink;
    plan_mask_all(&mask, plan.count);
    if (options->only && !plan_mask_read(&mask, options->only)) {
        fprintf(stderr, "redlock-sim: --only takes numbers below %d, as in 3,7,10-12, or 'none'\n",
                PLAN_ACTIONS_MAX);
        return EXPLORE_USAGE;
    }
    struct player *player = player_new();
    plan_print(&plan, stdout);
    fflush(stdout); /* in case the run crashes */
    player_play(player, &plan, &mask, &outcome);
    bool shrinks = options->shrink && outcome.count > 0;
    if (shrinks) shrink_and_report(player, &plan, &mask, &outcome);
    for (size_t i = 0; i < plan.count; i++)
        if (plan_mask_has(&mask, i)) plan_print_action(&plan, i, stdout);
    if (options->trace || shrinks) history_print_all(player_history(player), stdout);
    explore_print_violations(&outcome);
    if (outcome.count == 0) puts("no rule is violated");
    if (shrinks) {
        printf("to see it again: ");
        explore_print_command(options->seed, &options->wish, " --only ", stdout);
        plan_mask_print(&mask, plan.count, stdout);
        puts(" --trace");
    }
    player_free(player);
    return explore_exit_of(&outcome);
}
