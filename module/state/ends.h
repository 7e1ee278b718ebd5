/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Ends leases and reservations when their time has come, in small portions, by one timer in the
 * server's event loop. A lease that has ended is refused without it too: each command reads the
 * clock. The timer takes it out of the table and announces it to the clients that wait. */
#ifndef MODULE_ENDS_H
#define MODULE_ENDS_H

#include "state/state.h"

/* SERVER_OK, or SERVER_ERR after a line in the log. */
int ends_begin(struct server_ctx *ctx);
void ends_stop(void);
/* All that is due, before the module decides whether it may be unloaded. */
void ends_all(void);
/* A lease was set, or a wait queue changed: the timer must not come later than its end. */
void ends_changed(void);

#endif
