/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The listening sockets: Unix sockets, TCP, and sockets that systemd passes.
 */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

struct gateway;

/* Opens all sockets that the options name, and takes all that were passed. False after a message;
 * the caller still calls listen_close(). */
bool listen_open(struct gateway *gateway);
/* Writes the addresses as they are in use, separated by commas; returns `out`. */
char *listen_names(const struct gateway *gateway, char *out, size_t size);
/* Accepts no more connections. Removes the gateway's own Unix sockets from the file system. */
void listen_close(struct gateway *gateway);

#endif
