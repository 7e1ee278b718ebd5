/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Words for traces and messages. The switches have no default, so the compiler reports a missing
 * value. */
#include "core/core.h"

const char *rl_acquire_state_name(enum rl_acquire_state state) {
    switch (state) {
    case RL_ACQUIRE_IDLE: return "idle";
    case RL_ACQUIRE_GATHERING: return "gathering";
    case RL_ACQUIRE_VOTING: return "voting";
    case RL_ACQUIRE_CLEANING: return "cleaning";
    case RL_ACQUIRE_SLEEPING: return "sleeping";
    case RL_ACQUIRE_WON: return "won";
    case RL_ACQUIRE_OVER: return "over";
    }
    return "unknown";
}

const char *rl_lease_state_name(enum rl_lease_state state) {
    switch (state) {
    case RL_LEASE_NONE: return "none";
    case RL_LEASE_HELD: return "held";
    case RL_LEASE_UNSURE: return "unsure";
    case RL_LEASE_LOST: return "lost";
    case RL_LEASE_RELEASING: return "releasing";
    case RL_LEASE_RELEASED: return "released";
    }
    return "unknown";
}

const char *rl_outcome_name(enum rl_outcome outcome) {
    switch (outcome) {
    case RL_OUTCOME_NONE: return "none";
    case RL_OUTCOME_OK: return "ok";
    case RL_OUTCOME_HELD: return "held by another";
    case RL_OUTCOME_NO_QUORUM: return "no quorum";
    case RL_OUTCOME_EXPIRED: return "expired while acquiring";
    case RL_OUTCOME_LOST: return "lost";
    case RL_OUTCOME_CANCELLED: return "cancelled";
    case RL_OUTCOME_LIMIT: return "limit reached";
    case RL_OUTCOME_OTHER_SLOTS: return "held with another number of slots";
    }
    return "unknown";
}

const char *rl_vote_name(enum rl_vote vote) {
    switch (vote) {
    case RL_VOTE_NONE: return "none";
    case RL_VOTE_GRANTED: return "granted";
    case RL_VOTE_DENIED: return "denied";
    case RL_VOTE_ABSENT: return "absent";
    case RL_VOTE_STALE: return "stale";
    case RL_VOTE_FAILED: return "failed";
    }
    return "unknown";
}
