/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A small HTTP server for what Prometheus, an orchestrator and a browser read: one answer for each
 * connection, at one address. Its connections are few, and each one ends soon, so that they never
 * use up the descriptors or the time of the program around it.
 */
#ifndef WEB_HTTP_H
#define WEB_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* The limit at one time. A further connection replaces the oldest, at most once per HTTP_PAUSE_MS.
 * So a reader gets its answer even among connections that send nothing. */
#define HTTP_CONNECTIONS_MAX 16
#define HTTP_PAUSE_MS 10
/* The lifetime of a connection, even of an active one; and what more it gets if its answer takes
 * time. */
#define HTTP_SECONDS 5
#define HTTP_ANSWER_SECONDS 10

#define HTTP_OK "200 OK"
#define HTTP_NOT_FOUND "404 Not Found"

struct evbuffer;
struct event;
struct event_base;
struct exchange_http;
struct http;

struct http_request {
    const char *path; /* without what follows '?' */
    const char *host; /* the Host header; "": there is none */
};
struct http_reply {
    struct evbuffer *body; /* if it stays empty, the status becomes the text */
    const char *type;      /* of the content; a text for Prometheus by default */
    char headers[512];     /* further ones, each with its line end */
};

/* Some pages. `answer` returns the status, HTTP_NOT_FOUND for all other paths; or NULL: not yet.
 * Then http_retry() asks for it again. `open` and `close` may be NULL. */
struct http_pages {
    void *context;
    bool (*open)(void *context, struct http *http);
    const char *(*answer)(void *context, const struct http_request *request,
                          struct http_reply *reply);
    void (*close)(void *context);
};

enum { HTTP_PAGES_MAX = 2 };
/* All zero: it is closed. */
struct http {
    struct event_base *base;
    struct http_pages pages[HTTP_PAGES_MAX]; /* the first that has the path answers */
    /* logs that connections cannot be accepted */
    void (*fails)(void *context, const char *text);
    void *context;
    bool is_taken;         /* why http_open() failed: see address_is_taken() */
    struct event *accepts; /* on the listening socket */
    struct event *again;   /* after a pause */
    TAILQ_HEAD(exchanges_http, exchange_http) all; /* oldest first */
    unsigned connections;
    uint64_t cut_off; /* ended before their answer was written: too slow, or too many */
};

/* Listens at HOST:PORT, with the fields above `accepts` set. NULL, or why it cannot; the caller
 * still calls http_close(). */
const char *http_open(struct http *http, const char *address);
/* The listening socket; -1: it is closed. */
int http_socket(const struct http *http);
void http_close(struct http *http);
/* Asks for the answers that were not ready. */
void http_retry(struct http *http);

#endif
