/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Standard error may be a pipe without a reader, a terminal after ^S, or a file on a disk that
 * hangs. A separate thread writes it, so only this thread ever waits for a reader. Text that cannot
 * be written in time stays in a bounded buffer. Text that does not fit is dropped and counted, and
 * the count is printed where the text is missing. The flags of the descriptor stay unchanged,
 * because other processes share them.
 */
#ifndef CLI_DIAGNOSTICS_H
#define CLI_DIAGNOSTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { DIAGNOSTIC_BYTES_MAX = 4096 }; /* of one text: a pipe takes as much in one piece */

/* Queues the text, which is written in one piece. The caller waits until it is written, so that the
 * text keeps its place among all output, but for at most 20 ms, and for at most 2 % of its time. */
void diagnostics_write(const char *text, size_t bytes);
/* Queues a text that the next one replaces. It is left out when older texts are not written yet.
 * The caller does not wait. */
void diagnostics_write_passing(const char *text, size_t bytes);
/* From here on callers never wait: the process renews locks, or serves clients. */
void diagnostics_never_wait(void);
/* Waits until all is written, for at most 3 s. A descriptor that is full and takes nothing for 300
 * ms is taken to have no reader. exit(3) calls this; call it before _exit(2) and exec(2). */
void diagnostics_flush(void);
/* For signal handlers: bypasses the queue, and writes only if that is possible at once. */
void diagnostics_write_from_handler(const char *text, size_t bytes);
/* A stream whose text uses the same queue; it is never closed. */
FILE *diagnostics_stream(void);

#endif
