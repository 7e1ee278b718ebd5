/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a look at the nodes shows, for the HTTP server: looks like those of redlock top, by a thread
 * and a client of its own. It looks when somebody asks and the last look is too old, however many
 * ask; while nobody asks, it sends the nodes nothing, and then leaves them.
 */
#ifndef WEB_WATCHER_H
#define WEB_WATCHER_H

#include "http/http.h"

struct settings;
struct watcher;

/* `settings` live as long as the watcher. 0, or the exit status after a message. */
int watcher_open(const struct settings *settings, struct watcher **watcher);
/* After the HTTP server is closed. */
void watcher_close(struct watcher *watcher);

/* /metrics and /healthz */
const char *watcher_metrics(void *watcher, const struct http_request *request,
                            struct http_reply *reply);
/* The page for browsers: / and /look.json */
const char *watcher_page(void *watcher, const struct http_request *request,
                         struct http_reply *reply);
/* For struct http_pages: the thread notifies this server. Says where the page is, if there is one.
 */
bool watcher_begin(void *watcher, struct http *http);
void watcher_end(void *watcher);

#endif
