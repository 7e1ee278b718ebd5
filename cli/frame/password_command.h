/* SPDX-License-Identifier: BSD-2-Clause
 *
 * node-password-command: a line for /bin/sh that prints the nodes' password. A process of its own
 * runs it, which is started before anything else: what `redlock run` runs is ended by descent, and
 * this command is not a part of that.
 */
#ifndef CLI_PASSWORD_COMMAND_H
#define CLI_PASSWORD_COMMAND_H

#include <redlock.h>

/* Starts that process; `line` NULL: does nothing. 0, or the exit status
 * after a message. */
int password_command_begin(const char *line);
/* Ends it. */
void password_command_end(void);

/* For the options of a client: runs the command and returns the first line that it prints. */
int password_command_give(void *context, char *password, size_t size, struct redlock_error *error);
/* Between these two no password is waited for, so that a client can be freed at once. */
void password_command_cancel(void);
void password_command_resume(void);

#endif
