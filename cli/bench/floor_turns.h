/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor's steps, for floor_threads.c: what is said and when it is sent are two things.
 */
#ifndef CLI_BENCH_FLOOR_TURNS_H
#define CLI_BENCH_FLOOR_TURNS_H

#include "floor.h"

int floor_run_threads(struct floor *floor, const struct floor_work *work, struct meter *meter);

/* 0, or -1 after a message; so too below. */
int floor_begin(struct floor *floor, const struct floor_work *work, struct meter *meter);
/* The slot's next command is to be sent. */
void floor_say(struct floor *floor, unsigned slot);
/* How many slots have not ended. */
unsigned floor_busy(const struct floor *floor);
/* All of them have said something: sends it, and listens until a majority has answered each. */
int floor_turn(struct floor *floor);
/* When none is busy: listens until no reply is owed. Not when what was before has failed: then
 * `result` says so. */
int floor_end(struct floor *floor, int result);

#endif
