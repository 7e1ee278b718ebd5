/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks with slots on real servers: what a node holds, clients that do not agree about the number,
 * nodes that give different slots, and processes that contend and are killed. Judged by
 * CLOCK_BOOTTIME: never more holders than slots, never two on one slot, and the fencing tokens of a
 * slot grow.
 */
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guarded.h"

#define TTL_MAX 5000

static struct servers classic, guarded;

static int start(void **state) {
    (void)state;
    servers_start(&classic, 3);
    start_quorum(&guarded, 3, TTL_MAX);
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&classic);
    servers_stop(&guarded);
    return 0;
}

static struct redlock_client *open_at(struct servers *servers) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 300;
    return open_guarded_at(servers->urls, &options); /* mode auto: as the servers are */
}

static struct redlock_lock *slot_lock(struct redlock_client *client, const char *resource,
                                      uint32_t slots) {
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.slots = slots;
    return new_lock(client, resource, &options);
}

static unsigned holding_slot(struct servers *servers, const char *resource, unsigned slot) {
    char key[64];
    snprintf(key, sizeof key, "%s:slot:%u", resource, slot);
    return servers_holding(servers, key);
}

/* ---- one at a time ---- */

static void check_slots(struct servers *servers, bool fenced) {
    struct redlock_client *client = open_at(servers), *other = open_at(servers);
    struct redlock_lock *locks[4];
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) locks[i] = slot_lock(i % 2 ? other : client, "door", 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(redlock_slot(locks[i]), 0);
        assert_result(redlock_acquire(locks[i], 2000), REDLOCK_OK);
        const unsigned slot = redlock_slot(locks[i]);
        assert_in_range(slot, 1, 3);
        assert_false(seen & 1u << slot);
        seen |= 1u << slot;
        assert_true(holding_slot(servers, "door", slot) >= 2);
        assert_int_equal(servers_holding(servers, "door"), 0);
        struct redlock_bytes token = redlock_token(locks[i]);
        assert_int_equal(token.bytes, REDLOCK_TOKEN_HEX_BYTES + 2);
        assert_memory_equal((const char *)token.data + REDLOCK_TOKEN_HEX_BYTES, "/3", 2);
        assert_int_equal(redlock_fence(locks[i]) > 0, fenced);
    }
    assert_result(redlock_try(locks[3]), REDLOCK_HELD);
    assert_int_equal(redlock_slot(locks[3]), 0);
    const unsigned freed = redlock_slot(locks[1]);
    assert_result(redlock_extend(locks[0], 0), REDLOCK_OK);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    assert_int_equal(redlock_slot(locks[1]), 0);
    assert_int_equal(holding_slot(servers, "door", freed), 0);
    assert_result(redlock_acquire(locks[3], 2000), REDLOCK_OK);
    assert_int_equal(redlock_slot(locks[3]), freed);
    for (int i = 0; i < 4; i++) redlock_lock_free(locks[i]);
    for (unsigned i = 1; i <= 3; i++)
        while (holding_slot(servers, "door", i)) nap_ms(1);
    redlock_client_free(client);
    redlock_client_free(other);
}

static void test_slots(void **state) {
    (void)state;
    check_slots(&classic, false);
    check_slots(&guarded, true);
}

/* A slot is an ordinary lock: whoever takes it by its name has it. */
static void test_a_slot_is_a_lock(void **state) {
    (void)state;
    struct redlock_client *client = open_at(&guarded);
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    struct redlock_lock *plain = new_lock(client, "gate:slot:2", &options);
    struct redlock_lock *slots = slot_lock(client, "gate", 2);
    assert_result(redlock_acquire(plain, 2000), REDLOCK_OK);
    assert_result(redlock_acquire(slots, 2000), REDLOCK_OK);
    assert_int_equal(redlock_slot(slots), 1);
    assert_result(redlock_release(plain), REDLOCK_OK);
    struct redlock_bytes token = redlock_token(slots);
    struct redlock_lock *taken = new_lock(client, "gate:slot:1", &options);
    assert_result(redlock_lock_adopt_fenced(taken, token.data, token.bytes, redlock_fence(slots)),
                  REDLOCK_OK);
    assert_result(redlock_lock_disown(slots), REDLOCK_OK);
    assert_result(redlock_extend(taken, 0), REDLOCK_OK);
    assert_result(redlock_release(taken), REDLOCK_OK);
    assert_result(redlock_lock_adopt(slots, "t", 1), REDLOCK_BAD_ARGUMENT);
    redlock_lock_free(plain);
    redlock_lock_free(slots);
    redlock_lock_free(taken);
    redlock_client_free(client);
}

static void check_another_number(struct servers *servers) {
    struct redlock_client *client = open_at(servers);
    struct redlock_lock *five = slot_lock(client, "pool", 5), *two = slot_lock(client, "pool", 2);
    assert_result(redlock_acquire(five, 2000), REDLOCK_OK);
    double began = now_ms();
    assert_result(redlock_acquire(two, 20000), REDLOCK_OTHER_SLOTS);
    assert_true(now_ms() - began < 5000); /* it does not wait for what cannot become right */
    assert_int_equal(redlock_other_slots(two), 5);
    assert_result(redlock_release(five), REDLOCK_OK);
    assert_result(redlock_acquire(two, 2000), REDLOCK_OK);
    assert_result(redlock_try(five), REDLOCK_OTHER_SLOTS);
    assert_int_equal(redlock_other_slots(five), 2);
    redlock_lock_free(two);
    redlock_lock_free(five);
    redlock_client_free(client);
}

static void test_another_number(void **state) {
    (void)state;
    check_another_number(&classic);
    check_another_number(&guarded);
}

/* A native node keeps the lock without its key. */
static void lose_slot(struct server *server, unsigned slot) {
    redisReply *token = server_ask(server, "GET mend:slot:%u", slot);
    freeReplyObject(server_ask(server, "DEL mend:slot:%u", slot));
    if (getenv("REDLOCK_TEST_NATIVE"))
        freeReplyObject(
            server_ask(server, "REDLOCK.UNLOCK mend:slot:%u %b", slot, token->str, token->len));
    freeReplyObject(token);
}

/* A lost key of a lease is set again only where nobody holds slots with another number. */
static void test_repair_compares_numbers(void **state) {
    (void)state;
    struct redlock_client *client = open_at(&classic);
    struct redlock_lock *lock = slot_lock(client, "mend", 3);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    const unsigned slot = redlock_slot(lock);
    while (holding_slot(&classic, "mend", slot) < 3 || granted_by(lock) < 3) {
        assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        nap_ms(10);
    }
    lose_slot(&classic.at[0], slot);
    freeReplyObject(server_ask(&classic.at[0], "SET mend:slot:%d %s PX 60000", slot == 1 ? 2 : 1,
                               "0000000000000000000000000000000000000000/2"));
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    nap_ms(100);
    assert_int_equal(holding_slot(&classic, "mend", slot), 2);
    freeReplyObject(server_ask(&classic.at[0], "DEL mend:slot:%d", slot == 1 ? 2 : 1));
    for (int i = 0; i < 100 && holding_slot(&classic, "mend", slot) < 3; i++) {
        assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        nap_ms(10);
    }
    assert_int_equal(holding_slot(&classic, "mend", slot), 3);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void test_refusals(void **state) {
    (void)state;
    struct redlock_client *client = open_at(&classic);
    struct redlock_lock_options options = lock_options(TTL_MAX);
    const struct redlock_bytes two[] = {{"a", 1}, {"b", 1}};
    struct redlock_lock *lock = NULL;
    struct redlock_error error;
    char longer[1025];
    memset(longer, 'r', sizeof longer);
    options.slots = REDLOCK_SLOTS_MAX + 1;
    assert_result(redlock_lock_new(client, "r", 1, &options, &lock, &error), REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "slots is 65"));
    options.slots = 2;
    assert_result(redlock_lock_new(client, longer, sizeof longer, &options, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_new_multi(client, two, 2, &options, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    options.slots = REDLOCK_SLOTS_MAX;
    assert_result(redlock_lock_new(client, longer, sizeof longer - 1, &options, &lock, &error),
                  REDLOCK_OK);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* SLOT-SPLIT: on each node other slots are taken, and only the third is free on all. The client
 * settles on it, and nothing of the slots that it got first is left. */
static void test_settles(void **state) {
    (void)state;
    static const int taken[3][2] = {{1, 2}, {1, 0}, {2, 0}};
    struct redlock_client *client = open_at(&guarded);
    struct redlock_lock *lock = slot_lock(client, "split", 3);
    for (int node = 0; node < 3; node++)
        for (int i = 0; i < 2; i++)
            if (taken[node][i])
                freeReplyObject(
                    server_ask(&guarded.at[node], "SET split:slot:%d x PX 60000", taken[node][i]));
    for (int i = 0; i < 60; i++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_int_equal(redlock_slot(lock), 3);
        /* a node that had not answered when it was won may have left all */
        assert_true(holding_slot(&guarded, "split", 3) >= 2);
        assert_result(redlock_release(lock), REDLOCK_OK);
        for (int k = 0; k < 500 && holding_slot(&guarded, "split", 3) > 0; k++) nap_ms(1);
        assert_int_equal(holding_slot(&guarded, "split", 1), 2);
        assert_int_equal(holding_slot(&guarded, "split", 2), 2);
        assert_int_equal(holding_slot(&guarded, "split", 3), 0);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- many processes ---- */

enum { WORKERS = 8, SLOTS = 3, HOLDS_MAX = 20000, RUN_MS = 8000, HOLD_TTL_MS = 400 };

struct hold {
    _Atomic int64_t begin, end; /* CLOCK_BOOTTIME, while it is surely held; end 0: not used */
    int64_t fence;
    unsigned slot;
};
struct board {
    atomic_uint used;
    struct hold hold[HOLDS_MAX];
};

static int64_t boottime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Never returns. What fails here shows as a missing hold. */
static void work(const struct servers *servers, struct board *board, unsigned seed) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_lock_options options = lock_options(HOLD_TTL_MS);
    struct redlock_client_options client_options;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    redlock_client_options_init(&client_options);
    client_options.node_timeout_ms = 100;
    options.slots = SLOTS;
    options.retry_delay_ms_min = 1;
    options.retry_delay_ms_max = 20;
    if (redlock_client_open(servers->urls, &client_options, &client, NULL) != REDLOCK_OK) _exit(1);
    if (redlock_lock_new(client, "crowd", 5, &options, &lock, NULL) != REDLOCK_OK) _exit(1);
    for (;;) {
        if (redlock_acquire(lock, REDLOCK_WAIT_FOREVER) != REDLOCK_OK) continue;
        const int64_t begin = boottime_ns(), end = redlock_validity_end_ns(lock);
        const unsigned at = atomic_fetch_add(&board->used, 1);
        if (at >= HOLDS_MAX) _exit(1);
        struct hold *hold = &board->hold[at];
        hold->slot = redlock_slot(lock);
        hold->fence = redlock_fence(lock);
        hold->begin = begin;
        if (end > begin) hold->end = end;
        seed = seed * 1103515245u + 12345u;
        nap_ms((long)(seed >> 16) % 25);
        const int64_t now = boottime_ns(); /* the release begins */
        if (end > now) hold->end = now;
        (void)!redlock_release(lock);
    }
}

static pid_t start_worker(const struct servers *servers, struct board *board, unsigned seed) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) work(servers, board, seed);
    assert_true(pid > 0);
    return pid;
}

static int by_begin(const void *a, const void *b) {
    const struct hold *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void judge(struct board *board, bool fenced) {
    unsigned used = board->used, most = 0, holds = 0;
    int64_t fences[SLOTS + 1] = {0};
    qsort(board->hold, used, sizeof board->hold[0], by_begin);
    for (unsigned i = 0; i < used; i++) {
        const struct hold *hold = &board->hold[i];
        unsigned at_once = 1;
        if (hold->end == 0) continue; /* killed before it could write */
        holds++;
        assert_in_range(hold->slot, 1, SLOTS);
        for (unsigned k = 0; k < i; k++) {
            const struct hold *before = &board->hold[k];
            if (before->end <= hold->begin) continue;
            at_once++;
            if (before->slot == hold->slot)
                fail_msg("two at once on slot %u at %" PRId64, hold->slot, hold->begin);
        }
        if (at_once > SLOTS) fail_msg("%u at once at %" PRId64, at_once, hold->begin);
        if (at_once > most) most = at_once;
        if (fenced) assert_true(hold->fence > fences[hold->slot]);
        fences[hold->slot] = hold->fence;
    }
    print_message("%u holds, at most %u at once\n", holds, most);
    assert_int_equal(most, SLOTS); /* it was contended */
    assert_true(holds > 200);
}

static void contend(struct servers *servers, bool fenced) {
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t workers[WORKERS];
    unsigned seed = 1;
    assert_true(board != MAP_FAILED);
    for (unsigned i = 0; i < WORKERS; i++) workers[i] = start_worker(servers, board, seed++);
    for (double began = now_ms(); now_ms() - began < RUN_MS; nap_ms(150)) {
        const unsigned victim = seed % WORKERS;
        kill(workers[victim], SIGKILL);
        waitpid(workers[victim], NULL, 0);
        workers[victim] = start_worker(servers, board, seed++);
    }
    for (unsigned i = 0; i < WORKERS; i++) kill(workers[i], SIGKILL);
    for (unsigned i = 0; i < WORKERS; i++) waitpid(workers[i], NULL, 0);
    judge(board, fenced);
    munmap(board, sizeof *board);
}

/* ---- a queue ---- */

enum { QUEUE_WAITERS = 32, QUEUE_SLOTS = 4, QUEUE_RUN_S = 4, QUEUE_HOLD_MS = 2 };

struct seat {
    unsigned turns;
    double longest_ms; /* wait, after the first turn */
};

static void queue_up(const struct servers *servers, struct seat *seat, const double *closes) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_lock_options options = lock_options(TTL_MAX);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    options.slots = QUEUE_SLOTS;
    if (redlock_client_open(servers->urls, NULL, &client, NULL) != REDLOCK_OK) _exit(1);
    if (redlock_lock_new(client, "line", 4, &options, &lock, NULL) != REDLOCK_OK) _exit(1);
    for (double began = now_ms(); began < *closes; began = now_ms()) {
        if (redlock_acquire(lock, (int64_t)(*closes - began)) != REDLOCK_OK) {
            if (seat->turns == 0 || now_ms() - began > seat->longest_ms)
                seat->longest_ms = now_ms() - began;
            break;
        }
        if (seat->turns++ > 0 && now_ms() - began > seat->longest_ms)
            seat->longest_ms = now_ms() - began;
        nap_ms(QUEUE_HOLD_MS);
        (void)!redlock_release(lock);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    _exit(0);
}

/* Those that wait are served in the order in which they came. By hand for longer:
 * REDLOCK_QUEUE_SECONDS=600 test_slots */
static void check_queue(struct servers *servers) {
    struct seat *seats = mmap(NULL, QUEUE_WAITERS * sizeof *seats, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *seconds = getenv("REDLOCK_QUEUE_SECONDS");
    const double run_ms = 1000 * (seconds ? atof(seconds) : QUEUE_RUN_S),
                 closes = now_ms() + run_ms;
    double longest = 0, turns = 0;
    unsigned fewest = UINT_MAX;
    pid_t waiters[QUEUE_WAITERS];
    assert_true(seats != MAP_FAILED);
    fflush(NULL);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++)
        if ((waiters[i] = fork()) == 0) queue_up(servers, &seats[i], &closes);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++) waitpid(waiters[i], NULL, 0);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++) {
        turns += seats[i].turns;
        if (seats[i].turns < fewest) fewest = seats[i].turns;
        if (seats[i].longest_ms > longest) longest = seats[i].longest_ms;
    }
    const double mean = run_ms * QUEUE_WAITERS / turns;
    print_message("%.0f holds, each waiter at least %u, longest wait %.0f ms, mean %.0f ms\n",
                  turns, fewest, longest, mean);
    assert_true(2 * fewest * QUEUE_WAITERS > turns);
    assert_true(longest < 4 * mean + 250); /* in a stall of the machine nobody is served */
    munmap(seats, QUEUE_WAITERS * sizeof *seats);
}

static void test_queue(void **state) {
    (void)state;
    check_queue(&classic);
    check_queue(&guarded);
}

static void test_crowd_classic(void **state) {
    (void)state;
    contend(&classic, false);
}

static void test_crowd_guarded(void **state) {
    (void)state;
    contend(&guarded, true);
}

/* ---- several at once ---- */

enum { SEVERAL = 3, OF = 4, TAKERS = 4, SEVERAL_RUN_MS = 3000 };

static void make_several(struct redlock_client *client, struct redlock_lock *locks[SEVERAL]) {
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.slots = OF;
    for (int i = 0; i < SEVERAL; i++) locks[i] = new_lock(client, "several", &options);
}

/* Both forms pass the same tests. */
typedef int acquire_all_fn(struct redlock_lock *const *locks, size_t count, int64_t wait_ms);
static acquire_all_fn *blocking = redlock_acquire_all;

static int start_and_wait(struct redlock_lock *const *locks, size_t count, int64_t wait_ms) {
    struct done done = {0};
    const int result = redlock_acquire_all_start(locks, count, wait_ms, on_done, &done);
    if (result != REDLOCK_OK) return result;
    while (done.count == 0) nap_ms(1);
    assert_int_equal(done.count, 1);
    assert_ptr_equal(done.lock, locks[0]);
    return done.result;
}
static acquire_all_fn *started = start_and_wait;

struct taking {
    acquire_all_fn *acquire_all;
    struct redlock_lock **locks;
};

static void *take_several(void *argument) {
    const struct taking *taking = argument;
    return (void *)(intptr_t)taking->acquire_all(taking->locks, SEVERAL, REDLOCK_WAIT_FOREVER);
}

static void test_all_or_none(void **state) {
    acquire_all_fn *acquire_all = *(acquire_all_fn **)*state;
    struct redlock_client *client = open_client(&classic, NULL),
                          *other = open_client(&guarded, NULL);
    struct redlock_lock *locks[SEVERAL], *mixed[2], *held[2], *one, *two;
    struct redlock_lock_options options = lock_options(TTL_MAX);
    struct taking taking = {acquire_all, locks};
    pthread_t thread;
    void *result;
    options.slots = OF;
    make_several(client, locks);
    one = new_lock(client, "several", &options);
    two = new_lock(client, "several", &options);
    held[0] = new_lock(client, "several", &options);
    held[1] = new_lock(client, "several", &options);
    assert_result(redlock_acquire(one, 0), REDLOCK_OK);
    assert_result(acquire_all(locks, SEVERAL, 0), REDLOCK_OK);
    assert_int_equal(redlock_slot(one) + redlock_slot(locks[0]) + redlock_slot(locks[1]) +
                         redlock_slot(locks[2]),
                     1 + 2 + 3 + 4);
    assert_result(acquire_all(locks, SEVERAL, 0), REDLOCK_BUSY);
    assert_int_equal(redlock_lock_state(locks[0]), REDLOCK_STATE_HELD);
    assert_result(redlock_release_many(locks, SEVERAL, NULL), REDLOCK_OK);
    /* Two of the three that are wanted are free: none is kept. */
    assert_result(redlock_acquire(two, 0), REDLOCK_OK);
    assert_result(acquire_all(locks, SEVERAL, 300), REDLOCK_HELD);
    for (int i = 0; i < SEVERAL; i++)
        assert_int_equal(redlock_lock_state(locks[i]), REDLOCK_STATE_FREE);
    mixed[0] = locks[0], mixed[1] = locks[0];
    assert_result(acquire_all(mixed, 2, 0), REDLOCK_BUSY);
    mixed[1] = new_lock(other, "several", &options);
    assert_result(acquire_all(mixed, 2, 0), REDLOCK_BAD_ARGUMENT);
    assert_result(acquire_all(mixed, 0, 0), REDLOCK_BAD_ARGUMENT);
    /* It waits, and is cancelled wherever it is; also while no slot at all is free. */
    for (int i = 0; i < 20; i++) {
        if (i == 15) assert_result(redlock_acquire_many(held, 2, 0, NULL), REDLOCK_OK);
        assert_int_equal(pthread_create(&thread, NULL, take_several, &taking), 0);
        wait_until(redlock_lock_state(locks[0]) != REDLOCK_STATE_FREE, 5000); /* it has begun */
        nap_ms(i * 7);
        redlock_cancel(locks[0]);
        pthread_join(thread, &result);
        assert_result((int)(intptr_t)result, REDLOCK_CANCELLED);
    }
    assert_result(redlock_release_many(held, 2, NULL), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_several, &taking), 0);
    nap_ms(300);
    assert_result(redlock_release(two), REDLOCK_OK);
    pthread_join(thread, &result);
    assert_result((int)(intptr_t)result, REDLOCK_OK);
    for (int i = 0; i < SEVERAL; i++) redlock_lock_free(locks[i]);
    redlock_lock_free(mixed[1]);
    redlock_lock_free(held[0]);
    redlock_lock_free(held[1]);
    redlock_lock_free(one);
    redlock_lock_free(two);
    redlock_client_free(other);
    redlock_client_free(client);
}

struct slow {
    atomic_int began, ended;
};

static void slowly(void *context, struct redlock_lock *lock, int result) {
    struct slow *slow = context;
    (void)lock, (void)result;
    slow->began = 1;
    nap_ms(150);
    slow->ended = 1;
}

/* To free the first lock is to wait for `done`, whichever lock was the last to be taken. */
static void test_done_is_of_the_first(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&classic, NULL);
    struct redlock_lock *held = new_lock(client, "of the first, 2", NULL);
    for (int round = 0; round < 2; round++) { /* all are taken; the last is not free */
        struct redlock_lock *locks[SEVERAL];
        struct slow slow = {0};
        for (int i = 0; i < SEVERAL; i++) {
            char name[20];
            snprintf(name, sizeof name, "of the first, %d", i);
            locks[i] = new_lock(client, name, NULL);
        }
        if (round == 1) assert_result(redlock_acquire(held, 5000), REDLOCK_OK);
        assert_result(redlock_acquire_all_start(locks, SEVERAL, 0, slowly, &slow), REDLOCK_OK);
        wait_until(slow.began, 5000);
        redlock_lock_free(locks[0]);
        assert_int_equal(slow.ended, 1);
        for (int i = 1; i < SEVERAL; i++) redlock_lock_free(locks[i]);
    }
    redlock_lock_free(held);
    redlock_client_free(client);
}

struct shelf {
    atomic_uint taken; /* slots, by all takers */
    atomic_uint most, rounds[TAKERS];
};

static void take_again_and_again(const struct servers *servers, struct shelf *shelf,
                                 unsigned taker) {
    acquire_all_fn *acquire_all = taker % 2 ? blocking : started;
    struct redlock_client *client = open_client(servers, NULL);
    struct redlock_lock *locks[SEVERAL];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    make_several(client, locks);
    for (double began = now_ms(); now_ms() - began < SEVERAL_RUN_MS;) {
        if (acquire_all(locks, SEVERAL, 500) != REDLOCK_OK) continue;
        const unsigned now = atomic_fetch_add(&shelf->taken, SEVERAL) + SEVERAL;
        if (now > shelf->most) shelf->most = now;
        shelf->rounds[taker]++;
        nap_ms(2);
        atomic_fetch_sub(&shelf->taken, SEVERAL);
        assert_result(redlock_release_many(locks, SEVERAL, NULL), REDLOCK_OK);
    }
    _exit(0);
}

/* Each takes three of four: they would wait for each other for ever if they kept what they have. */
static void test_takers_of_several(void **state) {
    (void)state;
    struct shelf *shelf =
        mmap(NULL, sizeof *shelf, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t takers[TAKERS];
    int status;
    assert_true(shelf != MAP_FAILED);
    fflush(NULL);
    for (unsigned i = 0; i < TAKERS; i++)
        if ((takers[i] = fork()) == 0) take_again_and_again(&guarded, shelf, i);
    for (unsigned i = 0; i < TAKERS; i++) {
        waitpid(takers[i], &status, 0);
        assert_int_equal(status, 0);
        print_message("%u times\n", shelf->rounds[i]);
        assert_true(shelf->rounds[i] >= 1); /* such callers go in no order, and may wait longer */
    }
    assert_int_equal(shelf->most, SEVERAL);
    munmap(shelf, sizeof *shelf);
}

/* ---- what it costs ---- */

struct counted {
    unsigned settled, tries;
    bool asks;
};

/* REDLOCK_TRACE: a request for a settled slot, and what becomes of the try in that step. */
static void count_line(void *context, int level, const char *line) {
    struct counted *counted = context;
    (void)level;
    if (strstr(line, " SET (try ")) counted->tries++;
    if (strstr(line, " instead, ")) counted->asks = true;
    if (strstr(line, "    .. ")) {
        if (counted->asks && strstr(line, ".. voting")) counted->settled++;
        counted->asks = false;
    }
}

static void measure(struct servers *servers, unsigned seed, unsigned *result) {
    struct counted counted = {0};
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("REDLOCK_TRACE", "1", 1);
    redlock_client_options_init(&options);
    options.node_timeout_ms = 300;
    options.log = count_line;
    options.log_context = &counted;
    options.log_level = REDLOCK_LOG_DEBUG;
    options.service_thread = 0;
    if (redlock_client_open(servers->urls, &options, &client, NULL) != REDLOCK_OK) _exit(1);
    struct redlock_lock *lock = slot_lock(client, "cheap", 16);
    for (int i = 0; i < 300; i++) {
        counted = (struct counted){0};
        if (redlock_acquire(lock, 20000) != REDLOCK_OK) _exit(1);
        result[0]++;
        result[1] += counted.tries == 1 && counted.settled == 0;
        result[2] += counted.tries == 1 && counted.settled == 1;
        seed = seed * 1103515245u + 12345u;
        nap_ms((long)(seed >> 16) % 5);
        (void)!redlock_release(lock);
    }
    _exit(0);
}

/* 8 clients, 16 slots: at least 90 of 100 acquisitions take one round trip. */
static void test_one_round_trip(void **state) {
    (void)state;
    unsigned(*results)[3] = mmap(NULL, WORKERS * sizeof results[0], PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned sum[3] = {0};
    pid_t workers[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        fflush(NULL);
        workers[i] = fork();
        if (workers[i] == 0) measure(&guarded, i + 1, results[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        int status;
        waitpid(workers[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        for (int k = 0; k < 3; k++) sum[k] += results[i][k];
    }
    print_message("%u acquisitions: %u in one round trip, %u in two\n", sum[0], sum[1], sum[2]);
    assert_true(sum[1] * 10 >= sum[0] * 9);
    munmap(results, WORKERS * sizeof results[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_a_slot_is_a_lock),
        cmocka_unit_test(test_another_number),
        cmocka_unit_test(test_repair_compares_numbers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_crowd_classic),
        cmocka_unit_test(test_crowd_guarded),
        cmocka_unit_test(test_one_round_trip),
        cmocka_unit_test_prestate(test_all_or_none, &blocking),
        cmocka_unit_test_prestate(test_all_or_none, &started),
        cmocka_unit_test(test_done_is_of_the_first),
        cmocka_unit_test(test_takers_of_several),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
