/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock(1): distributed locks on the command line.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <redlock.h>

#include "frame/arguments.h"
#include "frame/commands.h"
#include "config/nearest.h"
#include "frame/program.h"
#include "frame/verbs.h"
#include "process/sibling.h"
#include "process/exit_codes.h"
#include "process/message.h"

/* Without a main: a separate program next to this one contains the command. */
static const struct command commands[] = {
    {"run", COMMAND_RUN, "[options] RESOURCE [--] COMMAND [ARGUMENT ...]",
     "Hold the lock, renewed, while COMMAND runs.", "redlock run nightly -- ./backup.sh", true,
     command_run, refuse_run},
    {"acquire", COMMAND_ACQUIRE, "[options] RESOURCE",
     "Take the lock and leave it held; print its token and validity.",
     "redlock acquire -t 1m deploy", false, command_acquire, refuse_lock},
    {"extend", COMMAND_EXTEND, "[options] RESOURCE [-]", "Extend a lock by its token.",
     "REDLOCK_TOKEN=$token REDLOCK_FENCE=$fence redlock extend -t 1m deploy", false, command_extend,
     refuse_lock},
    {"release", COMMAND_RELEASE, "[options] RESOURCE [-]", "Release a lock by its token.",
     "echo \"$token\" | redlock release deploy -", false, command_release, refuse_lock},
    {"show", COMMAND_SHOW, "[options] [RESOURCE ...]", "Show who holds what, node by node.",
     "redlock show nightly", false, command_show, refuse_any},
    {"break", COMMAND_BREAK, "[options] --reason TEXT RESOURCE",
     "End another client's lock, and log why.",
     "redlock break --reason 'its machine hangs' nightly", false, command_break, refuse_lock},
    {"wait", COMMAND_WAIT, "[options] RESOURCE ...",
     "Wait until nobody holds the lock, and take nothing.", "redlock wait -w 10m nightly", false,
     command_wait, refuse_wait},
    {"elect", COMMAND_ELECT, "[options] NAME [--] COMMAND [ARGUMENT ...]",
     "Run COMMAND while leading; campaign again when the lead is lost.",
     "redlock elect scheduler -- ./scheduler.sh", true, command_elect, refuse_run},
    {"watch", COMMAND_WATCH, "[options] NAME", "Report who leads, and under which term.",
     "redlock watch --once scheduler", false, command_watch, refuse_any},
    {"top", 0, "", "Watch nodes, locks and waiters as they change.", NULL, false, NULL, NULL},
    {"doctor", COMMAND_DOCTOR, "[options]",
     "Report whether the servers are fit to hold locks, and how to fix them.", "redlock doctor",
     false, command_doctor, refuse_any},
    {"quorum", COMMAND_QUORUM,
     "[options] init | status | add URL | remove MEMBER | replace MEMBER URL | set-ttl-max DURATION",
     "Make nodes a guarded quorum, show its members, change them or its ttl_max.",
     "redlock quorum status", false, command_quorum, refuse_any},
    {"gate", COMMAND_GATE, "[options] FILE [--] COMMAND [ARGUMENT ...]",
     "Replace FILE by what COMMAND prints, unless a later holder wrote it.",
     "redlock run nightly -- redlock gate report.txt -- ./report.sh", true, command_gate, NULL},
    {"serve", 0, "", "Run a Redis-protocol gateway for locks: any client, any language.", NULL,
     false, NULL, NULL},
    {"exporter", 0, "", "Serve metrics of the nodes and their locks to Prometheus.", NULL, false,
     NULL, NULL},
    {"up", COMMAND_UP, "[options] [--] [COMMAND [ARGUMENT ...]]",
     "Start a local quorum of servers, for COMMAND or until ^C.",
     "redlock up -- redlock run -v hello -- date", true, command_up, NULL},
    {"bench", 0, "", "Measure what locks cost, and compare with the least they could cost.", NULL,
     false, NULL, NULL},
    {"sim", 0, "", "Replay and explore what can happen to a lock, in a simulated world.", NULL,
     false, NULL, NULL},
};
static const size_t commands_count = sizeof commands / sizeof commands[0];

static int help(void) {
    printf(
        "usage: redlock COMMAND [options] ...\n\n"
        "Distributed locks held on a majority of independent Redis or Valkey servers.\n\nCommands:\n");
    for (size_t i = 0; i < commands_count; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("  %-9s %s\n  %-9s %s\n", "help", "Show this text, or a command's: redlock help run.",
           "version", "The version.");
    printf(
        "\nNodes: -N URL[,URL...], else REDLOCK_NODES, else the file REDLOCK_CONFIG names, else /etc/redlock.conf.\n"
        "Exit status: 75 held by another, 69 no quorum, 80 lost, 64 usage, 78 configuration.\n"
        "To try it out: redlock up -- redlock run -v hello -- date\n");
    return EXIT_OK;
}

/* Names that other tools have for what is here under another. */
static const struct {
    const char *name, *hint;
} elsewhere[] = {
    {"list", "'redlock show' lists the locks"},
    {"ls", "'redlock show' lists the locks"},
    {"status", "'redlock quorum status' shows the members, 'redlock show' the locks"},
    {"lock",
     "'redlock run' holds a lock for a command, 'redlock acquire' takes one and leaves it held"},
    {"unlock", "'redlock release' does that"},
    {"renew", "'redlock extend' does that"},
    {"init", "'redlock quorum init' does that"},
    {"check", "'redlock doctor' does that"},
    {"completion",
     "completion for bash, zsh and fish is installed; that for bash is " REDLOCK_COMPLETION},
};

static bool hint_at(const char *name) {
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (strcmp(elsewhere[i].name, name) != 0) continue;
        complain("unknown command '%s'; %s", name, elsewhere[i].hint);
        return true;
    }
    return false;
}

static const struct command *find_command(const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < commands_count; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
        nearest_offer(&nearest, commands[i].name);
    }
    if (hint_at(name)) return NULL;
    if (nearest.best != NULL) {
        complain("unknown command '%.60s'; did you mean '%s'?", name, nearest.best);
    } else {
        complain("unknown command '%.60s'; try 'redlock help'", name);
    }
    return NULL;
}

/* "redlock -N URL run ..." becomes "redlock run -N URL ...". False: *status is the exit
 * status, after a message or the help that was asked for. */
static bool command_first(int argc, char **argv, int *status) {
    static const struct command before = {
        .name = "COMMAND", .bit = COMMAND_BEFORE, .runs_another = true};
    struct settings settings;
    settings_init(&settings);
    const int first = arguments_read(&before, &settings_options, &settings, argc, argv);
    *status = EXIT_USAGE_ERROR;
    if (settings.help) {
        *status = help();
    } else if (first == argc) {
        complain("no command after the options; try 'redlock help'");
    } else if (first > 0) {
        char *name = argv[first];
        memmove(argv + 2, argv + 1, (size_t)(first - 1) * sizeof *argv);
        argv[1] = name;
        *status = EXIT_OK;
    }
    const bool goes_on = *status == EXIT_OK && !settings.help;
    settings_free(&settings);
    return goes_on;
}

static bool is_asked(const char *word) {
    static const char *const asked[] = {"--version", "-V", "--help", "-h"};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (strcmp(word, asked[i]) == 0) return true;
    return false;
}

static int dispatch(int argc, char **argv) {
    int status;
    if (argc > 1 && argv[1][0] == '-' && !is_asked(argv[1]) && !command_first(argc, argv, &status))
        return status;
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL) {
        complain("no command; try 'redlock help'");
        return EXIT_USAGE_ERROR;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        printf("redlock %s\n", redlock_version());
        return EXIT_OK;
    }
    bool asks = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    if (asks && argc < 3) return help();
    const struct command *command = find_command(asks ? argv[2] : name);
    if (command == NULL) return EXIT_USAGE_ERROR;
    if (command->main == NULL) {
        char option[] = "--help", *help_line[] = {argv[2], option, NULL};
        return asks ? sibling_main(command->name, 2, help_line)
                    : sibling_main(command->name, argc - 1, argv + 1);
    }
    if (!asks) return program_run(command, argc - 1, argv + 1);
    const char *verb = argc > 3 && has_verbs(command) ? argv[3] : NULL;
    if (verb != NULL && verb_wanted(command, verb) == NULL) return EXIT_USAGE_ERROR;
    arguments_help(command, &settings_options, verb);
    return EXIT_OK;
}

int main(int argc, char **argv) { return program_main(dispatch, argc, argv); }
