/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SIM_STEPS_RUN_H
#define SIM_STEPS_RUN_H

#include "world/world.h"

/* All of these do nothing unless the options ask for steps (steps.h). */
void steps_begin(struct world *world);
void steps_end(struct world *world);
void steps_record(const struct world *world, const struct history_record *record);

#endif
