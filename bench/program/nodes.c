/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where bench measures: a quorum of its own, new for each number of nodes; or what -N lists, or the
 * first of them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "bench.h"
#include "process/exit_codes.h"
#include "process/message.h"

#define BETWEEN ", \t\n"

static size_t count_listed(const char *nodes) {
    size_t count = 0;
    for (const char *at = nodes + strspn(nodes, BETWEEN); *at != '\0'; at += strspn(at, BETWEEN)) {
        at += strcspn(at, BETWEEN);
        count++;
    }
    return count;
}

static int open_own(struct bench *bench) {
    const char *where = getenv("TMPDIR");
    struct servers *servers = &bench->servers;
    bench->own = true;
    if (server_find_program(bench->settings->server, servers->program, sizeof servers->program) !=
        0)
        return EXIT_CONFIG;
    snprintf(bench->directory, sizeof bench->directory, "%s/redlock-bench.XXXXXX",
             where != NULL && where[0] == '/' ? where : "/tmp");
    if (mkdtemp(bench->directory) == NULL) {
        complain("cannot make %s: %s", bench->directory, strerror(errno));
        return EXIT_SYSTEM;
    }
    if (janitor_start(&bench->janitor, bench->directory, true) != 0) {
        rmdir(bench->directory);
        return EXIT_SYSTEM;
    }
    servers->group = bench->janitor.pid;
    servers->mode = bench->mode;
    servers->restart_after_ms = -1;
    servers->quiet = bench->settings->quiet;
    if (bench->settings->ttl_ms > REDLOCK_QUORUM_TTL_MS_MAX)
        servers->ttl_max_ms = bench->settings->ttl_ms;
    return 0;
}

int bench_nodes_open(struct bench *bench) {
    const char *nodes = bench->settings->nodes;
    signal(SIGCHLD, SIG_DFL); /* our caller may ignore it, and we wait for children */
    if (nodes == NULL) return open_own(bench);
    bench->nodes_listed = count_listed(nodes);
    if (bench->nodes_listed > 0 && bench->nodes_listed <= REDLOCK_NODES_MAX &&
        strlen(nodes) < sizeof bench->nodes)
        return 0;
    complain("-N: bench needs 1 to %d nodes, not %zu", REDLOCK_NODES_MAX, bench->nodes_listed);
    return EXIT_CONFIG;
}

static bool never(void *context) {
    (void)context;
    return false;
}

static int restart(struct bench *bench, size_t count) {
    struct servers *servers = &bench->servers;
    if (servers->count == count) return 0;
    servers_stop(servers);
    servers->count = count;
    int length = snprintf(servers->directory, sizeof servers->directory, "%s/quorum-%u",
                          bench->directory, ++bench->quorums);
    if (length < 0 || (size_t)length >= sizeof servers->directory ||
        mkdir(servers->directory, 0700) != 0) {
        complain("cannot make a directory in %s", bench->directory);
        return EXIT_SYSTEM;
    }
    if (servers_start(servers, never, NULL) != 0) return EXIT_SYSTEM;
    snprintf(bench->nodes, sizeof bench->nodes, "%s", servers->nodes);
    return 0;
}

int bench_nodes_use(struct bench *bench, size_t count) {
    if (bench->own) return restart(bench, count);
    const char *listed = bench->settings->nodes + strspn(bench->settings->nodes, BETWEEN),
               *at = listed;
    for (size_t i = 0; i < count; i++) {
        at += strspn(at, BETWEEN);
        at += strcspn(at, BETWEEN);
    }
    snprintf(bench->nodes, sizeof bench->nodes, "%.*s", (int)(at - listed), listed);
    return 0;
}

/* The environment is for the measuring process, not for the measured one. */
static void forget_settings(void) {
    for (char **at = environ; *at != NULL;) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (strncmp(name, "REDLOCK_", 8) == 0 && unsetenv(name) == 0)
            at = environ;
        else
            at++;
    }
}

void bench_nodes_export(const struct bench *bench) {
    forget_settings();
    setenv("REDLOCK_CONFIG", "/dev/null", 1);
    /* they may have passwords, and all users see a command line */
    setenv("REDLOCK_NODES", bench->nodes, 1);
}

void bench_nodes_close(struct bench *bench) {
    if (!bench->own || bench->janitor.pid <= 0) return;
    native_close(bench);
    servers_stop(&bench->servers);
    janitor_finish(&bench->janitor);
}
