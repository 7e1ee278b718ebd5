/* SPDX-License-Identifier: BSD-2-Clause
 *
 * proof_worker NODES MODE TTL_MS THREADS SEED RESOURCES EPOCH_MS
 *
 * Threads that acquire, stay and release, until SIGTERM. Each line of the output is what the
 * library reported to one of them, in the words of sim/world/steps.h, with the lock's token:
 *
 *   W TIME TOKEN UNTIL FENCE    P TIME TOKEN UNTIL    L TIME TOKEN    R TIME TOKEN
 *
 * RESOURCES is even. Their names change with each epoch, so that a trace falls into many runs. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <redlock.h>

enum { THREADS_MAX = 64, TOKEN_BYTES_MAX = 128 };

static struct redlock_client *client;
static int64_t ttl_ms, epoch_ms;
static unsigned resources;
static bool pairs; /* a lock may be of two resources */
static volatile sig_atomic_t ended;

struct turn {
    atomic_bool won; /* before, nothing of it is written */
    char token[TOKEN_BYTES_MAX];
};

static void on_term(int number) {
    (void)number;
    ended = 1;
}

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "proof_worker: %s: %s\n", what, why);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void rest(int64_t ns) {
    const struct timespec span = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&span, NULL);
}

/* The end of validity is read before the time: one that came later would accuse the library. */
static void on_change(void *context, struct redlock_lock *lock, int change) {
    struct turn *turn = context;
    const int64_t end_ns = redlock_validity_end_ns(lock);
    if (!atomic_load(&turn->won)) return;
    if (change == REDLOCK_CHANGE_LOST)
        printf("L %" PRId64 " %s\n", now_ns(), turn->token);
    else if (end_ns > 0)
        printf("P %" PRId64 " %s %" PRId64 "\n", now_ns(), turn->token, end_ns);
}

/* One resource; in classic mode, in one turn of eight, the two of a pair. */
static struct redlock_lock *make_lock(unsigned *seed, struct turn *turn) {
    struct redlock_lock_options options;
    struct redlock_error error = {0};
    struct redlock_lock *lock = NULL;
    struct redlock_bytes names[2];
    char text[2][40];
    const unsigned count = pairs && rand_r(seed) % 8 == 0 ? 2 : 1;
    const unsigned which = (unsigned)rand_r(seed) % resources;
    const int64_t epoch = now_ns() / 1000000 / epoch_ms;
    for (unsigned i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "p%" PRId64 "-%u", epoch, which ^ i);
        names[i] = (struct redlock_bytes){text[i], strlen(text[i])};
    }
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.retry_delay_ms_min = 2;
    options.retry_delay_ms_max = 30;
    options.on_change = on_change;
    options.on_change_context = turn;
    if (redlock_lock_new_multi(client, names, count, &options, &lock, &error) != REDLOCK_OK)
        die(text[0], error.text);
    return lock;
}

static void hold(struct redlock_lock *lock, struct turn *turn, unsigned *seed) {
    const struct redlock_bytes token = redlock_token(lock);
    snprintf(turn->token, sizeof turn->token, "%.*s", (int)token.bytes, (const char *)token.data);
    const int64_t until = redlock_validity_end_ns(lock), at = now_ns();
    printf("W %" PRId64 " %s %" PRId64 " %" PRId64 "\n", at, turn->token, until,
           redlock_fence(lock));
    atomic_store(&turn->won, true);
    /* Most are short; some last until the lock was extended a few times, or is lost. */
    int64_t stay_ns = rand_r(seed) % 3000 * INT64_C(1000);
    if (rand_r(seed) % 40 == 0) stay_ns = rand_r(seed) % (2 * ttl_ms) * 1000000;
    while (!ended && now_ns() < at + stay_ns && redlock_validity_ms(lock) > 0)
        rest(stay_ns < 2000000 ? stay_ns : 2000000);
    printf("R %" PRId64 " %s\n", now_ns(), turn->token);
    redlock_release(lock);
}

static void *contend(void *context) {
    unsigned seed = *(unsigned *)context;
    while (!ended) {
        struct turn turn = {0};
        struct redlock_lock *lock = make_lock(&seed, &turn);
        if (redlock_acquire(lock, rand_r(&seed) % 60) == REDLOCK_OK)
            hold(lock, &turn, &seed);
        else
            rest(rand_r(&seed) % 3000 * INT64_C(1000));
        redlock_lock_free(lock);
    }
    return NULL;
}

int main(int count, char **words) {
    const struct sigaction term = {.sa_handler = on_term};
    struct redlock_client_options options;
    struct redlock_error error = {0};
    pthread_t threads[THREADS_MAX];
    unsigned seeds[THREADS_MAX];
    if (count != 8) return 64;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &term, NULL);
    ttl_ms = atoll(words[3]);
    const unsigned threads_count = (unsigned)atoi(words[4]);
    resources = (unsigned)atoi(words[6]);
    epoch_ms = atoll(words[7]);
    if (threads_count > THREADS_MAX || resources == 0 || resources % 2 != 0 || epoch_ms <= 0)
        return 64;
    redlock_client_options_init(&options);
    pairs = strcmp(words[2], "classic") == 0;
    options.mode = pairs ? REDLOCK_MODE_CLASSIC : REDLOCK_MODE_GUARDED;
    options.recover = 1;
    options.connect_timeout_ms = 300;
    if (redlock_client_open(words[1], &options, &client, &error) != REDLOCK_OK)
        die(words[1], error.text);
    for (unsigned i = 0; i < threads_count; i++) {
        seeds[i] = (unsigned)atoi(words[5]) + 7919 * i;
        if (pthread_create(&threads[i], NULL, contend, &seeds[i]) != 0)
            die("thread", strerror(errno));
    }
    for (unsigned i = 0; i < threads_count; i++) pthread_join(threads[i], NULL);
    redlock_client_free(client);
    return 0;
}
