/* SPDX-License-Identifier: BSD-2-Clause */
#include "quorum.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boottime.h"
#include "duration.h"
#include "message.h"

#define READY_WITHIN (10000 * MS)
#define TRIES_MAX 5

static void write_nodes(struct quorum *quorum) {
    size_t used = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        used += (size_t)snprintf(quorum->nodes + used, sizeof quorum->nodes - used, "%sredis://127.0.0.1:%d",
                                 i > 0 ? "," : "", quorum->servers[i].port);
    }
}

static int reserve_ports(struct quorum *quorum) {
    for (size_t i = 0; i < quorum->count; i++) {
        quorum->servers[i] = (struct server){.number = (unsigned)i + 1, .reserved = -1, .start_at = NEVER};
    }
    /* All are held before any is let go: else the kernel might give one twice. */
    for (size_t i = 0; i < quorum->count; i++) {
        struct server *server = &quorum->servers[i];
        int length =
            snprintf(server->directory, sizeof server->directory, "%s/node-%u", quorum->directory, server->number);
        if (length < 0 || (size_t)length >= sizeof server->directory) {
            complain("the directory's name is too long");
            return -1;
        }
        if (server_reserve_port(server) != 0) return -1;
    }
    return 0;
}

static struct server *server_of(struct quorum *quorum, pid_t pid) {
    for (size_t i = 0; i < quorum->count; i++) {
        if (quorum->servers[i].pid == pid) return &quorum->servers[i];
    }
    return NULL;
}

static void server_died(struct quorum *quorum, struct server *server, int status) {
    char delay[64];
    server->pid = 0;
    const char *how = WIFSIGNALED(status) ? "was ended by signal" : "exited with status";
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    int64_t after = quorum->restart_after_ms;
    if (after >= 0) server->start_at = now_ns() + after * MS;
    if (quorum->quiet) return;
    complain("node-%u (port %d) %s %d%s%s", server->number, server->port, how, number,
             after >= 0 ? "; starting it again in " : "", after >= 0 ? duration_text(delay, sizeof delay, after) : "");
}

/* While starting: a port may have been snatched between our bind and the server's. */
static int replace_dead(struct quorum *quorum) {
    for (size_t i = 0; i < quorum->count; i++) {
        struct server *server = &quorum->servers[i];
        int status;
        if (server->pid == 0 || waitpid(server->pid, &status, WNOHANG) != server->pid) continue;
        server->pid = 0;
        if (++server->tries >= TRIES_MAX) {
            complain("node-%u does not start (%s)", server->number, quorum->program);
            server_show_log(server);
            return -1;
        }
        if (server_reserve_port(server) != 0 || server_start(server, quorum->program, quorum->group) != 0) return -1;
    }
    return 0;
}

static bool all_listen(const struct quorum *quorum) {
    for (size_t i = 0; i < quorum->count; i++) {
        if (!server_listens(&quorum->servers[i])) return false;
    }
    return true;
}

/* A port that accepts is not yet a server that answers as a client wants it. */
static int all_answer(struct quorum *quorum) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    if (redlock_client_open(quorum->nodes, &options, &client, &error) != REDLOCK_OK) {
        complain("%s", error.text);
        return -1;
    }
    int ready = redlock_client_wait_ready(client, options.connect_timeout_ms);
    redlock_client_free(client);
    return ready == (int)quorum->count;
}

static int wait_ready(struct quorum *quorum, bool (*cancelled)(void *context), void *context) {
    const int64_t until = now_ns() + READY_WITHIN;
    while (!cancelled(context)) {
        if (replace_dead(quorum) != 0) return -1;
        if (all_listen(quorum)) {
            write_nodes(quorum);
            int answer = all_answer(quorum);
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

int quorum_start(struct quorum *quorum, bool (*cancelled)(void *context), void *context) {
    if (reserve_ports(quorum) != 0) return -1;
    for (size_t i = 0; i < quorum->count; i++) {
        if (server_start(&quorum->servers[i], quorum->program, quorum->group) != 0) return -1;
    }
    return wait_ready(quorum, cancelled, context);
}

void quorum_stop(struct quorum *quorum) {
    for (size_t i = 0; i < quorum->count; i++) {
        struct server *server = &quorum->servers[i];
        if (server->reserved >= 0) close(server->reserved);
        if (server->pid == 0) continue;
        kill(server->pid, SIGTERM);
        kill(server->pid, SIGCONT); /* somebody may have stopped it, to see what happens */
    }
    for (size_t i = 0; i < quorum->count; i++) {
        struct server *server = &quorum->servers[i];
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

void quorum_restart_due(struct quorum *quorum) {
    int64_t now = now_ns();
    for (size_t i = 0; i < quorum->count; i++) {
        struct server *server = &quorum->servers[i];
        if (server->start_at > now) continue;
        server->start_at = NEVER;
        if (server_start(server, quorum->program, quorum->group) == 0 && quorum->verbose) {
            complain("node-%u (port %d) is started again", server->number, server->port);
        }
    }
}

void quorum_reaped(struct quorum *quorum, pid_t pid, int status) {
    struct server *server = server_of(quorum, pid);
    if (server != NULL && !WIFSTOPPED(status)) server_died(quorum, server, status);
}

int64_t quorum_next_restart(const struct quorum *quorum) {
    int64_t at = NEVER;
    for (size_t i = 0; i < quorum->count; i++) at = quorum->servers[i].start_at < at ? quorum->servers[i].start_at : at;
    return at;
}
