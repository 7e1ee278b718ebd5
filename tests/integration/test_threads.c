/* SPDX-License-Identifier: BSD-2-Clause
 *
 * 64 threads share one client, its service thread on, and contend for 100 resources on five nodes,
 * while nodes are killed and come back empty. Eight more, the rivals, share a second client: on
 * connections of its own its commands reach the nodes in other orders, which is what votes are
 * there for. What must hold is seen by a witness that knows nothing of Redis: whoever is inside the
 * validity of a lock makes a file with O_CREAT | O_EXCL and removes it before the validity ends.
 *
 * Eight seconds by default; by hand a minute, under the sanitizers too:
 *     REDLOCK_THREADS_SECONDS=60 ctest --preset tsan -R integration.threads
 * or: test_threads 60
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fixtures.h"
#include "notices.h"

#define SHARERS 64
#define RIVALS 8
#define THREADS (SHARERS + RIVALS)
#define RESOURCES 100
#define NODES 5
#define TTL_MS 2000
#define MARGIN_MS 200
#define WITNESS_MS_MIN                                                                             \
    800 /* with less validity left the witness is not called: this process may be stopped that     \
           long */
#define STAYS_MAX 10000

/* A stay inside that lasted longer than its lock (this thread did not run for so long): then the
 * lock was another's, and rightly. */
struct stay {
    int resource;
    int64_t from_ns, to_ns;
};

struct worker {
    pthread_t thread;
    struct redlock_client *client;
    unsigned seed;
    pthread_mutex_t mutex; /* over `lock`, so that it can be cancelled by others */
    struct redlock_lock *lock;
};

static struct redlock_client *shared, *rival;
static struct worker workers[THREADS];
static atomic_bool stop;
static atomic_int down; /* nodes that are dead now */
static char dir[] = "/tmp/redlock-test-XXXXXX";
static int seconds = 8;

static atomic_ulong acquired, acquired_while_down, refused, cancelled, no_quorum, expired, others,
    witnessed, extended, lost;

static pthread_mutex_t stays_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct stay overlong[STAYS_MAX], clashes[STAYS_MAX];
static int overlong_count, clashes_count;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static unsigned draw(struct worker *worker, unsigned below) {
    return (unsigned)rand_r(&worker->seed) % below;
}

static void note(struct stay *list, int *count, struct stay stay) {
    pthread_mutex_lock(&stays_mutex);
    if (*count < STAYS_MAX) list[(*count)++] = stay;
    pthread_mutex_unlock(&stays_mutex);
}

/* ---- inside ---- */

static void maybe_extend(struct worker *worker, struct redlock_lock *lock) {
    if (draw(worker, 4) != 0) return;
    int result = redlock_extend(lock, draw(worker, 2) ? 0 : TTL_MS / 2);
    if (result == REDLOCK_OK) atomic_fetch_add(&extended, 1);
    if (result == REDLOCK_LOST) atomic_fetch_add(&lost, 1);
}

/* The end of validity only ever moves on; 0 when the lock is known to be lost, which is told before
 * validity ends. */
static int64_t later_end(struct redlock_lock *lock, int64_t end_ns) {
    int64_t now_end_ns = redlock_validity_end_ns(lock);
    return now_end_ns > end_ns ? now_end_ns : end_ns;
}

static void stay_inside(struct worker *worker, struct redlock_lock *lock, int resource) {
    char path[64];
    snprintf(path, sizeof path, "%s/%d", dir, resource);
    int64_t end_ns = redlock_validity_end_ns(lock), came_ns = now_ns();
    if (end_ns - came_ns < WITNESS_MS_MIN * INT64_C(1000000)) return;
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0) {
        if (errno != EEXIST) abort();
        if (now_ns() < end_ns) note(clashes, &clashes_count, (struct stay){resource, came_ns, 0});
        return;
    }
    close(file);
    nap_ms((long)draw(worker, 8));
    maybe_extend(worker, lock);
    end_ns = later_end(lock, end_ns);
    unlink(path);
    int64_t went_ns = now_ns();
    if (went_ns >= end_ns)
        note(overlong, &overlong_count, (struct stay){resource, end_ns, went_ns});
    atomic_fetch_add(&witnessed, 1);
}

static bool excused(const struct stay *clash) {
    for (int i = 0; i < overlong_count; i++) {
        const struct stay *stay = &overlong[i];
        if (stay->resource == clash->resource && stay->from_ns <= clash->from_ns &&
            clash->from_ns <= stay->to_ns)
            return true;
    }
    return false;
}

/* ---- workers ---- */

static void cancel_another(struct worker *worker) {
    struct worker *other = &workers[draw(worker, THREADS)];
    pthread_mutex_lock(&other->mutex);
    if (other->lock) redlock_cancel(other->lock);
    pthread_mutex_unlock(&other->mutex);
}

static void show(struct worker *worker, struct redlock_lock *lock) {
    pthread_mutex_lock(&worker->mutex);
    worker->lock = lock;
    pthread_mutex_unlock(&worker->mutex);
}

static void count_failure(int result) {
    switch (result) {
    case REDLOCK_HELD: atomic_fetch_add(&refused, 1); break;
    case REDLOCK_CANCELLED: atomic_fetch_add(&cancelled, 1); break;
    case REDLOCK_NO_QUORUM: atomic_fetch_add(&no_quorum, 1); break;
    case REDLOCK_EXPIRED: atomic_fetch_add(&expired, 1); break;
    default: atomic_fetch_add(&others, 1);
    }
}

static void take_turns(struct worker *worker, struct redlock_lock *lock, int resource) {
    int turns = 1 + (int)draw(worker, 3);
    for (int i = 0; i < turns && !atomic_load(&stop); i++) {
        int result = redlock_acquire(lock, draw(worker, 3) * 100);
        if (result != REDLOCK_OK) {
            count_failure(result);
            continue;
        }
        atomic_fetch_add(&acquired, 1);
        if (atomic_load(&down) > 0) atomic_fetch_add(&acquired_while_down, 1);
        stay_inside(worker, lock, resource);
        if (draw(worker, 20) == 0) return; /* freed while it is held */
        if (redlock_release(lock) == REDLOCK_LOST) atomic_fetch_add(&lost, 1);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    while (!atomic_load(&stop)) {
        char name[16];
        int resource = (int)draw(worker, RESOURCES);
        struct redlock_lock_options options = lock_options(TTL_MS);
        options.renew = (int)draw(worker, 2);
        options.renew_interval_ms =
            options.renew ? 5 + draw(worker, 20) : 0; /* often, so that renewals meet releases */
        snprintf(name, sizeof name, "r%d", resource);
        struct redlock_lock *lock = NULL;
        if (redlock_lock_new(worker->client, name, strlen(name), &options, &lock, NULL) !=
            REDLOCK_OK)
            abort();
        show(worker, lock);
        take_turns(worker, lock, resource);
        show(worker, NULL);
        redlock_lock_free(lock);
        if (draw(worker, 8) == 0) cancel_another(worker);
    }
    return NULL;
}

/* ---- nodes that die ---- */

/* A node is out from its death until a TTL after its return: so long its memory says less than it
 * had granted. Two of five may be out at once. Each comes back a TTL after its death: then nothing
 * it had granted is still valid by it. */
struct outage {
    unsigned node;
    double came_back_or_died_ms;
    enum { NO_OUTAGE, DEAD, YOUNG } state;
};

static unsigned other_than(unsigned seed, const struct outage *other) {
    unsigned node = seed % NODES;
    return other->state != NO_OUTAGE && other->node == node ? (node + 1) % NODES : node;
}

static void outage_step(struct outage *outage, const struct outage *other, unsigned *kills) {
    double since = now_ms() - outage->came_back_or_died_ms;
    if (outage->state != NO_OUTAGE && since < TTL_MS + MARGIN_MS) return;
    if (outage->state == DEAD) {
        server_restart(&five.at[outage->node]);
        atomic_fetch_sub(&down, 1);
        outage->state = YOUNG;
    } else {
        outage->node = other_than((unsigned)rand(), other);
        server_kill(&five.at[outage->node]);
        atomic_fetch_add(&down, 1);
        (*kills)++;
        outage->state = DEAD;
    }
    outage->came_back_or_died_ms = now_ms();
}

static unsigned kill_nodes_for(double ms) {
    struct outage outages[2] = {{.state = NO_OUTAGE}, {.state = NO_OUTAGE}};
    unsigned kills = 0;
    double began = now_ms(), until = began + ms;
    while (now_ms() < until) {
        nap_ms(100);
        if (now_ms() - began > 300) outage_step(&outages[0], &outages[1], &kills);
        if (now_ms() - began > 1500) outage_step(&outages[1], &outages[0], &kills);
    }
    return kills;
}

static void bring_all_back(void) {
    nap_ms(TTL_MS + MARGIN_MS);
    for (unsigned i = 0; i < NODES; i++) {
        if (five.at[i].pid == 0) server_restart(&five.at[i]);
    }
}

/* ---- the test ---- */

static void start_workers(void) {
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].client = i < SHARERS ? shared : rival;
        workers[i].seed = 7919 * (i + 1);
        pthread_mutex_init(&workers[i].mutex, NULL);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
}

static void join_workers(void) {
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < THREADS; i++) pthread_mutex_destroy(&workers[i].mutex);
}

static void assert_excluded(void) {
    int unexcused = 0;
    assert_true(overlong_count < STAYS_MAX && clashes_count < STAYS_MAX);
    for (int i = 0; i < clashes_count; i++) {
        if (excused(&clashes[i])) continue;
        unexcused++;
        fprintf(stderr, "two were inside r%d at %lld ns\n", clashes[i].resource,
                (long long)clashes[i].from_ns);
    }
    assert_int_equal(unexcused, 0);
}

static void threads_that_share_a_client_exclude_each_other_while_nodes_die(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 200; /* 64 threads on few processors, under a sanitizer too */
    shared = open_client(&five, &options);
    rival = open_client(&five, &options);
    assert_non_null(mkdtemp(dir));
    start_workers();
    unsigned kills = kill_nodes_for(seconds * 1e3);
    join_workers();
    struct redlock_stats stats = {.size = sizeof stats};
    assert_result(redlock_client_stats(shared, &stats), REDLOCK_OK);
    redlock_client_free(rival);
    redlock_client_free(shared);
    printf(
        "%d s: %lu acquisitions (%lu while nodes were down), %lu refusals, %lu cancelled, %lu without quorum, %lu "
        "expired, "
        "%lu extensions, %lu lost, %lu stays witnessed, %d overlong, %u node kills, %llu reconnects\n",
        seconds, acquired, acquired_while_down, refused, cancelled, no_quorum, expired, extended,
        lost, witnessed, overlong_count, kills, (unsigned long long)stats.reconnects);
    fflush(stdout);
    assert_excluded();
    assert_int_equal(others, 0);
    assert_true(kills >= 2);
    assert_true(acquired_while_down > 100);
    assert_true(witnessed > acquired / 2);
    assert_true(cancelled > 0 && refused > 0 && extended > 0);
    assert_int_equal(rmdir(dir), 0); /* each file was removed by who made it */
    bring_all_back();
    for (unsigned i = 0; i < NODES; i++)
        wait_until(server_ask_integer(&five.at[i], "DBSIZE") == 0,
                   45000); /* places of waiters end: four leases of at most 10 s */
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_share_a_client_exclude_each_other_while_nodes_die),
    };
    const char *given = argc > 1 ? argv[1] : getenv("REDLOCK_THREADS_SECONDS");
    if (given && atoi(given) > 0) seconds = atoi(given);
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
