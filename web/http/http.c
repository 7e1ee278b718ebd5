/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This file does not use evhttp(3). In libevent 2.1, evhttp(3) has no limit on its connections,
 * restarts its timeout with each byte, and does not report the end of a connection, so that the
 * program cannot limit them either. One page, read once per connection, needs little of HTTP.
 */
#include "http.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "address.h"

enum { HEAD_BYTES_MAX = 8192, ERROR_PAUSE_MS = 500 };

struct exchange_http {
    TAILQ_ENTRY(exchange_http) links;
    struct http *http;
    struct bufferevent *wire;
    struct event *deadline;
    char *line, *host; /* the request, once it is read */
    const char *path;  /* in `line` */
    bool waits;        /* the answer is not ready */
    bool head;         /* the peer wants no body */
    bool answered, written;
    bool ended; /* the peer sends no more */
};

/* ---- the end ---- */

static void exchange_free(struct exchange_http *exchange) {
    struct http *http = exchange->http;
    if (!exchange->written) http->cut_off++;
    TAILQ_REMOVE(&http->all, exchange, links);
    http->connections--;
    event_free(exchange->deadline);
    bufferevent_free(exchange->wire);
    free(exchange->line);
    free(exchange->host);
    free(exchange);
}

static void on_deadline(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    exchange_free(context);
}

static void on_event(struct bufferevent *wire, short what, void *context) {
    struct exchange_http *exchange = context;
    const bool owed = exchange->waits || (exchange->answered && !exchange->written);
    (void)wire;
    exchange->ended = true;
    /* A reader that closes its sending half still wants its answer. */
    if ((what & BEV_EVENT_EOF) == 0 || !owed) exchange_free(exchange);
}

/* close(2) with unread bytes would reset the connection, and the peer might lose the answer. So the
 * peer closes first, or the deadline ends the connection. */
static void on_written(struct bufferevent *wire, void *context) {
    struct exchange_http *exchange = context;
    if (!exchange->answered) return;
    exchange->written = true;
    shutdown(bufferevent_getfd(wire), SHUT_WR);
    if (exchange->ended) exchange_free(exchange);
}

/* ---- the answer ---- */

static bool end_after(struct exchange_http *exchange, int seconds) {
    const struct timeval after = {.tv_sec = seconds};
    return evtimer_add(exchange->deadline, &after) == 0;
}

static void write_answer(struct exchange_http *exchange, const char *status,
                         const struct http_reply *reply) {
    struct evbuffer *out = bufferevent_get_output(exchange->wire);
    if (evbuffer_get_length(reply->body) == 0) evbuffer_add_printf(reply->body, "%s\n", status);
    evbuffer_add_printf(out,
                        "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                        "Connection: close\r\n\r\n",
                        status, reply->type, evbuffer_get_length(reply->body), reply->headers);
    if (!exchange->head) evbuffer_add_buffer(out, reply->body);
    exchange->answered = true;
    exchange->waits = false;
}

static const char *ask_pages(struct exchange_http *exchange, struct http_reply *reply) {
    const struct http_request request = {exchange->path,
                                         exchange->host != NULL ? exchange->host : ""};
    const char *status = HTTP_NOT_FOUND;
    for (int i = 0; i < HTTP_PAGES_MAX; i++) {
        const struct http_pages *pages = &exchange->http->pages[i];
        if (pages->answer == NULL) continue;
        status = pages->answer(pages->context, &request, reply);
        if (status == NULL || strcmp(status, HTTP_NOT_FOUND) != 0) return status;
    }
    return status;
}

/* `status` NULL: what the pages say. */
static void answer(struct exchange_http *exchange, const char *status) {
    struct http_reply reply = {evbuffer_new(), "text/plain; version=0.0.4; charset=utf-8", ""};
    if (reply.body == NULL) {
        exchange_free(exchange);
        return;
    }
    if (status == NULL) status = ask_pages(exchange, &reply);
    if (status != NULL)
        write_answer(exchange, status, &reply);
    else if (!exchange->waits)
        exchange->waits = end_after(exchange, HTTP_ANSWER_SECONDS);
    evbuffer_free(reply.body);
}

void http_retry(struct http *http) {
    struct exchange_http *next, *exchange = TAILQ_FIRST(&http->all);
    for (; exchange != NULL; exchange = next) {
        next = TAILQ_NEXT(exchange, links);
        if (exchange->waits) answer(exchange, NULL);
    }
}

/* The first line is read, and the Host header, if there is one. */
static void on_request(struct exchange_http *exchange) {
    char *rest = NULL, *method = strtok_r(exchange->line, " ", &rest),
         *target = strtok_r(NULL, " ", &rest);
    const char *version = strtok_r(NULL, " ", &rest);
    exchange->head = method != NULL && strcmp(method, "HEAD") == 0;
    if (version == NULL || strncmp(version, "HTTP/1.", strlen("HTTP/1.")) != 0) {
        answer(exchange, "400 Bad Request");
    } else if (strcmp(method, "GET") != 0 && !exchange->head) {
        answer(exchange, "405 Method Not Allowed");
    } else {
        target[strcspn(target, "?")] = '\0';
        exchange->path = target;
        answer(exchange, NULL);
    }
}

static void read_host(struct exchange_http *exchange, struct evbuffer *in) {
    static const char name[] = "Host:";
    for (char *line; (line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL; free(line)) {
        if (exchange->host != NULL || strncasecmp(line, name, strlen(name)) != 0) continue;
        const char *value = line + strlen(name);
        exchange->host = strdup(value + strspn(value, " \t"));
    }
}

static void on_read(struct bufferevent *wire, void *context) {
    struct exchange_http *exchange = context;
    struct evbuffer *in = bufferevent_get_input(wire);
    if (exchange->line != NULL) { /* input after its one request */
        evbuffer_drain(in, evbuffer_get_length(in));
        return;
    }
    const bool is_whole = evbuffer_search(in, "\r\n\r\n", 4, NULL).pos >= 0 ||
                          evbuffer_search(in, "\n\n", 2, NULL).pos >= 0;
    if (!is_whole && evbuffer_get_length(in) < HEAD_BYTES_MAX) return;
    exchange->line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF);
    if (exchange->line == NULL) {
        exchange_free(exchange);
        return;
    }
    read_host(exchange, in);
    evbuffer_drain(in, evbuffer_get_length(in));
    on_request(exchange);
}

/* ---- the beginning ---- */

/* Takes ownership of the socket. */
static void exchange_open(struct http *http, int fd) {
    struct exchange_http *exchange = calloc(1, sizeof *exchange);
    struct bufferevent *wire = bufferevent_socket_new(http->base, fd, BEV_OPT_CLOSE_ON_FREE);
    struct event *deadline =
        exchange != NULL ? evtimer_new(http->base, on_deadline, exchange) : NULL;
    if (exchange != NULL)
        *exchange = (struct exchange_http){.http = http, .wire = wire, .deadline = deadline};
    if (wire == NULL || deadline == NULL || !end_after(exchange, HTTP_SECONDS)) {
        if (deadline != NULL) event_free(deadline);
        if (wire != NULL) bufferevent_free(wire);
        if (wire == NULL) close(fd);
        free(exchange);
        return;
    }
    TAILQ_INSERT_TAIL(&http->all, exchange, links);
    http->connections++;
    bufferevent_set_max_single_read(wire, HEAD_BYTES_MAX);
    bufferevent_setcb(wire, on_read, on_written, on_event, exchange);
    bufferevent_enable(wire, EV_READ | EV_WRITE);
}

static void on_again(evutil_socket_t fd, short what, void *context) {
    struct http *http = context;
    (void)fd;
    (void)what;
    event_add(http->accepts, NULL);
}

static void pause_accepting(struct http *http, int ms) {
    const struct timeval after = {.tv_usec = ms * 1000};
    event_del(http->accepts);
    evtimer_add(http->again, &after);
}

/* One for each turn of the loop: those that are freed are closed in between. */
static void on_accept(evutil_socket_t listener, short what, void *context) {
    struct http *http = context;
    (void)what;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        char text[128];
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
        snprintf(text, sizeof text, "cannot accept a connection: %s", strerror(errno));
        http->fails(http->context, text);
        /* Without a free descriptor accept(2) fails, and would be called again at once, endlessly.
         */
        pause_accepting(http, ERROR_PAUSE_MS);
        return;
    }
    if (http->connections == HTTP_CONNECTIONS_MAX) {
        exchange_free(TAILQ_FIRST(&http->all));
        pause_accepting(http, HTTP_PAUSE_MS);
    }
    exchange_open(http, fd);
}

/* ---- the listening socket ---- */

static const char *listen_at(struct http *http, const char *name, int *fd) {
    struct addrinfo *found = NULL;
    const char *error = address_find(name, "it is not HOST:PORT", &found);
    if (error != NULL) return error;
    *fd = address_listen(found, HTTP_CONNECTIONS_MAX, false);
    const bool has_v4_only = *fd < 0 && errno == EAFNOSUPPORT && address_is_all_v6(found->ai_addr);
    if (*fd < 0) {
        http->is_taken = address_is_taken(errno);
        error = strerror(errno);
    }
    freeaddrinfo(found);
    if (!has_v4_only) return error;
    char all[32];
    snprintf(all, sizeof all, "0.0.0.0%s", strrchr(name, ':'));
    return listen_at(http, all, fd);
}

const char *http_open(struct http *http, const char *address) {
    int fd = -1;
    const char *error = listen_at(http, address, &fd);
    TAILQ_INIT(&http->all);
    if (error != NULL) return error;
    http->again = evtimer_new(http->base, on_again, http);
    http->accepts = event_new(http->base, fd, EV_READ | EV_PERSIST, on_accept, http);
    if (http->accepts == NULL) close(fd);
    if (http->again == NULL || http->accepts == NULL || event_add(http->accepts, NULL) != 0)
        return "out of memory";
    for (int i = 0; i < HTTP_PAGES_MAX; i++) {
        const struct http_pages *pages = &http->pages[i];
        if (pages->open != NULL && !pages->open(pages->context, http)) return "out of memory";
    }
    return NULL;
}

int http_socket(const struct http *http) {
    return http->accepts != NULL ? event_get_fd(http->accepts) : -1;
}

void http_close(struct http *http) {
    if (http->base == NULL) return;
    for (int i = 0; i < HTTP_PAGES_MAX; i++)
        if (http->pages[i].close != NULL) http->pages[i].close(http->pages[i].context);
    while (!TAILQ_EMPTY(&http->all)) exchange_free(TAILQ_FIRST(&http->all));
    if (http->accepts != NULL) {
        const int fd = event_get_fd(http->accepts);
        event_free(http->accepts);
        close(fd);
    }
    if (http->again != NULL) event_free(http->again);
    *http = (struct http){.base = NULL};
}
