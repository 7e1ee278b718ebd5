/* SPDX-License-Identifier: BSD-2-Clause */
#include "diagnostics.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "boottime.h"

enum { ROOM = 64 * 1024, NOTE_BYTES = 128 };
#define PATIENCE_MAX (20 * MS)
#define PATIENCE_SHARE 50 /* the caller may spend one part in this many of its time waiting */
#define NO_READER_AFTER (300 * MS)
#define FLUSH_MAX (3000 * MS)

/* Texts one after the other, each with its length in front. A text leaves when it is written. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t filled, written;
    bool prepared, running, never_waits;
    uint64_t dropped;  /* since the last text in the queue */
    uint64_t progress; /* texts that have been written */
    int64_t patience_ns, patience_at;
    size_t used;
    char texts[ROOM];
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* ---- the queue; its mutex is held --------------------------------------------------------- */

static bool has_room(size_t bytes) { return queue.used + sizeof bytes + bytes <= ROOM; }

static void put(const char *text, size_t bytes) {
    memcpy(queue.texts + queue.used, &bytes, sizeof bytes);
    memcpy(queue.texts + queue.used + sizeof bytes, text, bytes);
    queue.used += sizeof bytes + bytes;
}

static void put_note_of_dropped(void) {
    char note[NOTE_BYTES];
    int bytes = snprintf(note, sizeof note,
                         "redlock: %llu messages were dropped here: standard error was not read\n",
                         (unsigned long long)queue.dropped);
    put(note, (size_t)bytes);
    queue.dropped = 0;
}

static bool put_or_drop(const char *text, size_t bytes) {
    const size_t note = queue.dropped > 0 ? sizeof bytes + NOTE_BYTES : 0;
    if (!has_room(note + bytes)) {
        queue.dropped++;
        return false;
    }
    if (queue.dropped > 0) put_note_of_dropped();
    put(text, bytes);
    return true;
}

/* The first text stays in the queue until it is written: when the queue is empty, nothing is under
 * way. */
static size_t first(char *text) {
    size_t bytes;
    memcpy(&bytes, queue.texts, sizeof bytes);
    memcpy(text, queue.texts + sizeof bytes, bytes);
    return bytes;
}

static void remove_first(size_t bytes) {
    const size_t whole = sizeof bytes + bytes;
    queue.used -= whole;
    memmove(queue.texts, queue.texts + whole, queue.used);
    queue.progress++;
    if (queue.used == 0 && queue.dropped > 0) put_note_of_dropped();
}

/* False: not written by then. */
static bool wait_until_progress(int64_t until) {
    const struct timespec at = {.tv_sec = (time_t)(until / (1000 * MS)),
                                .tv_nsec = (long)(until % (1000 * MS))};
    const uint64_t before = queue.progress;
    while (queue.progress == before && queue.used > 0) {
        int result = pthread_cond_timedwait(&queue.written, &queue.mutex, &at);
        if (result == ETIMEDOUT) return false;
    }
    return true;
}

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (1000 * MS) + now.tv_nsec;
}

static void wait_with_patience(void) {
    const int64_t begun = monotonic_ns();
    int64_t patience = queue.patience_ns + (begun - queue.patience_at) / PATIENCE_SHARE;
    if (patience > PATIENCE_MAX) patience = PATIENCE_MAX;
    while (queue.used > 0 && wait_until_progress(begun + patience)) continue;
    const int64_t now = monotonic_ns(), left = patience - (now - begun);
    queue.patience_ns = left > 0 ? left : 0;
    queue.patience_at = now;
}

/* ---- the writer --------------------------------------------------------------------------- */

/* A descriptor that fails permanently gets no text, and the error cannot be reported anywhere. */
static void write_all(const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t wrote = write(STDERR_FILENO, text, bytes);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 &&
            errno == EAGAIN) { /* another process made it non-blocking, for all that share it */
            struct pollfd poller = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&poller, 1, -1);
            continue;
        }
        if (wrote <= 0) return;
        text += wrote;
        bytes -= (size_t)wrote;
    }
}

static void *write_forever(void *unused) {
    static char text[DIAGNOSTIC_BYTES_MAX];
    (void)unused;
    pthread_mutex_lock(&queue.mutex);
    while (true) {
        while (queue.used == 0) pthread_cond_wait(&queue.filled, &queue.mutex);
        size_t bytes = first(text);
        pthread_mutex_unlock(&queue.mutex);
        write_all(text, bytes);
        pthread_mutex_lock(&queue.mutex);
        remove_first(bytes);
        pthread_cond_broadcast(&queue.written);
    }
    return NULL;
}

/* pthread_cond_clockwait() is not in every C library. */
static void begin_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void before_fork(void) { pthread_mutex_lock(&queue.mutex); }
static void in_parent(void) { pthread_mutex_unlock(&queue.mutex); }

/* After fork, the parent writes the queued text; the child does not have its thread. */
static void in_child(void) {
    pthread_mutex_init(&queue.mutex, NULL);
    pthread_cond_init(&queue.filled, NULL);
    begin_condition(&queue.written);
    queue.running = false;
    queue.used = 0;
    queue.dropped = 0;
}

static void prepare(void) {
    if (queue.prepared) return;
    queue.prepared = true;
    begin_condition(&queue.written);
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(diagnostics_flush);
}

/* The thread leaves all signals to the others, except TTOU: the terminal decides whether a
 * background job may write. */
static bool start_writer(void) {
    pthread_t thread;
    sigset_t blocked, before;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    sigfillset(&blocked);
    if (!sigismember(&before, SIGTTOU)) sigdelset(&blocked, SIGTTOU);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    queue.running = pthread_create(&thread, NULL, write_forever, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (queue.running) pthread_detach(thread);
    return queue.running;
}

/* ---- interface ------------------------------------------------------------------------------ */

static void enqueue(const char *text, size_t bytes, bool passing) {
    if (bytes > DIAGNOSTIC_BYTES_MAX) bytes = DIAGNOSTIC_BYTES_MAX;
    pthread_mutex_lock(&queue.mutex);
    prepare();
    const bool wanted = !passing || queue.used == 0;
    if (wanted && !queue.running && !start_writer()) {
        diagnostics_write_from_handler(text, bytes); /* the thread cannot be started */
    } else if (wanted && put_or_drop(text, bytes)) {
        pthread_cond_signal(&queue.filled);
        if (!queue.never_waits && !passing) wait_with_patience();
    }
    pthread_mutex_unlock(&queue.mutex);
}

void diagnostics_write(const char *text, size_t bytes) { enqueue(text, bytes, false); }

void diagnostics_write_passing(const char *text, size_t bytes) { enqueue(text, bytes, true); }

void diagnostics_never_wait(void) {
    pthread_mutex_lock(&queue.mutex);
    queue.never_waits = true;
    pthread_mutex_unlock(&queue.mutex);
}

static bool takes_output(void) {
    struct pollfd poller = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&poller, 1, 0) == 1 && (poller.revents & POLLOUT) != 0;
}

/* A writer that makes no progress may still have a reader: on a busy machine the writer may
 * not have run yet. */
void diagnostics_flush(void) {
    pthread_mutex_lock(&queue.mutex);
    const int64_t end = monotonic_ns() + FLUSH_MAX;
    for (bool goes_on = queue.running; goes_on && queue.used > 0;) {
        const int64_t until = monotonic_ns() + NO_READER_AFTER;
        goes_on = wait_until_progress(until < end ? until : end) ||
                  (takes_output() && monotonic_ns() < end);
    }
    pthread_mutex_unlock(&queue.mutex);
}

void diagnostics_write_from_handler(const char *text, size_t bytes) {
    if (!takes_output()) return;
    ssize_t written = write(STDERR_FILENO, text, bytes);
    (void)written; /* nothing better can be done when standard error itself is gone */
}

static ssize_t from_stream(void *unused, const char *text, size_t bytes) {
    (void)unused;
    for (size_t done = 0; done < bytes; done += DIAGNOSTIC_BYTES_MAX) {
        const size_t left = bytes - done;
        diagnostics_write(text + done, left < DIAGNOSTIC_BYTES_MAX ? left : DIAGNOSTIC_BYTES_MAX);
    }
    return (ssize_t)bytes;
}

FILE *diagnostics_stream(void) {
    static FILE *stream;
    if (stream != NULL) return stream;
    stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = from_stream});
    if (stream == NULL) return stderr;
    setvbuf(stream, NULL, _IOLBF, DIAGNOSTIC_BYTES_MAX);
    return stream;
}
