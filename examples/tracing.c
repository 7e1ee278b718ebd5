/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Spans for a tracing library (OpenTelemetry and others): what the hook of redlock/metrics.h reports becomes spans with
 * a beginning, an end and attributes. The hook only copies, because the client waits for it; the program exports later.
 * usage: tracing RESOURCE   (nodes from REDLOCK_NODES)
 */
#include <redlock/metrics.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SPANS = 256, NAME_BYTES = 64 };

struct span {
    const char *name;
    int64_t began_ns, ended_ns; /* CLOCK_BOOTTIME */
    int64_t fence;
    int result;
    unsigned granted, nodes;
    char resource[NAME_BYTES];
};

/* Spans on their way to the exporter. When it does not keep up they are dropped and counted. */
static struct {
    pthread_mutex_t mutex;
    unsigned first, count;
    uint64_t dropped;
    struct span spans[SPANS];
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const names[] = {
    [REDLOCK_EVENT_ACQUIRED] = "lock.acquire", [REDLOCK_EVENT_FAILED] = "lock.acquire",
    [REDLOCK_EVENT_EXTENDED] = "lock.extend",  [REDLOCK_EVENT_LOST] = "lock.lost",
    [REDLOCK_EVENT_RELEASED] = "lock.release", [REDLOCK_EVENT_DISOWNED] = "lock.disown",
};

static void on_event(void *context, const struct redlock_event *event) {
    (void)context;
    /* A later release of the library may report more. */
    if (event->kind < 1 || (size_t)event->kind >= sizeof names / sizeof names[0]) return;
    struct span span = {.name = names[event->kind],
                        .began_ns = event->began_ns,
                        .ended_ns = event->ended_ns,
                        .fence = event->fence,
                        .result = event->result,
                        .nodes = (unsigned)event->nodes};
    for (size_t i = 0; i < event->nodes; i++) span.granted += event->verdicts[i] == REDLOCK_VERDICT_GRANTED;
    size_t bytes = event->resources[0].bytes < NAME_BYTES - 1 ? event->resources[0].bytes : NAME_BYTES - 1;
    memcpy(span.resource, event->resources[0].data, bytes);
    pthread_mutex_lock(&queue.mutex);
    if (queue.count < SPANS)
        queue.spans[(queue.first + queue.count++) % SPANS] = span;
    else
        queue.dropped++;
    pthread_mutex_unlock(&queue.mutex);
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Here a program calls its tracing library, which wants the time since 1970. */
static void export_spans(void) {
    const int64_t since_1970 = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
    for (;;) {
        pthread_mutex_lock(&queue.mutex);
        struct span span = queue.spans[queue.first];
        int none = queue.count == 0;
        if (!none) {
            queue.first = (queue.first + 1) % SPANS;
            queue.count--;
        }
        pthread_mutex_unlock(&queue.mutex);
        if (none) return;
        printf("%s resource=%s start=%" PRId64 " end=%" PRId64 " result=\"%s\" granted=%u/%u fence=%" PRId64 "\n", span.name,
               span.resource, span.began_ns + since_1970, span.ended_ns + since_1970, redlock_result_text(span.result),
               span.granted, span.nodes, span.fence);
    }
}

int main(int argc, char **argv) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_error error;
    if (argc != 2) {
        fputs("usage: tracing RESOURCE\n", stderr);
        return 64;
    }
    if (redlock_client_open(NULL, NULL, &client, &error) != REDLOCK_OK ||
        redlock_lock_new(client, argv[1], strlen(argv[1]), NULL, &lock, &error) != REDLOCK_OK) {
        fprintf(stderr, "tracing: %s\n", error.text);
        redlock_client_free(client);
        return 78;
    }
    int result = redlock_client_observe(client, on_event, NULL);
    if (result == REDLOCK_OK) result = redlock_acquire(lock, 1000);
    if (result == REDLOCK_OK) result = redlock_extend(lock, 0);
    if (result == REDLOCK_OK) result = redlock_release(lock);
    redlock_lock_free(lock);
    redlock_client_free(client);
    export_spans();
    return result == REDLOCK_OK ? 0 : 75;
}
