/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is wrong with a set of servers, as a function of what doctor learned of them.
 */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkup.h"

enum severity {
    /* an error means: unfit to hold locks */
    SEVERITY_ERROR,
    SEVERITY_WARNING,
    SEVERITY_NOTE
};

struct finding {
    const char *name; /* part of the interface: docs/man/redlock-doctor.1 */
    enum severity severity;
    uint32_t nodes; /* bit i: node i */
    char why[320];
    const char *cure;
};

struct findings {
    size_t count, errors, warnings;
    struct finding list[128];
};

/* The same name, reason and cure on several nodes make one finding. */
void findings_add(struct findings *findings, enum severity severity, const char *name, size_t node,
                  const char *cure, const char *why, ...) __attribute__((format(printf, 6, 7)));
#define EVERY_NODE SIZE_MAX

/* All findings, the gravest first. */
void findings_judge(const struct checkup *checkup, struct findings *findings);
const char *severity_name(enum severity severity);

/* Whether the server is bound only to the loopback device; false when that is not known. */
bool bound_to_loopback(const struct redlock_server *info);
/* The server accepts connections from other machines, without a password, and protected mode does
 * not stop them. */
bool open_to_the_world(const struct examined *node);

/* What remains of the locks after a restart. */
enum remains {
    REMAINS_UNKNOWN,
    REMAINS_NOTHING,
    REMAINS_SNAPSHOT,
    REMAINS_MOST,
    REMAINS_LAST_SECOND,
    REMAINS_ALL
};
enum remains remains_after_restart(const struct redlock_server *info);

#endif
