/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What `redlock serve` adds to a lock: the same cycle through a gateway on a Unix socket, by a
 * client that does nothing but write a request and read its answer, as any client in any language
 * does at least. The gateway is a process of its own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "process/sibling.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum {
    CONNECT_MS = 10000,
    PAUSE_MS = 5,
    ANSWER_BYTES = 512,
    KEY_BYTES = 64,
    VALUE_BYTES = 32,
    SHA_BYTES = 40
};

static const char release_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

struct gate_under_test {
    char directory[PATH_MAX];
    struct sockaddr_un address;
    pid_t pid;
    int fd;
    char sha[SHA_BYTES + 1];
};

/* ---- the gateway's process ------------------------------------------------------------------- */

static _Noreturn void become_gateway(struct bench *bench, const char *path, pid_t parent) {
    char listen[PATH_MAX + sizeof "unix://"], timeout[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    snprintf(listen, sizeof listen, "unix://%s", path);
    snprintf(timeout, sizeof timeout, "%lldms", (long long)library_node_timeout_ms(bench));
    bench_nodes_export(bench);
    char *arguments[] = {"serve",
                         "-q",
                         "--mode",
                         bench->mode == REDLOCK_MODE_GUARDED ? "guarded" : "classic",
                         "--node-timeout",
                         timeout,
                         "--listen",
                         listen,
                         NULL};
    _exit(sibling_main(arguments[0], (int)(sizeof arguments / sizeof arguments[0]) - 1, arguments));
}

/* False: it has ended, or does not start. */
static bool connect_to(struct gate_under_test *gate) {
    const int64_t until = now_ns() + CONNECT_MS * MS;
    while (now_ns() < until && waitpid(gate->pid, NULL, WNOHANG) == 0) {
        gate->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (gate->fd >= 0 &&
            connect(gate->fd, (const struct sockaddr *)&gate->address, sizeof gate->address) == 0)
            return true;
        if (gate->fd >= 0) close(gate->fd);
        gate->fd = -1;
        pause_ms(PAUSE_MS);
    }
    complain("the gateway accepts no connection");
    return false;
}

static void gate_close(struct gate_under_test *gate) {
    if (gate->fd >= 0) close(gate->fd);
    if (gate->pid > 0) {
        kill(gate->pid, SIGTERM);
        while (waitpid(gate->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    unlink(gate->address.sun_path);
    rmdir(gate->directory);
}

/* In the directory of the servers, which is removed in any case; where there is none, in one that
 * lives until the gateway is connected to. */
static int gate_open(struct bench *bench, struct gate_under_test *gate) {
    const char *where = bench->own ? bench->directory : getenv("TMPDIR");
    *gate = (struct gate_under_test){.address.sun_family = AF_UNIX, .fd = -1};
    if (where == NULL || where[0] != '/') where = "/tmp";
    int bytes = snprintf(gate->directory, sizeof gate->directory, "%s/gateway.XXXXXX", where);
    if (bytes < 0 || (size_t)bytes + 2 >= sizeof gate->address.sun_path) {
        complain("the path %s is too long for a socket: set TMPDIR to a shorter one", where);
        return EXIT_SYSTEM;
    }
    if (mkdtemp(gate->directory) == NULL) {
        complain("cannot make %s: %s", gate->directory, strerror(errno));
        return EXIT_SYSTEM;
    }
    memcpy(gate->address.sun_path, gate->directory, (size_t)bytes);
    memcpy(gate->address.sun_path + bytes, "/s", 3);
    const pid_t parent = getpid();
    gate->pid = fork();
    if (gate->pid == 0) become_gateway(bench, gate->address.sun_path, parent);
    if (gate->pid < 0) complain("cannot start a gateway in %s", gate->directory);
    if (gate->pid < 0 || !connect_to(gate)) {
        gate_close(gate);
        return EXIT_SYSTEM;
    }
    return 0;
}

/* ---- its client ------------------------------------------------------------------------------ */

/* Waits for the answer, for as many bytes as it is known to have. It uses poll(2), as event loops
 * and clients with a timeout do: on a Unix socket, a client that sleeps in recv(2) itself is woken
 * once more in vain when the gateway reads the request. False: the connection is closed. */
static bool ask(const struct gate_under_test *gate, const char *request, size_t bytes, char *answer,
                size_t wanted) {
    struct pollfd poller = {.fd = gate->fd, .events = POLLIN};
    size_t got = 0;
    if (send(gate->fd, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) return false;
    while (got < wanted) {
        ssize_t more =
            poll(&poller, 1, -1) == 1 ? recv(gate->fd, answer + got, wanted - got, 0) : 0;
        if (more <= 0) return false;
        got += (size_t)more;
        if (answer[0] == '-') break;
    }
    answer[got] = '\0';
    return true;
}

static int refused(const char *what, const char *answer) {
    complain("unexpected reply to %s through the gateway: '%.200s'", what,
             answer[0] != '\0' ? answer : "(nothing)");
    return EXIT_NO_QUORUM;
}

static int load_script(struct gate_under_test *gate) {
    char request[sizeof release_script + 64], answer[ANSWER_BYTES + 1] = "";
    int bytes =
        snprintf(request, sizeof request, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                 sizeof release_script - 1, release_script);
    if (!ask(gate, request, (size_t)bytes, answer, sizeof "$40\r\n\r\n" - 1 + SHA_BYTES) ||
        strncmp(answer, "$40\r\n", 5) != 0)
        return refused("SCRIPT LOAD", answer);
    snprintf(gate->sha, sizeof gate->sha, "%.40s", answer + 5);
    return 0;
}

struct names {
    char key[KEY_BYTES], value[VALUE_BYTES + 1];
    uint64_t number;
};

static int cycle(const struct bench *bench, const struct gate_under_test *gate,
                 struct names *names) {
    char request[ANSWER_BYTES], answer[ANSWER_BYTES + 1] = "", ttl[24];
    snprintf(names->value, sizeof names->value, "%032llx", (unsigned long long)++names->number);
    int ttl_bytes = snprintf(ttl, sizeof ttl, "%lld", (long long)bench->settings->ttl_ms);
    int bytes = snprintf(
        request, sizeof request,
        "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$%d\r\n%s\r\n",
        strlen(names->key), names->key, names->value, ttl_bytes, ttl);
    if (!ask(gate, request, (size_t)bytes, answer, 5) || memcmp(answer, "+OK\r\n", 5) != 0)
        return refused("SET", answer);
    bytes = snprintf(request, sizeof request,
                     "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$32\r\n%s\r\n",
                     gate->sha, strlen(names->key), names->key, names->value);
    if (!ask(gate, request, (size_t)bytes, answer, 4) || memcmp(answer, ":1\r\n", 4) != 0)
        return refused("EVALSHA", answer);
    return 0;
}

/* Of another process, so far. */
static int64_t cpu_of(pid_t pid) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return (int64_t)used.tv_sec * 1000 * MS + used.tv_nsec;
}

static int run(struct bench *bench, const struct gate_under_test *gate, struct meter *meter) {
    struct names names = {.number = 0};
    int64_t from, to;
    int status = 0;
    snprintf(names.key, sizeof names.key, "redlock-bench:%ld:gateway", (long)getpid());
    meter_start(meter, meter->closes - meter->opens);
    for (from = now_ns(); status == 0; from = to) {
        bool had_begun = meter->began != 0;
        bool goes_on = meter_turn(meter, from);
        if (!had_begun && meter->began != 0) meter->cpu_began += cpu_of(gate->pid);
        if (!goes_on) break;
        status = cycle(bench, gate, &names);
        to = now_ns();
        if (status == 0) meter_cycle(meter, from, to);
    }
    meter->cpu_ended += cpu_of(gate->pid);
    return status;
}

int gateway_run(struct bench *bench, struct meter *meter) {
    static struct gate_under_test gate; /* large */
    int status = gate_open(bench, &gate);
    if (status != 0) return status;
    status = load_script(&gate);
    if (status == 0) status = run(bench, &gate, meter);
    gate_close(&gate);
    return status;
}
