/* SPDX-License-Identifier: BSD-2-Clause */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <redlock.h>

enum { START_MS = 15000, WORKERS_MAX = 32 };

void give_up(const char *format, ...) {
    va_list arguments;
    fputs("gateway_load: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* ---- the process ---- */

static _Noreturn void become_gateway(const struct served *served, pid_t parent) {
    char listen[sizeof served->address.sun_path + sizeof "unix://"], connections[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    snprintf(listen, sizeof listen, "unix://%s", served->address.sun_path);
    snprintf(connections, sizeof connections, "%u", served->connections_max);
    /* A node that answers late on a busy machine makes a slow cycle, and not one whose end is not
     * known. */
    execlp(served->program, served->program, "serve", "--node-timeout", "1s", "--connections",
           connections, "--listen", listen, (char *)NULL);
    fprintf(stderr, "gateway_load: %s: %s\n", served->program, strerror(errno));
    _exit(127);
}

/* The children of a process, as the kernel lists them. */
static unsigned children(pid_t pid, pid_t *found, unsigned most) {
    char path[64];
    unsigned count = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && count < most && fscanf(file, "%d", &child) == 1) found[count++] = child;
    if (file != NULL) fclose(file);
    return count;
}

bool served_kill_worker(const struct served *served) {
    pid_t spawner, workers[WORKERS_MAX];
    if (children(served->pid, &spawner, 1) == 0) return false;
    const unsigned count = children(spawner, workers, WORKERS_MAX);
    return count > 0 && kill(workers[(unsigned long)random() % count], SIGKILL) == 0;
}

bool served_runs(const struct served *served) { return waitpid(served->pid, NULL, WNOHANG) == 0; }

int served_connect(const struct served *served) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) give_up("socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&served->address, sizeof served->address) == 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
    }
    close(fd);
    return -1;
}

void served_start(struct served *served) {
    if (served->directory[0] == '\0') {
        const char *where = getenv("TMPDIR");
        int bytes = snprintf(served->directory, sizeof served->directory, "%s/gateway-load.XXXXXX",
                             where != NULL ? where : "/tmp");
        if (bytes < 0 || bytes >= (int)sizeof served->directory ||
            mkdtemp(served->directory) == NULL)
            give_up("cannot make a directory in %s", where != NULL ? where : "/tmp");
        served->address.sun_family = AF_UNIX;
        snprintf(served->address.sun_path, sizeof served->address.sun_path, "%s/socket",
                 served->directory);
    }
    const pid_t parent = getpid();
    served->pid = fork();
    if (served->pid == 0) become_gateway(served, parent);
    if (served->pid < 0) give_up("fork: %s", strerror(errno));
    for (int64_t until = now_ns() + START_MS * MS;; pause_ms(10)) {
        int fd = served_connect(served);
        if (fd >= 0) {
            close(fd);
            return;
        }
        if (waitpid(served->pid, NULL, WNOHANG) != 0) give_up("the gateway does not begin");
        if (now_ns() > until) give_up("nobody is let into the gateway");
    }
}

int served_end(struct served *served, int number, int ms, int64_t *took_ns) {
    const int64_t from = now_ns();
    int status = 0;
    kill(served->pid, number);
    while (waitpid(served->pid, &status, WNOHANG) == 0) {
        if (now_ns() > from + ms * MS) return -1;
        pause_ms(1);
    }
    *took_ns = now_ns() - from;
    served->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void served_close(struct served *served) {
    if (served->pid > 0) {
        kill(served->pid, SIGKILL);
        waitpid(served->pid, NULL, 0);
    }
    unlink(served->address.sun_path);
    rmdir(served->directory);
}

int64_t served_cpu_ns(const struct served *served) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(served->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        give_up("the gateway's processor time is not known");
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

long served_memory(const struct served *served, const char *which) {
    char path[64], line[128];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)served->pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, which, strlen(which)) == 0) kib = strtol(line + strlen(which), NULL, 10);
    }
    if (file != NULL) fclose(file);
    return kib;
}

/* ---- the nodes ---- */

/* A gateway puts 40 digits and a colon before what its client gave. */
static bool ends_with(const struct redlock_view *view, const char *value) {
    size_t bytes = strlen(value);
    return view->token_bytes >= bytes &&
           memcmp(view->token + view->token_bytes - bytes, value, bytes) == 0;
}

unsigned nodes_holding(struct redlock_client *client, const char *key, const char *value,
                       int64_t *most_ms) {
    static struct redlock_view views[REDLOCK_NODES_MAX];
    unsigned count = 0;
    if (redlock_peek(client, key, strlen(key), views, REDLOCK_NODES_MAX) != REDLOCK_OK)
        give_up("the nodes do not tell of %s", key);
    for (size_t i = 0; i < redlock_client_nodes(client); i++) {
        if (views[i].verdict != REDLOCK_VERDICT_GRANTED ||
            (value != NULL && !ends_with(&views[i], value)))
            continue;
        count++;
        if (views[i].remaining_ms < 0)
            *most_ms = -1;
        else if (*most_ms >= 0 && views[i].remaining_ms > *most_ms)
            *most_ms = views[i].remaining_ms;
    }
    return count;
}
