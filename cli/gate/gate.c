/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock gate: a command's standard output becomes the next content of a file, unless a higher
 * fence was there before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/fence.h>

#include "frame/arguments.h"
#include "frame/commands.h"
#include "process/child.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/signals.h"
#include "target.h"

extern char **environ;

/* The gate is stored next to one file and knows one resource. */
static const char resource[] = "file";
#define RESOURCE resource, sizeof resource - 1

/* --fence, else REDLOCK_FENCE. 0, or the exit status after a message. */
static int read_fence(struct settings *settings) {
    const char *given = getenv("REDLOCK_FENCE");
    char error[256] = "";
    if (settings->fence != 0) return EXIT_OK;
    if (given == NULL || *given == '\0') {
        complain(
            "no fence: REDLOCK_FENCE is not set and there is no --fence; `redlock run` sets it in guarded mode, "
            "classic mode has no fencing tokens, and without one nothing can be refused");
        return EXIT_USAGE_ERROR;
    }
    if (settings_fence(settings, given, error, sizeof error) == 0) return EXIT_OK;
    complain("REDLOCK_FENCE: %s", error);
    return EXIT_USAGE_ERROR;
}

/* 0, or the exit status after a message. */
static int open_gate(const char *file, struct redlock_fence_gate **gate) {
    struct redlock_fence_gate_options options;
    struct redlock_error error;
    char *path = NULL;
    redlock_fence_gate_options_init(&options);
    options.resources = 1;
    if (asprintf(&path, "%s.fence", file) < 0) {
        complain("out of memory");
        return EXIT_SYSTEM;
    }
    options.path = path;
    int result = redlock_fence_gate_open(&options, gate, &error);
    free(path);
    if (result == REDLOCK_OK) return EXIT_OK;
    complain("%s", error.text);
    return EXIT_SYSTEM;
}

static int refusal(struct redlock_fence_gate *gate, const struct settings *settings,
                   const char *file, int result, const char *consequence) {
    int64_t least = 0;
    if (result != REDLOCK_FENCED) {
        complain("%s.fence: %s: %s", file, redlock_result_text(result),
                 errno == EBADMSG ? "the file is damaged" : strerror(errno));
        return EXIT_SYSTEM;
    }
    if (settings->quiet) return EXIT_LOST;
    if (redlock_fence_least(gate, RESOURCE, &least) == REDLOCK_OK) {
        complain("%s: the lock is lost: fence %" PRId64 " is lower than %" PRId64
                 ", which was here before; %s",
                 file, settings->fence, least, consequence);
    }
    return EXIT_LOST;
}

/* The command gets these itself when the terminal sends them to the whole group; a signal that a
 * process sent only to this one is passed on. This process continues in any case, because the
 * command's end decides. */
static void signals_held(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGQUIT);
}

/* A command that runs, and what it and its descendants print. It ends when the command has exited
 * and no process has its standard output open any more: what comes late belongs to the content, and
 * nobody can write to the file itself. */
struct running {
    pid_t child;
    int status; /* -1: it runs */
    int from;   /* -1: all output has been read */
    int to;
    int error; /* of writing the output; 0: none */
};

static void end_output(struct running *running) {
    close(running->from);
    running->from = -1;
}

static void copy_output(struct running *running) {
    char block[65536];
    const ssize_t got = read(running->from, block, sizeof block);
    if (got < 0 && errno == EINTR) return;
    if (got < 0) running->error = errno;
    for (ssize_t done = 0, now; done < got; done += now) {
        now = write(running->to, block + done, (size_t)(got - done));
        if (now >= 0) continue;
        running->error = errno;
        break;
    }
    /* after an error the command gets SIGPIPE */
    if (got <= 0 || running->error != 0) end_output(running);
}

static void take_signal(struct running *running, int signals) {
    struct signalfd_siginfo info;
    int status = 0;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info) return;
    const int signal = (int)info.ssi_signo;
    if (signal == SIGCHLD) {
        if (running->status >= 0 || waitpid(running->child, &status, WNOHANG) <= 0) return;
        running->status =
            WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (running->status >= 0) {
        running->status = EXIT_BY_SIGNAL + signal; /* it left others behind, which go on printing */
    } else if (info.ssi_code <= 0) {
        kill(running->child, signal);
    }
}

static void wait_for(struct running *running, int signals) {
    while (running->status < 0 || (running->status == 0 && running->from >= 0)) {
        struct pollfd ready[] = {{.fd = signals, .events = POLLIN},
                                 {.fd = running->from, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0) continue;
        if (ready[0].revents != 0) take_signal(running, signals);
        if (ready[1].revents != 0) copy_output(running);
    }
}

static int start(pid_t *child, char **argv, int output, const sigset_t *mask) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    if (signals_inherited_xfsz()->sa_handler == SIG_DFL) sigaddset(&defaults, SIGXFSZ);
    if (posix_spawn_file_actions_init(&actions) != 0) return ENOMEM;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The command's exit status, or ours. */
static int run(char **argv, const struct draft *draft) {
    sigset_t held, mask;
    int ends[2];
    struct running running = {.status = -1, .to = draft->fd};
    signals_held(&held);
    signal(SIGCHLD, SIG_DFL); /* if it stayed ignored, the command's status would be lost */
    sigprocmask(SIG_BLOCK, &held, &mask);
    const int signals = signalfd(-1, &held, SFD_CLOEXEC);
    if (signals < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        complain("cannot run '%s': %s", argv[0], strerror(errno));
        return EXIT_SYSTEM;
    }
    const int error = start(&running.child, argv, ends[1], &mask);
    close(ends[1]);
    running.from = ends[0];
    if (error == 0) wait_for(&running, signals);
    if (running.from >= 0) end_output(&running);
    close(signals);
    if (running.error != 0) {
        complain("cannot write next to %s: %s", draft->path, strerror(running.error));
        return EXIT_SYSTEM;
    }
    if (error == 0) return running.status;
    return child_failed(argv[0], error);
}

struct replacement {
    struct draft *draft;
    int error; /* 0: done */
};

static void replace(void *context) {
    struct replacement *replacement = context;
    replacement->error = draft_replace(replacement->draft) == 0 ? 0 : errno;
}

static int publish(struct redlock_fence_gate *gate, const struct settings *settings,
                   struct draft *draft) {
    struct replacement replacement = {.draft = draft};
    const char *file = draft->path;
    if (target_sync(draft) != 0) {
        complain("cannot write next to %s: %s", file, strerror(errno));
        return EXIT_SYSTEM;
    }
    int result = redlock_fence_do(gate, RESOURCE, settings->fence, replace, &replacement);
    if (result != REDLOCK_OK) return refusal(gate, settings, file, result, "it was not replaced");
    if (replacement.error == 0) return EXIT_OK;
    if (draft->placed)
        complain(
            "%s is replaced, but its directory could not be written to disk: %s; a power cut may bring the old content back",
            file, strerror(replacement.error));
    else
        complain("cannot replace %s: %s", file, strerror(replacement.error));
    return EXIT_SYSTEM;
}

/* The first call reserves the fence: the command may read the file, and a client that read it
 * before must not write after that. */
static int guarded(struct redlock_fence_gate *gate, const struct settings *settings,
                   struct draft *draft, char **argv) {
    int result = redlock_fence_admit(gate, RESOURCE, settings->fence);
    if (result != REDLOCK_OK)
        return refusal(gate, settings, draft->path, result, "the command was not started");
    int status = run(argv, draft);
    if (status == EXIT_OK) return publish(gate, settings, draft);
    if (settings->verbose)
        complain("%s was not replaced: the command exited %d", draft->path, status);
    return status;
}

/* The name decides even if the file is absent or damaged: FILE.fence is that of FILE. The content
 * decides whatever the name is: a program keeps its gate where it likes. */
static bool is_memory(const char *target) {
    static const char end[] = ".fence";
    const size_t bytes = strlen(target), ending = sizeof end - 1;
    struct redlock_fence_gate_options options;
    struct redlock_fence_gate *gate = NULL;
    if (bytes > ending && strcmp(target + bytes - ending, end) == 0) return true;
    redlock_fence_gate_options_init(&options);
    options.path = target;
    options.create = 0;
    if (redlock_fence_gate_open(&options, &gate, NULL) != REDLOCK_OK) return false;
    redlock_fence_gate_free(gate);
    return true;
}

/* Whether `target`, which is free of links, may have a gate. 0, or the exit status after a
 * message. */
static int check_target(const char *target) {
    char *path = NULL;
    struct stat status;
    if (is_memory(target)) {
        complain("%s is the memory of a gate, which nothing may replace", target);
        return EXIT_USAGE_ERROR;
    }
    if (asprintf(&path, "%s.fence", target) < 0) {
        complain("out of memory");
        return EXIT_SYSTEM;
    }
    const bool linked = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
    if (linked)
        complain(
            "%s is a symbolic link: the memory of a gate must be a file there, because what it "
            "links to may be the memory of another gate, or be replaced; put the file in its "
            "place, or remove the link if no holder of an older fence is alive",
            path);
    free(path);
    return linked ? EXIT_USAGE_ERROR : EXIT_OK;
}

int command_gate(struct settings *settings, int argc, char **argv) {
    if (argc < 1 || argv[0][0] == '\0') {
        complain("'redlock gate' needs a file and a command; try 'redlock gate --help'");
        return EXIT_USAGE_ERROR;
    }
    char **command = arguments_command(settings, "gate", "FILE", argv);
    if (command == NULL) return EXIT_USAGE_ERROR;
    int status = read_fence(settings);
    if (status != EXIT_OK) return status;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, settings->fence);
    struct draft draft;
    if (setenv("REDLOCK_FENCE", text, 1) != 0 || target_open(&draft, argv[0]) != 0)
        return EXIT_SYSTEM;
    struct redlock_fence_gate *gate = NULL;
    status = check_target(draft.path);
    if (status == EXIT_OK) status = open_gate(draft.path, &gate);
    if (status == EXIT_OK) status = guarded(gate, settings, &draft, command);
    redlock_fence_gate_free(gate);
    draft_close(&draft);
    return status;
}
