/* SPDX-License-Identifier: BSD-2-Clause */
#include "password_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/signals.h"

#define COMMAND_SECONDS 10
#define LOOK_AGAIN_MS 10
#define REPORT_AGAIN (60000 * MS)
#define ENDS_WITHIN (1000 * MS)
#define HAS_ENDED "the process that runs it (redlock-passwd) was ended; restart this one"

/* A request is its number. A new one ends the command of the one before, as the end of the socket
 * does. 0 answers whichever is open: its process was killed. */
struct answer {
    uint32_t number;
    bool given;                                /* a password; else the reason */
    char text[REDLOCK_PASSWORD_BYTES_MAX + 2]; /* one more, which shows that it is too long */
};
/* Only what is used of the text is sent. */
static size_t answer_bytes(const struct answer *answer) {
    return offsetof(struct answer, text) + strlen(answer->text) + 1;
}

/* ---- the process that runs it ------------------------------------------------------------- */

struct command {
    const char *line;
    int socket, output, errors;
    pid_t pid;  /* 0: it has ended, ... */
    int status; /* ... as waitpid(2) says it */
    int64_t until;
};

static _Noreturn void become_shell(const struct command *command, int output) {
    static const int plain[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) signal(plain[i], SIG_DFL);
    sigaction(SIGXFSZ, signals_inherited_xfsz(), NULL);
    dup2(output, STDOUT_FILENO);
    dup2(command->errors, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command->line, (char *)NULL);
    _exit(EXIT_NOT_FOUND);
}

/* NULL, or why it did not start. */
static const char *start(struct command *command) {
    int ends[2];
    command->until = now_ns() + COMMAND_SECONDS * 1000 * MS;
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    command->pid = fork();
    if (command->pid == 0) become_shell(command, ends[1]);
    const int error = errno;
    close(ends[1]);
    if (command->pid > 0) {
        setpgid(command->pid, command->pid);
        command->output = ends[0];
        return NULL;
    }
    close(ends[0]);
    return strerror(error);
}

static int left_ms(const struct command *command) {
    const int64_t left = command->until - now_ns();
    return left > 0 ? (int)(left / MS + 1) : 0;
}

static bool has_ended(struct command *command) {
    if (command->pid > 0 && waitpid(command->pid, &command->status, WNOHANG) != 0) command->pid = 0;
    return command->pid == 0;
}

/* False: too late, or nobody waits for it any more. What it leaves running may keep its output
 * open: when it has ended, what it printed is all there is. */
static bool next_bytes(struct command *command, char *to, size_t room, ssize_t *got) {
    struct pollfd fds[] = {{.fd = command->output, .events = POLLIN},
                           {.fd = command->socket, .events = POLLIN}};
    for (bool ended = false;; ended = has_ended(command)) {
        const int ready = poll(fds, 2, ended ? 0 : LOOK_AGAIN_MS);
        if (ready < 0 || fds[1].revents != 0 || left_ms(command) == 0) return false;
        *got = ready > 0 ? read(command->output, to, room) : 0;
        if (ready > 0 || ended) return *got >= 0;
    }
}

/* The exit status as waitpid(2) says it; -1: it goes on without printing. */
static int wait_for_end(struct command *command) {
    struct pollfd socket = {.fd = command->socket, .events = POLLIN};
    while (!has_ended(command))
        if (left_ms(command) == 0 || poll(&socket, 1, LOOK_AGAIN_MS) != 0) return -1;
    return command->status;
}

static void take_first_line(struct answer *answer, size_t bytes) {
    char *end = memchr(answer->text, '\n', bytes);
    const size_t line = end != NULL ? (size_t)(end - answer->text) : bytes;
    answer->text[line] = '\0';
    if (line > 0 && answer->text[line - 1] == '\r') answer->text[line - 1] = '\0';
    const char *why = strlen(answer->text) + 1 < line ? "it printed a NUL byte"
                      : answer->text[0] == '\0'       ? "its first line is empty"
                      : line > REDLOCK_PASSWORD_BYTES_MAX
                          ? "its first line is longer than 65535 bytes"
                          : NULL;
    answer->given = why == NULL;
    if (why == NULL) return;
    explicit_bzero(answer->text, sizeof answer->text);
    snprintf(answer->text, sizeof answer->text, "%s", why);
}

/* What it prints behind the longest password is dropped. */
static void listen_to(struct command *command, struct answer *answer) {
    char rest[512];
    size_t bytes = 0;
    ssize_t got = 1;
    while (got > 0) {
        const size_t room = sizeof answer->text - 1 - bytes;
        if (!next_bytes(command, room > 0 ? answer->text + bytes : rest,
                        room > 0 ? room : sizeof rest, &got))
            break;
        if (room > 0) bytes += (size_t)got;
    }
    explicit_bzero(rest, sizeof rest);
    const int status = got == 0 ? wait_for_end(command) : -1;
    if (status == 0) {
        take_first_line(answer, bytes);
        return;
    }
    explicit_bzero(answer->text, sizeof answer->text);
    if (status == -1)
        snprintf(answer->text, sizeof answer->text, "no end within %d s", COMMAND_SECONDS);
    else if (WIFEXITED(status))
        snprintf(answer->text, sizeof answer->text, "exit status %d", WEXITSTATUS(status));
    else
        snprintf(answer->text, sizeof answer->text, "ended by signal %d", WTERMSIG(status));
}

static void run(struct command *command, struct answer *answer) {
    const char *why = start(command);
    if (why != NULL) {
        snprintf(answer->text, sizeof answer->text, "%s", why);
        return;
    }
    listen_to(command, answer);
    close(command->output);
    if (command->pid == 0) return;
    kill(-command->pid, SIGKILL);
    waitpid(command->pid, NULL, 0);
}

/* While it goes on failing, what it prints to standard error is shown once a minute: connections
 * ask for as long as there is none. */
static void run_reporting(struct command *command, struct answer *answer) {
    static int64_t failures, reported_at;
    const bool is_mute = failures > 1 && now_ns() < reported_at + REPORT_AGAIN;
    command->errors = is_mute ? STDIN_FILENO : STDERR_FILENO; /* the first is /dev/null */
    answer->given = false;
    run(command, answer);
    if (answer->given) {
        if (failures > 1) complain("node-password-command works again");
        failures = 0;
    } else if (failures++ > 0 && !is_mute) {
        complain("node-password-command fails: %.80s", answer->text);
        reported_at = now_ns();
    }
}

static _Noreturn void serve_requests(struct command *command, struct answer *answer) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(command->socket, &answer->number, sizeof answer->number, 0) ==
           (ssize_t)sizeof answer->number) {
        run_reporting(command, answer);
        send(command->socket, answer, answer_bytes(answer), MSG_NOSIGNAL);
        explicit_bzero(answer->text, sizeof answer->text);
    }
    _exit(EXIT_OK);
}

/* Another one takes the place of a child that is killed. */
static _Noreturn void keep_serving(struct command *command) {
    static struct answer answer;
    for (int status = 0;;) {
        const pid_t child = fork();
        if (child == 0) serve_requests(command, &answer);
        if (child < 0) _exit(EXIT_SYSTEM);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        if (WIFEXITED(status)) _exit(EXIT_OK); /* nobody asks any more */
        snprintf(answer.text, sizeof answer.text, "the process that ran it was killed by signal %d",
                 WTERMSIG(status));
        send(command->socket, &answer, answer_bytes(&answer), MSG_NOSIGNAL);
    }
}

/* It has a group of its own, so that ^C is not for it, and it outlives a TERM to a whole service:
 * the process that asks ends later. It keeps nothing open but the socket and standard error. */
static _Noreturn void serve_passwords(const char *line, int socket) {
    struct command command = {.line = line, .socket = 3};
    setpgid(0, 0);
    prctl(PR_SET_NAME, "redlock-passwd");
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup3(socket, command.socket, O_CLOEXEC);
    if (socket == command.socket) fcntl(socket, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, (unsigned)command.socket + 1, ~0U, 0); /* musl has no function */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    keep_serving(&command);
}

/* ---- the side that asks ------------------------------------------------------------------- */

static struct {
    pid_t pid;
    int socket, cancel; /* an eventfd */
    uint32_t number;
    pthread_mutex_t mutex; /* one asks at a time */
} helper = {.socket = -1, .cancel = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

int password_command_begin(const char *line) {
    int ends[2];
    if (line == NULL) return EXIT_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        complain("cannot start node-password-command: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    helper.socket = ends[0];
    helper.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    helper.pid = fork();
    if (helper.pid == 0) serve_passwords(line, ends[1]);
    const int error = errno;
    close(ends[1]);
    if (helper.pid > 0 && helper.cancel >= 0) return EXIT_OK;
    complain("cannot start node-password-command: %s", strerror(error));
    password_command_end();
    return EXIT_SYSTEM;
}

/* It may be stopped. */
static void end_helper(void) {
    kill(helper.pid, SIGCONT);
    for (int64_t until = now_ns() + ENDS_WITHIN; now_ns() < until; poll(NULL, 0, 1))
        if (waitpid(helper.pid, NULL, WNOHANG) != 0) return;
    kill(helper.pid, SIGKILL);
    waitpid(helper.pid, NULL, 0);
}

void password_command_end(void) {
    if (helper.socket < 0) return;
    shutdown(helper.socket, SHUT_RDWR); /* also for a child that still has it */
    close(helper.socket);
    if (helper.cancel >= 0) close(helper.cancel);
    helper.socket = helper.cancel = -1;
    if (helper.pid > 0) end_helper();
}

void password_command_cancel(void) {
    const uint64_t one = 1;
    if (helper.cancel >= 0 && write(helper.cancel, &one, sizeof one) < 0) return; /* it is set */
}

void password_command_resume(void) {
    uint64_t count;
    if (helper.cancel >= 0 && read(helper.cancel, &count, sizeof count) < 0)
        return; /* it was not */
}

/* NULL, or why there is none. Answers to earlier requests, which were cancelled, are dropped. */
static const char *await_answer(struct answer *answer) {
    struct pollfd fds[] = {{.fd = helper.socket, .events = POLLIN},
                           {.fd = helper.cancel, .events = POLLIN}};
    do {
        const int ready = poll(fds, 2, 2 * COMMAND_SECONDS * 1000);
        if (ready < 0 && errno == EINTR) continue;
        if (fds[1].revents != 0) return "cancelled";
        if (ready <= 0) return "no answer";
        if (recv(helper.socket, answer, sizeof *answer, 0) <= 0) return HAS_ENDED;
    } while (answer->number != helper.number && answer->number != 0);
    return NULL;
}

static const char *ask(struct answer *answer) {
    while (recv(helper.socket, answer, sizeof *answer, MSG_DONTWAIT) > 0) continue;
    helper.number++;
    answer->number = 0;
    if (send(helper.socket, &helper.number, sizeof helper.number, MSG_NOSIGNAL) < 0)
        return HAS_ENDED;
    const char *why = await_answer(answer);
    return why != NULL ? why : answer->given ? NULL : answer->text;
}

int password_command_give(void *context, char *password, size_t size, struct redlock_error *error) {
    struct answer *answer = calloc(1, sizeof *answer);
    (void)context;
    if (answer == NULL) return REDLOCK_NO_MEMORY;
    pthread_mutex_lock(&helper.mutex);
    const char *why = ask(answer);
    pthread_mutex_unlock(&helper.mutex);
    if (why == NULL)
        snprintf(password, size, "%s", answer->text);
    else
        snprintf(error->text, sizeof error->text, "node-password-command: %.80s", why);
    explicit_bzero(answer, sizeof *answer);
    free(answer);
    return why == NULL ? REDLOCK_OK : REDLOCK_SYSTEM;
}
