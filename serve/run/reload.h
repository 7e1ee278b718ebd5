/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SERVE_RELOAD_H
#define SERVE_RELOAD_H

#include <stdbool.h>

struct gateway;

/* SIGHUP: the gateway reads the password file and the TLS files again. Existing connections stay
 * open, to clients and to nodes. False: errno holds the reason. */
bool reload_open(struct gateway *gateway);
/* False: a thread still reads a file. The redlock client must not be freed then. */
bool reload_close(struct gateway *gateway);

#endif
