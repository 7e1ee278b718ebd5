/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "settings.h"

/* argv[0..argc) are the operands. Returns the exit status. */
int command_run(struct settings *settings, int argc, char **argv);
int command_acquire(struct settings *settings, int argc, char **argv);
int command_extend(struct settings *settings, int argc, char **argv);
int command_release(struct settings *settings, int argc, char **argv);
int command_show(struct settings *settings, int argc, char **argv);
int command_break(struct settings *settings, int argc, char **argv);
int command_wait(struct settings *settings, int argc, char **argv);
int command_doctor(struct settings *settings, int argc, char **argv);
int command_quorum(struct settings *settings, int argc, char **argv);
int command_gate(struct settings *settings, int argc, char **argv);
int command_elect(struct settings *settings, int argc, char **argv);
int command_watch(struct settings *settings, int argc, char **argv);
int command_up(struct settings *settings, int argc, char **argv);

/* What a command reports with --json if its configuration is refused. */
void refuse_run(const struct settings *settings, int status, int argc, char **argv);
void refuse_wait(const struct settings *settings, int status, int argc, char **argv);
/* Of a command on one resource. */
void refuse_lock(const struct settings *settings, int status, int argc, char **argv);
void refuse_any(const struct settings *settings, int status, int argc, char **argv);

#endif
