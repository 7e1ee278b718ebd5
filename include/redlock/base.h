/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the other headers share: version, results, verdicts, errors. Include redlock.h,
 * redlock/metrics.h, redlock/admin.h or redlock/fence.h; each of them includes this file.
 */
#ifndef REDLOCK_BASE_H
#define REDLOCK_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REDLOCK_API __attribute__((visibility("default")))
#define REDLOCK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define REDLOCK_API
#define REDLOCK_MUST_CHECK
#endif

#define REDLOCK_VERSION_MAJOR 0
#define REDLOCK_VERSION_MINOR 1
#define REDLOCK_VERSION_PATCH 0

/* The largest fencing token, 2^53 - 1: exact in a double, as Lua, JSON and sorted sets use. */
#define REDLOCK_FENCE_MAX INT64_C(9007199254740991)

/* The longest resource name, in bytes, with the key prefix. */
#define REDLOCK_RESOURCE_BYTES_MAX 65536

/* What a function returns. Values are never renumbered. HELD ("another client has it") and
 * NO_QUORUM ("cannot know") are different answers; see safety.md. */
#define REDLOCK_RESULTS(X)                                                                         \
    X(REDLOCK_OK, 0, "ok")                                                                         \
    X(REDLOCK_HELD, -1, "held by another")                                                         \
    X(REDLOCK_NO_QUORUM, -2, "no quorum: too few nodes answered")                                  \
    X(REDLOCK_EXPIRED, -3, "expired while acquiring: the majority answered too late")              \
    X(REDLOCK_LOST, -4, "lost: this lock is not, or no longer, ours")                              \
    X(REDLOCK_CANCELLED, -5, "cancelled")                                                          \
    X(REDLOCK_BAD_ARGUMENT, -6, "bad argument")                                                    \
    X(REDLOCK_NO_MEMORY, -7, "out of memory")                                                      \
    X(REDLOCK_FORKED, -8, "client used after fork(2) in the child: open a new one there")          \
    X(REDLOCK_BUSY, -9, "another operation on this lock is under way")                             \
    X(REDLOCK_SYSTEM, -10, "a system call failed")                                                 \
    X(REDLOCK_TWICE_LISTED, -11, "one server is listed twice: its vote would count twice")         \
    X(REDLOCK_LIMIT, -12, "the lock's maximum hold or renewal count is used up")                   \
    X(REDLOCK_FENCED, -13, "fenced off: an operation with a higher fencing token was here before") \
    X(REDLOCK_TTL_MAX_EXCEEDED, -14, "the TTL is longer than the quorum's ttl_max allows")         \
    X(REDLOCK_CONFLICT, -15, "another change of the quorum is under way or came first")            \
    X(REDLOCK_TWO_QUORUMS, -16, "the list of nodes names servers of two quorums")                  \
    X(REDLOCK_GUARDED_NODES, -17,                                                                  \
      "the servers belong to a guarded quorum, and the client is not guarded")                     \
    X(REDLOCK_OTHER_SLOTS, -18, "slots of this resource are held with another number of slots")    \
    X(REDLOCK_NO_SLOTS, -19, "a native node keeps no slots: update its module")                    \
    X(REDLOCK_NO_SHARED, -20, "a native node keeps no shared locks: update its module")

enum redlock_result {
#define REDLOCK_ENUM(name, value, text) name = (value),
    REDLOCK_RESULTS(REDLOCK_ENUM)
#undef REDLOCK_ENUM
};

/* What one node answered, or why it did not answer. Values are never renumbered. */
#define REDLOCK_VERDICTS(X)                                                                        \
    X(REDLOCK_VERDICT_NONE, 0, "no answer yet")                                                    \
    X(REDLOCK_VERDICT_GRANTED, 1, "granted")                                                       \
    X(REDLOCK_VERDICT_DENIED, 2, "held by another")                                                \
    X(REDLOCK_VERDICT_ABSENT, 3, "key absent")                                                     \
    X(REDLOCK_VERDICT_TIMEOUT, 4, "no answer in time")                                             \
    X(REDLOCK_VERDICT_CONNECTING, 5, "not connected yet")                                          \
    X(REDLOCK_VERDICT_REFUSED, 6, "connection refused or unreachable")                             \
    X(REDLOCK_VERDICT_DISCONNECTED, 7, "connection lost")                                          \
    X(REDLOCK_VERDICT_NAME, 8, "host name not found")                                              \
    X(REDLOCK_VERDICT_TLS, 9, "TLS failed")                                                        \
    X(REDLOCK_VERDICT_AUTH, 10, "wrong or missing password")                                       \
    X(REDLOCK_VERDICT_NOPERM, 11, "no permission (ACL)")                                           \
    X(REDLOCK_VERDICT_OOM, 12, "server out of memory")                                             \
    X(REDLOCK_VERDICT_MISCONF, 13, "server cannot persist (MISCONF)")                              \
    X(REDLOCK_VERDICT_READONLY, 14, "read-only replica")                                           \
    X(REDLOCK_VERDICT_LOADING, 15, "server is loading its data")                                   \
    X(REDLOCK_VERDICT_BUSY, 16, "server is busy with a script")                                    \
    X(REDLOCK_VERDICT_NOREPLICAS, 17, "server lacks replicas (NOREPLICAS)")                        \
    X(REDLOCK_VERDICT_WRONGTYPE, 18, "key holds something other than a string")                    \
    X(REDLOCK_VERDICT_MAXCLIENTS, 19, "server has too many clients")                               \
    X(REDLOCK_VERDICT_PROTOCOL, 20, "answer out of order, oversized or malformed")                 \
    X(REDLOCK_VERDICT_CLUSTER, 21, "server is part of a cluster")                                  \
    X(REDLOCK_VERDICT_MASTERDOWN, 22, "replica lost its master (MASTERDOWN)")                      \
    X(REDLOCK_VERDICT_TWICE_LISTED, 23, "same server as an earlier node")                          \
    X(REDLOCK_VERDICT_NO_MEMORY, 24, "out of memory in this process")                              \
    X(REDLOCK_VERDICT_ERROR, 25, "server answered with another error")                             \
    X(REDLOCK_VERDICT_RECOVERING, 26, "node lost its lock data and does not vote yet")             \
    X(REDLOCK_VERDICT_FOREIGN, 27, "node is not, or no longer, a member of this quorum")           \
    X(REDLOCK_VERDICT_STALE, 28, "fencing token too low")                                          \
    X(REDLOCK_VERDICT_NO_RECORD, 29, "node carries no record: redlock quorum init makes one")      \
    X(REDLOCK_VERDICT_UNFIT, 30, "server is not fit to hold these locks")                          \
    X(REDLOCK_VERDICT_GUARDED, 31, "server belongs to a guarded quorum: choose guarded mode")      \
    X(REDLOCK_VERDICT_UNACCEPTED, 32, "too few nodes of the list carry a record of its quorum")    \
    X(REDLOCK_VERDICT_OTHER_SLOTS, 33, "slots are held with another number of slots")              \
    X(REDLOCK_VERDICT_NOT_SHARED, 34,                                                              \
      "server keeps no shared locks (an old module, or scripts refused)")                          \
    X(REDLOCK_VERDICT_NO_SCRIPTS, 35, "server runs no scripts, which slots need")

enum redlock_verdict {
#define REDLOCK_ENUM(name, value, text) name = (value),
    REDLOCK_VERDICTS(REDLOCK_ENUM)
#undef REDLOCK_ENUM
};

/* A sentence in English for a result or a verdict. Never NULL; static. */
REDLOCK_API const char *redlock_result_text(int result);
REDLOCK_API const char *redlock_verdict_text(int verdict);
/* The version of the library at run time, "MAJOR.MINOR.PATCH". Static. */
REDLOCK_API const char *redlock_version(void);

/* Why a call failed, in one sentence that names the problem and the cure. Filled on failure
 * only. */
struct redlock_error {
    int result; /* enum redlock_result */
    char text[512];
};

#define REDLOCK_PASSWORD_BYTES_MAX 65535
/* Writes the password as text, of at most `size` bytes with its NUL, and returns OK; or returns
 * another result with the reason in error->text, which must hold no secret (*error is zero before).
 * Runs in a thread of the library, one call at a time for a client; it may block, and connections
 * wait for it within their connect timeout. Must not call the library. redlock_client_free() waits
 * until it has returned. */
typedef int redlock_password_fn(void *context, char *password, size_t size,
                                struct redlock_error *error);

#ifdef __cplusplus
}
#endif
#endif
