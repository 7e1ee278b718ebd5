/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Structs of redlock.h that begin with their size. Program and library may be of different
 * releases; the size shows which fields the program knows. It is never less than in the first
 * release, and fields are only appended.
 *
 * A program's struct may end in the middle of ours (an older program) or be longer than ours (a
 * newer one). The library does not write fields that the program does not know, and uses their
 * defaults. Fields that the library does not know must be zero in options, and the library sets
 * them to zero in what it fills. */
#ifndef RL_SIZED_H
#define RL_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "redlock/admin.h"
#include "redlock/fence.h"
#include "redlock/metrics.h"

#define SIZED_THROUGH(type, field)                                                                 \
    (offsetof(struct type, field) + sizeof(((struct type *)NULL)->field))

/* The last field of each struct in the first release. Never changed. */
#define FIRST_CLIENT_OPTIONS SIZED_THROUGH(redlock_client_options, recover)
#define FIRST_NODE_STATUS SIZED_THROUGH(redlock_node_status, scheme)
#define FIRST_STATS SIZED_THROUGH(redlock_stats, wakeups)
#define FIRST_LOCK_OPTIONS SIZED_THROUGH(redlock_lock_options, on_change_context)
#define FIRST_SERVER SIZED_THROUGH(redlock_server, tcp_port)
#define FIRST_OWN_KEY SIZED_THROUGH(redlock_own_key, type)
#define FIRST_WALK SIZED_THROUGH(redlock_walk, bytes)
#define FIRST_QUORUM SIZED_THROUGH(redlock_quorum_status, votes_needed)
#define FIRST_MEMBER SIZED_THROUGH(redlock_member, recovering_ms)
#define FIRST_QUORUM_OPTIONS SIZED_THROUGH(redlock_quorum_options, progress_context)
#define FIRST_BREAK_OPTIONS SIZED_THROUGH(redlock_break_options, retry_ms)
#define FIRST_BREAK_REPORT SIZED_THROUGH(redlock_break_report, verdicts)
#define FIRST_WAIT_STATUS SIZED_THROUGH(redlock_wait_status, ahead)
#define FIRST_WHY SIZED_THROUGH(redlock_why_report, node)
#define FIRST_FENCE_GATE_OPTIONS SIZED_THROUGH(redlock_fence_gate_options, create)

static inline size_t sized_read(const void *program) {
    size_t size;
    memcpy(&size, program, sizeof size);
    return size;
}

/* Fills the program's struct of `size` bytes from ours of `known` bytes. */
static inline void sized_fill(void *program, size_t size, const void *ours, size_t known) {
    if (size < sizeof size) return;
    memset(program, 0, size);
    memcpy(program, ours, size < known ? size : known);
    memcpy(program, &size, sizeof size);
}

/* Copies the program's options over our defaults. False: too short, or they set something that we
 * do not know. */
static inline bool sized_take(void *ours, size_t known, const void *program, size_t first) {
    size_t size = sized_read(program);
    if (size < first) return false;
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)program)[i] != 0) return false;
    memcpy(ours, program, size < known ? size : known);
    memcpy(ours, &known, sizeof known);
    return true;
}

/* Element `i` of the program's array. The first element's size is the distance between elements. */
static inline void *sized_element(void *array, size_t i) {
    return (char *)array + i * sized_read(array);
}

static inline bool sized_array_fits(void *array, size_t count, size_t first) {
    if (count > 0 && sized_read(array) < first) return false;
    for (size_t i = 1; i < count; i++)
        if (sized_read(sized_element(array, i)) != sized_read(array)) return false;
    return true;
}

#endif
