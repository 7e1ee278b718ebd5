/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A connection's script, that of the request under way.
 */
#ifndef SERVE_COMMAND_SCRIPT_H
#define SERVE_COMMAND_SCRIPT_H

#include <stdbool.h>

#include "known.h"
#include "script.h"
#include "worker_task.h"

struct script {
    struct worker_task task; /* of one that needs an interpreter */
    struct known_run known;
    char sha[SCRIPT_SHA_BYTES + 1];
    bool changed;    /* a call has been made that may have changed the key */
    unsigned deaths; /* so many workers have died of it, or under it */
};

#endif
