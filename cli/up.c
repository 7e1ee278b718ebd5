/* SPDX-License-Identifier: BSD-2-Clause
 *
 * up: a local quorum of real servers, for a command or until ^C, and nothing left of it afterwards.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <redlock.h>

#include "child.h"
#include "commands.h"
#include "duration.h"
#include "exit_codes.h"
#include "janitor.h"
#include "message.h"
#include "server.h"
#include "signals.h"
#include "terminal.h"

#define MS INT64_C(1000000)
#define READY_WITHIN (10000 * MS)
#define TRIES_MAX 5
#define NEVER INT64_MAX

struct up {
    const struct settings *settings;
    struct inherited_signals inherited;
    struct janitor janitor;
    struct terminal terminal;
    struct server servers[REDLOCK_NODES_MAX];
    size_t count;
    int signal_fd;
    char program[PATH_MAX], directory[PATH_MAX], nodes[64 * REDLOCK_NODES_MAX];
    pid_t child; /* 0: no command */
    bool child_exited;
    int child_status;
    int ended_by; /* a signal */
    int64_t kill_at;
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_ms(int ms) {
    const struct timespec pause = {.tv_nsec = ms * MS};
    nanosleep(&pause, NULL);
}

/* ---- where ------------------------------------------------------------------------------- */

static int is_empty(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) return 0;
    int entries = 0;
    while (readdir(directory) != NULL) entries++;
    closedir(directory);
    return entries <= 2; /* . and .. */
}

static int own_directory(struct up *up) {
    const char *named = up->settings->dir;
    if (mkdir(named, 0700) != 0 && (errno != EEXIST || !is_empty(named))) {
        complain("--dir %s: %s", named, errno == EEXIST ? "is there and not an empty directory; name one that is absent or empty"
                                                        : strerror(errno));
        return EXIT_USAGE_ERROR;
    }
    if (realpath(named, up->directory) != NULL) return 0;
    complain("--dir %s: %s", named, strerror(errno));
    return EXIT_USAGE_ERROR;
}

static int make_directory(struct up *up) {
    if (up->settings->dir != NULL) return own_directory(up);
    const char *where = getenv("TMPDIR");
    snprintf(up->directory, sizeof up->directory, "%s/redlock-up.XXXXXX", where != NULL && where[0] == '/' ? where : "/tmp");
    if (mkdtemp(up->directory) != NULL) return 0;
    complain("cannot make %s: %s", up->directory, strerror(errno));
    return EXIT_SYSTEM;
}

/* ---- servers ----------------------------------------------------------------------------- */

static void write_nodes(struct up *up) {
    size_t used = 0;
    for (size_t i = 0; i < up->count; i++) {
        used += (size_t)snprintf(up->nodes + used, sizeof up->nodes - used, "%sredis://127.0.0.1:%d", i > 0 ? "," : "",
                                 up->servers[i].port);
    }
}

static int reserve_ports(struct up *up) {
    /* All are held before any is let go: else the kernel might give one twice. */
    for (size_t i = 0; i < up->count; i++) {
        struct server *server = &up->servers[i];
        *server = (struct server){.number = (unsigned)i + 1, .reserved = -1, .start_at = NEVER};
        int length = snprintf(server->directory, sizeof server->directory, "%s/node-%u", up->directory, server->number);
        if (length < 0 || (size_t)length >= sizeof server->directory) {
            complain("the directory's name is too long");
            return -1;
        }
        if (server_reserve_port(server) != 0) return -1;
    }
    return 0;
}

static struct server *server_of(struct up *up, pid_t pid) {
    for (size_t i = 0; i < up->count; i++) {
        if (up->servers[i].pid == pid) return &up->servers[i];
    }
    return NULL;
}

static void server_died(struct up *up, struct server *server, int status) {
    char delay[64];
    server->pid = 0;
    const char *how = WIFSIGNALED(status) ? "was ended by signal" : "exited with status";
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    int64_t after = up->settings->restart_after_ms;
    if (after >= 0) server->start_at = now_ns() + after * MS;
    if (up->settings->quiet) return;
    complain("node-%u (port %d) %s %d%s%s", server->number, server->port, how, number, after >= 0 ? "; starting it again in " : "",
             after >= 0 ? duration_text(delay, sizeof delay, after) : "");
}

static void reap(struct up *up) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (pid == up->child && WIFSTOPPED(status)) {
            if (up->terminal.fd >= 0) terminal_stop_job(&up->terminal, up->child, WSTOPSIG(status));
        } else if (pid == up->child) {
            up->child_exited = true;
            up->child_status = status;
        } else if (!WIFSTOPPED(status)) {
            struct server *server = server_of(up, pid);
            if (server != NULL) server_died(up, server, status);
        }
    }
}

/* While starting: a port may have been snatched between our bind and the server's. */
static int replace_dead(struct up *up) {
    for (size_t i = 0; i < up->count; i++) {
        struct server *server = &up->servers[i];
        int status;
        if (server->pid == 0 || waitpid(server->pid, &status, WNOHANG) != server->pid) continue;
        server->pid = 0;
        if (++server->tries >= TRIES_MAX) {
            complain("node-%u does not start (%s)", server->number, up->program);
            server_show_log(server);
            return -1;
        }
        if (server_reserve_port(server) != 0 || server_start(server, up->program, up->janitor.pid) != 0) return -1;
    }
    return 0;
}

static bool all_listen(const struct up *up) {
    for (size_t i = 0; i < up->count; i++) {
        if (!server_listens(&up->servers[i])) return false;
    }
    return true;
}

static bool end_was_asked(struct up *up) {
    for (int signal; (signal = signals_next(up->signal_fd)) != 0;) {
        if (signal_is_passed_on(signal)) up->ended_by = signal;
    }
    return up->ended_by != 0;
}

/* A port that accepts is not yet a server that answers as a client wants it. */
static int all_answer(struct up *up) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    if (redlock_client_open(up->nodes, &options, &client, &error) != REDLOCK_OK) {
        complain("%s", error.text);
        return -1;
    }
    int ready = redlock_client_wait_ready(client, options.connect_timeout_ms);
    redlock_client_free(client);
    return ready == (int)up->count;
}

static int wait_ready(struct up *up) {
    const int64_t until = now_ns() + READY_WITHIN;
    while (!end_was_asked(up)) {
        if (replace_dead(up) != 0) return -1;
        if (all_listen(up)) {
            write_nodes(up);
            int answer = all_answer(up);
            if (answer != 0) return answer > 0 ? 0 : -1;
        }
        if (now_ns() >= until) {
            complain("the servers are not ready after ten seconds");
            return -1;
        }
        pause_ms(5);
    }
    return -1;
}

static int start_servers(struct up *up) {
    if (reserve_ports(up) != 0) return -1;
    for (size_t i = 0; i < up->count; i++) {
        if (server_start(&up->servers[i], up->program, up->janitor.pid) != 0) return -1;
    }
    return wait_ready(up);
}

static void stop_servers(struct up *up) {
    for (size_t i = 0; i < up->count; i++) {
        struct server *server = &up->servers[i];
        if (server->reserved >= 0) close(server->reserved);
        if (server->pid == 0) continue;
        kill(server->pid, SIGTERM);
        kill(server->pid, SIGCONT); /* somebody may have stopped it, to see what happens */
    }
    for (size_t i = 0; i < up->count; i++) {
        struct server *server = &up->servers[i];
        for (int tick = 0; server->pid > 0; tick++) {
            if (waitpid(server->pid, NULL, WNOHANG) != 0) {
                server->pid = 0;
                continue;
            }
            if (tick == 400) kill(server->pid, SIGKILL);
            pause_ms(5);
        }
    }
}

static void restart_due(struct up *up) {
    int64_t now = now_ns();
    for (size_t i = 0; i < up->count; i++) {
        struct server *server = &up->servers[i];
        if (server->start_at > now) continue;
        server->start_at = NEVER;
        if (server_start(server, up->program, up->janitor.pid) == 0 && up->settings->verbose) {
            complain("node-%u (port %d) is started again", server->number, server->port);
        }
    }
}

/* ---- the command ------------------------------------------------------------------------- */

static char *assignment(const char *name, const char *value) {
    char *text = NULL;
    return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

static int start_command(struct up *up, char **argv) {
    char *added[] = {assignment("REDLOCK_NODES", up->nodes), assignment("REDLOCK_UP_DIR", up->directory)};
    char **environment = added[0] != NULL && added[1] != NULL ? environment_with(added, 2) : NULL;
    int failed = EXIT_SYSTEM;
    up->terminal.lent = terminal_is_ours(&up->terminal);
    struct child_plan plan = {.argv = argv,
                              .environment = environment,
                              .inherited = &up->inherited,
                              .terminal = up->terminal.lent ? up->terminal.fd : -1};
    pid_t child = environment != NULL ? child_start(&plan, &failed) : -1;
    for (size_t i = 0; i < 2; i++) free(added[i]);
    free(environment);
    if (child < 0) return failed;
    up->child = child;
    janitor_watch(&up->janitor, child);
    return 0;
}

static void on_signal(struct up *up, int signal) {
    if (signal == SIGCHLD) return; /* reap() is called in any case */
    if (signal == SIGCONT) {
        if (up->child > 0 && terminal_is_ours(&up->terminal)) terminal_lend(&up->terminal, up->child);
        group_signal(up->child, SIGCONT);
    } else if (signal == SIGTSTP) {
        if (up->child > 0) group_signal(up->child, SIGTSTP);
        if (up->child == 0) raise(SIGSTOP); /* the servers are in another group and serve on */
    } else {
        up->ended_by = signal;
        group_signal(up->child, signal);
        /* ^C is the command's own affair; who sends TERM or HUP wants an end of it all. */
        if (up->child > 0 && (signal == SIGTERM || signal == SIGHUP) && up->kill_at == NEVER) {
            up->kill_at = now_ns() + up->settings->kill_after_ms * MS;
            group_signal(up->child, SIGCONT);
        }
    }
}

static int timeout_ms(const struct up *up) {
    int64_t at = up->kill_at, now = now_ns();
    for (size_t i = 0; i < up->count; i++) at = up->servers[i].start_at < at ? up->servers[i].start_at : at;
    if (at == NEVER) return -1;
    return at <= now ? 0 : at - now > 60000 * MS ? 60000 : (int)((at - now) / MS) + 1;
}

static bool is_over(const struct up *up) { return up->child > 0 ? up->child_exited : up->ended_by != 0; }

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
        restart_due(up);
    }
}

/* What the command left in its group goes with it. */
static void end_group(struct up *up) {
    if (up->child == 0) return;
    const int64_t kill_at = now_ns() + up->settings->kill_after_ms * MS, give_up = kill_at + 1000 * MS;
    if (group_lives(up->child)) group_terminate(up->child);
    while (group_lives(up->child) && now_ns() < give_up) {
        if (now_ns() >= kill_at) group_signal(up->child, SIGKILL);
        pause_ms(5);
        reap(up);
    }
    terminal_take(&up->terminal, up->child);
}

static void print_environment(const struct up *up) {
    printf("export REDLOCK_NODES='%s'\nexport REDLOCK_UP_DIR='%s'\n", up->nodes, up->directory);
    fflush(stdout);
    if (up->settings->quiet) return;
    for (size_t i = 0; i < up->count; i++) {
        complain("node-%u: redis://127.0.0.1:%d (pid %ld)", up->servers[i].number, up->servers[i].port, (long)up->servers[i].pid);
    }
    complain("%zu nodes are up; ^C ends them", up->count);
}

static int command_status(const struct up *up) {
    if (up->child == 0) return EXIT_OK;
    return WIFEXITED(up->child_status) ? WEXITSTATUS(up->child_status) : EXIT_BY_SIGNAL + WTERMSIG(up->child_status);
}

static int live(struct up *up, char **argv) {
    if (start_servers(up) != 0) return up->ended_by != 0 ? EXIT_BY_SIGNAL + up->ended_by : EXIT_SYSTEM;
    int status = 0;
    if (argv[0] != NULL) {
        status = start_command(up, argv);
    } else {
        print_environment(up);
    }
    if (status != 0) return status;
    serve(up);
    end_group(up);
    return command_status(up);
}

static int with_directory(struct up *up, char **argv) {
    int status = make_directory(up);
    if (status != 0) return status;
    if (janitor_start(&up->janitor, up->directory, up->settings->dir == NULL) != 0) {
        rmdir(up->directory);
        return EXIT_SYSTEM;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    terminal_open(&up->terminal);
    status = live(up, argv);
    stop_servers(up);
    janitor_finish(&up->janitor);
    terminal_close(&up->terminal);
    return status;
}

int command_up(struct settings *settings, int argc, char **argv) {
    static struct up up; /* large */
    (void)argc;
    up = (struct up){.settings = settings, .count = (size_t)settings->count, .kill_at = NEVER, .terminal = {.fd = -1}};
    for (size_t i = 0; i < up.count; i++) up.servers[i] = (struct server){.reserved = -1, .start_at = NEVER};
    if (server_find_program(settings->server, up.program, sizeof up.program) != 0) return EXIT_CONFIG;
    signals_take(&up.inherited);
    up.signal_fd = signals_open(&up.inherited);
    if (up.signal_fd < 0) return EXIT_SYSTEM;
    int status = with_directory(&up, argv);
    close(up.signal_fd);
    return status;
}
