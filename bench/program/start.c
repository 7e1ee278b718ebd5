/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How long the command takes: until a process of it has ended, next to a process that does nothing.
 * `redlock run` holds a lock meanwhile, and starts such a process itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/sibling.h"

enum { WORDS = 16 };

/* Its output is not the measurement's; its messages are. */
static int start_once(char *const words[]) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int ended = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        complain("cannot run '%s': %s", words[0], strerror(error));
        return EXIT_SYSTEM;
    }
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
    if (ended == 0 || meters_are_interrupted()) return 0;
    complain("'%s %s' failed", words[0], words[1] != NULL ? words[1] : "");
    return EXIT_SYSTEM;
}

static int run(char *const words[], struct meter *meter) {
    int64_t from, to;
    int status = 0;
    meter_start(meter, meter->closes - meter->opens);
    for (from = now_ns(); status == 0; from = to) {
        const bool had_begun = meter->began != 0, goes_on = meter_turn(meter, from);
        if (!had_begun && meter->began != 0) meter->cpu_began += cpu_ns(RUSAGE_CHILDREN);
        if (!goes_on) break;
        status = start_once(words);
        to = now_ns();
        if (status == 0) meter_cycle(meter, from, to);
    }
    meter->cpu_ended += cpu_ns(RUSAGE_CHILDREN);
    return status;
}

int start_run(struct bench *bench, const struct measure *measure, size_t side,
              struct meter *meter) {
    char program[PATH_MAX], resource[64], none[] = "true", version[] = "--version";
    char *const nothing[] = {none, NULL}, *const only[] = {program, version, NULL};
    if (side == 0) return run(nothing, meter);
    if (sibling_program(program, sizeof program) != 0) return EXIT_SYSTEM;
    if (measure->resources == 0) return run(only, meter);
    char verb[] = "run", quiet[] = "-q", wait[] = "-w", wait_for[] = "10s", mode[] = "--mode",
         classic[] = "classic", guarded[] = "guarded", dashes[] = "--";
    snprintf(resource, sizeof resource, "redlock-bench:%ld:start", (long)getpid());
    char *const words[WORDS] = {program,
                                verb,
                                quiet,
                                wait,
                                wait_for,
                                mode,
                                bench->mode == REDLOCK_MODE_GUARDED ? guarded : classic,
                                resource,
                                dashes,
                                none};
    bench_nodes_export(bench);
    return run(words, meter);
}
