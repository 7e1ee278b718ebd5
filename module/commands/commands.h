/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands, in groups. docs/operate/native.md describes what each takes and returns. */
#ifndef MODULE_COMMANDS_H
#define MODULE_COMMANDS_H

#include "state/state.h"

struct command {
    const char *name;
    server_command_fn *run;
    const char *flags;
    enum { NO_KEYS, ONE_KEY, KEYS_COUNTED } keys;
    unsigned key_flags;
    int arity; /* negative: at least so many words */
    const char *summary, *complexity;
};

/* Each ends with a row without a name. */
extern const struct command lock_commands[], share_commands[], look_commands[], turn_commands[],
    slot_commands[], record_commands[], server_commands[];

/* SERVER_OK, or SERVER_ERR after a line in the log. */
int commands_add(struct server_ctx *ctx);

/* INFO redlock */
void info_redlock(struct server_info_out *out, int for_crash_report);

#endif
