/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A fleet: thousands of clients, one process each, that hold locks and wait for them, while zones
 * fail and nodes are restarted. It answers how many messages a node gets then, a second.
 */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include <stdbool.h>
#include <stdint.h>

struct fleet_options {
    uint64_t seed;
    unsigned clients; /* FLEET_CLIENTS_MIN .. FLEET_CLIENTS_MAX */
    bool guarded, native;
    const char *svg; /* NULL: no plot */
};
enum { FLEET_CLIENTS_MIN = 100, FLEET_CLIENTS_MAX = 20000 };

/* Runs it and prints a table. False: a lock was lost or granted twice, or a waiter not served. */
bool fleet_run(const struct fleet_options *options);

#endif
