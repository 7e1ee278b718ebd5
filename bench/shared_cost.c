/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a shared lock costs, on the same nodes in the same run. First against an exclusive one, one
 * at a time, in alternating pairs: the median latency of a cycle (acquire and release), in classic
 * and in guarded mode. Then with 1 to 1000 readers on one key: the time of one more reader's cycle,
 * of a renewal, and the memory that a node needs for each reader.
 * usage: redlock up -- shared_cost [PAIRS]   (7 pairs)
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "cost.h"

enum { CYCLES = 3000, PAIRS_MAX = 99, READERS_MAX = 1000 };
#define KEY "read"

static double cycle_us(enum redlock_mode mode, bool shared, const char *name, int cycles) {
    static double each[CYCLES];
    struct redlock_client *client = cost_client(mode, 1);
    struct redlock_lock *lock = cost_lock(client, name, shared);
    for (int i = 0; i < cycles; i++) {
        const int64_t began = cost_now_ns();
        cost_must(redlock_acquire(lock, 1000), "acquire", "");
        cost_must(redlock_release(lock), "release", "");
        each[i] = (double)(cost_now_ns() - began) / 1000;
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    return cost_median(each, (size_t)cycles);
}

static void against_exclusive(enum redlock_mode mode, const char *name, size_t pairs) {
    double us[2][PAIRS_MAX], ratio[PAIRS_MAX];
    for (size_t i = 0; i < pairs; i++) {
        us[0][i] = cycle_us(mode, false, "cost", CYCLES);
        us[1][i] = cycle_us(mode, true, "cost", CYCLES);
        ratio[i] = us[1][i] / us[0][i];
    }
    printf("%s, one at a time, p50 of a cycle: exclusive %.0f us, shared %.0f us; ", name,
           cost_median(us[0], pairs), cost_median(us[1], pairs));
    printf("ratio %.2f (median of %zu pairs)\n", cost_median(ratio, pairs), pairs);
}

/* What the first node of `redlock up` needs for the list of readers, in bytes. */
static long long list_bytes(void) {
    int port = 0;
    char password[128] = "";
    if (sscanf(getenv("REDLOCK_NODES"), "redis://:%127[^@]@127.0.0.1:%d", password, &port) != 2)
        return -1;
    redisContext *link = redisConnect("127.0.0.1", port);
    if (!link || link->err) return -1;
    freeReplyObject(redisCommand(link, "AUTH %s", password));
    redisReply *reply = redisCommand(link, "MEMORY USAGE redlock:shared:%s SAMPLES 0", KEY);
    const long long bytes = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    redisFree(link);
    return bytes;
}

static void many_readers(void) {
    static struct redlock_lock *locks[READERS_MAX];
    static double renewals[READERS_MAX];
    struct redlock_client *client = cost_client(REDLOCK_MODE_AUTO, 1);
    int held = 0;
    for (int readers = 1; readers <= READERS_MAX; readers *= 10) {
        const int before = held;
        const int64_t began = cost_now_ns();
        for (; held < readers; held++) {
            locks[held] = cost_lock(client, KEY, true);
            cost_must(redlock_acquire(locks[held], 1000), "acquire", "");
        }
        const double each = (double)(cost_now_ns() - began) / 1000 / (readers - before);
        for (int i = 0; i < readers; i++) {
            const int64_t asked = cost_now_ns();
            cost_must(redlock_extend(locks[i], 0), "extend", "");
            renewals[i] = (double)(cost_now_ns() - asked) / 1000;
        }
        const double one_more = cycle_us(REDLOCK_MODE_AUTO, true, KEY, CYCLES / 3);
        printf("%4d readers: acquired in %.0f us each; ", readers, each);
        printf("one more reader's cycle %.0f us, a renewal %.0f us", one_more,
               cost_median(renewals, (size_t)readers));
        const long long bytes = list_bytes(); /* a native node has no such key */
        if (bytes > 0)
            printf("; %lld bytes a reader on a node\n", bytes / readers);
        else
            printf("\n");
    }
    for (int i = 0; i < held; i++) {
        cost_must(redlock_release(locks[i]), "release", "");
        redlock_lock_free(locks[i]);
    }
    redlock_client_free(client);
}

int main(int argc, char **argv) {
    const size_t pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    if (pairs < 1 || pairs > PAIRS_MAX) {
        fputs("usage: shared_cost [PAIRS]\n", stderr);
        return 64;
    }
    against_exclusive(REDLOCK_MODE_CLASSIC, "classic", pairs);
    against_exclusive(REDLOCK_MODE_GUARDED, "guarded", pairs);
    many_readers();
    return 0;
}
