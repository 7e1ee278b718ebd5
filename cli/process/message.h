/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages to people, on standard error, and foreign bytes made safe for a terminal.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <stddef.h>
#include <stdio.h>

/* Writes "redlock: ..." at once, so that lines of several processes do not mix. It never waits for
 * a slow reader (diagnostics.h). Control characters in the text, newlines included, become \xNN:
 * the text may come from a server or a file. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last such message of this process, without "redlock: "; "": none. */
const char *last_complaint(void);

/* How long such a line may be; 0: standard error is not a terminal that can rewrite a line. */
size_t passing_columns(void);
/* On a terminal, writes one line that the next message replaces; elsewhere writes nothing. Never
 * waits. */
void report_passing(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Clears that line. */
void end_passing(void);
/* The cursor is no longer in that line, so the next message does not clear it. */
void forget_passing(void);
/* The same, async-signal-safe. */
void end_passing_from_handler(void);

/* Converts bytes to text: well-formed UTF-8 passes, control characters and stray bytes become \xNN.
 * A key or an owner is foreign data, and must not control the reader's terminal. Returns `out`,
 * always terminated; cut at the end if necessary. */
char *printable(char *out, size_t size, const void *bytes, size_t count);

/* Writes shell code to standard output that sets the variable, for any value. */
void print_export(const char *name, const char *value);

/* Length of the well-formed UTF-8 sequence at the start of `bytes`, 0 if there is none. */
size_t utf8_length(const unsigned char *bytes, size_t count);

#endif
