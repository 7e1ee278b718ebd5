/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor's steps, for floor_threads.c, which separates what a slot sends from when it is sent.
 */
#ifndef BENCH_PROGRAM_BENCH_FLOOR_TURNS_H
#define BENCH_PROGRAM_BENCH_FLOOR_TURNS_H

#include "floor.h"

int floor_run_threads(struct floor *floor, const struct floor_work *work, struct meter *meter);

/* 0, or -1 after a message; so do the functions below. */
int floor_begin(struct floor *floor, const struct floor_work *work, struct meter *meter);
/* Prepares the slot's next command. */
void floor_say(struct floor *floor, unsigned slot);
/* The number of slots that have not ended. */
unsigned floor_busy(const struct floor *floor);
/* All slots have prepared a command: sends them, and reads until a majority has answered each. */
int floor_turn(struct floor *floor);
/* When no slot is busy: reads until all replies have come. It does not read after an earlier
 * failure: `result` reports that. */
int floor_end(struct floor *floor, int result);

#endif
