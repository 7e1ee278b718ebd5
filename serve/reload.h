/* SPDX-License-Identifier: BSD-2-Clause
 *
 * SIGHUP: the password file and the files of TLS are read again. Connections that there are stay,
 * on both sides.
 */
#ifndef SERVE_RELOAD_H
#define SERVE_RELOAD_H

#include <stdbool.h>

struct gateway;

bool reload_open(struct gateway *gateway); /* false: errno says why */
/* False: a file is still being read. The client of the nodes must not be freed then. */
bool reload_close(struct gateway *gateway);

#endif
