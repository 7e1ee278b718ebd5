/* SPDX-License-Identifier: BSD-2-Clause */
#include "watcher.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "http/address.h"
#include "http/exposition.h"
#include "look_metrics.h"
#include "page.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "text.h"

#define SECOND (1000 * MS)
/* It leaves the nodes when nobody has asked for this long: longer than the intervals of scrapes. */
#define LEAVES_AFTER (150 * SECOND)

#define OLD (20 * SECOND)

enum { ROWS_MAX = 12000, WALK_INTERVAL_MS = 4000, JOIN_SECONDS = 3 };
enum shown { METRICS, PAGE, SHOWN };

struct text {
    char *bytes; /* NULL: there was no memory for it */
    size_t count;
    int64_t at_ns; /* the end of its look; 0: none yet */
};

struct watcher {
    struct settings settings;
    struct top_observer observer; /* of the thread; its session is open if `is_open` */
    bool is_open;
    uint64_t looks;
    pthread_t thread;
    int wakes, done; /* eventfd(2): for the thread, and for the loop of the HTTP server */
    struct http *http;
    struct event *on_done;

    pthread_mutex_t mutex; /* for what follows */
    bool quits, wanted[SHOWN];
    struct text texts[SHOWN];
    int64_t took_ns; /* the last look */
};

static void signal_fd(int fd) { (void)!write(fd, &(uint64_t){1}, sizeof(uint64_t)); }
static void clear_fd(int fd) { (void)!read(fd, &(uint64_t){0}, sizeof(uint64_t)); }

/* ---- the thread ---- */

static void keep(struct watcher *watcher, enum shown what, char *bytes, size_t count) {
    struct text *text = &watcher->texts[what];
    pthread_mutex_lock(&watcher->mutex);
    free(text->bytes);
    *text = (struct text){bytes, count, now_ns()};
    watcher->wanted[what] = false;
    pthread_mutex_unlock(&watcher->mutex);
}

static void write_metrics(struct watcher *watcher, int64_t took_ns) {
    struct evbuffer *out = evbuffer_new();
    char *bytes = NULL;
    size_t count = 0;
    if (out != NULL) {
        look_metrics_write(&watcher->observer, out);
        exposition_number(out, "redlock_exporter_looks_total", "counter", watcher->looks,
                          "Looks at the nodes; one serves all who ask.");
        exposition_real(out, "redlock_exporter_look_seconds", "gauge", (double)took_ns / 1e9,
                        "How long the last look took.");
        count = evbuffer_get_length(out);
        bytes = malloc(count);
        if (bytes != NULL) evbuffer_remove(out, bytes, count);
        evbuffer_free(out);
    }
    keep(watcher, METRICS, bytes, count);
}

static void leave(struct watcher *watcher) {
    if (watcher->is_open) top_observer_free(&watcher->observer);
    watcher->is_open = false;
}

/* False: the client cannot be opened, or there is no memory. The next request tries again. */
static bool look(struct watcher *watcher) {
    struct session *session = &watcher->observer.session;
    if (!watcher->is_open) {
        if (session_open(session, &watcher->settings) != 0) return false;
        top_observer_init(&watcher->observer, ROWS_MAX);
        watcher->is_open = true;
        session_connect(session);
    }
    watcher->looks++;
    const int result = top_look(&watcher->observer, WALK_INTERVAL_MS);
    if (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM) return true;
    leave(watcher);
    return false;
}

static void look_and_write(struct watcher *watcher, bool page) {
    const int64_t began = now_ns();
    const bool seen = look(watcher);
    const int64_t took = now_ns() - began;
    pthread_mutex_lock(&watcher->mutex);
    watcher->took_ns = took;
    pthread_mutex_unlock(&watcher->mutex);
    if (seen)
        write_metrics(watcher, took);
    else
        keep(watcher, METRICS, NULL, 0);
    if (page) {
        char *json = seen ? top_json(&watcher->observer) : NULL;
        keep(watcher, PAGE, json, json != NULL ? strlen(json) : 0);
    }
    signal_fd(watcher->done);
}

/* Sleeps until it is woken, and does the client's work. */
static void wait_for_work(struct watcher *watcher, int64_t until) {
    struct redlock_client *client = watcher->observer.session.client;
    const int64_t left = (until - now_ns()) / MS + 1;
    struct pollfd polled[] = {
        {.fd = watcher->wakes, .events = POLLIN},
        {.fd = watcher->is_open ? redlock_client_fd(client) : -1, .events = POLLIN}};
    poll(polled, 2, !watcher->is_open ? -1 : left > 0 ? (int)left : 0);
    if (polled[0].revents != 0) clear_fd(watcher->wakes);
    if (polled[1].revents != 0) redlock_process(client);
}

static void *watch(void *context) {
    struct watcher *watcher = context;
    int64_t asked = now_ns();
    for (;;) {
        pthread_mutex_lock(&watcher->mutex);
        const bool quits = watcher->quits, page = watcher->wanted[PAGE],
                   wanted = page || watcher->wanted[METRICS];
        pthread_mutex_unlock(&watcher->mutex);
        if (quits) break;
        if (wanted) {
            look_and_write(watcher, page);
            asked = now_ns();
        } else if (now_ns() >= asked + LEAVES_AFTER) {
            leave(watcher);
        }
        wait_for_work(watcher, asked + LEAVES_AFTER);
    }
    leave(watcher);
    return NULL;
}

/* ---- what the loop asks ---- */

/* That of the page is an object, which gets its age. */
static bool add_text(const struct text *text, enum shown what, int64_t age_ns,
                     struct evbuffer *out) {
    if (text->bytes == NULL) return false;
    if (what != PAGE) return evbuffer_add(out, text->bytes, text->count) == 0;
    return evbuffer_add_printf(out, "{\"age_ms\":%" PRId64 ",", age_ns / MS) > 0 &&
           evbuffer_add(out, text->bytes + 1, text->count - 1) == 0;
}

/* Returns the status; NULL: a look is under way. */
static const char *write_text(struct watcher *watcher, enum shown what, struct evbuffer *out) {
    const char *status = NULL;
    pthread_mutex_lock(&watcher->mutex);
    const struct text *text = &watcher->texts[what];
    /* Scrapes come a little sooner at times. A browser asks often: most of the time, nodes rest. */
    const int64_t fresh = what == METRICS ? watcher->settings.web.interval_ms * MS / 10 * 9
                          : watcher->took_ns > SECOND / 2 ? 4 * watcher->took_ns
                                                          : 2 * SECOND;
    const int64_t age = text->at_ns == 0 ? NEVER : now_ns() - text->at_ns;
    if (age >= fresh) {
        watcher->wanted[what] = true;
        signal_fd(watcher->wakes);
    }
    /* A browser gets the last look at once, and the next one when it asks again. */
    if (age >= fresh && (what != PAGE || age >= OLD)) {
        status = NULL;
    } else {
        status = add_text(text, what, age, out) ? HTTP_OK : "503 Service Unavailable";
    }
    pthread_mutex_unlock(&watcher->mutex);
    return status;
}

const char *watcher_metrics(void *context, const struct http_request *request,
                            struct http_reply *reply) {
    if (strcmp(request->path, "/metrics") == 0) return write_text(context, METRICS, reply->body);
    if (strcmp(request->path, "/healthz") != 0) return HTTP_NOT_FOUND;
    evbuffer_add_printf(reply->body, "ok\n");
    return HTTP_OK;
}

const char *watcher_page(void *context, const struct http_request *request,
                         struct http_reply *reply) {
    const bool is_page = strcmp(request->path, "/") == 0;
    if (!is_page && strcmp(request->path, "/look.json") != 0) return HTTP_NOT_FOUND;
    if (!page_is_host(request->host)) {
        evbuffer_add_printf(
            reply->body,
            "the name '%.100s' may belong to a foreign page: use the address of this machine, its "
            "own name, or localhost\n",
            request->host);
        return "403 Forbidden";
    }
    if (is_page) return page_write(reply) ? HTTP_OK : "503 Service Unavailable";
    reply->type = "application/json";
    page_confine(reply);
    return write_text(context, PAGE, reply->body);
}

static void on_done(evutil_socket_t fd, short what, void *context) {
    struct watcher *watcher = context;
    (void)what;
    clear_fd(fd);
    http_retry(watcher->http);
}

/* Locks have names that may tell something. */
static void announce_page(const struct http *http, bool quiet) {
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char text[ADDRESS_TEXT_BYTES];
    address_of(http_socket(http), text, sizeof text);
    getsockname(http_socket(http), (struct sockaddr *)&address, &bytes);
    if (!quiet) complain("page on http://%s/", text);
    if (!address_is_loopback((const struct sockaddr *)&address))
        complain("%s: others can reach this address, and its page shows them the names of locks "
                 "and their owners",
                 text);
}

bool watcher_begin(void *context, struct http *http) {
    struct watcher *watcher = context;
    watcher->http = http;
    if (watcher->settings.web.page) announce_page(http, watcher->settings.quiet);
    watcher->on_done = event_new(http->base, watcher->done, EV_READ | EV_PERSIST, on_done, watcher);
    return watcher->on_done != NULL && event_add(watcher->on_done, NULL) == 0;
}

void watcher_end(void *context) {
    struct watcher *watcher = context;
    if (watcher->on_done != NULL) event_free(watcher->on_done);
    watcher->on_done = NULL;
}

/* ---- the beginning and the end ---- */

static void watcher_free(struct watcher *watcher) {
    for (int i = 0; i < SHOWN; i++) free(watcher->texts[i].bytes);
    if (watcher->wakes >= 0) close(watcher->wakes);
    if (watcher->done >= 0) close(watcher->done);
    pthread_mutex_destroy(&watcher->mutex);
    free(watcher);
}

/* Mistakes in the settings are found now, and not by the first request. */
static int check_settings(const struct settings *settings) {
    struct session session;
    const int status = session_open(&session, settings);
    if (status == 0) session_close(&session);
    return status;
}

/* Signals are for the loop. */
static int start(struct watcher *watcher) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&watcher->thread, NULL, watch, watcher);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int watcher_open(const struct settings *settings, struct watcher **out) {
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL) {
        complain("out of memory");
        return EXIT_SYSTEM;
    }
    watcher->settings = *settings;
    watcher->settings.only_looks = true;
    watcher->wakes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watcher->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&watcher->mutex, NULL);
    int status = check_settings(&watcher->settings);
    const int error = status != 0 ? 0 : watcher->done < 0 ? errno : start(watcher);
    if (error != 0) {
        complain("cannot begin: %s", strerror(error));
        status = EXIT_SYSTEM;
    }
    if (status != 0)
        watcher_free(watcher);
    else
        *out = watcher;
    return status;
}

/* A look that waits for a node does not hold up the end of the program for long. */
void watcher_close(struct watcher *watcher) {
    struct timespec until;
    pthread_mutex_lock(&watcher->mutex);
    watcher->quits = true;
    pthread_mutex_unlock(&watcher->mutex);
    signal_fd(watcher->wakes);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_SECONDS;
    if (pthread_timedjoin_np(watcher->thread, NULL, &until) == 0) watcher_free(watcher);
}
