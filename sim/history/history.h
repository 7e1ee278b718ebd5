/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What happened in one run, in the order of world time. The world writes the history; checkers and
 * pictures read nothing else. All times are world time in nanoseconds, whatever clock an actor
 * uses.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core.h"

/* X(name, sentence). client, node, resource, token, message are set where the sentence has them. */
/* clang-format off */
#define HISTORY_KINDS(X) \
    /* clients and their locks */ \
    X(ACQUIRE, "client begins to acquire resource; with a token: to take over its lock") \
    X(ACQUIRED, "client holds resource with token until `until`; `value` is the fencing token or 0; `result` 1: as a reader") \
    X(NOT_ACQUIRED, "client's acquisition is over without the lock: `result`") \
    X(RENEWED, "client's validity of resource with token now ends at `until`") \
    X(UNSURE, "client could not renew; validity is left") \
    X(LOST, "client is told that resource is lost") \
    X(RELEASE, "client begins to release resource: from here it does not act as holder") \
    X(RELEASED, "client's release is over: `result`") \
    X(EXTEND, "client asks for an extension") \
    X(EXTENDED, "client's extension is over: `result`, validity now ends at `until`") \
    X(CANCEL, "client cancels its acquisition") \
    X(READ, "client, as holder, reads the register of resource: `value`") \
    X(WRITE, "client, as it believes, as holder, writes `value` to the register of resource; `result` 1 when fenced") \
    X(READ_REFUSED, "the fenced register refused the read: its fence is higher") \
    X(WRITE_REFUSED, "the fenced register refused the write: its fence is higher") \
    /* operators who break locks */ \
    X(BREAK, "client begins to delete the keys of resource that hold token; with each delete it raises the fence, first to `value`; 0: it does not") \
    X(BROKEN, "client has broken the lock on resource that token held; `message` nodes did not report; the register has seen `value`") \
    /* operators, and faults of clients */ \
    X(OPERATE, "client begins to change the quorum: `value` 1 inits, 2 adds node, 3 removes node, 4 sets ttl_max to `until`, 5 breaks a lock, of token only if there is one") \
    X(OPERATED, "client's change of the quorum is over: `result`; `value` names the problem, 0: none") \
    X(PAUSE, "client stops (its clock runs on)") \
    X(RESUME, "client goes on") \
    X(CLIENT_CRASH, "client is gone for good with what it held") \
    X(CLIENT_CLOCK, "client's clock steps by `value` ns") \
    /* keys */ \
    X(KEY_SET, "node sets resource's key to token until `until` (as the node's clock goes now)") \
    X(KEY_EXTENDED, "node moves the end of resource's key to `until`") \
    X(KEY_DELETED, "node deletes resource's key, which held token") \
    X(KEY_EXPIRED, "node lets resource's key, which held token, end") \
    X(KEY_LOST, "node loses resource's key, which held token: restart, flush, eviction, failover") \
    X(KEY_FOREIGN, "somebody outside sets or deletes resource's key") \
    /* faults of nodes */ \
    X(NODE_CRASH, "node dies") \
    X(NODE_RESTART, "node is back; `value`: 0 empty, 1 with everything, 2 without its last second") \
    X(NODE_FLUSH, "FLUSHALL on node; `value` 1: SWAPDB") \
    X(NODE_EVICT, "node evicts a key") \
    X(NODE_FAILOVER, "node is replaced by its replica, which lags") \
    X(NODE_CLOCK, "node's wall clock steps by `value` ns") \
    X(NODE_RATE, "node's wall clock now runs at `value` parts per million (1000000: true; 0: frozen)") \
    X(NODE_MODE, "node now answers writes with verdict `result`, or normally when it is GRANTED") \
    X(NODE_PAUSE, "node stops (SIGSTOP)") \
    X(NODE_RESUME, "node goes on") \
    X(NODE_SPLIT, "node is replaced by its replica, which lags, and lives on for those who are connected") \
    X(NODE_OLD_ENDS, "what was left of node before its replica took over is gone") \
    X(NODE_DEMOTED, "node's replica, which lags, is promoted, and node becomes its replica") \
    X(NODE_RESYNCED, "node's data are now those of the master whose replica it is") \
    X(NODE_REPLICA, "node gets its first replica, and with it another replication id") \
    X(NODE_PROMOTED, "node, a replica, is promoted again") \
    X(NODE_POLICY, "node's maxmemory-policy is switched to one that evicts (`value` 1), or back (0)") \
    X(NODE_NATIVE, "node is now a native one (`value` 1), whose locks are not keys and end by a clock that never steps, or a stock one (0)") \
    X(NODE_MEMBERS, "node carries a record of list `message`, of epoch `value`, whose members are nodes `until`, by bits; `result` 1: what is left of node does") \
    X(NODE_ELIGIBILITY, "node is now intact (`result` 1) or has lost its data (0): `value` is its epoch") \
    X(VOTE, "node raises the fence to `value` for token, as an intact node (`result` 1) or one that should not (0)") \
    /* the network. `op` is enum net_op; `message` joins the four */ \
    X(SENT, "client sends a request to node") \
    X(ARRIVED, "node receives it and does what it says; `result` is its verdict") \
    X(ANSWERED, "client receives the answer: `result`") \
    X(DROPPED, "the request or its answer is lost") \
    X(CUT, "the way from client to node is cut; `value`: 1 requests, 2 answers, 3 both") \
    X(HEALED, "the way is whole again") \
    X(CONNECTED, "client's connection to node is up") \
    X(DISCONNECTED, "client's connection to node is gone") \
    X(WOKEN, "client hears what node told at `until`: resource has changed, or, if `value` >= 0, its rank in the line") \
    X(WAKE_LOST, "what node told client is lost") \
    X(ANNOUNCED, "client's connection brings the news that node's record changed, or (`value` 1) all its data") \
    X(ASKED, "client, or without one all of them together, has sent node `value` requests about records and states in the second since `until`") \
    /* the run */ \
    X(FAULTS_END, "no more faults from here on: somebody must acquire within the bound") \
    X(END, "the run is over") \
    /* observers */ \
    X(OBSERVED, "client reports who leads resource: token, under the term `value`, and nobody else before `until`; `value` 0: nobody, or it does not know (`result`)") \
    /* readers, each with a token, behind a key that holds the marker of shared locks */ \
    X(READER_LISTED, "node lists token among the readers of resource until `until`") \
    X(READER_GONE, "node lists token no more among the readers of resource; `value` 1: its end had come") \
    X(DOWNGRADE, "client, as holder, is a reader from now on, whatever comes of it") \
    /* guarded, stock nodes */ \
    X(NODE_UNSEEN, "keys end early at node, and clients may not know (`value` 1), or all have had the time to notice, or the keys would have ended by now (0)") \
    X(BLACK_HOLE, "client's connection to node passes nothing from here on, and neither end learns that; new ones work")
/* clang-format on */

enum history_kind {
#define HISTORY_ENUM(name, text) HISTORY_##name,
    HISTORY_KINDS(HISTORY_ENUM)
#undef HISTORY_ENUM
};

struct history_record {
    rl_ns at;
    uint8_t kind;    /* enum history_kind */
    int8_t client;   /* 0-based; -1: none */
    int8_t node;     /* 0-based; -1: none */
    int8_t resource; /* 0-based; -1: none */
    uint8_t op;
    int16_t result;   /* enum redlock_result or redlock_verdict */
    uint32_t token;   /* names a token: 1, 2, 3... in order of appearance; 0: none */
    uint32_t message; /* names a request and its answer; 0: none */
    rl_ns until;
    int64_t value;
};

struct history {
    struct history_record *records;
    size_t count, capacity;
    unsigned clients, nodes, resources;
    rl_ns liveness_bound; /* after FAULTS_END, a client must acquire within this time */
    uint32_t others;      /* bits: nodes outside the quorum in which locks are granted */
    uint32_t refused;     /* bits: clients that must not be granted a lock */
    uint32_t guarded;     /* bits: clients in guarded mode, whatever they have met */
};

void history_init(struct history *history, unsigned clients, unsigned nodes, unsigned resources);
void history_clear(struct history *history); /* forgets the records, keeps the memory */
void history_free(struct history *history);
/* Aborts when memory is out: a run with an incomplete history proves nothing. */
void history_add(struct history *history, const struct history_record *record);
const char *history_kind_name(enum history_kind kind);
/* One line of text without the newline, the same on every machine and compiler ("  12.345678 ms  A
 * ACQUIRED ..."). */
void history_print(const struct history_record *record, char *line, size_t size);
void history_print_all(const struct history *history, FILE *out);

#endif
