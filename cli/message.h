/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Words for people, on standard error; and bytes of strangers made fit for a terminal.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <stddef.h>
#include <stdio.h>

/* "redlock: ..." in one write, so that lines of several processes do not mix. A reader that does
 * not read holds nobody up (diagnostics.h). Controls in the text, which may come from a server or a
 * file, become \xNN, newlines too. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* On a terminal, one line that the next word of ours takes the place of; elsewhere nothing. */
void report_passing(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Takes it away. */
void end_passing(void);
/* The same, async-signal-safe. */
void end_passing_from_handler(void);

/* Bytes as text: well-formed UTF-8 passes, controls and stray bytes become \xNN. A key or an owner
 * is somebody else's data, and must not steer the reader's terminal. Returns `out`, always
 * terminated; cut at the end if need be.
 */
char *printable(char *out, size_t size, const void *bytes, size_t count);

/* To standard output as shell code that sets the variable, whatever the value holds. */
void print_export(const char *name, const char *value);

/* Length of the well-formed UTF-8 sequence at the start of `bytes`, 0 if there is none. */
size_t utf8_length(const unsigned char *bytes, size_t count);

#endif
