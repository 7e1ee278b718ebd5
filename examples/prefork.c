/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A prefork server: the parent holds a lock of its own, and each worker opens a client of its own.
 * usage: prefork WORKERS   (nodes from REDLOCK_NODES)
 */
#include <redlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct redlock_error error;

static struct redlock_client *open_client(void) {
    struct redlock_client *client;
    if (redlock_client_open(NULL, NULL, &client, &error) == REDLOCK_OK) return client;
    fprintf(stderr, "%s\n", error.text);
    exit(78);
}

static struct redlock_lock *take(struct redlock_client *client, const char *name, size_t bytes) {
    struct redlock_lock *lock;
    if (redlock_lock_new(client, name, bytes, NULL, &lock, &error) || redlock_acquire(lock, 10000)) exit(75);
    return lock;
}

/* The parent's connections are not touched; this frees the memory of the copy. */
static void work(struct redlock_client *parents, struct redlock_lock *parents_lock, int number) {
    redlock_lock_free(parents_lock);
    redlock_client_free(parents);
    struct redlock_client *client = open_client();
    struct redlock_lock *lock = take(client, "turn", 4);
    printf("worker %d has its turn\n", number);
    fflush(stdout);
    redlock_lock_free(lock);
    redlock_client_free(client);
    _exit(0);
}

int main(int argc, char **argv) {
    struct redlock_client *client = open_client();
    struct redlock_lock *lock = take(client, "server", 6);
    const int workers = argc > 1 ? atoi(argv[1]) : 2;
    int failed = 0, status;
    for (int number = 1; number <= workers; number++)
        if (fork() == 0) work(client, lock, number);
    while (wait(&status) > 0) failed += status != 0;
    printf("the server: %s, %d workers failed\n", redlock_lock_state(lock) == REDLOCK_STATE_HELD ? "held" : "lost", failed);
    redlock_lock_free(lock);
    redlock_client_free(client);
    return failed;
}
