/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The requests of the gateway to the spawner, each in a packet of its own.
 */
#ifndef SERVE_SPAWNER_WIRE_H
#define SERVE_SPAWNER_WIRE_H

#include <stdint.h>

#define SPAWNER_SLOTS 16

enum spawner_order {
    SPAWNER_START, /* starts a worker in the free slot; its channel comes with the packet */
    SPAWNER_END    /* ends the worker of the slot at once; then the slot is free */
};

struct spawner_packet {
    uint32_t order, slot;
};

#endif
