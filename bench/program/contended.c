/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One resource and many waiters, each a process with its own client, or, for the floor, with a
 * place in a ring: how many holds a second, how long the waits, and how evenly the turns fall. The
 * library's defaults stay unchanged here, the node timeout included.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "floor.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "ring.h"

enum {
    HOLD_NS = 1000000,
    CONNECT_MS = 20000,
    READY_MS = 30000,
    FLOOR_MS = 50,
    WAIT_AGAIN_MS = 5,
    JOINING_TURNS = 2
};

struct seat {
    uint32_t turns;
    uint64_t splits;
    int failure; /* enum redlock_result */
    bool broken; /* of the ring, which has told why */
    struct histogram waits;
};

/* Shared by all processes. */
struct board {
    atomic_int inside;
    atomic_int overlaps;
    _Atomic int64_t closes;
    struct seat seats[WAITERS_MAX];
};

struct crowd {
    struct bench *bench;
    bool floor; /* a ring */
    struct board *board;
    unsigned count;
    pid_t pids[WAITERS_MAX];
    int ready[2], start[2]; /* pipes */
    int64_t began;
};

/* ---- a waiter's process ---------------------------------------------------------------------- */

static void hold(struct board *board, struct seat *seat) {
    const struct timespec span = {.tv_nsec = HOLD_NS};
    seat->turns++;
    if (atomic_fetch_add(&board->inside, 1) != 0) atomic_fetch_add(&board->overlaps, 1);
    nanosleep(&span, NULL);
    atomic_fetch_sub(&board->inside, 1);
}

/* At first all come at once, open the connections that notify them, and form the queue. So the
 * first two waits of a process do not count. A wait in vain counts: it shows starvation. */
static void note_wait(struct seat *seat, int64_t ns, bool in_vain) {
    if (seat->turns >= JOINING_TURNS || in_vain) histogram_add(&seat->waits, ns);
}

static int take_a_turn(struct board *board, struct seat *seat, struct redlock_lock *lock) {
    const int64_t from = now_ns(), left = atomic_load(&board->closes) - from;
    int result = redlock_acquire(lock, left / MS);
    const int64_t until = now_ns() < from + left ? now_ns() : from + left;
    note_wait(seat, until - from, result != REDLOCK_OK);
    if (result != REDLOCK_OK) return result;
    hold(board, seat);
    redlock_release(lock);
    return REDLOCK_OK;
}

static struct redlock_client *open_waiter(struct crowd *crowd) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.mode = crowd->bench->mode;
    if (redlock_client_open(crowd->bench->nodes, &options, &client, NULL) != REDLOCK_OK)
        return NULL;
    redlock_client_wait_ready(client, CONNECT_MS);
    return client;
}

static void wait_for_start(const struct crowd *crowd) {
    char byte = 'r';
    if (write(crowd->ready[1], &byte, 1) != 1 || read(crowd->start[0], &byte, 1) != 0) _exit(1);
}

static void wait_in_queue(struct crowd *crowd, struct seat *seat) {
    struct redlock_lock_options options;
    struct redlock_lock *lock = NULL;
    struct redlock_client *client = open_waiter(crowd);
    library_lock_options(crowd->bench, &options);
    if (client == NULL || redlock_lock_new(client, "redlock-bench:contended", 23, &options, &lock,
                                           NULL) != REDLOCK_OK)
        seat->failure = REDLOCK_NO_MEMORY;
    wait_for_start(crowd);
    int result = seat->failure;
    while (now_ns() < atomic_load(&crowd->board->closes) &&
           (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM))
        result = take_a_turn(crowd->board, seat, lock);
    /* At the end the wait is over for most. */
    if (result != REDLOCK_HELD && result != REDLOCK_EXPIRED) seat->failure = result;
    redlock_lock_free(lock);
    struct redlock_stats stats = {.size = sizeof stats};
    if (client != NULL && redlock_client_stats(client, &stats) == REDLOCK_OK)
        seat->splits = stats.splits;
    redlock_client_free(client);
}

static void wait_in_ring(struct crowd *crowd, struct seat *seat) {
    const unsigned number = (unsigned)(seat - crowd->board->seats);
    struct ring *ring = NULL;
    seat->broken = ring_open(crowd->bench->nodes, number, crowd->count,
                             crowd->bench->settings->ttl_ms, &ring) != 0;
    wait_for_start(crowd);
    const int64_t closes = atomic_load(&crowd->board->closes);
    while (!seat->broken && now_ns() < closes) {
        const int64_t from = now_ns();
        const int taken = ring_take(ring, closes);
        seat->broken = taken < 0;
        if (taken != 1) break;
        note_wait(seat, now_ns() - from, false);
        hold(crowd->board, seat);
        seat->broken = ring_pass(ring) != 0;
    }
}

static _Noreturn void take_part(struct crowd *crowd, struct seat *seat, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* so that a hold of 1 ms takes 1 ms */
    if (getppid() != parent) _exit(1);
    close(crowd->start[1]);
    if (crowd->floor)
        wait_in_ring(crowd, seat);
    else
        wait_in_queue(crowd, seat);
    _exit(0);
}

/* ---- the process that counts ------------------------------------------------------------------
 */

static int summon(struct crowd *crowd) {
    const pid_t parent = getpid();
    for (unsigned i = 0; i < crowd->count; i++) {
        crowd->pids[i] = fork();
        if (crowd->pids[i] == 0) take_part(crowd, &crowd->board->seats[i], parent);
        if (crowd->pids[i] < 0) {
            complain("cannot start a process: %s", strerror(errno));
            crowd->count = i;
            return EXIT_SYSTEM;
        }
    }
    for (unsigned ready = 0; ready < crowd->count;) {
        char bytes[WAITERS_MAX];
        struct pollfd poller = {.fd = crowd->ready[0], .events = POLLIN};
        ssize_t got =
            poll(&poller, 1, READY_MS) == 1 ? read(crowd->ready[0], bytes, sizeof bytes) : 0;
        if (got <= 0) {
            complain("only %u of %u waiters are ready", ready, crowd->count);
            return EXIT_SYSTEM;
        }
        ready += (unsigned)got;
    }
    return 0;
}

static void dismiss(struct crowd *crowd, int status) {
    close(crowd->start[1]);
    for (unsigned i = 0; i < crowd->count; i++) {
        /* ^C may have come to this process alone. */
        for (pid_t pid = 0; pid == 0 || (pid < 0 && errno == EINTR);
             pid = waitpid(crowd->pids[i], NULL, WNOHANG)) {
            if (status != 0 || meters_are_interrupted()) kill(crowd->pids[i], SIGKILL);
            pause_ms(WAIT_AGAIN_MS);
        }
    }
    close(crowd->ready[0]);
    close(crowd->ready[1]);
    close(crowd->start[0]);
}

/* The longest wait in a perfect queue: the hold of every other waiter, and between two holds the
 * time of a cycle at the floor. */
static int perfect_wait(struct bench *bench, unsigned waiters, double *ns) {
    struct floor *floor;
    struct floor_work work = {.in_flight = 1, .resources = 1, .ttl_ms = bench->settings->ttl_ms};
    struct meter meter = {.closes = FLOOR_MS * MS};
    if (floor_open(bench->nodes, &floor) != 0) return EXIT_NO_QUORUM;
    int result = floor_run(floor, &work, &meter);
    floor_close(floor);
    *ns = waiters * ((double)HOLD_NS + histogram_percentile_ns(&meter.latency, 0.5));
    return result == 0 ? 0 : EXIT_NO_QUORUM;
}

static int judge(const struct crowd *crowd, double perfect_ns, struct meter *meter,
                 struct sample *sample) {
    uint32_t fewest = UINT32_MAX, most = 0;
    double holds = 0, splits = 0;
    for (unsigned i = 0; i < crowd->count; i++) {
        const struct seat *seat = &crowd->board->seats[i];
        if (seat->broken) return EXIT_NO_QUORUM;
        if (seat->failure != 0 && seat->failure != REDLOCK_NO_QUORUM)
            return library_failed("a waiter", seat->failure);
        if (seat->turns < fewest) fewest = seat->turns;
        if (seat->turns > most) most = seat->turns;
        holds += seat->turns;
        splits += (double)seat->splits;
        histogram_merge(&meter->latency, &seat->waits);
    }
    if (atomic_load(&crowd->board->overlaps) > 0) {
        complain("two clients held the lock at the same time, %d times",
                 atomic_load(&crowd->board->overlaps));
        return EXIT_SYSTEM;
    }
    sample->figures[FIGURE_RATE] = holds * 1e9 / (double)(meter->ended - meter->began);
    sample->figures[FIGURE_CPU] =
        holds > 0 ? (double)(meter->cpu_ended - meter->cpu_began) / 1e3 / holds : NAN;
    sample->figures[FIGURE_FEWEST] = fewest;
    sample->figures[FIGURE_MOST] = most;
    sample->figures[FIGURE_EVENNESS] = most > 0 ? (double)fewest / most : 0;
    sample->figures[FIGURE_SPLITS] = holds > 0 && !crowd->floor ? splits / holds : NAN;
    sample->figures[FIGURE_QUEUE] = (double)meter->latency.most / perfect_ns;
    return 0;
}

static int contend(struct crowd *crowd, struct meter *meter) {
    const int64_t open_ns = meter->closes - meter->opens;
    if (pipe(crowd->ready) != 0) return EXIT_SYSTEM;
    if (pipe(crowd->start) != 0) {
        close(crowd->ready[0]);
        close(crowd->ready[1]);
        return EXIT_SYSTEM;
    }
    int status = summon(crowd);
    meter->cpu_began = cpu_ns(RUSAGE_CHILDREN);
    meter->began = now_ns();
    meter->ended = meter->began + open_ns;
    atomic_store(&crowd->board->closes, meter->ended);
    dismiss(crowd, status); /* closing the pipe is the start; then they are waited for */
    meter->cpu_ended = cpu_ns(RUSAGE_CHILDREN);
    return status;
}

int contended_run(struct bench *bench, const struct measure *measure, bool floor,
                  struct meter *meter, struct sample *sample) {
    static struct crowd crowd;
    double perfect_ns = 0;
    int status = perfect_wait(bench, measure->in_flight, &perfect_ns);
    if (status != 0) return status;
    void *shared =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        complain("no memory to share: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    crowd = (struct crowd){
        .bench = bench, .floor = floor, .board = shared, .count = measure->in_flight};
    status = contend(&crowd, meter);
    if (status == 0) status = judge(&crowd, perfect_ns, meter, sample);
    munmap(shared, sizeof(struct board));
    return status;
}
