/* SPDX-License-Identifier: BSD-2-Clause */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config.h"
#include "password_command.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/signals.h"

/* For the connections to 15 nodes, twice while they are made anew, and for all else. */
enum { DESCRIPTORS_NEEDED = 64 };

int program_check_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS_NEEDED)
        return EXIT_OK;
    complain("this process may open %llu files, and redlock needs %d: raise the limit (ulimit -n "
             "%d, LimitNOFILE=)",
             (unsigned long long)limit.rlim_cur, DESCRIPTORS_NEEDED, DESCRIPTORS_NEEDED);
    return EXIT_SYSTEM;
}

/* 0, or the exit status after a message. `gate` makes no connection, and `serve` raises the limit
 * by itself. */
static int check_start(const struct command *command, const char *config_error) {
    const unsigned needs_few = COMMAND_GATE | COMMAND_SERVE;
    if (config_error[0] == '\0')
        return (command->bit & needs_few) != 0 ? EXIT_OK : program_check_descriptors();
    complain("%s", config_error);
    return EXIT_CONFIG;
}

/* Also for the redlock that a command calls, wherever its current directory is. */
static void name_file(const char *config) {
    char *whole = realpath(config, NULL);
    setenv("REDLOCK_CONFIG", whole != NULL ? whole : config, 1);
    free(whole);
}

int program_run(const struct command *command, int argc, char **argv) {
    struct settings settings;
    settings_init(&settings);
    char config_error[1024] = "";
    int status = EXIT_OK, first = arguments_read(command, &settings_options, &settings, argc, argv);
    /* The command line overrides the file, but it names the profile, and its mistakes and --help
     * are reported first: so it is read twice. `up` and `gate` need no nodes. */
    const unsigned without_file = COMMAND_UP | COMMAND_GATE;
    if (first >= 0 && !settings.help && (command->bit & without_file) == 0) {
        struct settings again;
        settings_init(&again);
        if (settings.config != NULL) name_file(settings.config);
        again.profile = settings.profile;
        settings.profile = NULL;
        settings_free(&settings);
        settings = again;
        config_load(&settings, config_error, sizeof config_error);
        first = arguments_read(command, &settings_options, &settings, argc, argv);
    }
    if (first < 0) {
        status = EXIT_USAGE_ERROR;
    } else if (settings.help) {
        arguments_help(command, &settings_options, first < argc ? argv[first] : NULL);
    } else if ((status = check_start(command, config_error)) != EXIT_OK) {
        if (command->refuse != NULL) command->refuse(&settings, status, argc - first, argv + first);
    } else {
        if (!settings.quiet) config_check_secrecy(&settings);
        settings.dashes_first = strcmp(argv[first - 1], "--") == 0;
        status = password_command_begin(settings.client.node.password_command);
        if (status == EXIT_OK) status = command->main(&settings, argc - first, argv + first);
        password_command_end();
    }
    settings_free(&settings);
    return status;
}

/* A connection or a message must not get a descriptor number that the caller left closed. Reading
 * or writing there fails as before, and commands that this process starts find it closed as well.
 */
static void fill_standard_descriptors(void) {
    while (true) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd > STDERR_FILENO || fd < 0) {
            if (fd >= 0) close(fd);
            return;
        }
        if (fd != STDIN_FILENO) continue;
        close(fd);
        if (open("/dev/null", O_WRONLY | O_CLOEXEC) < 0) return;
    }
}

int program_main(int (*dispatch)(int argc, char **argv), int argc, char **argv) {
    signals_begin();
    fill_standard_descriptors();
    int status = dispatch(argc, argv);
    if (fflush(stdout) == 0 && ferror(stdout) == 0) return status;
    complain("cannot write the result: %s", strerror(errno));
    return status == EXIT_OK ? EXIT_SYSTEM : status;
}
