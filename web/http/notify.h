/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a service reports to its manager (sd_notify(3)).
 */
#ifndef WEB_NOTIFY_H
#define WEB_NOTIFY_H

/* "READY=1". Unlike libsystemd's function it never waits for the manager: while nobody reads
 * NOTIFY_SOCKET and its queue is full, the report is dropped. */
void notify_manager(const char *state);

#endif
