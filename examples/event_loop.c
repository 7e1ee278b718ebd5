/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock inside an event loop of one's own: one descriptor, no thread, nothing blocks.
 * usage: event_loop RESOURCE MILLISECONDS   (nodes from REDLOCK_NODES)
 */
#include <redlock.h>

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loop {
    bool over;
    int status;
    int64_t work_ms;     /* how long the work takes */
    int64_t work_end_ms; /* when it is done; 0: not working */
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void end(struct loop *loop, int status) {
    loop->over = true;
    loop->status = status;
}

static void on_released(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    printf("released: %s\n", redlock_result_text(result));
    end(context, result == REDLOCK_OK ? 0 : 80);
}

static void on_acquired(void *context, struct redlock_lock *lock, int result) {
    struct loop *loop = context;
    printf("acquired: %s, sure for %lld ms\n", redlock_result_text(result), (long long)redlock_validity_ms(lock));
    if (result == REDLOCK_OK)
        loop->work_end_ms = now_ms() + loop->work_ms;
    else
        end(loop, result == REDLOCK_NO_QUORUM ? 69 : 75);
}

/* Comes before validity ends: the work must stop now, not when the keys are gone. */
static void on_change(void *context, struct redlock_lock *lock, int change) {
    (void)lock;
    if (change == REDLOCK_CHANGE_RENEWED) puts("renewed");
    if (change == REDLOCK_CHANGE_LOST) {
        puts("lost: the work is given up");
        end(context, 80);
    }
}

static int run(struct redlock_client *client, struct redlock_lock *lock, struct loop *loop) {
    if (redlock_acquire_start(lock, 10000, on_acquired, loop) != REDLOCK_OK) return 75;
    while (!loop->over) {
        struct pollfd descriptor = {.fd = redlock_client_fd(client), .events = POLLIN};
        int64_t sleep_ms = loop->work_end_ms ? loop->work_end_ms - now_ms() : -1;
        if (loop->work_end_ms && sleep_ms <= 0) {
            loop->work_end_ms = 0;
            if (redlock_release_start(lock, on_released, loop) != REDLOCK_OK) return 80;
            continue;
        }
        if (poll(&descriptor, 1, (int)sleep_ms) < 0 && errno != EINTR) return 71;
        if (redlock_process(client) != REDLOCK_OK) return 71;
    }
    return loop->status;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: event_loop RESOURCE MILLISECONDS\n", stderr);
        return 64;
    }
    struct loop loop = {.work_ms = strtol(argv[2], NULL, 10)};
    struct redlock_client_options client_options;
    struct redlock_lock_options lock_options;
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_error error;

    redlock_client_options_init(&client_options);
    client_options.service_thread = 0;
    redlock_lock_options_init(&lock_options);
    lock_options.ttl_ms = 2000;
    lock_options.on_change = on_change;
    lock_options.on_change_context = &loop;

    int status = 78;
    if (redlock_client_open(NULL, &client_options, &client, &error) == REDLOCK_OK &&
        redlock_lock_new(client, argv[1], strlen(argv[1]), &lock_options, &lock, &error) == REDLOCK_OK)
        status = run(client, lock, &loop);
    else
        fprintf(stderr, "event_loop: %s\n", error.text);
    redlock_lock_free(lock);
    redlock_client_free(client);
    return status;
}
