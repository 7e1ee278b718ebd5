/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Standard error, which may be a pipe that nobody reads, a terminal after ^S, or a file on a disk
 * that hangs. A thread of its own does the writing, so only this thread ever waits for a reader.
 * What it cannot write in time stays in a bounded buffer. What finds no room there is dropped and
 * counted, and the count is printed where the text is missing. The flags of the descriptor are left
 * alone: other processes share them.
 */
#ifndef CLI_DIAGNOSTICS_H
#define CLI_DIAGNOSTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { DIAGNOSTIC_BYTES_MAX = 4096 }; /* of one text: a pipe takes as much in one piece */

/* Queues the text, which is written in one piece. The caller waits until it is written, so that the
 * text stands in its place among all that is printed, but for no longer than 20 ms, and for no more
 * than 2 % of its time. */
void diagnostics_write(const char *text, size_t bytes);
/* The same for a text that the next one replaces: it is left out when older texts are not written
 * yet. */
void diagnostics_write_passing(const char *text, size_t bytes);
/* From here on no caller waits: the process renews locks, or serves clients. */
void diagnostics_never_wait(void);
/* Waits until all is written, for at most 3 s. A descriptor that is full and takes nothing for
 * 300 ms has no reader. exit(3) does this; call it before _exit(2) and exec(2). */
void diagnostics_flush(void);
/* For signal handlers: past the queue, and only if it can be written at once. */
void diagnostics_write_from_handler(const char *text, size_t bytes);
/* A stream whose text goes the same way; never closed. */
FILE *diagnostics_stream(void);

#endif
