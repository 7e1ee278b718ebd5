/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any text as a list of nodes. A list that is refused leaves nothing behind and says why; no
 * message and no shown URL contains a password; the shown URL of a node without a user names the
 * same server when it is read again.
 */
#include "net/codec/url.h"

#include <ctype.h>

#include "must.h"
#include "redlock.h"

#define PASSWORD "hunter2" /* in url.dict */

/* The text has the password where its first URL has one, and nowhere else. */
static bool has_secret(const char *text) {
    static const char *const begins[] = {"redis://:" PASSWORD "@", "redis://u:" PASSWORD "@"};
    const char *at = strstr(text, PASSWORD);
    if (at == NULL || strstr(at + 1, PASSWORD) != NULL) return false;
    return strncmp(text, begins[0], strlen(begins[0])) == 0 ||
           strncmp(text, begins[1], strlen(begins[1])) == 0;
}

/* Others are decoded to be shown, so what is shown need not be a URL. */
static bool is_plain(const char *text) {
    for (; text != NULL && *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && strchr("-._~/:", *text) == NULL) return false;
    return true;
}

static bool is_same(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_again(const struct url *url) {
    static struct url again[RL_NODES_MAX];
    struct net_error error;
    unsigned count = 99;
    must(urls_parse(url->text, again, &count, &error) == REDLOCK_OK, "a shown URL is refused");
    must(count == 1, "a shown URL names several nodes");
    must(again->kind == url->kind && again->scheme == url->scheme,
         "a shown URL is of another kind");
    must(is_same(again->host, url->host) && is_same(again->path, url->path),
         "a shown URL names another server");
    must(strcmp(again->port, url->port) == 0 && strcmp(again->db, url->db) == 0,
         "a shown URL has another port or database");
    must(strcmp(again->text, url->text) == 0, "a shown URL is shown otherwise");
    url_free(again);
}

static void check(const struct url *url, bool secret) {
    must(url->text != NULL, "no text");
    must(!secret || strstr(url->text, PASSWORD) == NULL, "the password is shown");
    must((url->kind == URL_UNIX) == (url->path != NULL) &&
             (url->path == NULL) == (url->host != NULL),
         "no place");
    const bool is_short = strlen(url->text) < 380;
    if (url->user == NULL && is_short && is_plain(url->host) && is_plain(url->path))
        check_again(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct url urls[RL_NODES_MAX];
    struct net_error error = {0};
    unsigned count = 99;
    char *text = text_of(data, size);
    const bool secret = has_secret(text);
    const int result = urls_parse(text, urls, &count, &error);
    if (result == REDLOCK_OK) {
        must(count >= 1 && count <= RL_NODES_MAX, "no such number of nodes");
        for (unsigned i = 0; i < count; i++) check(&urls[i], secret);
        while (count > 0) url_free(&urls[--count]);
    } else {
        must(count == 0 && error.result == result && error.text[0] != '\0',
             "refused without a sentence");
        must(!secret || strstr(error.text, PASSWORD) == NULL, "the message has the password");
    }
    free(text);
    return 0;
}
