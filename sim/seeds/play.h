/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One run of a plan, and its judgement.
 */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include "judges/check.h"
#include "coverage.h"
#include "plan.h"

#define PLAY_VIOLATIONS_MAX 16

struct player; /* a world and its memory, reused for each run */

struct player *player_new(void);
/* Notes what the runs reach; NULL: nothing. The coverage must outlive the player. */
void player_cover(struct player *player, struct coverage *coverage);
void player_free(struct player *player);

struct outcome {
    struct check_violation violations[PLAY_VIOLATIONS_MAX]; /* in order of time */
    size_t count;
    rl_ns simulated;
    uint64_t acquisitions, messages;
};

/* Plays the actions in the mask. The history belongs to the player, until the next run. */
void player_play(struct player *player, const struct plan *plan, const struct plan_mask *mask,
                 struct outcome *outcome);
const struct history *player_history(const struct player *player);
uint64_t player_hash(const struct player *player); /* of the history as text */

#endif
