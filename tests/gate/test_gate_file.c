/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gate in a file: it survives its process, is shared, and neither a crash nor damage takes it
 * back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/fence.h>

#include "gate/bucket.h"

/* The layout of src/gate/file.h, as a file's reader sees it. */
#define SLOT_AT(slot) (4096 * (1 + (slot)))
#define BUCKETS_AT (4096 * 3)
#define BUCKET 160

static char directory[] = "/tmp/redlock-gate-XXXXXX";
static char path[64];

static int make_directory(void **state) {
    (void)state;
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/gate", directory);
    return 0;
}

static int remove_directory(void **state) {
    (void)state;
    return rmdir(directory); /* fails when a test left something */
}

static int remove_gate(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

static int open_gate(size_t resources, int create, struct redlock_fence_gate **gate) {
    struct redlock_fence_gate_options options;
    redlock_fence_gate_options_init(&options);
    options.path = path;
    options.resources = resources;
    options.create = create;
    return redlock_fence_gate_open(&options, gate, NULL);
}

static struct redlock_fence_gate *opened(size_t resources) {
    struct redlock_fence_gate *gate = NULL;
    assert_int_equal(open_gate(resources, 1, &gate), REDLOCK_OK);
    return gate;
}

static int admit(struct redlock_fence_gate *gate, const char *resource, int64_t fence) {
    return redlock_fence_admit(gate, resource, strlen(resource), fence);
}

/* The least fence of "r" by a gate opened anew; -1: it refuses to say. */
static int64_t least_anew(void) {
    struct redlock_fence_gate *gate = NULL;
    int64_t fence = -1;
    if (open_gate(1, 0, &gate) != REDLOCK_OK) return -1;
    if (redlock_fence_least(gate, "r", 1, &fence) != REDLOCK_OK) fence = -1;
    redlock_fence_gate_free(gate);
    return fence;
}

struct content {
    unsigned char bytes[32768];
    size_t count;
};

static void load(struct content *content) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t got = read(fd, content->bytes, sizeof content->bytes);
    close(fd);
    assert_true(got > 0 && got < (ssize_t)sizeof content->bytes);
    content->count = (size_t)got;
}

/* In place: ext4 syncs a file that was truncated to nothing and written again, and there are 12000
 * of these. */
static void save(const struct content *content, size_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, content->bytes, count, 0), count);
    assert_int_equal(ftruncate(fd, (off_t)count), 0);
    close(fd);
}

static void test_survives_its_process(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = NULL;
    assert_int_equal(open_gate(100, 0, &gate), REDLOCK_SYSTEM);
    assert_int_equal(errno, ENOENT);
    gate = opened(100);
    assert_int_equal(admit(gate, "r", 5), REDLOCK_OK);
    redlock_fence_gate_free(gate);
    gate = opened(7); /* its own size counts */
    assert_int_equal(admit(gate, "r", 4), REDLOCK_FENCED);
    assert_int_equal(admit(gate, "r", 5), REDLOCK_OK);
    redlock_fence_gate_free(gate);
    assert_int_equal(least_anew(), 5);
}

/* Two gates of one process on one file are as two processes: what one admits, the other knows at
 * once. */
static void test_two_share_it(void **state) {
    (void)state;
    struct redlock_fence_gate *one = opened(10), *other = opened(10);
    for (int64_t fence = 1; fence < 40; fence++) {
        assert_int_equal(admit(fence % 2 != 0 ? one : other, "r", fence), REDLOCK_OK);
        assert_int_equal(admit(fence % 2 != 0 ? other : one, "r", fence - 1 > 0 ? fence - 1 : 1),
                         fence == 1 ? REDLOCK_OK : REDLOCK_FENCED);
    }
    redlock_fence_gate_free(one);
    redlock_fence_gate_free(other);
}

static void make_known(struct content *content) {
    struct redlock_fence_gate *gate = opened(1);
    for (int64_t fence = 7; fence < 12; fence++)
        assert_int_equal(admit(gate, "r", fence), REDLOCK_OK);
    redlock_fence_gate_free(gate);
    load(content);
}

static void test_cut_off_at_every_byte(void **state) {
    (void)state;
    struct content content;
    struct redlock_fence_gate *gate = NULL;
    make_known(&content);
    for (size_t count = 0; count < content.count; count++) {
        save(&content, count);
        assert_int_equal(open_gate(1, 1, &gate), REDLOCK_SYSTEM);
        assert_int_equal(errno, EBADMSG);
    }
    save(&content, content.count);
    assert_int_equal(least_anew(), 11);
}

/* Either the truth or a refusal; the journal's and the padding's bytes may be anything. */
static void test_garbled_at_every_byte(void **state) {
    (void)state;
    struct content content;
    unsigned refused = 0;
    make_known(&content);
    for (size_t at = 0; at < content.count; at++) {
        const unsigned char was = content.bytes[at];
        content.bytes[at] ^= (unsigned char)(1 + at % 255);
        save(&content, content.count);
        int64_t least = least_anew();
        if (least != 11) assert_int_equal(least, -1);
        refused += least < 0;
        content.bytes[at] = was;
    }
    /* Only the header's 40 bytes: a garbled bucket is mended from the journal that still has it. */
    assert_int_equal(refused, 40);
}

static void test_zeroed_blocks(void **state) {
    (void)state;
    struct content content, hurt;
    make_known(&content);
    for (size_t at = 0; at < content.count; at += 512) {
        hurt = content;
        size_t rest = content.count - at;
        memset(hurt.bytes + at, 0, rest < 512 ? rest : 512);
        save(&hurt, hurt.count);
        assert_int_equal(least_anew(), at == 0 ? -1 : 11);
    }
    /* The bucket and the journal's newest copy: nobody knows any more, so nobody passes. */
    hurt = content;
    memset(hurt.bytes + BUCKETS_AT, 0, BUCKET);
    memset(hurt.bytes + SLOT_AT(0), 0, BUCKET);
    memset(hurt.bytes + SLOT_AT(1), 0, BUCKET);
    save(&hurt, hurt.count);
    assert_int_equal(least_anew(), -1);
}

/* A power failure at any moment of an admission: any prefix of the slot's bytes written and the
 * bucket not, or the slot whole and any prefix of the bucket. What was told before must hold; the
 * admission itself may hold or not. */
static void test_torn_at_every_byte(void **state) {
    (void)state;
    struct content before, reported, after, torn;
    make_known(&before);
    struct redlock_fence_gate *gate = opened(1);
    assert_int_equal(admit(gate, "r", 12), REDLOCK_OK);
    load(&reported);
    assert_int_equal(admit(gate, "r", 13), REDLOCK_OK);
    redlock_fence_gate_free(gate);
    load(&after);
    size_t slot = memcmp(reported.bytes + SLOT_AT(0), after.bytes + SLOT_AT(0), BUCKET) != 0
                      ? SLOT_AT(0)
                      : SLOT_AT(1);
    /* 12 was told when its slot was synced; its bucket has not come to disk. */
    torn = reported;
    memcpy(torn.bytes + BUCKETS_AT, before.bytes + BUCKETS_AT, BUCKET);
    for (size_t i = 0; i < BUCKET; i++) {
        save(&torn, torn.count);
        int64_t least = least_anew();
        if (least != 13) assert_int_equal(least, 12);
        torn.bytes[slot + i] = after.bytes[slot + i];
    }
    for (size_t i = 0; i < BUCKET; i++) {
        save(&torn, torn.count);
        assert_int_equal(least_anew(), 13); /* the slot was synced: it may have been told */
        torn.bytes[BUCKETS_AT + i] = after.bytes[BUCKETS_AT + i];
    }
    assert_memory_equal(torn.bytes, after.bytes, after.count);
}

static void test_not_a_gate(void **state) {
    (void)state;
    struct content content = {.count = 20000};
    struct redlock_fence_gate *gate = NULL;
    memset(content.bytes, 'x', content.count);
    save(&content, content.count);
    assert_int_equal(open_gate(1, 1, &gate), REDLOCK_SYSTEM);
    assert_int_equal(errno, EBADMSG);
    load(&content); /* left as it was */
    assert_int_equal(content.bytes[0], 'x');
    assert_int_equal(content.count, 20000);
}

static void say_buckets(struct content *content, uint64_t buckets) {
    uint64_t salt, sum;
    memcpy(content->bytes + 24, &buckets, sizeof buckets);
    memcpy(&salt, content->bytes + 16, sizeof salt);
    sum = gate_hash(salt, content->bytes, 32);
    memcpy(content->bytes + 32, &sum, sizeof sum);
}

/* The header's sum is right, and its count fits the file's length where the count times a bucket's
 * bytes wraps. */
static void test_impossible_counts(void **state) {
    (void)state;
    struct content content;
    make_known(&content);
    const uint64_t buckets = (content.count - BUCKETS_AT) / BUCKET, wraps = UINT64_C(1) << 57;
    const struct {
        uint64_t says, has;
    } counts[] = {{0, 0}, {wraps, 0}, {wraps + buckets, buckets}, {3 * wraps + buckets, buckets}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct redlock_fence_gate *gate = NULL;
        say_buckets(&content, counts[i].says);
        save(&content, (size_t)(BUCKETS_AT + counts[i].has * BUCKET));
        assert_int_equal(open_gate(1, 1, &gate), REDLOCK_SYSTEM);
        assert_int_equal(errno, EBADMSG);
    }
    say_buckets(&content, buckets);
    save(&content, content.count);
    assert_int_equal(least_anew(), 11);
}

#define WRITERS 3
struct board {
    _Atomic int64_t next;     /* fences are drawn from here */
    _Atomic int64_t reported; /* the highest that was told to be admitted */
    _Atomic unsigned admitted, backwards;
};

static _Noreturn void write_until_killed(struct board *board) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct redlock_fence_gate *gate = NULL;
    if (open_gate(10, 1, &gate) != REDLOCK_OK) _exit(3);
    while (true) {
        int64_t fence = ++board->next;
        usleep((unsigned)(fence * 7919 % 700)); /* others draw higher ones and overtake */
        int64_t before = board->reported;
        int result = admit(gate, "r", fence);
        if (result != REDLOCK_OK && result != REDLOCK_FENCED) _exit(4);
        if (result == REDLOCK_FENCED) continue;
        if (fence < before) board->backwards++;
        board->admitted++;
        int64_t reported = board->reported;
        while (reported < fence &&
               !atomic_compare_exchange_weak(&board->reported, &reported, fence)) {
        }
    }
}

/* One of several writers is killed again and again, wherever it is; it may be inside of the
 * gate. */
static void test_killed_at_random(void **state) {
    (void)state;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    pid_t writers[WRITERS] = {0};
    srand(7);
    for (int round = 0; round < 150 || (board->admitted < 100 && round < 5000); round++) {
        pid_t *victim = &writers[round % WRITERS];
        int status = 0;
        if (*victim != 0) {
            unsigned wait_us = (unsigned)rand() % 4000;
            usleep(wait_us);
            kill(*victim, SIGKILL);
            assert_int_equal(waitpid(*victim, &status, 0), *victim);
            assert_true(WIFSIGNALED(status)); /* it had no complaint of its own */
        }
        *victim = fork();
        assert_true(*victim >= 0);
        if (*victim == 0) write_until_killed(board);
    }
    for (int i = 0; i < WRITERS; i++) {
        kill(writers[i], SIGKILL);
        waitpid(writers[i], NULL, 0);
    }
    print_message("%u admitted by killed processes\n", board->admitted);
    assert_true(board->admitted >= 100);
    assert_int_equal(board->backwards, 0);
    assert_true(least_anew() >= board->reported);
    munmap(board, sizeof *board);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_survives_its_process, remove_gate),
        cmocka_unit_test_teardown(test_two_share_it, remove_gate),
        cmocka_unit_test_teardown(test_cut_off_at_every_byte, remove_gate),
        cmocka_unit_test_teardown(test_garbled_at_every_byte, remove_gate),
        cmocka_unit_test_teardown(test_zeroed_blocks, remove_gate),
        cmocka_unit_test_teardown(test_torn_at_every_byte, remove_gate),
        cmocka_unit_test_teardown(test_not_a_gate, remove_gate),
        cmocka_unit_test_teardown(test_impossible_counts, remove_gate),
        cmocka_unit_test_teardown(test_killed_at_random, remove_gate),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
