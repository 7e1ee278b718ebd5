/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The steps of a run, for the checkers that are extracted from the proof (proof/README.md): what
 * was sent, what servers did with it, and until when the library reported locks as held; with what
 * the clients' clocks show, not with world time alone. One line each:
 *
 *   seed SEED
 *   D CLIENT PPM NS CONFIRM                   its drift allowance; 1: it confirms its locks
 *   N CLIENT NODE...                          its list of nodes
 *   C CLIENT FROM SHOWN PPM                   from world time FROM on, its clock runs like this
 *   K SERVER FROM SHOWN PPM                   the same of a server's
 *   S TIME CLIENT TOKEN NODE MESSAGE TTL RESOURCE...   it sends SET NX
 *   E TIME CLIENT TOKEN NODE MESSAGE TTL      ... an extension
 *   X TIME CLIENT TOKEN NODE MESSAGE          ... a release
 *   V TIME NODE MESSAGE GRANTED               the server has executed it
 *   A TIME MESSAGE                            the client has received the answer
 *   Y TIME NODE RESOURCE TOKEN ENDS           the key is now like this; TOKEN 0: there is none
 *   Z TIME NODE RESOURCE                      the key has ended
 *   W TIME TOKEN UNTIL                        the library reports that the lock is held
 *   P TIME TOKEN UNTIL                        ... that the validity now ends at UNTIL
 *   L TIME TOKEN                              ... that the lock is lost
 *   R TIME TOKEN                              from here on it does not act as holder
 *   Q TIME TOKEN MS HELD FENCE                what the library answers: redlock_validity_ms(),
 *                                             whether the state is HELD or UNSURE, redlock_fence()
 *   U TIME TOKEN                              an operator breaks the lock: the requests of its
 *                                             client still count, reports to that client do not
 *   O TIME REASON                             from here on, what the proof leaves out happens
 *   .                                         the end of the run
 *
 * In guarded mode D, C, K, A, Z, W, P, L, R, Q, U and O are the same, but W has the fencing token
 * at its end and Z names a body, a server process with its data, instead of a node. The others are
 * these:
 *
 *   G NODES RESOURCES TTL_MAX                 the quorum; its first bodies are 0 to NODES - 1
 *   M TIME MESSAGE OP CLIENT TOKEN TTL RESOURCE FENCE   a client sends it. OP: A acquire, T raise
 *                                             again, E extend, C confirm, X release, F read
 *                                             fences, B an operator breaks it
 *   V TIME BODY MESSAGE PART VERDICT          it was served. PART: 1 SET alone, 2 ZADD alone,
 *                                             of B 1 if the record has another nonce now,
 *                                             else 0. VERDICT: g granted, d denied, a absent,
 *                                             s stale, r recovering, n not executed
 *   Y TIME BODY RESOURCE TOKEN ENDS           the key is now like this
 *   F TIME BODY RESOURCE FENCE                the fence of its stripe is now like this
 *   I TIME BODY INTACT WRITER (MEMBER NUMBER RUN_ID)...   the record is now like this; client
 *                                             WRITER - 1 wrote it; 0: none did
 *   B TIME BODY NODE FORMER UNSEEN            the node has another body from here on; its keys,
 *                                             record and fences follow. FORMER - 1 has died;
 *                                             0: none. Rounds that begin until UNSEEN may count the
 *                                             server all the same: it has evicted a key
 *
 * In guarded mode these say what the records are, on all servers, and who reads them. The checkers
 * of locks leave them out, and the checker of membership all others but C and D:
 *
 *   H TIME SERVER INTACT WRITER RAISED QUORUM MEMBER NONCE LOSS BEGUN EPOCH SETTLED TTL_MAX
 *     TTL_NEXT BALLOT ACCEPTED_BALLOT CHANGE WHAT ID...
 *                        the record is now like this; if it is gone, nothing is behind RAISED: 1 if
 *                        the write raised the fences. SERVER: twice the node's number, and 1 more
 *                        for a former server that lives on. CHANGE: a add, r remove, t ttl_max,
 *                        - none; WHAT: the member, or the ttl_max
 *   J TIME SERVER CLIENT MESSAGE FENCES
 *                        a request has read it, or, if FENCES is 1, the fences that it names
 *   a TIME MESSAGE       the client has received the answer
 *
 * Where locks have slots, each slot is a resource, and each slot that a request asks for is a
 * request with a token of its own: T says so, and of how many slots TOKEN and MESSAGE are made.
 *
 *   T SLOTS                                   TOKEN / SLOTS is the token of the client
 *
 * Where a key is shared by readers, TOKEN is STEPS_MARKER. The trace leaves out what readers send
 * and what they are answered. In guarded mode it has what they send, as M of OP S, since that
 * raises fences.
 *
 * UNTIL is a reading of the client's clock, ENDS one of the server's. All times are in
 * nanoseconds. */
#ifndef SIM_STEPS_H
#define SIM_STEPS_H

#include "inside.h"

#define STEPS_MARKER UINT32_MAX

/* All of these do nothing unless the options ask for steps. */
void steps_message(struct world *world, enum history_kind kind, const struct message *message);
void steps_key(struct world *world, unsigned node, enum node_change change, unsigned resource,
               uint32_t token, int64_t expires_ms);
/* A token, or the number of a message, as it is printed. */
uint64_t steps_number(const struct world *world, uint32_t number, unsigned resource);
/* The first of the trace's resources, and how many there are. */
unsigned steps_first(const struct world *world);
unsigned steps_resources(const struct world *world);
/* How many requests of the trace the message is, once it is served, and the number of each. */
unsigned steps_count(const struct world *world, const struct message *message);
uint64_t steps_request(const struct world *world, const struct message *message, unsigned i);
/* Of guarded mode: the letter of OP; 0: it has none. */
char steps_letter(const struct message *message);
/* A writer becomes a reader. */
void steps_reads(const struct world *world, uint32_t token);
void steps_outside(const struct world *world, const char *reason);

#endif
