/* SPDX-License-Identifier: BSD-2-Clause
 *
 * up: a local quorum of real servers, for a command or until ^C; it removes everything afterwards.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "frame/commands.h"
#include "janitor.h"
#include "process/sibling.h"
#include "process/boottime.h"
#include "process/child.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/path.h"
#include "process/signals.h"
#include "process/terminal.h"
#include "servers.h"

struct up {
    const struct settings *settings;
    struct inherited_signals inherited;
    struct janitor janitor;
    struct terminal terminal;
    struct servers servers;
    int signal_fd;
    pid_t child; /* 0: no command */
    bool child_exited;
    int child_status;
    int ended_by; /* a signal */
    int64_t kill_at;
};

/* ---- where ------------------------------------------------------------------------------- */

static int is_empty(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) return 0;
    int entries = 0;
    while (readdir(directory) != NULL) entries++;
    closedir(directory);
    return entries <= 2; /* . and .. */
}

static int named_directory(struct up *up) {
    const char *named = up->settings->up.dir;
    if (mkdir(named, 0700) != 0 && (errno != EEXIST || !is_empty(named))) {
        complain("--dir %s: %s", named,
                 errno == EEXIST ? "not an empty directory; name one that is absent or empty"
                                 : strerror(errno));
        return EXIT_USAGE_ERROR;
    }
    if (realpath(named, up->servers.directory) != NULL) return 0;
    complain("--dir %s: %s", named, strerror(errno));
    return EXIT_USAGE_ERROR;
}

static int make_directory(struct up *up) {
    if (up->settings->up.dir != NULL) return named_directory(up);
    const char *where = getenv("TMPDIR");
    snprintf(up->servers.directory, sizeof up->servers.directory, "%s/redlock-up.XXXXXX",
             where != NULL && where[0] == '/' ? where : "/tmp");
    if (mkdtemp(up->servers.directory) != NULL) return 0;
    complain("cannot make %s: %s", up->servers.directory, strerror(errno));
    return EXIT_SYSTEM;
}

/* ---- the command ------------------------------------------------------------------------- */

static void continue_command(struct up *up) {
    if (up->child > 0 && terminal_may_lend(&up->terminal)) terminal_lend(&up->terminal, up->child);
    group_signal(up->child, SIGCONT);
}

static void reap(struct up *up) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (pid == up->child && WIFSTOPPED(status)) {
            if (up->terminal.fd >= 0 &&
                terminal_stop_job(&up->terminal, up->child, WSTOPSIG(status))) {
                continue_command(up);
            }
        } else if (pid == up->child) {
            up->child_exited = true;
            up->child_status = status;
        } else {
            servers_reaped(&up->servers, pid, status);
        }
    }
}

static bool end_was_asked(void *context) {
    struct up *up = context;
    for (int signal; (signal = signals_next(up->signal_fd)) != 0;) {
        if (signal_is_passed_on(signal)) up->ended_by = signal;
    }
    return up->ended_by != 0;
}

static char *assignment(const char *name, const char *value) {
    char *text = NULL;
    return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

/* COMMAND may call redlock, which need not be installed. A PATH that leads to this program already
 * keeps its order, in which a virtual environment may come before the directory of redlock. */
static int offer_redlock(void) {
    char directory[PATH_MAX - sizeof "/redlock"], own[PATH_MAX], found[PATH_MAX];
    struct stat ours, other;
    if (own_directory(directory, sizeof directory) != 0 || strchr(directory, ':') != NULL) return 0;
    snprintf(own, sizeof own, "%s/redlock", directory);
    if (stat(own, &ours) != 0) return 0; /* it has another name */
    if (find_in_path("redlock", found, sizeof found) == 0 && stat(found, &other) == 0 &&
        other.st_dev == ours.st_dev && other.st_ino == ours.st_ino)
        return 0;
    return search_first_in(directory);
}

/* A shell of a person, by its name: nothing else shows that it is one with servers. */
static void introduce_shell(const struct up *up, char *const *argv) {
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    const size_t bytes = strlen(name);
    if (up->settings->quiet || argv[1] != NULL || !up->terminal.lent || !isatty(STDERR_FILENO) ||
        bytes < 2 || strcmp(name + bytes - 2, "sh") != 0)
        return;
    complain("this shell has %zu %snode%s in REDLOCK_NODES, in %s mode; exit ends %s",
             up->servers.count, up->servers.module[0] != '\0' ? "native " : "",
             up->servers.count == 1 ? "" : "s", mode_name(up->servers.mode),
             up->servers.count == 1 ? "it" : "them");
}

static int start_command(struct up *up, char **argv) {
    char *added[] = {
        assignment("REDLOCK_NODES", up->servers.nodes),
        assignment("REDISCLI_AUTH", up->servers.password), /* for redis-cli(1) */
        assignment("REDLOCK_MODE", mode_name(up->servers.mode)),
        assignment("REDLOCK_UP_DIR", up->servers.directory),
        assignment("REDLOCK_QUORUM", up->servers.quorum)}; /* "": of a classic one, none */
    const size_t count = sizeof added / sizeof added[0];
    bool whole = offer_redlock() == 0;
    for (size_t i = 0; i < count; i++) whole = whole && added[i] != NULL;
    char **environment = whole ? environment_with(added, count) : NULL;
    int failed = EXIT_SYSTEM;
    up->terminal.lent = terminal_may_lend(&up->terminal);
    introduce_shell(up, argv);
    struct child_plan plan = {.argv = argv,
                              .environment = environment,
                              .inherited = &up->inherited,
                              .terminal = up->terminal.lent ? up->terminal.fd : -1,
                              .group_to = &up->janitor.pipe};
    pid_t child = environment != NULL ? child_start(&plan, &failed) : -1;
    for (size_t i = 0; i < count; i++) free(added[i]);
    free(environment);
    if (child < 0) return failed;
    up->child = child;
    return 0;
}

static void on_signal(struct up *up, int signal) {
    if (signal == SIGCHLD) return; /* reap() is called in any case */
    if (signal == SIGCONT) {
        continue_command(up);
    } else if (signal == SIGTSTP) {
        if (up->child > 0) group_signal(up->child, SIGTSTP);
        if (up->child == 0) signals_suspend(); /* the servers are in another group and continue */
    } else {
        up->ended_by = signal;
        group_signal(up->child, signal);
        /* ^C is for the command itself; TERM or HUP ends everything. */
        if (up->child > 0 && (signal == SIGTERM || signal == SIGHUP) && up->kill_at == NEVER) {
            up->kill_at = now_ns() + up->settings->kill_after_ms * MS;
            group_signal(up->child, SIGCONT);
        }
    }
}

static int timeout_ms(const struct up *up) {
    int64_t at = servers_next_restart(&up->servers), now = now_ns();
    if (up->kill_at < at) at = up->kill_at;
    if (at == NEVER) return -1;
    return at <= now ? 0 : at - now > 60000 * MS ? 60000 : (int)((at - now) / MS) + 1;
}

static bool is_over(const struct up *up) {
    return up->child > 0 ? up->child_exited : up->ended_by != 0;
}

static void serve(struct up *up) {
    while (!is_over(up)) {
        struct pollfd fds = {.fd = up->signal_fd, .events = POLLIN};
        poll(&fds, 1, timeout_ms(up));
        for (int signal; (signal = signals_next(up->signal_fd)) != 0;) on_signal(up, signal);
        reap(up);
        if (now_ns() >= up->kill_at) {
            up->kill_at = NEVER;
            group_signal(up->child, SIGKILL);
        }
        servers_restart_due(&up->servers);
    }
}

/* Ends the processes that the command left in its group. */
static void end_group(struct up *up) {
    if (up->child == 0) return;
    const int64_t kill_at = now_ns() + up->settings->kill_after_ms * MS,
                  give_up = kill_at + 1000 * MS;
    if (group_lives(up->child)) group_terminate(up->child);
    while (group_lives(up->child) && now_ns() < give_up) {
        if (now_ns() >= kill_at) group_signal(up->child, SIGKILL);
        pause_ms(5);
        reap(up);
    }
    terminal_take(&up->terminal, up->child);
}

/* 0, or the exit status after a message: servers that nobody can find are of no use. */
static int print_environment(const struct up *up) {
    print_export("REDLOCK_NODES", up->servers.nodes);
    print_export("REDLOCK_MODE", mode_name(up->servers.mode));
    print_export("REDISCLI_AUTH", up->servers.password);
    print_export("REDLOCK_UP_DIR", up->servers.directory);
    if (up->servers.mode == REDLOCK_MODE_GUARDED)
        print_export("REDLOCK_QUORUM", up->servers.quorum);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        complain("cannot write the result: %s; the servers are ended", strerror(errno));
        clearerr(stdout);
        return EXIT_SYSTEM;
    }
    if (up->settings->quiet) return 0;
    for (size_t i = 0; i < up->servers.count; i++) {
        complain("node-%u: redis://127.0.0.1:%d (pid %ld)", up->servers.list[i].number,
                 up->servers.list[i].port, (long)up->servers.list[i].pid);
    }
    complain("%zu %snodes are up, in %s mode; ^C ends them", up->servers.count,
             up->servers.module[0] != '\0' ? "native " : "", mode_name(up->servers.mode));
    return 0;
}

static int command_status(const struct up *up) {
    if (up->child == 0) return EXIT_OK;
    return WIFEXITED(up->child_status) ? WEXITSTATUS(up->child_status)
                                       : EXIT_BY_SIGNAL + WTERMSIG(up->child_status);
}

static int live(struct up *up, char **argv) {
    if (servers_start(&up->servers, end_was_asked, up) != 0)
        return up->ended_by != 0 ? EXIT_BY_SIGNAL + up->ended_by : EXIT_SYSTEM;
    const int status = argv[0] != NULL ? start_command(up, argv) : print_environment(up);
    if (status != 0) return status;
    serve(up);
    end_group(up);
    return command_status(up);
}

static int with_directory(struct up *up, char **argv) {
    int status = make_directory(up);
    if (status != 0) return status;
    if (janitor_start(&up->janitor, up->servers.directory, up->settings->up.dir == NULL) != 0) {
        rmdir(up->servers.directory);
        return EXIT_SYSTEM;
    }
    up->servers.group = up->janitor.pid;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    terminal_open(&up->terminal);
    status = live(up, argv);
    servers_stop(&up->servers);
    janitor_finish(&up->janitor);
    terminal_close(&up->terminal);
    return status;
}

/* The servers resolve the name in a directory of their own, so it is made absolute. */
static int find_module(const struct settings *settings, char *path, size_t size) {
    if (!settings->up.native && settings->up.module == NULL) return 0;
    if (settings->up.module == NULL) return sibling_module(path, size);
    char *found = realpath(settings->up.module, NULL);
    int length = found != NULL ? snprintf(path, size, "%s", found) : -1;
    free(found);
    if (length >= 0 && (size_t)length < size) return 0;
    complain("--module %s: %s", settings->up.module,
             length < 0 ? strerror(errno) : "too long a name");
    return -1;
}

int command_up(struct settings *settings, int argc, char **argv) {
    static struct up up; /* large */
    (void)argc;
    const int mode =
        settings->client.mode != MODE_UNSET ? settings->client.mode : REDLOCK_MODE_GUARDED;
    if (settings->ttl_max_ms > 0 && mode != REDLOCK_MODE_GUARDED) {
        complain("--ttl-max needs guarded mode: classic nodes have no such limit");
        return EXIT_USAGE_ERROR;
    }
    up = (struct up){.settings = settings,
                     .servers = {.count = (size_t)settings->up.count,
                                 .restart_after_ms = settings->up.restart_after_ms,
                                 .mode = mode,
                                 .ttl_max_ms = settings->ttl_max_ms,
                                 .quiet = settings->quiet,
                                 .verbose = settings->verbose},
                     .kill_at = NEVER,
                     .terminal = {.fd = -1}};
    if (server_find_program(settings->up.server, up.servers.program, sizeof up.servers.program) !=
        0)
        return EXIT_CONFIG;
    if (find_module(settings, up.servers.module, sizeof up.servers.module) != 0) return EXIT_CONFIG;
    signals_take(&up.inherited);
    up.signal_fd = signals_open(&up.inherited);
    if (up.signal_fd < 0) return EXIT_SYSTEM;
    int status = with_directory(&up, argv);
    close(up.signal_fd);
    return status;
}
