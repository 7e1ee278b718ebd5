/* SPDX-License-Identifier: BSD-2-Clause */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 10

static void die(const char *what, const struct server *server) {
    fprintf(stderr, "servers: %s (port %d, %s): %s\n", what, server->port, server->dir,
            strerror(errno));
    abort();
}

static void nap(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

/* What `redis-server --version` says, up to its version: "Valkey server v=9.1.2 ...". */
static const char *first_line(void) {
    static char line[256];
    if (line[0]) return line;
    FILE *output = popen("redis-server --version", "r");
    bool read = output && fgets(line, sizeof line, output) != NULL;
    if (output) pclose(output);
    if (!read || !strstr(line, "v=")) {
        fprintf(stderr, "servers: redis-server --version says \"%s\"\n", line);
        abort();
    }
    return line;
}

enum servers_project servers_project(void) {
    const char *line = first_line();
    if (strncmp(line, "Redis ", 6) == 0) return SERVERS_REDIS;
    if (strncmp(line, "Valkey ", 7) == 0) return SERVERS_VALKEY;
    if (strncmp(line, "Redict ", 7) == 0) return SERVERS_REDICT;
    fprintf(stderr, "servers: a server of an unknown project: %s", line);
    abort();
}

int servers_version(void) {
    char *end;
    long major = strtol(strstr(first_line(), "v=") + 2, &end, 10);
    return (int)(major * 100 + (*end == '.' ? strtol(end + 1, NULL, 10) : 0));
}

const char *servers_invalidations(void) {
    return servers_project() == SERVERS_REDICT ? "__redict__:invalidate" : "__redis__:invalidate";
}

bool servers_know_tls(void) {
    return system("redis-server --tls-port none 2>&1 | grep -q 'Bad directive'") != 0;
}

int server_free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static void exec_server(const struct server *server, pid_t parent) {
    char port[8];
    const char *argv[64] = {"redis-server", "--port",    port,     "--bind", "127.0.0.1",
                            "--dir",        server->dir, "--save", "",       "--appendonly",
                            "no",           "--logfile", "log"};
    int n = 13;
    snprintf(port, sizeof port, "%d", server->port);
    for (const char *const *a = server->arguments; a && *a; a++) argv[n++] = *a;
    const char *module = getenv("REDLOCK_TEST_NATIVE"); /* then every server is a native node */
    if (module && module[0] != '\0') {
        argv[n++] = "--loadmodule";
        argv[n++] = module;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execvp(argv[0], (char *const *)(void *)argv);
    fprintf(stderr, "servers: cannot run redis-server: %s\n", strerror(errno));
    _exit(127);
}

static redisContext *connect_to(const struct server *server) {
    struct timeval second = {2, 0};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", server->port, second);
    if (!context || context->err) {
        if (context) redisFree(context);
        return NULL;
    }
    redisSetTimeout(context, second);
    if (server->password) {
        redisReply *reply = redisCommand(context, "AUTH %s", server->password);
        if (reply) freeReplyObject(reply);
    }
    return context;
}

/* Its own answer to PING, not that of another server that was quicker to take the port. */
static bool answers(const struct server *server) {
    redisContext *context = connect_to(server);
    if (!context) return false;
    redisReply *reply = redisCommand(context, "CONFIG GET dir");
    bool ours = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                strcmp(reply->element[1]->str, server->dir) == 0;
    if (reply) freeReplyObject(reply);
    redisFree(context);
    return ours;
}

static bool spawn(struct server *server) {
    pid_t parent = getpid();
    fflush(NULL);
    server->pid = fork();
    if (server->pid < 0) die("fork", server);
    if (server->pid == 0) exec_server(server, parent);
    for (int i = 0; i < 1000; i++) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) break;
        if (answers(server)) return true;
        nap(10);
    }
    server->pid = 0;
    return false;
}

void server_start(struct server *server, const char *const *arguments) {
    *server = (struct server){.arguments = arguments, .password = server->password};
    snprintf(server->dir, sizeof server->dir, "/tmp/redlock-test-XXXXXX");
    if (!mkdtemp(server->dir)) die("mkdtemp", server);
    for (int i = 0; i < START_TRIES; i++) {
        server->port = server_free_port();
        if (spawn(server)) return;
    }
    die("redis-server does not start", server);
}

void server_kill(struct server *server) {
    if (server->pid == 0) return;
    kill(server->pid, SIGKILL);
    kill(server->pid, SIGCONT);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void server_restart(struct server *server) {
    server_kill(server);
    for (int i = 0; i < START_TRIES; i++) {
        if (spawn(server)) return;
        nap(50);
    }
    die("redis-server does not start again", server);
}

void server_pause(struct server *server) {
    int status;
    kill(server->pid, SIGSTOP);
    if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status))
        die("does not stop", server);
}

void server_resume(struct server *server) { kill(server->pid, SIGCONT); }

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void server_stop(struct server *server) {
    server_kill(server);
    if (server->dir[0]) nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    server->dir[0] = 0;
}

static redisReply *ask(struct server *server, const char *format, va_list args) {
    redisContext *context = connect_to(server);
    if (!context) die("no connection to ask on", server);
    redisReply *reply = redisvCommand(context, format, args);
    redisFree(context);
    if (!reply) die("no answer", server);
    return reply;
}

redisReply *server_ask(struct server *server, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(server, format, args);
    va_end(args);
    return reply;
}

long long server_ask_integer(struct server *server, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(server, format, args);
    va_end(args);
    if (reply->type != REDIS_REPLY_INTEGER) {
        fprintf(stderr, "servers: not an integer: %s\n", reply->str ? reply->str : "(no text)");
        abort();
    }
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

bool server_get(struct server *server, const char *key, char *value, size_t size) {
    redisReply *reply = server_ask(server, "GET %s", key);
    bool found = reply->type == REDIS_REPLY_STRING;
    if (found) snprintf(value, size, "%s", reply->str);
    freeReplyObject(reply);
    return found;
}

void server_url(const struct server *server, char *url, size_t size) {
    snprintf(url, size, "redis://127.0.0.1:%d", server->port);
}

void servers_start(struct servers *servers, unsigned count) {
    *servers = (struct servers){.count = count};
    size_t used = 0;
    for (unsigned i = 0; i < count; i++) {
        server_start(&servers->at[i], NULL);
        used += (size_t)snprintf(servers->urls + used, sizeof servers->urls - used,
                                 "%sredis://127.0.0.1:%d", i ? "," : "", servers->at[i].port);
    }
}

void servers_stop(struct servers *servers) {
    for (unsigned i = 0; i < servers->count; i++) server_stop(&servers->at[i]);
    servers->count = 0;
}

static bool is_stopped(const struct server *server) {
    char path[32], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "re");
    if (!file) return true;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *state = strrchr(line, ')');
    return !read || !state || state[2] == 'T';
}

unsigned servers_holding(struct servers *servers, const char *key) {
    unsigned holding = 0;
    for (unsigned i = 0; i < servers->count; i++) {
        struct server *server = &servers->at[i];
        if (server->pid != 0 && !is_stopped(server))
            holding += server_ask_integer(server, "EXISTS %s", key) == 1;
    }
    return holding;
}
