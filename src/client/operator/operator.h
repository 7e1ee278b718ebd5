/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's side: what servers hold and what they are. Nothing here takes or changes a lock.
 */
#ifndef RL_CLIENT_OPERATOR_H
#define RL_CLIENT_OPERATOR_H

#include "client/client.h"

void look_reply(struct net_call *call, const struct net_reply *reply);
void survey_reply(struct net_call *call, const struct net_reply *reply);
/* src/client/quorum_ask.c */
void quorum_reply(struct net_call *call, const struct net_reply *reply);

#endif
