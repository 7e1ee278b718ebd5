/* SPDX-License-Identifier: BSD-2-Clause */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/message.h"
#include "process/path.h"

int server_find_program(const char *named, char *program, size_t size) {
    if (named != NULL) {
        const int error = find_in_path(named, program, size);
        if (error != 0) complain("--server: cannot execute '%s': %s", named, strerror(error));
        return error == 0 ? 0 : -1;
    }
    if (find_in_path("redis-server", program, size) == 0) return 0;
    if (find_in_path("valkey-server", program, size) == 0) return 0;
    complain(
        "neither redis-server nor valkey-server is in PATH; install one (apt install redis-server), or name one "
        "by --server FILE");
    return -1;
}

int server_reserve_port(struct server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        complain("no loopback port is available: %s", strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    server->reserved = fd;
    server->port = ntohs(address.sin_port);
    return 0;
}

bool server_listens(const struct server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)server->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool listens = connect(fd, (struct sockaddr *)&address, sizeof address) ==
                   0; /* on loopback this never waits */
    close(fd);
    return listens;
}

/* The server reads its standard input as its configuration, before anything else. */
static _Noreturn void become(const struct server *server, const char *program, const char *module,
                             int config, pid_t group, pid_t parent) {
    char port[16];
    snprintf(port, sizeof port, "%d", server->port);
    const char *arguments[] = {program,
                               "-",
                               "--port",
                               port,
                               "--bind",
                               "127.0.0.1",
                               "--daemonize",
                               "no",
                               "--save",
                               "",
                               "--appendonly",
                               "no",
                               "--dir",
                               server->directory,
                               "--logfile",
                               "redis.log",
                               module != NULL ? "--loadmodule" : NULL,
                               module,
                               NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    setpgid(0, group);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++) dup2(fd == 0 ? config : null, fd);
    /* A server must not hold descriptors that the caller left open. musl has no function. */
    syscall(SYS_close_range, 3U, ~0U, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(program, (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static int write_number(const struct server *server, const char *name, long number) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", server->directory, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) return -1;
    int failed = fprintf(file, "%ld\n", number) < 0;
    return fclose(file) != 0 || failed ? -1 : 0;
}

/* Any user of this machine can connect, and could end the server. The password is on no disk and on
 * no command line. Returns the descriptor to read it from, or -1. */
static int offer_config(const char *password) {
    char text[SERVER_PASSWORD_BYTES + 32];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    int bytes = snprintf(text, sizeof text, "requirepass %s\n", password);
    bool whole = write(ends[1], text, (size_t)bytes) == bytes; /* an empty pipe has room for it */
    close(ends[1]);
    if (whole) return ends[0];
    close(ends[0]);
    return -1;
}

int server_start(struct server *server, const char *program, const char *module,
                 const char *password, pid_t group) {
    if (mkdir(server->directory, 0700) != 0 && errno != EEXIST) {
        complain("cannot make %s: %s", server->directory, strerror(errno));
        return -1;
    }
    if (server->reserved >= 0) close(server->reserved);
    server->reserved = -1;
    server->start_at = INT64_MAX;
    pid_t parent = getpid();
    int config = offer_config(password);
    server->pid = config < 0 ? -1 : fork();
    if (server->pid == 0) become(server, program, module, config, group, parent);
    int error = errno;
    if (config >= 0) close(config);
    if (server->pid < 0) {
        server->pid = 0;
        complain("cannot start %s: %s", program, strerror(error));
        return -1;
    }
    setpgid(server->pid, group);
    if (write_number(server, "pid", server->pid) == 0 &&
        write_number(server, "port", server->port) == 0)
        return 0;
    complain("cannot write to %s: %s", server->directory, strerror(errno));
    return -1;
}

void server_show_log(const struct server *server, const char *module) {
    char path[PATH_MAX + 16], line[1200];
    snprintf(path, sizeof path, "%s/redis.log", server->directory);
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    fseek(file, 0, SEEK_END);
    long size = ftell(file), from = size > 1000 ? size - 1000 : 0;
    fseek(file, from, SEEK_SET);
    complain("node-%u: the end of its log:", server->number);
    bool must_execute = false;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        complain("  %s", line);
        must_execute = must_execute || strstr(line, "not have execute permission") != NULL;
    }
    fclose(file);
    if (must_execute && module != NULL)
        complain("servers load only a module that is executable: chmod +x %s", module);
}
