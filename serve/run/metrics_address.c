/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <event2/buffer.h>

#include "http/address.h"
#include "loop/gateway.h"
#include "metrics_page.h"

static const char *answer(void *context, const struct http_request *request,
                          struct http_reply *reply) {
    const struct gateway *gateway = context;
    if (strcmp(request->path, "/metrics") == 0) {
        metrics_write(gateway, reply->body);
    } else if (strcmp(request->path, "/healthz") == 0) {
        evbuffer_add_printf(reply->body, "ok\n"); /* the loop that answers is the one that serves */
    } else if (strcmp(request->path, "/readyz") == 0) {
        if (!metrics_ready(gateway, reply->body)) return "503 Service Unavailable";
    } else {
        return HTTP_NOT_FOUND;
    }
    return HTTP_OK;
}

static void on_failure(void *context, const char *text) {
    struct gateway *gateway = context;
    notice_say(&gateway->metrics_fail, gateway->options, text);
}

bool metrics_open(struct gateway *gateway, const char *name) {
    const struct serve_options *options = gateway->options;
    struct http *http = &gateway->metrics.http;
    char text[ADDRESS_TEXT_BYTES];
    http->base = gateway->base;
    http->fails = on_failure;
    http->context = gateway;
    http->pages[0] = (struct http_pages){.context = gateway, .answer = answer};
    if (options->pages != NULL) http->pages[1] = *options->pages;
    const char *error = http_open(http, name);
    if (error != NULL) {
        gateway->address_is_taken = http->is_taken;
        options->say("--metrics %s: %s", name, error);
    } else if (options->verbose) {
        options->say("metrics on %s", address_of(http_socket(http), text, sizeof text));
    }
    return error == NULL;
}

void metrics_close(struct gateway *gateway) { http_close(&gateway->metrics.http); }
