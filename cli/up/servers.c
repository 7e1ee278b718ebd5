/* SPDX-License-Identifier: BSD-2-Clause */
#include "servers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "config/duration.h"
#include "process/boottime.h"
#include "process/message.h"

#define REPORT_AFTER (10000 * MS)
#define TRIES_MAX 5
/* The servers are ours: while they live, they will answer. A busy machine takes its time. */
#define CONNECT_WITHIN_MS 10000
#define LOOK_WITHIN_MS 1000

static void write_nodes(struct servers *servers) {
    size_t used = 0;
    for (size_t i = 0; i < servers->count; i++) {
        used += (size_t)snprintf(servers->nodes + used, sizeof servers->nodes - used,
                                 "%sredis://:%s@127.0.0.1:%d", i > 0 ? "," : "", servers->password,
                                 servers->list[i].port);
    }
}

static int draw_password(struct servers *servers) {
    unsigned char bytes[SERVER_PASSWORD_BYTES / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        complain("cannot draw a password: %s", strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(servers->password + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static const char *module_of(const struct servers *servers) {
    return servers->module[0] != '\0' ? servers->module : NULL;
}

/* `server` is one of them. */
static int start_one(struct servers *servers, struct server *server) {
    return server_start(server, servers->program, module_of(servers), servers->password,
                        servers->group);
}

static int reserve_ports(struct servers *servers) {
    for (size_t i = 0; i < servers->count; i++) {
        servers->list[i] =
            (struct server){.number = (unsigned)i + 1, .reserved = -1, .start_at = NEVER};
    }
    /* All are reserved before any is released: else the kernel might give one twice. */
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];
        int length = snprintf(server->directory, sizeof server->directory, "%s/node-%u",
                              servers->directory, server->number);
        if (length < 0 || (size_t)length >= sizeof server->directory) {
            complain("the directory's name is too long");
            return -1;
        }
        if (server_reserve_port(server) != 0) return -1;
    }
    return 0;
}

static struct server *server_of(struct servers *servers, pid_t pid) {
    for (size_t i = 0; i < servers->count; i++) {
        if (servers->list[i].pid == pid) return &servers->list[i];
    }
    return NULL;
}

static void server_died(struct servers *servers, struct server *server, int status) {
    char delay[64];
    server->pid = 0;
    const char *how = WIFSIGNALED(status) ? "was ended by signal" : "exited with status";
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    int64_t after = servers->restart_after_ms;
    if (after >= 0) server->start_at = now_ns() + after * MS;
    if (servers->quiet) return;
    complain("node-%u (port %d) %s %d%s%s", server->number, server->port, how, number,
             after >= 0 ? "; starting it again in " : "",
             after >= 0 ? duration_text(delay, sizeof delay, after) : "");
}

/* While starting: another process may have taken a port between the reservation and the server's
 * bind. */
static int replace_dead(struct servers *servers) {
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];
        int status;
        if (server->pid == 0 || waitpid(server->pid, &status, WNOHANG) != server->pid) continue;
        server->pid = 0;
        if (++server->tries >= TRIES_MAX) {
            complain("node-%u does not start (%s)", server->number, servers->program);
            server_show_log(server, module_of(servers));
            return -1;
        }
        if (server_reserve_port(server) != 0 || start_one(servers, server) != 0) return -1;
    }
    return 0;
}

static bool all_listen(const struct servers *servers) {
    for (size_t i = 0; i < servers->count; i++) {
        if (!server_listens(&servers->list[i])) return false;
    }
    return true;
}

static struct redlock_client *open_client(const struct servers *servers, int mode) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    options.mode = mode;
    options.connect_timeout_ms = CONNECT_WITHIN_MS;
    if (redlock_client_open(servers->nodes, &options, &client, &error) == REDLOCK_OK) return client;
    complain("%s", error.text);
    return NULL;
}

/* A port that accepts does not prove that the server answers yet. */
static int all_answer(struct servers *servers) {
    struct redlock_client *client = open_client(servers, REDLOCK_MODE_CLASSIC);
    if (client == NULL) return -1;
    int ready = redlock_client_wait_ready(client, LOOK_WITHIN_MS);
    redlock_client_free(client);
    return ready == (int)servers->count;
}

/* Once: a server that hangs is not waited for in silence. */
static void report_slow(const struct servers *servers, int64_t *report_at) {
    if (now_ns() < *report_at) return;
    *report_at = NEVER;
    if (!servers->quiet)
        complain(
            "still waiting: the servers run, but do not all answer yet; see %s/node-*/redis.log",
            servers->directory);
}

static int wait_ready(struct servers *servers, bool (*cancelled)(void *context), void *context) {
    int64_t report_at = now_ns() + REPORT_AFTER;
    while (!cancelled(context)) {
        if (replace_dead(servers) != 0) return -1;
        if (all_listen(servers)) {
            write_nodes(servers);
            int answer = all_answer(servers);
            if (answer != 0) return answer > 0 ? 0 : -1;
        }
        report_slow(servers, &report_at);
        pause_ms(5);
    }
    return -1;
}

static int read_quorum_id(struct servers *servers, struct redlock_client *client) {
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    int result = redlock_quorum_peek(client, &quorum, members, REDLOCK_NODES_MAX);
    snprintf(servers->quorum, sizeof servers->quorum, "%s", quorum.id);
    return result;
}

static bool lives(const struct server *server) {
    siginfo_t end = {.si_pid = 0};
    return waitid(P_PID, (id_t)server->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           end.si_pid == 0;
}

/* Each server lives, and is one that a quorum can have: so another try can succeed. */
static bool may_answer(const struct servers *servers, struct redlock_client *client) {
    for (size_t i = 0; i < servers->count; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (!lives(&servers->list[i]) || redlock_client_node(client, i, &status) != REDLOCK_OK ||
            status.verdict == REDLOCK_VERDICT_UNFIT)
            return false;
    }
    return true;
}

/* The servers are new, in directories that were empty: no client ever held a lock there. CONFLICT:
 * an earlier try has made it, and its answer came too late. */
static int init_quorum(struct servers *servers, struct redlock_client *client,
                       struct redlock_error *error) {
    struct redlock_quorum_options options;
    redlock_quorum_options_init(&options);
    options.never_used = 1;
    if (servers->ttl_max_ms > 0) options.ttl_ms_max = servers->ttl_max_ms;
    int result = redlock_quorum_init(client, &options, error);
    if (result != REDLOCK_OK && result != REDLOCK_CONFLICT) return result;
    result = read_quorum_id(servers, client);
    if (result != REDLOCK_OK)
        snprintf(error->text, sizeof error->text, "%s", redlock_result_text(result));
    return result;
}

static int make_quorum(struct servers *servers, bool (*cancelled)(void *context), void *context) {
    if (servers->mode != REDLOCK_MODE_GUARDED) return 0;
    struct redlock_error error;
    struct redlock_client *client = open_client(servers, REDLOCK_MODE_GUARDED);
    if (client == NULL) return -1;
    int result = init_quorum(servers, client, &error);
    while (result == REDLOCK_NO_QUORUM && !cancelled(context) && may_answer(servers, client))
        result = init_quorum(servers, client, &error);
    redlock_client_free(client);
    if (result == REDLOCK_OK) return 0;
    if (result == REDLOCK_NO_QUORUM && cancelled(context)) return -1;
    complain("the servers could not be made a quorum: %s; --mode classic does not need one",
             error.text);
    return -1;
}

int servers_start(struct servers *servers, bool (*cancelled)(void *context), void *context) {
    if (draw_password(servers) != 0 || reserve_ports(servers) != 0) return -1;
    for (size_t i = 0; i < servers->count; i++) {
        if (start_one(servers, &servers->list[i]) != 0) return -1;
    }
    if (wait_ready(servers, cancelled, context) != 0) return -1;
    return make_quorum(servers, cancelled, context);
}

void servers_stop(struct servers *servers) {
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];
        if (server->reserved >= 0) close(server->reserved);
        if (server->pid == 0) continue;
        kill(server->pid, SIGTERM);
        kill(server->pid, SIGCONT); /* it may have been stopped for a test */
    }
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];
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

void servers_restart_due(struct servers *servers) {
    int64_t now = now_ns();
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];
        if (server->start_at > now) continue;
        server->start_at = NEVER;
        if (start_one(servers, server) == 0 && servers->verbose) {
            complain("node-%u (port %d) is started again", server->number, server->port);
        }
    }
}

void servers_reaped(struct servers *servers, pid_t pid, int status) {
    struct server *server = server_of(servers, pid);
    if (server != NULL && !WIFSTOPPED(status)) server_died(servers, server, status);
}

int64_t servers_next_restart(const struct servers *servers) {
    int64_t at = NEVER;
    for (size_t i = 0; i < servers->count; i++)
        at = servers->list[i].start_at < at ? servers->list[i].start_at : at;
    return at;
}
