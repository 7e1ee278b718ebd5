/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules of doctor: each adds findings with their reason and their cure. Unknown values are
 * judged by one rule only, which reports that they are unknown.
 */
#ifndef CLI_FINDING_RULES_H
#define CLI_FINDING_RULES_H

#include "findings.h"

/* Into the `findings` of the function. */
#define NOTE(...) findings_add(findings, SEVERITY_NOTE, __VA_ARGS__)
#define WARNING(...) findings_add(findings, SEVERITY_WARNING, __VA_ARGS__)
#define ERROR(...) findings_add(findings, SEVERITY_ERROR, __VA_ARGS__)

#define REPLICA_CURE                                                                               \
    "List independent masters: REPLICAOF NO ONE, if this server is meant to be one."

/* finding_access.c: what does not answer, is too old, or does not permit something */
void judge_age(const char *version, bool guarded, size_t node, struct findings *findings);
void judge_absent(const struct examined *node, size_t i, struct findings *findings);
void judge_permissions(const struct examined *node, size_t i, struct findings *findings);
/* What brings the recovering node `i` back, if this user's permissions prevent it; NULL: they do
 * not. */
const char *denied_recovery_cure(const struct checkup *checkup, size_t i);

/* finding_keys.c: keys of redlock that hold something else */
void judge_own_keys(const struct examined *node, size_t i, struct findings *findings);

/* finding_quorum.c: guarded mode */
/* Does the node vote? */
void judge_eligibility(const struct checkup *checkup, size_t i, struct findings *findings);
/* What a vote depends on, in addition to the record. */
void judge_watch(const struct checkup *checkup, size_t i, struct findings *findings);
/* The records decide which of the nodes is a member; a majority of answering nodes is not enough
 * there. */
void judge_membership(const struct checkup *checkup, struct findings *findings);

/* finding_trial.c: what was tried */
void judge_trial(const struct checkup *checkup, size_t i, struct findings *findings);
/* After all others. */
void judge_trial_result(const struct checkup *checkup, struct findings *findings);
/* Which server is it, and is it one? */
void judge_identity(const struct checkup *checkup, size_t i, struct findings *findings);

/* finding_set.c: the set as a whole */
void judge_set(const struct checkup *checkup, struct findings *findings);

/* findings.c: questions that several rules share */
bool is_native(const struct examined *node);
size_t count_served(const struct checkup *checkup);
bool none_answers(const struct checkup *checkup);
/* The first two nodes with records of different quorums; NULL where there is none. */
void find_quorums(const struct checkup *checkup, const struct examined **first,
                  const struct examined **second);

#endif
