/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This file does not use evhttp(3). In libevent 2.1, evhttp(3) has no limit on its connections,
 * restarts its timeout with each byte, and does not report the end of a connection, so that the
 * program cannot limit them either. One page, read once per connection, needs little of HTTP.
 */
#include "metrics_page.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "loop/gateway.h"
#include "connection/listen.h"

enum { HEAD_BYTES_MAX = 8192, ERROR_PAUSE_MS = 500 };

struct scrape {
    TAILQ_ENTRY(scrape) links;
    struct metrics_http *http;
    struct bufferevent *wire;
    struct event *deadline;
    bool answered, written;
    bool ended; /* the peer sends no more */
};

/* ---- the end ---- */

static void scrape_free(struct scrape *scrape) {
    struct metrics_http *http = scrape->http;
    if (!scrape->written) http->cut_off++;
    TAILQ_REMOVE(&http->scrapes, scrape, links);
    http->connections--;
    event_free(scrape->deadline);
    bufferevent_free(scrape->wire);
    free(scrape);
}

static void on_deadline(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    scrape_free(context);
}

static void on_event(struct bufferevent *wire, short what, void *context) {
    struct scrape *scrape = context;
    (void)wire;
    scrape->ended = true;
    /* A reader that closes its sending half still wants its answer. */
    if ((what & BEV_EVENT_EOF) == 0 || !scrape->answered || scrape->written) scrape_free(scrape);
}

/* close(2) with unread bytes would reset the connection, and the peer might lose the answer. So the
 * peer closes first, or the deadline ends the connection. */
static void on_written(struct bufferevent *wire, void *context) {
    struct scrape *scrape = context;
    if (!scrape->answered) return;
    scrape->written = true;
    shutdown(bufferevent_getfd(wire), SHUT_WR);
    if (scrape->ended) scrape_free(scrape);
}

/* ---- the answer ---- */

/* Writes the page, and returns its status. */
static const char *write_page(const struct gateway *gateway, const char *target,
                              struct evbuffer *body) {
    static const char metrics[] = "/metrics", health[] = "/healthz", ready[] = "/readyz";
    const size_t bytes = strcspn(target, "?");
    if (bytes == strlen(metrics) && strncmp(target, metrics, bytes) == 0) {
        metrics_write(gateway, body);
    } else if (bytes == strlen(health) && strncmp(target, health, bytes) == 0) {
        evbuffer_add_printf(body, "ok\n"); /* the loop that answers is the one that serves */
    } else if (bytes == strlen(ready) && strncmp(target, ready, bytes) == 0) {
        if (!metrics_ready(gateway, body)) return "503 Service Unavailable";
    } else {
        return "404 Not Found";
    }
    return "200 OK";
}

/* `line` is the first of the request. */
static void answer_request(struct scrape *scrape, char *line) {
    char *rest = NULL, *method = strtok_r(line, " ", &rest), *target = strtok_r(NULL, " ", &rest);
    const char *version = strtok_r(NULL, " ", &rest);
    struct evbuffer *body = evbuffer_new();
    if (body == NULL) {
        scrape_free(scrape);
        return;
    }
    const char *status;
    const bool with_body = method == NULL || strcmp(method, "HEAD") != 0;
    if (version == NULL || strncmp(version, "HTTP/1.", strlen("HTTP/1.")) != 0)
        status = "400 Bad Request";
    else if (strcmp(method, "GET") != 0 && with_body)
        status = "405 Method Not Allowed";
    else
        status = write_page(scrape->http->gateway, target, body);
    if (evbuffer_get_length(body) == 0) evbuffer_add_printf(body, "%s\n", status);
    struct evbuffer *out = bufferevent_get_output(scrape->wire);
    evbuffer_add_printf(out,
                        "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                        status, evbuffer_get_length(body));
    if (with_body) evbuffer_add_buffer(out, body);
    evbuffer_free(body);
    scrape->answered = true;
}

static void on_read(struct bufferevent *wire, void *context) {
    struct scrape *scrape = context;
    struct evbuffer *in = bufferevent_get_input(wire);
    if (scrape->answered) { /* input after its one request */
        evbuffer_drain(in, evbuffer_get_length(in));
        return;
    }
    const bool is_whole = evbuffer_search(in, "\r\n\r\n", 4, NULL).pos >= 0 ||
                          evbuffer_search(in, "\n\n", 2, NULL).pos >= 0;
    if (!is_whole && evbuffer_get_length(in) < HEAD_BYTES_MAX) return;
    char *line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF);
    if (line == NULL) {
        scrape_free(scrape);
        return;
    }
    evbuffer_drain(in, evbuffer_get_length(in));
    answer_request(scrape, line);
    free(line);
}

/* ---- the beginning ---- */

/* Takes ownership of the socket. */
static void scrape_open(struct metrics_http *http, int fd) {
    const struct timeval after = {.tv_sec = METRICS_SECONDS};
    struct event_base *base = http->gateway->base;
    struct scrape *scrape = calloc(1, sizeof *scrape);
    struct bufferevent *wire = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    struct event *deadline = scrape != NULL ? evtimer_new(base, on_deadline, scrape) : NULL;
    if (wire == NULL || deadline == NULL || evtimer_add(deadline, &after) != 0) {
        if (deadline != NULL) event_free(deadline);
        if (wire != NULL) bufferevent_free(wire);
        if (wire == NULL) close(fd);
        free(scrape);
        return;
    }
    *scrape = (struct scrape){.http = http, .wire = wire, .deadline = deadline};
    TAILQ_INSERT_TAIL(&http->scrapes, scrape, links);
    http->connections++;
    bufferevent_set_max_single_read(wire, HEAD_BYTES_MAX);
    bufferevent_setcb(wire, on_read, on_written, on_event, scrape);
    bufferevent_enable(wire, EV_READ | EV_WRITE);
}

static void on_again(evutil_socket_t fd, short what, void *context) {
    struct metrics_http *http = context;
    (void)fd;
    (void)what;
    event_add(http->accepts, NULL);
}

static void pause_accepting(struct metrics_http *http, int ms) {
    const struct timeval after = {.tv_usec = ms * 1000};
    event_del(http->accepts);
    evtimer_add(http->again, &after);
}

/* One for each turn of the loop: those that are freed are closed in between. */
static void on_accept(evutil_socket_t listener, short what, void *context) {
    struct metrics_http *http = context;
    (void)what;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        char text[128];
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
        snprintf(text, sizeof text, "--metrics: cannot accept a connection: %s", strerror(errno));
        notice_say(&http->gateway->metrics_fail, http->gateway->options, text);
        /* Without a free descriptor accept(2) fails, and would be called again at once, endlessly.
         */
        pause_accepting(http, ERROR_PAUSE_MS);
        return;
    }
    if (http->connections == METRICS_CONNECTIONS_MAX) {
        scrape_free(TAILQ_FIRST(&http->scrapes));
        pause_accepting(http, METRICS_PAUSE_MS);
    }
    scrape_open(http, fd);
}

/* ---- the listening socket ---- */

bool metrics_open(struct gateway *gateway, const char *name) {
    struct metrics_http *http = &gateway->metrics.http;
    struct addrinfo *found = NULL;
    const char *error = address_find(name, "it is not HOST:PORT", &found);
    int fd = -1;
    if (error == NULL) {
        fd = listen_at(gateway, found, METRICS_CONNECTIONS_MAX, false, "metrics");
        if (fd < 0) error = strerror(errno);
        freeaddrinfo(found);
    }
    if (error != NULL) {
        gateway->options->say("--metrics %s: %s", name, error);
        return false;
    }
    http->gateway = gateway;
    TAILQ_INIT(&http->scrapes);
    http->again = evtimer_new(gateway->base, on_again, http);
    http->accepts = event_new(gateway->base, fd, EV_READ | EV_PERSIST, on_accept, http);
    if (http->accepts == NULL) close(fd);
    if (http->again != NULL && http->accepts != NULL && event_add(http->accepts, NULL) == 0)
        return true;
    gateway->options->say("--metrics %s: out of memory", name);
    return false;
}

void metrics_close(struct gateway *gateway) {
    struct metrics_http *http = &gateway->metrics.http;
    if (http->gateway == NULL) return;
    while (!TAILQ_EMPTY(&http->scrapes)) scrape_free(TAILQ_FIRST(&http->scrapes));
    if (http->accepts != NULL) {
        const int fd = event_get_fd(http->accepts);
        event_free(http->accepts);
        close(fd);
    }
    if (http->again != NULL) event_free(http->again);
    *http = (struct metrics_http){.gateway = NULL};
}
