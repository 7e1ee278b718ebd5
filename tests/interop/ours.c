/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Our side of the tests with other projects' clients: the library behind the same protocol that the
 * peers speak (README.md), so that one test drives both. usage: interop_ours [-d RETRY_DELAY_MS]
 * URL ...
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <redlock.h>

#define RESOURCES 64
#define WORDS 5
#define READY_MS 5000

/* The lock of each resource that was asked for stays, held or not: a release after it has expired
 * is asked of it too. */
static struct {
    char *name;
    struct redlock_lock *lock;
} known[RESOURCES];

static struct redlock_client *client;
static int64_t retry_delay_ms;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "ours: %s: %s\n", what, why);
    exit(1);
}

static int64_t now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static void nap_ms(int64_t ms) {
    const struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    nanosleep(&ts, NULL);
}

static int64_t number(const char *word) {
    char *end;
    errno = 0;
    int64_t value = strtoll(word, &end, 10);
    if (errno || end == word || *end) die(word, "not a number");
    return value;
}

static void say_result(int result) {
    if (result == REDLOCK_OK)
        puts("{\"ok\": true}");
    else
        printf("{\"ok\": false, \"result\": %d, \"why\": \"%s\"}\n", result,
               redlock_result_text(result));
}

static struct redlock_lock *new_lock(const char *resource, int64_t ttl_ms) {
    struct redlock_lock_options options;
    struct redlock_error error = {0};
    struct redlock_lock *lock = NULL;
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.renew = 0; /* peers do not renew, and it is the end of locks that is looked at here */
    if (retry_delay_ms > 0) {
        options.retry_delay_ms_min = retry_delay_ms;
        options.retry_delay_ms_max = retry_delay_ms + 1000;
    }
    if (redlock_lock_new(client, resource, strlen(resource), &options, &lock, &error) != REDLOCK_OK)
        die(resource, error.text);
    return lock;
}

/* Where the resource's lock is kept; an empty place if there is none yet. */
static size_t place_of(const char *resource) {
    for (size_t i = 0; i < RESOURCES; i++)
        if (!known[i].name || strcmp(known[i].name, resource) == 0) return i;
    die(resource, "too many resources");
}

static void acquire(const char *resource, int64_t ttl_ms, int64_t wait_ms) {
    size_t place = place_of(resource);
    if (known[place].name)
        redlock_lock_free(known[place].lock);
    else if (!(known[place].name = strdup(resource)))
        die(resource, "out of memory");
    known[place].lock = new_lock(resource, ttl_ms);
    int result = redlock_acquire(known[place].lock, wait_ms);
    if (result != REDLOCK_OK) {
        say_result(result);
        return;
    }
    struct redlock_bytes token = redlock_token(known[place].lock);
    printf("{\"ok\": true, \"token\": \"%.*s\"}\n", (int)token.bytes, (const char *)token.data);
}

static struct redlock_lock *lock_of(const char *resource) {
    struct redlock_lock *lock = known[place_of(resource)].lock;
    if (!lock) die(resource, "was never acquired");
    return lock;
}

/* ---- the counter ---- */

static int64_t read_counter(const char *path) {
    char text[32] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file)) die(path, "cannot be read");
    fclose(file);
    return number(text);
}

/* Not atomic on purpose: whoever looks meanwhile finds it empty. */
static void write_counter(const char *path, int64_t value) {
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%" PRId64, value) < 0 || fclose(file) != 0)
        die(path, "cannot be written");
}

static bool turn(struct redlock_lock *lock, const char *path, int64_t wait_ms) {
    if (redlock_acquire(lock, wait_ms) != REDLOCK_OK) return false;
    int64_t value = read_counter(path);
    nap_ms(2);
    bool ours = redlock_validity_ms(lock) > 0;
    if (ours) write_counter(path, value + 1);
    redlock_release(lock);
    return ours;
}

/* Between its turns it does something else for a while, else nobody who asks now and then would
 * find the lock free. */
static void count(const char *resource, const char *path, int64_t seconds, int64_t ttl_ms) {
    struct redlock_lock *lock = new_lock(resource, ttl_ms);
    int64_t turns = 0, failed = 0, end = now_ms() + seconds * 1000;
    for (int64_t left; (left = end - now_ms()) > 0;) {
        if (turn(lock, path, left))
            turns++;
        else
            failed++;
        nap_ms(10 + random() % 60);
    }
    redlock_lock_free(lock);
    printf("{\"turns\": %" PRId64 ", \"failed\": %" PRId64 "}\n", turns, failed);
}

/* ---- beginning ---- */

/* False: the last one. */
static bool obey(char *line) {
    char *words[WORDS] = {0}, *rest = line;
    size_t said = 0;
    for (char *word; said < WORDS && (word = strtok_r(rest, " \n", &rest));) words[said++] = word;
    if (said == 0 || strcmp(words[0], "quit") == 0) return false;
    if (said == 4 && strcmp(words[0], "acquire") == 0)
        acquire(words[1], number(words[2]), number(words[3]));
    else if (said == 3 && strcmp(words[0], "extend") == 0)
        say_result(redlock_extend(lock_of(words[1]), number(words[2])));
    else if (said == 2 && strcmp(words[0], "release") == 0)
        say_result(redlock_release(lock_of(words[1])));
    else if (said == 5 && strcmp(words[0], "count") == 0)
        count(words[1], words[2], number(words[3]), number(words[4]));
    else
        die(words[0], "no such command, or too few words");
    return fflush(stdout) == 0;
}

static void open_client(char **urls, int count_of_urls) {
    char nodes[2048] = "";
    size_t used = 0;
    struct redlock_error error = {0};
    for (int i = 0; i < count_of_urls; i++) {
        int bytes = snprintf(nodes + used, sizeof nodes - used, "%s%s", i ? "," : "", urls[i]);
        if (bytes < 0 || (size_t)bytes >= sizeof nodes - used) die(urls[i], "too long");
        used += (size_t)bytes;
    }
    if (redlock_client_open(nodes, NULL, &client, &error) != REDLOCK_OK) die(nodes, error.text);
    if (redlock_client_wait_ready(client, READY_MS) < count_of_urls / 2 + 1)
        die(nodes, "no majority");
}

int main(int words, char **word) {
    for (int option; (option = getopt(words, word, "d:")) != -1;) {
        if (option != 'd') return 64;
        retry_delay_ms = number(optarg);
    }
    if (optind == words) die("usage", "interop_ours [-d RETRY_DELAY_MS] URL ...");
    srandom((unsigned)getpid());
    open_client(word + optind, words - optind);
    printf("{\"ready\": true, \"name\": \"redlock\", \"version\": \"%s\", \"key\": \"R\"}\n",
           redlock_version());
    fflush(stdout);
    char line[4096];
    while (fgets(line, sizeof line, stdin) && obey(line)) {
    }
    for (size_t i = 0; i < RESOURCES && known[i].name; i++) {
        redlock_lock_free(known[i].lock);
        free(known[i].name);
    }
    redlock_client_free(client);
    return 0;
}
