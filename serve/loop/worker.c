/* SPDX-License-Identifier: BSD-2-Clause */
#include "workers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "gateway.h"

/* Most frames are shorter than this. */
enum { FRAME_BYTES = 512 };

/* ---- input ---- */

static bool make_room(struct worker *worker, size_t bytes) {
    if (worker->frame != NULL && bytes <= worker->frame_capacity) return true;
    char *frame = realloc(worker->frame, bytes);
    if (frame == NULL) return false;
    worker->frame = frame;
    worker->frame_capacity = bytes;
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
    struct worker *worker = context;
    (void)what;
    worker->workers->gateway->heard++;
    if (worker->state == WORKER_WAITS || !make_room(worker, FRAME_BYTES)) {
        workers_lost(worker);
        return;
    }
    const ssize_t count =
        read(fd, worker->frame + worker->frame_bytes, worker->frame_capacity - worker->frame_bytes);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count > 0) worker->frame_bytes += (size_t)count;
    const bool has_head = worker->frame_bytes >= WIRE_HEAD_BYTES;
    const size_t body = has_head ? wire_body_bytes(worker->frame) : 0;
    const size_t whole = WIRE_HEAD_BYTES + body;
    if (count <= 0 || body > WIRE_BODY_BYTES_MAX || (has_head && worker->frame_bytes > whole) ||
        !make_room(worker, whole)) {
        workers_lost(worker);
        return;
    }
    if (!has_head || worker->frame_bytes < whole) return;
    /* A whole frame goes to the task, which owns it: the message is needed until it is answered. */
    char *frame = worker->frame;
    worker->frame = NULL;
    worker->frame_bytes = worker->frame_capacity = 0;
    event_del(worker->timer);
    workers_heard(worker, frame, whole);
}

/* ---- output ---- */

static void write_out(struct worker *worker) {
    const int written = evbuffer_write(worker->out, worker->channel);
    const bool later = written >= 0 || errno == EAGAIN || errno == EINTR;
    if (later && evbuffer_get_length(worker->out) > 0) event_add(worker->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    write_out(context);
}

static int64_t processor_ns(const struct worker *worker) {
    struct timespec time;
    if (clock_gettime(worker->clock, &time) != 0) return worker->consumed_ns;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void worker_send(struct worker *worker, struct evbuffer *frame) {
    worker->state = WORKER_COMPUTES;
    worker->overtaken = false;
    worker->began_ns = gateway_now_ns();
    worker->consumed_ns = processor_ns(worker);
    if (evbuffer_add_buffer(worker->out, frame) == 0) write_out(worker);
}

int64_t worker_consumed_ns(const struct worker *worker) {
    return processor_ns(worker) - worker->consumed_ns;
}

/* ---- processor time ---- */

static void on_time(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    workers_overdue(context);
}

void worker_watch(struct worker *worker, int64_t after_ns) {
    const struct timeval after = {.tv_sec = (time_t)(after_ns / 1000000000),
                                  .tv_usec = (suseconds_t)(after_ns % 1000000000 / 1000)};
    event_add(worker->timer, &after);
}

/* ---- beginning and end ---- */

static void free_event(struct event **event) {
    if (*event != NULL) event_free(*event);
    *event = NULL;
}

bool worker_open(struct worker *worker, int channel) {
    struct event_base *base = worker->workers->gateway->base;
    worker->state = WORKER_STARTING;
    worker->task = NULL;
    worker->channel = channel;
    worker->readable = event_new(base, channel, EV_READ | EV_PERSIST, on_readable, worker);
    worker->writable = event_new(base, channel, EV_WRITE, on_writable, worker);
    worker->timer = event_new(base, -1, 0, on_time, worker);
    worker->out = evbuffer_new();
    if (worker->readable != NULL && worker->writable != NULL && worker->timer != NULL &&
        worker->out != NULL && event_add(worker->readable, NULL) == 0)
        return true;
    worker_close(worker);
    return false;
}

void worker_close(struct worker *worker) {
    if (worker->state == WORKER_ABSENT) return;
    free_event(&worker->readable);
    free_event(&worker->writable);
    free_event(&worker->timer);
    if (worker->out != NULL) evbuffer_free(worker->out);
    worker->out = NULL;
    free(worker->frame);
    worker->frame = NULL;
    worker->frame_bytes = worker->frame_capacity = 0;
    close(worker->channel);
    worker->state = WORKER_ABSENT;
}
