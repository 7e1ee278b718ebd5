/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A server's report of itself: the fields of INFO, and NET_STATE. */
#ifndef RL_NET_INFO_H
#define RL_NET_INFO_H

#include "net/buffer.h"
#include "net/net.h"
#include "net/reader.h"

/* The value of "field:value" at the start of a line, cut to the space; "" when absent. */
void info_value(struct net_bytes info, const char *field, char *value, size_t capacity);

/* Two strings after the array at the slot: TIME's seconds and microseconds since 1970. */
bool time_answer(const struct reader *reader, size_t slot, int64_t *wall_us);

/* Adds reply `nth` of NET_STATE. `*sound` false: the reply has the right type, but lacks a
 * field. */
bool state_answer(unsigned nth, const struct reader *reader, struct net_state *state, bool *sound);

#endif
