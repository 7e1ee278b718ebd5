/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where clients come in: Unix sockets, TCP, and what systemd hands over.
 */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>

struct gateway;

/* All that the options name, and all that was handed over. False after a word; what was made is
 * closed by listen_close(). */
bool listen_open(struct gateway *gateway);
/* No more connections. Sockets of its own are removed from the file system. */
void listen_close(struct gateway *gateway);

#endif
