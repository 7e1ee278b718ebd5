/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one operation costs a node: the processor time of the servers, by the kernel's account, for
 * each operation and node, less that of the same servers without work.
 * usage: redlock up -- node_cost [SECONDS]   (3 for each row)
 * Rows are cycles (acquire and release), extensions, and clients that hold a lock of 30 s or wait
 * for one, in classic mode and in that of the nodes: `redlock up --mode guarded`, or `--native`.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cost.h"

enum { CLIENTS = 200, SERVERS_MAX = 15, SETTLE_S = 3 };

static int servers[SERVERS_MAX], servers_count;
static int64_t idle_ns; /* of one server, a second */

/* ---- the servers: children of the process that started this one ---- */

static bool read_line(const char *format, int pid, char *line, int size) {
    char path[64];
    snprintf(path, sizeof(path), format, pid);
    FILE *file = fopen(path, "r");
    const bool read = file && fgets(line, size, file);
    if (file) fclose(file);
    return read;
}

static void find_servers(void) {
    struct dirent *entry;
    DIR *all = opendir("/proc");
    while (all && (entry = readdir(all)) && servers_count < SERVERS_MAX) {
        char line[512];
        int parent, pid = atoi(entry->d_name);
        if (pid <= 0 || pid == getpid() || !read_line("/proc/%d/stat", pid, line, sizeof(line)))
            continue;
        const char *rest = strrchr(line, ')');
        if (rest && sscanf(rest, ") %*c %d", &parent) == 1 && parent == getppid() &&
            strstr(line, "-server"))
            servers[servers_count++] = pid;
    }
    if (all) closedir(all);
    if (servers_count == 0) {
        fputs("no servers found; run this program with: redlock up -- node_cost\n", stderr);
        exit(64);
    }
}

/* Of one server, on average: that of its main thread, which executes the commands. */
static int64_t spent_ns(void) {
    int64_t sum = 0, one;
    for (int i = 0; i < servers_count; i++) {
        char line[128];
        if (read_line("/proc/%d/schedstat", servers[i], line, sizeof(line)) &&
            sscanf(line, "%" SCNd64, &one) == 1)
            sum += one;
    }
    return sum / servers_count;
}

static void rest(int seconds) {
    const struct timespec span = {.tv_sec = seconds};
    nanosleep(&span, NULL);
}

static void print_row(const char *mode, const char *what, double us, const char *unit) {
    printf("%-8s %-22s %8.1f us a node%s\n", mode, what, us, unit);
    fflush(stdout);
}

/* ---- rows ---- */

static void operations(const char *mode, struct redlock_client *client, bool extends, int seconds) {
    struct redlock_lock *lock = cost_lock(client, "cost", false);
    const int64_t began = cost_now_ns(), before = spent_ns(),
                  until = began + seconds * INT64_C(1000000000);
    int64_t count = 0;
    if (extends) cost_must(redlock_acquire(lock, 1000), "acquire", "");
    for (; cost_now_ns() < until; count++) {
        if (extends) {
            cost_must(redlock_extend(lock, 0), "extend", "");
            continue;
        }
        cost_must(redlock_acquire(lock, 1000), "acquire", "");
        cost_must(redlock_release(lock), "release", "");
    }
    const int64_t idle = (cost_now_ns() - began) / 1000000000 * idle_ns;
    const double us = (double)(spent_ns() - before - idle) / 1000 / (double)count;
    if (extends) cost_must(redlock_release(lock), "release", "");
    print_row(mode, extends ? "an extension" : "acquire and release", us, "");
    redlock_lock_free(lock);
}

static void done(void *context, struct redlock_lock *lock, int result) {
    (void)context;
    (void)lock;
    (void)result;
}

/* Each a client of its own, as in a fleet. The first holds the lock that the others wait for. */
static void clients(const char *name, enum redlock_mode mode, bool wait, int seconds) {
    static struct redlock_client *client[CLIENTS];
    static struct redlock_lock *lock[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        char key[32];
        struct redlock_lock_options options;
        struct redlock_error error = {0};
        redlock_lock_options_init(&options);
        snprintf(key, sizeof(key), wait ? "one-%d" : "own-%d", wait ? i / 20 : i);
        client[i] = cost_client(mode, 1);
        cost_must(redlock_lock_new(client[i], key, strlen(key), &options, &lock[i], &error), "lock",
                  error.text);
        if (wait && i % 20 > 0)
            cost_must(redlock_acquire_start(lock[i], REDLOCK_WAIT_FOREVER, done, NULL), "wait", "");
        else
            cost_must(redlock_acquire(lock[i], 1000), "acquire", "");
    }
    rest(SETTLE_S);
    const int64_t began = cost_now_ns(), before = spent_ns();
    rest(10 * seconds);
    const double spent = (double)(spent_ns() - before),
                 span = (double)(cost_now_ns() - began) / 1e9;
    print_row(name, wait ? "a client that waits" : "a client that holds",
              (spent / span - (double)idle_ns) / 1000 / CLIENTS, " and second");
    for (int i = CLIENTS - 1; i >= 0; i--) {
        redlock_cancel(lock[i]);
        redlock_lock_free(lock[i]);
        redlock_client_free(client[i]);
    }
}

static void rows(const char *name, enum redlock_mode mode, int seconds) {
    struct redlock_client *client = cost_client(mode, 1);
    operations(name, client, false, seconds);
    operations(name, client, true, seconds);
    redlock_client_free(client);
    clients(name, mode, false, seconds);
    clients(name, mode, true, seconds);
}

int main(int argc, char **argv) {
    const int seconds = argc > 1 ? atoi(argv[1]) : 3;
    if (seconds < 1) {
        fputs("usage: redlock up -- node_cost [SECONDS]\n", stderr);
        return 64;
    }
    find_servers();
    rest(1);
    const int64_t before = spent_ns();
    rest(seconds);
    idle_ns = (spent_ns() - before) / seconds;
    print_row("", "without work", (double)idle_ns / 1000, " and second");
    rows("classic", REDLOCK_MODE_CLASSIC, seconds);
    rows("auto", REDLOCK_MODE_AUTO, seconds);
    return 0;
}
