/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The script of the request that is under way on a connection.
 */
#ifndef SERVE_COMMAND_SCRIPT_H
#define SERVE_COMMAND_SCRIPT_H

#include <stdbool.h>

#include "known.h"
#include "script.h"
#include "worker_task.h"

struct script {
    struct worker_task task; /* of a script that needs an interpreter */
    struct known_run known;
    char sha[SCRIPT_SHA_BYTES + 1];
    bool changed;    /* a call may have changed the key */
    unsigned deaths; /* the number of workers that died while they ran this script */
};

#endif
