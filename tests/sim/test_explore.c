/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Plans, masks, judgement and shrinking.
 */
#include "stage.h"

#include <string.h>

#include "seeds/explore.h"

static struct plan plan, other;
static const struct plan_wish nothing = {.broken = PLAN_BREAK_NOTHING},
                              data_loss = {.broken = PLAN_BREAK_DATA_LOSS};

static void plans_are_drawn_from_the_seed_alone(void **state) {
    (void)state;
    memset(&plan, 1, sizeof(plan));
    memset(&other, 2, sizeof(other));
    for (uint64_t seed = 1; seed < 200; seed++) {
        plan_draw(&plan, seed, &nothing);
        plan_draw(&other, seed, &nothing);
        assert_int_equal(plan.count, other.count);
        assert_memory_equal(plan.actions, other.actions, plan.count * sizeof(plan.actions[0]));
        assert_int_equal(plan.options.nodes, other.options.nodes);
        assert_true(plan.count > 0 && plan.count <= PLAN_ACTIONS_MAX);
    }
}

/* The assumptions of classic mode: no data lost, clocks inside the drift, writes inside validity,
 * one list of nodes. */
static void assumptions_hold_unless_broken(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        plan_draw(&plan, seed, &nothing);
        uint32_t fastest = 0;
        for (unsigned i = 0; i < plan.options.nodes; i++)
            if (plan.node_ppm[i] > fastest) fastest = plan.node_ppm[i];
        for (size_t i = 0; i < plan.count; i++) {
            const struct plan_action *action = &plan.actions[i];
            assert_true(action->kind != PLAN_NODE_STEP && action->kind != PLAN_NODE_FLUSH &&
                        action->kind != PLAN_NODE_EVICT && action->kind != PLAN_NODE_FAILOVER);
            if (action->kind == PLAN_NODE_CRASH) assert_int_equal(action->number, NODE_KEEPS_ALL);
            if (action->kind == PLAN_NODE_RATE && action->number > fastest)
                fastest = (uint32_t)action->number;
            if (action->kind == PLAN_SESSION) assert_true(action->late < RL_MS);
            if (i > 0) assert_true(plan.actions[i - 1].at <= action->at);
        }
        for (unsigned i = 0; i < plan.options.clients; i++) {
            /* fastest / slowest <= 1 / 0.99 */
            assert_true((uint64_t)fastest * 99 <= (uint64_t)plan.options.client[i].clock_ppm * 100);
            assert_int_equal(plan.options.client[i].nodes, 0);
        }
    }
}

static void masks_are_read_as_they_are_printed(void **state) {
    struct plan_mask mask;
    (void)state;
    assert_true(plan_mask_read(&mask, "3,7,10-12"));
    for (size_t i = 0; i < PLAN_ACTIONS_MAX; i++)
        assert_int_equal(plan_mask_has(&mask, i), i == 3 || i == 7 || (i >= 10 && i <= 12));
    static const char *const bad[] = {"",   "a",  "1,",  ",1",  "5-4",
                                      "1-", "-1", "192", "1 2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(plan_mask_read(&mask, bad[i]));
    FILE *file = tmpfile();
    char text[64] = "";
    assert_non_null(file);
    plan_mask_all(&mask, 5);
    plan_mask_set(&mask, 9, true);
    plan_mask_set(&mask, 2, false);
    plan_mask_print(&mask, 10, file);
    rewind(file);
    assert_non_null(fgets(text, sizeof(text), file));
    assert_string_equal(text, "0-1,3-4,9");
    rewind(file);
    assert_true(plan_mask_read(&mask, "none"));
    plan_mask_print(&mask, 10, file);
    rewind(file);
    assert_non_null(fgets(text, 5, file));
    assert_string_equal(text, "none");
    fclose(file);
}

/* Nothing can be acquired within a nanosecond: the judge must say so, and it is no breach of
 * safety. */
static void liveness_has_a_status_of_its_own(void **state) {
    struct player *player = player_new();
    struct outcome outcome;
    struct plan_mask all;
    (void)state;
    plan_draw(&plan, 1, &nothing);
    plan_mask_all(&all, plan.count);
    player_play(player, &plan, &all, &outcome);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(explore_exit_of(&outcome), EXPLORE_OK);
    plan.liveness_bound = 1;
    player_play(player, &plan, &all, &outcome);
    assert_true(outcome.count > 0);
    assert_int_equal(outcome.violations[0].rule, CHECK_LIVENESS);
    assert_int_equal(explore_exit_of(&outcome), EXPLORE_LIVENESS);
    outcome.violations[outcome.count - 1].rule = CHECK_EXCLUSION;
    assert_int_equal(explore_exit_of(&outcome), EXPLORE_SAFETY);
    player_free(player);
}

static void first_broken(struct player *player, struct plan_mask *mask, struct outcome *outcome) {
    for (uint64_t seed = 1; seed < 1000; seed++) {
        plan_draw(&plan, seed, &data_loss);
        plan_mask_all(mask, plan.count);
        player_play(player, &plan, mask, outcome);
        if (outcome->count > 0 && outcome->violations[0].rule == CHECK_EXCLUSION) return;
    }
    fail_msg("no seed breaks exclusion");
}

static bool breaks_exclusion(struct player *player, const struct plan_mask *mask) {
    struct outcome outcome;
    player_play(player, &plan, mask, &outcome);
    for (size_t i = 0; i < outcome.count; i++)
        if (outcome.violations[i].rule == CHECK_EXCLUSION) return true;
    return false;
}

static void shrinking_leaves_only_what_is_needed(void **state) {
    struct player *player = player_new();
    struct outcome outcome;
    struct plan_mask mask;
    size_t left = 0;
    (void)state;
    first_broken(player, &mask, &outcome);
    assert_true(shrink(player, &plan, CHECK_EXCLUSION, &mask) > 0);
    assert_true(breaks_exclusion(player, &mask));
    for (size_t i = 0; i < plan.count; i++) {
        if (!plan_mask_has(&mask, i)) continue;
        struct plan_mask less = mask;
        plan_mask_set(&less, i, false);
        assert_false(breaks_exclusion(player, &less));
        left++;
    }
    assert_true(left >= 3 && left < plan.count / 2); /* two sessions and a loss at least */
    player_free(player);
}

static void hash_tells_runs_apart(void **state) {
    struct player *player = player_new();
    struct outcome outcome;
    struct plan_mask all;
    uint64_t hashes[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        plan_draw(&plan, i == 1 ? 2 : 1, &nothing);
        plan_mask_all(&all, plan.count);
        player_play(player, &plan, &all, &outcome);
        hashes[i] = player_hash(player);
    }
    assert_true(hashes[0] == hashes[2] && hashes[0] != hashes[1]);
    player_free(player);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_drawn_from_the_seed_alone),
        cmocka_unit_test(assumptions_hold_unless_broken),
        cmocka_unit_test(masks_are_read_as_they_are_printed),
        cmocka_unit_test(liveness_has_a_status_of_its_own),
        cmocka_unit_test(shrinking_leaves_only_what_is_needed),
        cmocka_unit_test(hash_tells_runs_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
