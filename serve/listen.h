/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The listening sockets: Unix sockets, TCP, and sockets that systemd passes.
 */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>

struct gateway;

/* Opens all sockets that the options name, and takes all that were passed. False after a message;
 * the caller still calls listen_close(). */
bool listen_open(struct gateway *gateway);
/* Accepts no more connections. Removes the gateway's own Unix sockets from the file system. */
void listen_close(struct gateway *gateway);

#endif
