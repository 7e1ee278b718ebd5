/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gateway's side of redlock-script: the process that starts and ends the workers. To start a
 * process takes milliseconds from a program as large as the gateway, and would copy what the
 * gateway knows; from a small one, which knows nothing, a tenth of one.
 */
#ifndef SERVE_SPAWNER_H
#define SERVE_SPAWNER_H

#include <stdbool.h>
#include <sys/types.h>

#include "spawner_wire.h"

struct spawner {
    pid_t pid; /* 0: it does not run */
    int channel;
    int program; /* the file, so that one installed later in its place is not taken for it; -1 */
};

void spawner_init(struct spawner *spawner);
/* After spawner_close(). */
void spawner_free(struct spawner *spawner);

/* False: errno says why it could not be started. It may still end at once. */
bool spawner_open(struct spawner *spawner);
/* Its workers end with it. */
void spawner_close(struct spawner *spawner);
/* A worker in the slot; the channel to it, which does not block, or -1. */
int spawner_start(struct spawner *spawner, unsigned slot);
/* False: the spawner does not do what it should. */
bool spawner_end(struct spawner *spawner, unsigned slot);

#endif
