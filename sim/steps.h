/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The steps of a run in classic mode, for the checker that is extracted from the proof
 * (docs/proof.md): what was sent, what servers did with it, and until when clients were told that
 * they hold a lock; with what their clocks show, not with world time alone. One line each:
 *
 *   seed SEED
 *   D CLIENT PPM NS                           its drift allowance
 *   N CLIENT NODE...                          its list of nodes
 *   C CLIENT FROM SHOWN PPM                   from world time FROM on, its clock runs like this
 *   K SERVER FROM SHOWN PPM                   the same of a server's
 *   S TIME CLIENT TOKEN NODE MESSAGE TTL RESOURCE...   it sends SET NX
 *   E TIME CLIENT TOKEN NODE MESSAGE TTL      ... an extension
 *   X TIME CLIENT TOKEN NODE MESSAGE          ... a release
 *   V TIME NODE MESSAGE GRANTED               the server has executed it
 *   Y TIME NODE RESOURCE TOKEN ENDS           the key is now like this; TOKEN 0: there is none
 *   Z TIME NODE RESOURCE                      the key has ended
 *   W TIME TOKEN UNTIL                        the client is told that it holds the lock
 *   P TIME TOKEN UNTIL                        ... that its validity now ends at UNTIL
 *   L TIME TOKEN                              ... that the lock is lost
 *   R TIME TOKEN                              from here on it does not act as holder
 *   O TIME REASON                             what the proof leaves out has happened
 *   .                                         the end of the run
 *
 * UNTIL is a reading of the client's clock, ENDS one of the server's. All times are in
 * nanoseconds. */
#ifndef SIM_STEPS_H
#define SIM_STEPS_H

#include "inside.h"

/* All of these do nothing unless the options ask for steps. */
void steps_begin(const struct world *world);
void steps_end(struct world *world);
void steps_message(struct world *world, enum history_kind kind, const struct message *message);
void steps_key(struct world *world, unsigned node, enum node_change change, unsigned resource,
               uint32_t token, int64_t expires_ms);
void steps_record(const struct world *world, const struct history_record *record);
void steps_outside(const struct world *world, const char *reason);

#endif
