/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A worker of scripts/demo: adds 1 to the number in a plain file, COUNT times, each time under the lock. Reading,
 * adding and writing are three steps on purpose: two workers at once would lose an update, and the sum would tell.
 * usage: counter RESOURCE COUNT FILE TTL_MS   (nodes from REDLOCK_NODES, mode from REDLOCK_MODE)
 * Prints one line: acquired, retries, lost votes, results given up, and the longest wait in milliseconds.
 */
#include <redlock/metrics.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Nobody who waits a minute for a lock held for a millisecond has merely had bad luck. */
#define WAIT_MS 60000
/* How long reading and writing are apart, so that without the lock updates would be lost right away. */
#define WORK_US 2000
/* With less validity left than this the file is not touched: there must be time to finish the write. */
#define NEEDED_MS 200
#define DIGITS 20

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* 1: written. 0: too little validity was left, nothing was written. -1: the file failed. */
static int increment(int file, struct redlock_lock *lock) {
    char text[DIGITS + 2] = {0};
    if (pread(file, text, DIGITS + 1, 0) < 0) return -1;
    long number = strtol(text, NULL, 10);
    nanosleep(&(struct timespec){.tv_nsec = WORK_US * 1000}, NULL);
    int length = snprintf(text, sizeof text, "%*ld\n", DIGITS, number + 1);
    if (redlock_validity_ms(lock) < NEEDED_MS) return 0;
    return pwrite(file, text, (size_t)length, 0) == length ? 1 : -1;
}

static int work(struct redlock_lock *lock, long count, int file, int64_t *wait_us_max, long *given_up) {
    for (long done = 0; done < count;) {
        int64_t asked = now_us();
        int result = redlock_acquire(lock, WAIT_MS);
        int64_t waited = now_us() - asked;
        if (waited > *wait_us_max) *wait_us_max = waited;
        if (result != REDLOCK_OK) {
            fprintf(stderr, "counter: %s\n", redlock_result_text(result));
            return -1;
        }
        int written = increment(file, lock);
        /* A release that cannot be confirmed costs others a TTL at worst; what was written is written. */
        redlock_release(lock);
        if (written < 0) {
            perror("counter: file");
            return -1;
        }
        done += written;
        *given_up += !written;
    }
    return 0;
}

static int open_lock(const char *resource, int64_t ttl_ms, struct redlock_client **client, struct redlock_lock **lock) {
    struct redlock_lock_options options;
    struct redlock_error error;
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.retry_delay_ms_min = 2;
    options.retry_delay_ms_max = 12;
    if (redlock_client_open(NULL, NULL, client, &error) != REDLOCK_OK ||
        redlock_lock_new(*client, resource, strlen(resource), &options, lock, &error) != REDLOCK_OK) {
        fprintf(stderr, "counter: %s\n", error.text);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fputs("usage: counter RESOURCE COUNT FILE TTL_MS\n", stderr);
        return 64;
    }
    int file = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        perror(argv[3]);
        return 71;
    }
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    int64_t wait_us_max = 0;
    long given_up = 0;
    int failed = open_lock(argv[1], strtol(argv[4], NULL, 10), &client, &lock) ||
                 work(lock, strtol(argv[2], NULL, 10), file, &wait_us_max, &given_up);
    if (client) {
        struct redlock_stats stats = {.size = sizeof stats};
        redlock_client_stats(client, &stats);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %ld %" PRId64 "\n", stats.acquired, stats.retries, stats.votes_lost,
               given_up, wait_us_max / 1000);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    close(file);
    return failed ? 1 : 0;
}
