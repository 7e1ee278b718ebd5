/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One of the processes that contend for a lock while servers fail. It uses the library as its
 * manual says: it works only while redlock_validity_ms() is above 0. To a witness, a file that all
 * append to, it says when it was inside (times are nanoseconds of CLOCK_BOOTTIME):
 *
 *   enter RESOURCE PID FENCE ASKED TOLD END TOKEN   the try began, was won; validity ends
 *   leave RESOURCE PID NOW END                      before anything is released; END as it is now,
 * 0: the lock is lost tried RESOURCE PID RESULT NOW                   a try that was not won, when
 * its result is another than the last; step by step (-s): each wrote RESOURCE PID FENCE VALUE an
 * update of the table that was acknowledged fenced RESOURCE PID FENCE                       one
 * that was refused ready RESOURCE PID                              connected; step by step only
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <redlock.h>

/* A file that the test writes while we run. */
struct control {
    _Atomic int64_t hold_ms; /* how long to stay inside, if validity lasts */
    _Atomic int64_t only;    /* who may try: 0 everyone, -1 nobody, or this process */
    _Atomic int64_t busy; /* how many are trying or inside, or are about to look whether they may */
    _Atomic int64_t stop; /* 1: whoever is next between its look at validity and its write says so
                             here and stops */
};

struct worker {
    const char *nodes, *resource, *control_path, *witness_path, *table;
    int mode;           /* -1: the library's default */
    const char *quorum; /* pinned; NULL: not */
    bool keep;          /* renew, and stay until told to end */
    bool fresh;         /* each try is for a new resource */
    bool step;          /* a permission to try is for one try */
    bool allow_replicas;
    bool to_the_end; /* of its validity: no time is left for the caller to be told */
    int64_t ttl_ms, node_timeout_ms, pause_ms_max;
    struct control *control;
    int witness;
    struct redlock_client *client;
    int last_result;
    uint64_t tries;
};

static volatile sig_atomic_t ended;
static int64_t wall_behind_s;

/* The wall clock of this process and its library may be wrong, all other clocks are true (ld
 * --wrap). */
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts) {
    int result = __real_clock_gettime(clock, ts);
    if (result == 0 && clock == CLOCK_REALTIME) ts->tv_sec -= (time_t)wall_behind_s;
    return result;
}

static void on_term(int number) {
    (void)number;
    ended = 1;
}

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "worker: %s: %s\n", what, why);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void nap_ms(int64_t ms) {
    const struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    nanosleep(&ts, NULL);
}

/* One write(2) to a file opened with O_APPEND, so that records of several processes do not mix. */
__attribute__((format(printf, 2, 3))) static void record(const struct worker *worker,
                                                         const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (bytes < 0 || (size_t)bytes >= sizeof line) die("record", "too long");
    if (write(worker->witness, line, (size_t)bytes) != bytes)
        die(worker->witness_path, strerror(errno));
}

/* ---- the table ---- */

/* What `table read FENCE` or `table write FENCE VALUE` prints; false: nothing, it was refused. */
static bool ask_table(const struct worker *worker, const char *what, int64_t fence,
                      int64_t *value) {
    char command[512], said[64] = "";
    snprintf(command, sizeof command, "%s %s %" PRId64 " %" PRId64, worker->table, what, fence,
             *value);
    FILE *pipe = popen(command, "r");
    if (!pipe) die(command, strerror(errno));
    bool any = fgets(said, sizeof said, pipe) != NULL;
    if (pclose(pipe) != 0) die(command, "failed");
    if (any) *value = strtoll(said, NULL, 10);
    return any;
}

static void stop_if_asked(const struct worker *worker) {
    int64_t asked = 1;
    if (atomic_compare_exchange_strong(&worker->control->stop, &asked, (int64_t)getpid()))
        raise(SIGSTOP);
}

/* ---- a turn ---- */

static void stay(const struct worker *worker, struct redlock_lock *lock, int64_t reported_ns) {
    while (!ended && redlock_validity_ms(lock) > 0) {
        if (!worker->keep &&
            now_ns() - reported_ns >= atomic_load(&worker->control->hold_ms) * 1000000)
            return;
        nap_ms(2);
    }
}

/* Read, add one, write: the write only if validity is left, as far as anybody can look. */
static void update_table(const struct worker *worker, struct redlock_lock *lock,
                         const char *resource, int64_t reported_ns) {
    int64_t fence = redlock_fence(lock), value = 0;
    bool admitted = ask_table(worker, "read", fence, &value);
    stay(worker, lock, reported_ns);
    if (!admitted) {
        record(worker, "fenced %s %d %" PRId64 "\n", resource, (int)getpid(), fence);
        return;
    }
    if (redlock_validity_ms(lock) <= 0) return;
    stop_if_asked(worker);
    value++;
    int64_t said = value;
    if (ask_table(worker, "write", fence, &said))
        record(worker, "wrote %s %d %" PRId64 " %" PRId64 "\n", resource, (int)getpid(), fence,
               value);
    else
        record(worker, "fenced %s %d %" PRId64 "\n", resource, (int)getpid(), fence);
}

static void turn(const struct worker *worker, struct redlock_lock *lock, const char *resource,
                 int64_t asked_ns) {
    int64_t end_ns = redlock_validity_end_ns(lock), reported_ns = now_ns();
    struct redlock_bytes token = redlock_token(lock);
    if (redlock_validity_ms(lock) <= 0) return;
    record(worker, "enter %s %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %.*s\n", resource,
           (int)getpid(), redlock_fence(lock), asked_ns, reported_ns, end_ns, (int)token.bytes,
           (const char *)token.data);
    if (worker->table)
        update_table(worker, lock, resource, reported_ns);
    else
        stay(worker, lock, reported_ns);
    int64_t left_ns = now_ns();
    record(worker, "leave %s %d %" PRId64 " %" PRId64 "\n", resource, (int)getpid(), left_ns,
           redlock_validity_end_ns(lock));
}

static struct redlock_lock *new_lock(const struct worker *worker, const char *resource) {
    struct redlock_lock_options options;
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    redlock_lock_options_init(&options);
    options.ttl_ms = worker->ttl_ms;
    options.renew = worker->keep;
    if (worker->to_the_end) options.lost_margin_ms = 0;
    if (redlock_lock_new(worker->client, resource, strlen(resource), &options, &lock, &error) !=
        REDLOCK_OK)
        die(resource, error.text);
    return lock;
}

static void try_once(struct worker *worker, struct redlock_lock *lock, const char *resource) {
    int64_t asked_ns = now_ns();
    int result = redlock_try(lock);
    if (result == REDLOCK_OK) {
        turn(worker, lock, resource, asked_ns);
        redlock_release(lock);
    } else if (result != worker->last_result || worker->step) {
        record(worker, "tried %s %d %d %" PRId64 "\n", resource, (int)getpid(), result, now_ns());
    }
    worker->last_result = result;
    worker->tries++;
}

static bool may_try(const struct worker *worker) {
    _Atomic int64_t *may = &worker->control->only;
    int64_t only = worker->step ? atomic_exchange(may, -1) : atomic_load(may);
    return only == 0 || only == getpid();
}

static void try_fresh(struct worker *worker) {
    char resource[128];
    snprintf(resource, sizeof resource, "%s-%" PRIu64, worker->resource, worker->tries);
    struct redlock_lock *lock = new_lock(worker, resource);
    try_once(worker, lock, resource);
    redlock_lock_free(lock);
}

static void contend(struct worker *worker) {
    struct redlock_lock *lock = worker->fresh ? NULL : new_lock(worker, worker->resource);
    while (!ended) {
        atomic_fetch_add(&worker->control->busy, 1);
        bool may = may_try(worker);
        if (may && lock)
            try_once(worker, lock, worker->resource);
        else if (may)
            try_fresh(worker);
        atomic_fetch_sub(&worker->control->busy, 1);
        nap_ms(1 + random() % worker->pause_ms_max);
    }
    redlock_lock_free(lock);
}

/* ---- beginning ---- */

static void open_files(struct worker *worker) {
    int fd = open(worker->control_path, O_RDWR | O_CLOEXEC);
    void *map = fd >= 0
                    ? mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    if (map == MAP_FAILED) die(worker->control_path, strerror(errno));
    close(fd);
    worker->control = map;
    worker->witness = open(worker->witness_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (worker->witness < 0) die(worker->witness_path, strerror(errno));
}

static void open_client(struct worker *worker) {
    struct redlock_client_options options;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    if (worker->mode >= 0) options.mode = worker->mode;
    options.quorum = worker->quorum;
    options.allow_replicas = worker->allow_replicas;
    options.node_timeout_ms = worker->node_timeout_ms;
    if (redlock_client_open(worker->nodes, &options, &worker->client, &error) != REDLOCK_OK)
        die(worker->nodes, error.text);
    redlock_client_wait_ready(worker->client, 2000);
}

static int mode_named(const char *name) {
    if (strcmp(name, "default") == 0) return -1;
    return strcmp(name, "guarded") == 0 ? REDLOCK_MODE_GUARDED : REDLOCK_MODE_CLASSIC;
}

static void read_options(struct worker *worker, int count, char **words) {
    for (int option; (option = getopt(count, words, "N:m:r:c:w:x:t:T:p:q:b:kfsRe")) != -1;) {
        switch (option) {
        case 'N': worker->nodes = optarg; break;
        case 'm': worker->mode = mode_named(optarg); break;
        case 'r': worker->resource = optarg; break;
        case 'c': worker->control_path = optarg; break;
        case 'w': worker->witness_path = optarg; break;
        case 'x': worker->table = optarg; break;
        case 't': worker->ttl_ms = atoll(optarg); break;
        case 'T': worker->node_timeout_ms = atoll(optarg); break;
        case 'p': worker->pause_ms_max = atoll(optarg); break;
        case 'q': worker->quorum = optarg; break;
        case 'b': wall_behind_s = atoll(optarg); break;
        case 'k': worker->keep = true; break;
        case 'f': worker->fresh = true; break;
        case 's': worker->step = true; break;
        case 'e': worker->to_the_end = true; break;
        case 'R': worker->allow_replicas = true; break;
        default: exit(64);
        }
    }
    if (!worker->nodes || !worker->resource || !worker->control_path || !worker->witness_path)
        exit(64);
}

int main(int count, char **words) {
    struct worker worker = {.ttl_ms = 1000, .node_timeout_ms = 300, .pause_ms_max = 30};
    const struct sigaction term = {.sa_handler = on_term};
    sigset_t blocked;
    read_options(&worker, count, words);
    srandom((unsigned)getpid());
    sigaction(SIGTERM, &term, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM); /* by the test, until now */
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    open_files(&worker);
    open_client(&worker);
    if (worker.step) record(&worker, "ready %s %d\n", worker.resource, (int)getpid());
    contend(&worker);
    redlock_client_free(worker.client);
    return 0;
}
