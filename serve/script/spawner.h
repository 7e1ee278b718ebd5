/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gateway's side of redlock-script, the process that starts and ends the workers. Starting a
 * process takes milliseconds in a program as large as the gateway, and would copy the gateway's
 * secrets. A small program without secrets does it in a tenth of that time.
 */
#ifndef SERVE_SPAWNER_H
#define SERVE_SPAWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SPAWNER_SLOTS 16

/* The requests to it, each in a packet of its own. */
enum spawner_order {
    SPAWNER_START, /* starts a worker in the free slot; its channel comes with the packet */
    SPAWNER_END    /* ends the worker of the slot at once; then the slot is free */
};

struct spawner_packet {
    uint32_t order, slot;
};

struct spawner {
    pid_t pid; /* 0: not running */
    int channel;
    /* the program's file, so that a version installed later is not started by mistake; -1 */
    int program;
};

void spawner_init(struct spawner *spawner);
/* The state after spawner_close(). */
void spawner_free(struct spawner *spawner);

/* False: errno holds the reason. The process may still end at once. */
bool spawner_open(struct spawner *spawner);
/* Ends the process, and its workers with it. */
void spawner_close(struct spawner *spawner);
/* Starts a worker in the slot. Returns the channel to it, which does not block, or -1. */
int spawner_start(struct spawner *spawner, unsigned slot);
/* False: the spawner does not work. */
bool spawner_end(struct spawner *spawner, unsigned slot);

#endif
