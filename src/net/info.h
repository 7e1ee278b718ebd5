/* SPDX-License-Identifier: BSD-2-Clause
 * What a server says of itself: the fields of INFO, and NET_STATE. */
#ifndef RL_NET_INFO_H
#define RL_NET_INFO_H

#include "net/buffer.h"
#include "net/net.h"
#include "net/reader.h"

/* The value of "field:value" at the beginning of a line, cut to what fits; "" when absent. */
void info_value(struct net_bytes info, const char *field, char *value, size_t capacity);

/* Adds reply `nth` of NET_STATE. `*sound` false: of the right kind, but without what should be in
 * it. */
bool state_answer(unsigned nth, const struct reader *reader, struct net_state *state, bool *sound);

#endif
