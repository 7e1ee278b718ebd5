/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a connection ends, as the server sees it: by a reset where an answer is owed, else by an
 * orderly close. The server is a fake one that greets properly, takes requests and keeps its
 * answers to itself when told to.
 */
#include "notices.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct fake {
    int listener;
    pthread_t thread;
    atomic_bool mute;                   /* no answer to what changes a key */
    atomic_int sets, deletes;           /* seen: "SET", and what the release script is called by */
    atomic_int accepted, closed, reset; /* connections */
    /* 'R': by a reset, 'C': closed. A fresh one that is tried next to it is only closed. */
    atomic_int first_ended;
    atomic_int first_word_of_later; /* after the first connection, the first EVALSHA came before any
                                       SET: 'E', else 'S' */
};

static const char *greeting =
    "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:0123456789012345678901234567890123456789\r\n";

/* Answers one command; NULL: says nothing. */
static const char *answer_to(struct fake *fake, const redisReply *command, char *text,
                             size_t size) {
    const char *word = command->elements > 0 ? command->element[0]->str : "";
    if (strcmp(word, "INFO") == 0) {
        snprintf(text, size, "$%zu\r\n%s\r\n", strlen(greeting), greeting);
        return text;
    }
    if (strcmp(word, "REDLOCK.HELLO") == 0) return "-ERR unknown command 'REDLOCK.HELLO'\r\n";
    bool with_keys = command->elements > 2 && strcmp(command->element[2]->str, "0") != 0;
    bool set = strcmp(word, "SET") == 0, release = strncmp(word, "EVAL", 4) == 0 && with_keys;
    if (fake->accepted >= 2 && !fake->first_word_of_later && (set || release))
        fake->first_word_of_later = set ? 'S' : 'E';
    fake->sets += set;
    fake->deletes += release;
    if (fake->mute && (set || release)) return NULL;
    return set ? "+OK\r\n" : ":1\r\n";
}

static void serve(struct fake *fake, int peer) {
    char data[4096], text[400];
    redisReader *reader = redisReaderCreate();
    ssize_t got;
    while ((got = read(peer, data, sizeof data)) > 0) {
        void *command = NULL;
        redisReaderFeed(reader, data, (size_t)got);
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
            const char *answer = answer_to(fake, command, text, sizeof text);
            freeReplyObject(command);
            if (answer && send(peer, answer, strlen(answer), MSG_NOSIGNAL) < 0) break;
        }
    }
    if (!fake->first_ended) fake->first_ended = got == 0 ? 'C' : 'R';
    if (got < 0 && errno == ECONNRESET) fake->reset++;
    if (got == 0) fake->closed++;
    redisReaderFree(reader);
    close(peer);
}

static void *fake_run(void *argument) {
    struct fake *fake = argument;
    for (;;) {
        int peer = accept(fake->listener, NULL, NULL);
        if (peer < 0) return NULL;
        fake->accepted++;
        serve(fake, peer);
    }
}

static struct redlock_client *open_on_fake(struct fake *fake) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    char url[64];
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(fake->listener, 8), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
    redlock_client_options_init(&options);
    options.stall_timeout_ms = 300;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    assert_result(redlock_client_open(url, &options, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 1);
    return client;
}

static void end_fake(struct fake *fake) {
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
}

static void a_client_with_nothing_under_way_closes(void **state) {
    (void)state;
    struct fake fake = {0};
    struct redlock_client *client = open_on_fake(&fake);
    struct redlock_lock *lock = new_lock(client, "r", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    wait_until(fake.closed == 1, 1000);
    assert_int_equal(fake.reset, 0);
    end_fake(&fake);
}

static void a_client_freed_with_an_unanswered_set_resets(void **state) {
    (void)state;
    struct fake fake = {.mute = true};
    struct redlock_client *client = open_on_fake(&fake);
    struct redlock_lock *lock = new_lock(client, "r", NULL);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(fake.sets, 1);
    redlock_lock_free(lock);
    redlock_client_free(client);
    wait_until(fake.first_ended, 1000);
    assert_int_equal(fake.first_ended, 'R');
    end_fake(&fake);
}

static void a_client_freed_with_an_unanswered_release_resets(void **state) {
    (void)state;
    struct fake fake = {0};
    struct redlock_client *client = open_on_fake(&fake);
    struct redlock_lock *lock = new_lock(client, "r", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    fake.mute = true;
    redlock_lock_free(lock);
    redlock_client_free(client);
    wait_until(fake.reset == 1, 1000);
    assert_int_equal(fake.deletes, 1);
    end_fake(&fake);
}

/* Silent for too long: reset, connected anew, and the release is what comes first there. */
static void a_stalled_connection_is_reset_and_its_release_repeated(void **state) {
    (void)state;
    struct fake fake = {.mute = true};
    struct redlock_client *client = open_on_fake(&fake);
    struct redlock_lock *lock = new_lock(client, "r", NULL);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(fake.sets, 1);
    wait_until(fake.first_ended, 2000);
    assert_int_equal(fake.first_ended, 'R');
    fake.mute = false;
    /* The connection by which a waiter is told may come before the other. */
    assert_result(redlock_acquire(lock, 3000), REDLOCK_OK);
    assert_int_equal(fake.first_word_of_later, 'E');
    assert_true(fake.deletes >= 2);
    redlock_lock_free(lock);
    redlock_client_free(client);
    wait_until(fake.closed >= 1,
               1000); /* and the one by which a waiter is told, if it was opened */
    end_fake(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_with_nothing_under_way_closes),
        cmocka_unit_test(a_client_freed_with_an_unanswered_set_resets),
        cmocka_unit_test(a_client_freed_with_an_unanswered_release_resets),
        cmocka_unit_test(a_stalled_connection_is_reset_and_its_release_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
