/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operations on the wire, one row each: subject, flags, the form of the request and the form of
 * the answer. The encoder and the reader of answers (src/net/codec/command.c, answer.c), the
 * policy, the simulator's nodes and the traces all read this table. A new operation needs a row
 * here, a script (src/node), and a rule on the simulator's nodes.
 *
 *     X(NAME, subject, flags, forms, native)
 *
 * The subject names the part of a node that serves it: LOCKS takes or leaves keys, LOOKS reads
 * them, SERVER is about the server itself, RECORD about the record and the fences, WAITERS about
 * the wait queue, OBSERVERS about what a leader announces to them.
 *
 * A form describes how a request is written. A row has one form for ANY request; or two, BY_MODE:
 * classic, and guarded (the request has nonces); or FOUR: for one key and for several keys in
 * classic mode, then the same in guarded mode. `native` has the forms for a native node, a server
 * with our module, whose commands take any number of keys: one NATIVE, or two, NATIVE_BY_MODE; or
 * AS_STOCK, where the node serves the stock form. A form is one of
 *
 *     COMMANDS(replies, text, first, second)      commands with ';' between them
 *     EACH(replies, text, first, second)          the same, once for each key
 *     SCRIPT(script, more keys, text, verdicts)   a script of src/node: keys | arguments
 *     SCRIPT_ANSWERS(script, more keys, text, reply)
 *     COMMAND(text, verdicts)                     one command of the module
 *     OWN(reply)                                  one command, by an encoder of its own
 *     OWN_SCRIPT(script, verdicts)                one script, by an encoder of its own
 *
 * After them a row may have OR_ONE_COMMAND(delex, delifeq): what is sent for one key in place of
 * its script, to a stock node that compares and deletes by the command DELEX, or DELIFEQ.
 *
 * `first` and `second` are the shapes of the replies, in turn (enum shape in net/codec/form.h).
 * `verdicts` gives the meaning of the integers -2, -1, 0 and 1: Granted, Denied, Absent, Stale,
 * Recovering; '-' is not a valid answer. A word of a text that begins with '%' stands for a part of
 * the request:
 *
 *     %k its key, or this turn's key   %K all keys   %t token   %l ttl_ms   %c cursor
 *     %n the name of the fences of the node's nonce   %N the same, or NET_KEY_KEPT if `was_kept`
 *     %f fence   %s all stripes   %m REDLOCK_TOKEN_BYTES_MAX   %M one more than that
 *     %# how many keys   %F "FENCE=nonce:fence:stripe,stripe", the nonce being the node's
 *     %O the node's nonce, or "kept" if `was_kept`   %z `nonce`
 *     %a age_us   %r RL_WAITING_ARMED   %b the lock's key, from a wait queue's name   %p passes
 *     %S slots   %o slot_order   %e effort   %x skip
 *     %u waiter   %v since_us, waited_us and remember_us
 *     %q "WAITER", the waiter and these three, or nothing without a waiter
 *     %R "SHARED" if the waiter waits for a shared lock
 */
#ifndef RL_POLICY_OPS_H
#define RL_POLICY_OPS_H

#include <stdbool.h>

enum {
    NET_OP_WRITE = 1,    /* takes or leaves a key, or extends it */
    NET_OP_KEPT = 2,     /* waits for a node that is not connected, and is sent again */
    NET_OP_TOKEN = 4,    /* the token is that of a lock */
    NET_OP_FENCED = 8,   /* carries the fence, where the request has nonces */
    NET_OP_GUARDED = 16, /* only a guarded net can send it */
    NET_OP_GROWS = 32,   /* a server that takes no writes, or is out of memory, refuses it */
    /* a server that takes no writes refuses it; one that is out of memory takes it */
    NET_OP_CHANGES = 64,
    NET_OP_READERS = 128 /* of shared locks, which not all nodes keep (net_node_status) */
};

/* clang-format off */
#define NET_OPS(X)                                                                                 \
    /* One key: SET. Several: all or nothing (a script, or WATCH/MULTI). */                        \
    X(ACQUIRE, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_FENCED | NET_OP_GROWS,                  \
      FOUR(COMMANDS(1, "SET %k %t NX PX %l", SET, SET),                                            \
           SCRIPT(ACQUIRE_MANY, 0, "%K | %t %l", "--DG"),                                          \
           COMMANDS(2, "SET %k %t NX PX %l;ZADD %n XX GT CH %f %s", SET, RAISED),                  \
           SCRIPT(ACQUIRE_GUARDED, 1, "%K %n | %t %l %f %s", "-SDG")),                             \
      NATIVE_FOUR(COMMANDS(1, "REDLOCK.ACQUIRE %# %K %t %l %q", VOTE, VOTE),                       \
                  COMMANDS(1, "REDLOCK.ACQUIRE %# %K %t %l %F %q", VOTE, VOTE),                    \
                  COMMANDS(1, "REDLOCK.LOCK %k %t %l", VOTE, VOTE),                                \
                  COMMANDS(1, "REDLOCK.LOCK %k %t %L", VOTE, VOTE)))                               \
    /* Compare-and-pexpire on all keys; never shortens. */                                         \
    X(EXTEND, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_FENCED,                                  \
      BY_MODE(SCRIPT(EXTEND, 0, "%K | %t %l", "-DAG"),                                             \
              SCRIPT(EXTEND_GUARDED, 1, "%K %n | %t %l %f %s", "RDAG")),                           \
      NATIVE_BY_MODE(COMMAND("REDLOCK.EXTEND %# %K %t %l", "-DAG"),                                \
                     COMMAND("REDLOCK.EXTEND %# %K %t %l %F", "RDAG")))                            \
    /* Compare-and-delete of each key. ABSENT may also mean DENIED, unless `tells_holder`. */       \
    X(RELEASE, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_KEPT,                                   \
      ANY(SCRIPT(RELEASE, 0, "%K | %t", "-DAG")),                                                  \
      NATIVE_FOUR(COMMAND("REDLOCK.RELEASE %# %K %t", "-DAG"),                                     \
                  COMMAND("REDLOCK.RELEASE %# %K %t", "-DAG"),                                     \
                  COMMAND("REDLOCK.UNLOCK %k %t", "-DAG"),                                         \
                  COMMAND("REDLOCK.UNLOCK %k %t", "-DAG"))                                         \
      OR_ONE_COMMAND(COMMAND("DELEX %k IFEQ %t", "--AG"), COMMAND("DELIFEQ %k %t", "--AG")))       \
    /* PTTL of the key that ends last. */                                                          \
    X(PEEK, LOOKS, 0, ANY(EACH(1, "PTTL %k", PTTL, PTTL)),                                         \
      NATIVE(EACH(1, "REDLOCK.PTTL %k", PTTL, PTTL)))                                              \
    /* First key: PTTL, since only it tells an absent key from an empty one; and the first bytes:  \
     * one more than is shown, to know whether there are more. */                                  \
    X(PEEK_VALUE, LOOKS, 0, ANY(COMMANDS(2, "PTTL %k;GETRANGE %k 0 %m", PTTL, VALUE)),             \
      NATIVE(COMMANDS(2, "REDLOCK.PTTL %k;REDLOCK.GET %k %M", PTTL, VALUE)))                       \
    /* Keys under a prefix; with `anywhere`, keys that contain it: SCAN cursor MATCH prefix*. */   \
    X(SCAN, LOOKS, 0, ANY(OWN(SCAN)), NATIVE(OWN(SCAN)))                                           \
    /* No keys; one question about the server itself. */                                           \
    X(SERVER_INFO, SERVER, 0, ANY(OWN(SERVER_INFO)), NATIVE(OWN(SERVER_INFO)))                     \
    /* No keys; GRANTED with `state`: what a vote rests on besides the node's record. */           \
    X(STATE, SERVER, 0,                                                                            \
      ANY(COMMANDS(5, "TIME;INFO replication;INFO memory;INFO stats;INFO clients", STATE, STATE)),              \
      NATIVE(COMMANDS(1, "REDLOCK.STATE", NATIVE_STATE, NATIVE_STATE)))                            \
    /* The fence of all stripes, strictly: GRANTED; STALE with `fence`, the highest there. */      \
    X(RAISE, RECORD, NET_OP_TOKEN | NET_OP_GUARDED | NET_OP_GROWS,                                 \
      ANY(SCRIPT_ANSWERS(RAISE, 1, "%K %n | %t %f %s", RAISE)),                                    \
      NATIVE(COMMANDS(1, "REDLOCK.RAISE %# %K %t %F", RAISE, RAISE)))                              \
    /* One key: the same whatever it holds, and in the same step compare-and-delete: GRANTED, or   \
     * ABSENT or DENIED as RELEASE; STALE with `fence`: nothing was deleted. `nonce` was added to   \
     * the node's (rl_nonce_sum()), unless the node is native. */                                \
    X(BREAK, RECORD, NET_OP_TOKEN | NET_OP_GUARDED | NET_OP_GROWS,                                 \
      ANY(SCRIPT_ANSWERS(BREAK, 2, "%K " NET_KEY_RECORD " %n | %t %f %z %s", BREAK)),              \
      NATIVE(COMMANDS(1, "REDLOCK.BREAK %k %t %F", BREAK, BREAK)))                                 \
    /* GRANTED: each key still holds the token and each stripe's fence is at least the request's;  \
     * else STALE. */                                                                              \
    X(CONFIRM, RECORD, NET_OP_TOKEN | NET_OP_GUARDED,                                              \
      ANY(SCRIPT(CONFIRM, 1, "%K %n | %t %f %s", "R-SG")),                                         \
      NATIVE(COMMAND("REDLOCK.CONFIRM %# %K %t %F", "R-SG")))                                      \
    /* The node's record: GRANTED with `items`, field and value in turn; ABSENT. */                \
    X(RECORD, RECORD, 0, ANY(COMMANDS(1, "HGETALL " NET_KEY_RECORD, RECORD, RECORD)),              \
      NATIVE(COMMANDS(1, "REDLOCK.RECORD", RECORD, RECORD)))                                       \
    /* GRANTED: written; DENIED: its nonce is not the expected one. */                             \
    X(RECORD_WRITE, RECORD, NET_OP_GUARDED | NET_OP_GROWS,                                         \
      ANY(OWN_SCRIPT(RECORD_WRITE, "--DG")), NATIVE(OWN_COMMAND("--DG")))                          \
    /* All fences of the nonce (`was_kept`: the kept ones): GRANTED with `fences`; RECOVERING:     \
     * there are none of that name; PROTOCOL: one of them is not a fence. */                       \
    X(FENCES, RECORD, NET_OP_GUARDED,                                                              \
      ANY(COMMANDS(1, "ZRANGE %N 0 -1 WITHSCORES", FENCES, FENCES)),                               \
      NATIVE(COMMANDS(1, "REDLOCK.FENCES %O", FENCES, FENCES)))                                    \
    /* As PEEK; handlers.wake() also reports the next change of these keys. */                     \
    X(WATCH, WAITERS, 0, ANY(EACH(2, "CLIENT CACHING YES;PTTL %k", OK, PTTL)),                     \
      NATIVE(EACH(2, "CLIENT CACHING YES;REDLOCK.PTTL %k", OK, PTTL)))                             \
    /* Used only inside net. */                                                                    \
    X(TRACK, WAITERS, 0,                                                                           \
      ANY(COMMANDS(1, "CLIENT TRACKING ON REDIRECT %c OPTIN", OK, OK)), AS_STOCK)                  \
    /* Used only inside net, after it: changes a key that is tracked; from then on our own changes \
     * are not reported; publishes to the channel %t. */                                           \
    X(PROBE, WAITERS, NET_OP_GROWS,                                                                \
      ANY(COMMANDS(6, "CLIENT CACHING YES;PTTL %k;SET %k 1 PX 1000;DEL %k;"                        \
                      "CLIENT TRACKING ON REDIRECT %c OPTIN NOLOOP;PUBLISH %t probe", OK, PTTL)),  \
      AS_STOCK)                                                                                    \
    /* Two keys, NET_KEY_WAITING and NET_KEY_WAITERS of a lock's key: wait in the queue under the  \
     * token for ttl_ms, since `age_us` ago; GRANTED with `count`, the waiters before us. */       \
    X(WAIT_QUEUE_ENTER, WAITERS, NET_OP_GROWS,                                                     \
      ANY(SCRIPT_ANSWERS(WAITING, 0, "%K | %t %l %a %r " NET_CHANNEL_WAKE " %b %p", COUNT)),       \
      AS_STOCK)                                                                                    \
    /* The same keys and token: leave the queue; GRANTED with `count`, the waiters left. */        \
    X(WAIT_QUEUE_LEAVE, WAITERS, NET_OP_CHANGES,                                                   \
      ANY(SCRIPT_ANSWERS(WAITING, 0, "%K | %t 0 %a %r " NET_CHANNEL_WAKE " %b %p", COUNT)),        \
      AS_STOCK)                                                                                    \
    /* The same keys, for an observer: GRANTED with `count`, the waiters, and `age_us`, for how    \
     * long the first of them has waited. */                                                       \
    X(WAIT_QUEUE_PEEK, LOOKS, 0, ANY(SCRIPT_ANSWERS(WAITERS, 0, "%K |", QUEUE)),                   \
      NATIVE(COMMANDS(1, "REDLOCK.QUEUE %b", QUEUE, QUEUE)))                                       \
    /* One key, a native node only: wait in its queue as `waiter`; `count`, the waiters before us   \
     * (-1: it is full), and ABSENT: we may try; or GRANTED with `remaining_ms`. */                \
    X(TURN_WAIT, WAITERS, NET_OP_GROWS,                                                            \
      ANY(COMMANDS(1, "REDLOCK.WAIT %k %u %v %R", TURN, TURN)), AS_STOCK)                             \
    /* The same key and waiter: leave it; GRANTED with `count`, the waiters left. */               \
    X(TURN_LEAVE, WAITERS, NET_OP_CHANGES,                                                         \
      ANY(COMMANDS(1, "REDLOCK.UNWAIT %k %u %p", COUNT, COUNT)), AS_STOCK)                         \
    /* GRANTED with `value`, the server's name for the type of the key's value; ABSENT. */         \
    X(TYPE, LOOKS, 0, ANY(COMMANDS(1, "TYPE %k", TYPE, TYPE)), AS_STOCK)                          \
    /* The key NET_KEY_TERM of a lock's key. It is an ordinary key on a native node too.           \
     * The token is the announcement: the term, a space, the lock's token. */                      \
    X(ANNOUNCE, OBSERVERS, NET_OP_TOKEN | NET_OP_GROWS,                                            \
      ANY(COMMANDS(1, "SET %k %t PX %l", SET, SET)), AS_STOCK)                                     \
    /* The same key: as PEEK_VALUE. */                                                             \
    X(TERM, OBSERVERS, 0, ANY(COMMANDS(2, "PTTL %k;GETRANGE %k 0 %m", PTTL, VALUE)), AS_STOCK) \
    /* The first free slot of the resource (the key) in the order of the request: GRANTED or STALE \
     * with `slot`; DENIED with `remaining_ms` of the slot that ends first, or with `slots` if \
     * slots are held with this other number. Native: also `count`, as ACQUIRE. */                 \
    X(ACQUIRE_SLOT, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_FENCED | NET_OP_GROWS,             \
      BY_MODE(SCRIPT_ANSWERS(ACQUIRE_SLOT, 0, "%K | %t %l %S %o", SLOT),                           \
              SCRIPT_ANSWERS(ACQUIRE_SLOT, 1, "%K %n | %t %l %S %o %f %s", SLOT)),                 \
      NATIVE_BY_MODE(COMMANDS(1, "REDLOCK.SLOT %k %t %S %o %l %q", SLOT, SLOT),                    \
                     COMMANDS(1, "REDLOCK.SLOT %k %t %S %o %L %q", SLOT, SLOT)))                                                                                   \
    /* A shared lock. Two keys: the lock's, and NET_KEY_SHARED of it, where its readers are listed. \
     * Takes a place, or keeps it: GRANTED with `fence`, the stripe's, which is at least ours; DENIED. */\
    X(SHARE, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_FENCED | NET_OP_GROWS | NET_OP_READERS,     \
      BY_MODE(SCRIPT_ANSWERS(SHARE, 0, "%K | " NET_SHARED_MARKER " %t %l", SHARED),                \
              SCRIPT_ANSWERS(SHARE, 1, "%K %n | " NET_SHARED_MARKER " %t %l %f %s", SHARED)),      \
      NATIVE_BY_MODE(COMMANDS(1, "REDLOCK.SHARE %k %t %l %q", SHARED, SHARED),                     \
                     COMMANDS(1, "REDLOCK.SHARE %k %t %L %q", SHARED, SHARED)))                    \
    /* As EXTEND; ABSENT also: the reader has no place any more. */                                \
    X(SHARE_EXTEND, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_FENCED | NET_OP_READERS,             \
      BY_MODE(SCRIPT(SHARE_EXTEND, 0, "%K | " NET_SHARED_MARKER " %t %l", "-DAG"),                 \
              SCRIPT(SHARE_EXTEND, 1, "%K %n | " NET_SHARED_MARKER " %t %l %f %s", "RDAG")),       \
      NATIVE_BY_MODE(COMMAND("REDLOCK.SHAREEXTEND %k %t %l", "-DAG"),                              \
                     COMMAND("REDLOCK.SHAREEXTEND %k %t %L", "RDAG")))                             \
    X(SHARE_RELEASE, LOCKS, NET_OP_WRITE | NET_OP_TOKEN | NET_OP_KEPT | NET_OP_READERS,              \
      ANY(SCRIPT(SHARE_RELEASE, 0, "%K | " NET_SHARED_MARKER " %t", "-DAG")),                      \
      NATIVE(COMMAND("REDLOCK.UNSHARE %k %t", "-DAG")))                                            \
    /* The same keys, for an observer: a page of at most `effort` readers, from `cursor` and `skip` on. GRANTED \
     * with `count`, all readers, `items`, and where the next page begins; DENIED: not a shared lock; ABSENT. */ \
    X(READERS, LOOKS, NET_OP_READERS,                                                                \
      ANY(SCRIPT_ANSWERS(READERS, 0, "%K | " NET_SHARED_MARKER " %e %c %x", READERS)),             \
      NATIVE(COMMANDS(1, "REDLOCK.READERS %k %e %c %x", READERS, READERS)))                        \
    /* Used only inside net, on a stock node, for a key of our own: GRANTED: the server compares   \
     * before it deletes. DEL leaves no key where it did not. */                                   \
    X(DELETE_TRIAL, SERVER, NET_OP_GROWS,                                                          \
      ANY(COMMANDS(4, "SET %k 1 PX 1000;DELEX %k IFEQ 0;DELEX %k IFEQ 1;DEL %k", TRIAL, TRIAL)),   \
      AS_STOCK                                                                                     \
      OR_ONE_COMMAND(                                                                              \
        COMMANDS(4, "SET %k 1 PX 1000;DELEX %k IFEQ 0;DELEX %k IFEQ 1;DEL %k", TRIAL, TRIAL),      \
        COMMANDS(4, "SET %k 1 PX 1000;DELIFEQ %k 0;DELIFEQ %k 1;DEL %k", TRIAL, TRIAL)))
/* clang-format on */

#define NET_OP_NUMBER(name, subject, flags, forms, native) NET_##name,
enum net_op { NET_OPS(NET_OP_NUMBER) };
#define NET_OP_BYTE(name, subject, flags, forms, native) 0,
enum { NET_OPS_COUNT = sizeof((const char[]){NET_OPS(NET_OP_BYTE)}) };

enum net_subject {
    NET_OF_LOCKS,
    NET_OF_LOOKS,
    NET_OF_SERVER,
    NET_OF_RECORD,
    NET_OF_WAITERS,
    NET_OF_OBSERVERS
};

static inline enum net_subject net_op_subject(enum net_op op) {
#define NET_OP_SUBJECT(name, subject, flags, forms, native)                                        \
    case NET_##name: return NET_OF_##subject;
    switch (op) { NET_OPS(NET_OP_SUBJECT) }
#undef NET_OP_SUBJECT
    return NET_OF_SERVER;
}

/* Whether it has one of these flags. */
static inline bool net_op_is(enum net_op op, unsigned flag) {
#define NET_OP_FLAGS(name, subject, flags, forms, native)                                          \
    case NET_##name: return ((flags)&flag) != 0;
    switch (op) { NET_OPS(NET_OP_FLAGS) }
#undef NET_OP_FLAGS
    return false;
}
static inline bool net_op_is_write(enum net_op op) { return net_op_is(op, NET_OP_WRITE); }
/* A client that closes waits for the answer: to a write, or to leaving a queue. */
static inline bool net_op_is_awaited(enum net_op op) {
    return net_op_is(op, NET_OP_WRITE | NET_OP_CHANGES);
}

#endif
