/* SPDX-License-Identifier: BSD-2-Clause
 *
 * elect: run a command while leading, and campaign again when the leadership was lost. Each term is
 * a `redlock run` of its own (run.h), whose lock has a term that observers see.
 */
#include "frame/arguments.h"
#include "frame/commands.h"
#include "frame/session.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "run.h"

int command_elect(struct settings *settings, int argc, char **argv) {
    int status = argc > 0 ? resource_check(settings, argv[0]) : EXIT_USAGE_ERROR;
    if (argc == 0) complain("redlock elect needs a name and a command; try 'redlock elect --help'");
    char **command = status == 0 ? arguments_command(settings, "elect", "NAME", argv) : NULL;
    if (status == 0 && command == NULL) status = EXIT_USAGE_ERROR;
    if (status != 0) {
        refuse_run(settings, status, argc, argv);
        return status;
    }
    return run_supervised(settings, argv[0], command, true);
}
