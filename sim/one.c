/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One seed in detail: its options, its actions, its exchange as text, and the smallest part of it
 * that still fails.
 */
#include <inttypes.h>
#include <string.h>

#include "explore.h"

static void print_trace(const struct history *history) {
    char line[256];
    for (size_t i = 0; i < history->count; i++) {
        history_print(&history->records[i], line, sizeof(line));
        puts(line);
    }
}

static void print_actions(const struct plan *plan, const struct plan_mask *mask) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan_mask_has(mask, i)) plan_print_action(plan, i, stdout);
}

static void print_violations(const struct outcome *outcome) {
    for (size_t i = 0; i < outcome->count; i++)
        printf("violated: %s: %s\n", check_rule_name(outcome->violations[i].rule),
               outcome->violations[i].text);
    if (outcome->count == 0) puts("no rule is violated");
}

static void shrink_and_report(struct player *player, struct plan *plan, struct plan_mask *mask,
                              struct outcome *outcome) {
    size_t before = 0, after = 0;
    for (size_t i = 0; i < plan->count; i++) before += plan_mask_has(mask, i);
    plan->options.record_messages = 0;
    size_t runs = shrink(player, plan, outcome->violations[0].rule, mask);
    for (size_t i = 0; i < plan->count; i++) after += plan_mask_has(mask, i);
    printf("%zu actions of %zu are enough (%zu runs):\n", after, before, runs);
    plan->options.record_messages = 1;
    player_play(player, plan, mask, outcome);
}

int explore_one(const struct explore_one *options) {
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
    print_actions(&plan, &mask);
    if (options->trace || shrinks) print_trace(player_history(player));
    print_violations(&outcome);
    if (shrinks) {
        printf("to see it again: redlock sim --seed %" PRIu64, options->seed);
        if (options->wish.guarded) printf(" --mode guarded");
        if (options->wish.broken != PLAN_BREAK_NOTHING)
            printf(" --break %s", plan_break_word(options->wish.broken));
        printf(" --only ");
        plan_mask_print(&mask, plan.count, stdout);
        puts(" --trace");
    }
    player_free(player);
    return explore_exit_of(&outcome);
}
