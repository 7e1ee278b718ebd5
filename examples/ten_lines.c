/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ten lines of the README: this file and the block there are compared by a test.
 */
#include <redlock.h>
#include <stdio.h>

static struct redlock_error error;

int main(void) {
    struct redlock_client *client;
    struct redlock_lock *lock;
    if (redlock_client_open(NULL, NULL, &client, &error) ||
        redlock_lock_new(client, "nightly", 7, NULL, &lock, &error)) return fprintf(stderr, "%s\n", error.text), 78;
    int result = redlock_acquire(lock, 10000); /* tries for ten seconds */
    printf("nightly: %s, sure for %d ms\n", redlock_result_text(result), (int)redlock_validity_ms(lock));
    if (result == REDLOCK_OK) puts("here the work is done; meanwhile the lock is renewed");
    redlock_lock_free(lock); /* releases it */
    redlock_client_free(client);
    return result == REDLOCK_OK ? 0 : 75;
}
