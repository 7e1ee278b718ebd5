/* SPDX-License-Identifier: BSD-2-Clause */
#include "page.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "http/http.h"

#define CONFINED                                                                                   \
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nReferrer-Policy: "              \
    "no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"

void page_confine(struct http_reply *reply) {
    snprintf(reply->headers, sizeof reply->headers, "%s", CONFINED);
}

/* Only styles and scripts of this page itself work, whatever a name manages to put into it. */
bool page_write(struct http_reply *reply) {
    static const char mark[] = "@NONCE@";
    unsigned char bytes[16];
    char nonce[2 * sizeof bytes + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    const unsigned char *from = page_text, *end = page_text + page_text_bytes, *found;
    while ((found = memmem(from, (size_t)(end - from), mark, strlen(mark))) != NULL) {
        evbuffer_add(reply->body, from, (size_t)(found - from));
        evbuffer_add_printf(reply->body, "%s", nonce);
        from = found + strlen(mark);
    }
    evbuffer_add(reply->body, from, (size_t)(end - from));
    reply->type = "text/html; charset=utf-8";
    snprintf(reply->headers, sizeof reply->headers,
             CONFINED "Content-Security-Policy: default-src 'none'; script-src 'nonce-%s'; "
                      "style-src 'nonce-%s'; connect-src 'self'; img-src data:; base-uri 'none'; "
                      "form-action 'none'; frame-ancestors 'none'\r\n",
             nonce, nonce);
    return true;
}

bool page_is_host(const char *host) {
    char name[256], own[256] = "";
    unsigned char address[sizeof(struct in6_addr)];
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    const size_t skip = host[0] == '[', bytes = end != NULL ? (size_t)(end - host) : strlen(host);
    if (bytes <= skip || bytes - skip >= sizeof name) return bytes == 0; /* no browser */
    memcpy(name, host + skip, bytes - skip);
    name[bytes - skip] = '\0';
    gethostname(own, sizeof own - 1);
    return inet_pton(skip > 0 ? AF_INET6 : AF_INET, name, address) == 1 ||
           strcasecmp(name, "localhost") == 0 || (own[0] != '\0' && strcasecmp(name, own) == 0);
}
