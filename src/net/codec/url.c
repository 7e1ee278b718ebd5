/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A list may be cut in the middle of a password (an unencoded comma), so a part that does not parse
 * is shown only when no part of the list can carry a password, that is when there is no '@'
 * anywhere in it.
 *
 * The functions here return false when they have written the reason to `parse->error`. */
#include "net/codec/url.h"

#include <ctype.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <uriparser/Uri.h>

#include "redlock.h"

static const char separators[] = ", \t\r\n\v\f";
static const char *const schemes[] = {[REDLOCK_SCHEME_SET] = "",
                                      [REDLOCK_SCHEME_SETNX] = "setnx",
                                      [REDLOCK_SCHEME_SETNX_MS] = "setnx-ms"};
static const char known[] =
    "redis://[user:password@]host[:port][/db], rediss://... (TLS) or unix:///path[?db=n]";

struct parse {
    struct net_error *error;
    unsigned number; /* of the node, from 1 */
    bool secretive;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct parse *parse,
                                                         const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    parse->error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(parse->error->text, sizeof(parse->error->text), "node %u: %s", parse->number, text);
    return false;
}

static bool no_memory(const struct parse *parse) {
    parse->error->result = REDLOCK_NO_MEMORY;
    snprintf(parse->error->text, sizeof(parse->error->text),
             "out of memory while reading the list of nodes");
    return false;
}

static size_t length_of(const UriTextRangeA *range) {
    return range->first ? (size_t)(range->afterLast - range->first) : 0;
}

/* Percent-decoded copy; NULL when memory fails. */
static char *decoded(const char *first, size_t bytes) {
    char *text = strndup(first ? first : "", bytes);
    if (text) uriUnescapeInPlaceA(text);
    return text;
}

static bool take_userinfo(const struct parse *parse, const UriTextRangeA *info, struct url *url) {
    if (!info->first || length_of(info) == 0) return true;
    const char *colon = memchr(info->first, ':', length_of(info));
    if (!colon)
        return refuse(
            parse,
            "a user without a password; write user:password@host, or :password@host for a password alone");
    if (colon > info->first && !(url->user = decoded(info->first, (size_t)(colon - info->first))))
        return no_memory(parse);
    url->password = decoded(colon + 1, (size_t)(info->afterLast - colon - 1));
    return url->password || no_memory(parse);
}

static bool take_db(const struct parse *parse, const char *text, size_t bytes, struct url *url) {
    if (bytes == 0 || bytes >= sizeof(url->db) || strspn(text, "0123456789") < bytes)
        return refuse(
            parse, "the database must be a number, as in redis://host:6379/0 or unix:///path?db=0");
    while (bytes > 1 && *text == '0') text++, bytes--;
    memcpy(url->db, text, bytes);
    url->db[bytes] = '\0';
    return true;
}

static bool take_scheme(const struct parse *parse, const char *text, size_t bytes,
                        struct url *url) {
    for (int scheme = REDLOCK_SCHEME_SETNX; scheme <= REDLOCK_SCHEME_SETNX_MS; scheme++)
        if (strlen(schemes[scheme]) == bytes && memcmp(schemes[scheme], text, bytes) == 0) {
            url->scheme = (unsigned char)scheme;
            return true;
        }
    return refuse(parse, "scheme is setnx or setnx-ms, as in ?scheme=setnx");
}

/* What may follow '?', separated by '&'. */
static bool take_query(const struct parse *parse, const UriTextRangeA *query, struct url *url) {
    static const char db[] = "db=", scheme[] = "scheme=";
    const char *at = query->first, *end = query->afterLast;
    while (at) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        size_t bytes = (size_t)((next ? next : end) - at);
        bool right;
        if (bytes >= sizeof(scheme) - 1 && memcmp(at, scheme, sizeof(scheme) - 1) == 0)
            right = take_scheme(parse, at + sizeof(scheme) - 1, bytes - (sizeof(scheme) - 1), url);
        else if (url->kind != URL_UNIX)
            right = refuse(
                parse,
                "of the options after '?' only scheme=setnx is known here; db=n is for unix:// only, and the "
                "database is host/db");
        else if (bytes >= sizeof(db) - 1 && memcmp(at, db, sizeof(db) - 1) == 0)
            right = take_db(parse, at + sizeof(db) - 1, bytes - (sizeof(db) - 1), url);
        else
            right = refuse(parse, "the only options of unix:// are ?db=n and scheme=setnx");
        if (!right) return false;
        at = next ? next + 1 : NULL;
    }
    return true;
}

static bool take_port(const struct parse *parse, const UriTextRangeA *port, struct url *url) {
    strcpy(url->port, "6379");
    size_t bytes = length_of(port);
    if (bytes == 0) return true;
    char text[8] = "";
    if (bytes < sizeof(text)) memcpy(text, port->first, bytes);
    long value = strtol(text, NULL, 10);
    if (value < 1 || value > 65535)
        return refuse(parse, "the port must be a number from 1 to 65535");
    snprintf(url->port, sizeof(url->port), "%u", (unsigned)value & 0xffff);
    return true;
}

/* Takes the zone out of a text, "" if there is none: uriparser knows RFC 3986, and this is RFC
 * 6874. The digits and letters of an interface's name need no encoding. */
static bool take_zone(const struct parse *parse, char *text, char zone[IF_NAMESIZE]) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-";
    static const char sign[] = "%25";
    char *host = strstr(text, "://") + strlen("://");
    const size_t authority = strcspn(host, "/?#");
    char *at = memrchr(host, '@', authority);
    if (at) host = at + 1;
    char *end = *host == '[' ? strchr(host, ']') : NULL, *percent = end ? strchr(host, '%') : NULL;
    zone[0] = '\0';
    if (!percent || percent > end) return true;
    const char *name = percent + strlen(sign);
    const size_t bytes = strncmp(percent, sign, strlen(sign)) == 0 ? strspn(name, letters) : 0;
    if (bytes == 0 || name + bytes != end || bytes >= IF_NAMESIZE)
        return refuse(parse, "the interface of an IPv6 address follows %%25, as in "
                             "redis://[fe80::1%%25eth0]:6379");
    memcpy(zone, name, bytes);
    zone[bytes] = '\0';
    memmove(percent, end, strlen(end) + 1);
    return true;
}

/* In the form of getaddrinfo(3): fe80::1%eth0. */
static bool take_host(const struct parse *parse, const UriTextRangeA *text, const char *zone,
                      struct url *url) {
    char *host = decoded(text->first, length_of(text));
    if (!host) return no_memory(parse);
    for (char *at = host; *at; at++) *at = (char)tolower((unsigned char)*at);
    if (asprintf(&url->host, "%s%s%s", host, zone[0] ? "%" : "", zone) < 0) url->host = NULL;
    free(host);
    return url->host || no_memory(parse);
}

static bool take_tcp(const struct parse *parse, const UriUriA *uri, const char *zone,
                     struct url *url) {
    if (uri->hostData.ipFuture.first) return refuse(parse, "this kind of address is not supported");
    if (length_of(&uri->hostText) == 0) return refuse(parse, "no host; write redis://host[:port]");
    if (!take_host(parse, &uri->hostText, zone, url) || !take_port(parse, &uri->portText, url) ||
        !take_query(parse, &uri->query, url))
        return false;
    const UriPathSegmentA *path = uri->pathHead;
    if (!path || (length_of(&path->text) == 0 && !path->next)) return true;
    if (path->next)
        return refuse(parse,
                      "one number, the database, may follow the host, as in redis://host:6379/0");
    return take_db(parse, path->text.first, length_of(&path->text), url);
}

static bool take_unix(const struct parse *parse, const UriUriA *uri, struct url *url) {
    if (length_of(&uri->hostText) > 0 || !uri->pathHead || length_of(&uri->pathHead->text) == 0)
        return refuse(parse,
                      "a socket's path begins after three slashes, as in unix:///run/redis.sock");
    const UriPathSegmentA *last = uri->pathHead;
    while (last->next) last = last->next;
    const char *first = uri->pathHead->text.first - 1; /* the '/' before it */
    url->path = decoded(first, (size_t)(last->text.afterLast - first));
    if (!url->path) return no_memory(parse);
    if (strlen(url->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return refuse(parse, "the socket's path is longer than the system allows (%zu bytes)",
                      sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    return take_query(parse, &uri->query, url);
}

static bool take_text(const struct parse *parse, const char *scheme, struct url *url) {
    char authority[400] = "", db[16] = "", scheme_option[24] = "";
    bool v6 = url->host && strchr(url->host, ':');
    const char *zone = v6 ? strchr(url->host, '%') : NULL;
    if (url->kind != URL_UNIX)
        snprintf(authority, sizeof(authority), "%s%.*s%s%s%s:%s", v6 ? "[" : "",
                 zone ? (int)(zone - url->host) : (int)strlen(url->host), url->host,
                 zone ? "%25" : "", zone ? zone + 1 : "", v6 ? "]" : "", url->port);
    if (url->db[0]) snprintf(db, sizeof(db), "%s%s", url->kind == URL_UNIX ? "?db=" : "/", url->db);
    if (url->scheme)
        snprintf(scheme_option, sizeof(scheme_option), "%cscheme=%s",
                 url->kind == URL_UNIX && url->db[0] ? '&' : '?', schemes[url->scheme]);
    if (asprintf(&url->text, "%s://%s%s%s%s%s%s", scheme, url->user ? url->user : "",
                 url->user ? "@" : "", authority, url->path ? url->path : "", db,
                 scheme_option) >= 0)
        return true;
    url->text = NULL;
    return no_memory(parse);
}

/* Whether a text that is refused may be repeated: it is a host, with a port of digits if it has
 * one, as in db1, http://db1:6379/0 or [::1]. In anything else a password may be hidden: people
 * leave out the host, or the '@', or write it %40. */
static bool is_harmless(const char *text) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *rest = strstr(text, "://");
    rest = rest ? rest + strlen("://") : text;
    rest += *rest == '[' ? strspn(rest, "[]:.0123456789abcdefABCDEF") : strspn(rest, letters);
    if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
    return *rest == '\0' || *rest == '/';
}

static bool parse_scheme(const struct parse *parse, const char *text, char scheme[16],
                         enum url_kind *kind) {
    static const char *const names[] = {
        [URL_TCP] = "redis", [URL_TLS] = "rediss", [URL_UNIX] = "unix"};
    const char *colon = strstr(text, "://");
    if (!colon && parse->secretive)
        return refuse(
            parse, "no scheme; write %s, with a comma or '@' in a password percent-encoded", known);
    if (!colon) return refuse(parse, "\"%.100s\" has no scheme; write redis://%.100s", text, text);
    size_t bytes = (size_t)(colon - text);
    for (*kind = URL_TCP; *kind <= URL_UNIX; (*kind)++)
        if (strlen(names[*kind]) == bytes && strncasecmp(text, names[*kind], bytes) == 0) {
            strcpy(scheme, names[*kind]);
            return true;
        }
    if (parse->secretive) return refuse(parse, "unknown scheme; write %s", known);
    return refuse(parse, "unknown scheme \"%.*s\"; write %s", bytes > 40 ? 40 : (int)bytes, text,
                  known);
}

/* Whether the host is an address with colons but without brackets, as in redis://::1:6379. A
 * password may hold colons, too, so only what follows the last '@' counts. */
static bool lacks_brackets(const char *text) {
    const char *host = strstr(text, "://") + strlen("://"), *at = strrchr(host, '@');
    if (at) host = at + 1;
    size_t bytes = strcspn(host, "/?#");
    const char *first = memchr(host, ':', bytes);
    return first && strspn(host, "0123456789abcdefABCDEF:.") == bytes &&
           memchr(first + 1, ':', bytes - (size_t)(first + 1 - host));
}

static bool parse_one(const struct parse *parse, char *text, struct url *url) {
    char scheme[16], zone[IF_NAMESIZE] = "";
    UriUriA uri;
    const char *where = NULL;
    if (!parse_scheme(parse, text, scheme, &url->kind)) return false;
    if (strstr(text, "%00"))
        return refuse(parse, "%%00 cannot be part of a user, a password or a path");
    if (url->kind != URL_UNIX && lacks_brackets(text))
        return refuse(parse, "an IPv6 address is written in brackets, as in redis://[::1]:6379");
    if (url->kind != URL_UNIX && !take_zone(parse, text, zone)) return false;
    int outcome = uriParseSingleUriA(&uri, text, &where);
    if (outcome == URI_ERROR_MALLOC) return no_memory(parse);
    if (outcome != URI_SUCCESS && !parse->secretive)
        return refuse(parse, "\"%.100s\" is not a URL; write %s", text, known);
    if (outcome != URI_SUCCESS)
        return refuse(
            parse,
            "not a URL; write %s, and percent-encode ':', '@', '/', '#', '%%' and ',' in user and password",
            known);
    bool right = uri.fragment.first
                     ? refuse(parse, "a '#' must be written %%23")
                     : take_userinfo(parse, &uri.userInfo, url) &&
                           (url->kind == URL_UNIX ? take_unix(parse, &uri, url)
                                                  : take_tcp(parse, &uri, zone, url)) &&
                           take_text(parse, scheme, url);
    uriFreeUriMembersA(&uri);
    return right;
}

/* One server is one vote, whichever of its databases is named. */
static bool same_server(const struct url *a, const struct url *b) {
    if (a->path || b->path) return a->path && b->path && strcmp(a->path, b->path) == 0;
    return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

static bool add_one(struct parse *parse, char *text, struct url *urls, unsigned *count) {
    parse->number = *count + 1;
    parse->secretive = parse->secretive || !is_harmless(text);
    if (*count == RL_NODES_MAX)
        return refuse(parse, "too many nodes; at most %d can be listed", RL_NODES_MAX);
    struct url *url = &urls[(*count)++];
    memset(url, 0, sizeof(*url));
    if (!parse_one(parse, text, url)) return false;
    for (unsigned i = 0; i + 1 < *count; i++)
        if (same_server(&urls[i], url))
            return refuse(parse,
                          "%.200s is listed twice (it is node %u too); list each server once",
                          url->text, i + 1);
    return true;
}

/* A majority of such servers is not a quorum: each holder's time would be measured by another
 * clock. */
static bool check_schemes(struct parse *parse, const struct url *urls, unsigned count) {
    for (unsigned i = 0; i < count && count > 1; i++) {
        if (!urls[i].scheme) continue;
        parse->number = i + 1;
        return refuse(
            parse, "scheme=%s is a lock on one server: list that one alone, or remove the option",
            schemes[urls[i].scheme]);
    }
    return true;
}

int urls_parse(const char *list, struct url urls[RL_NODES_MAX], unsigned *count,
               struct net_error *error) {
    struct parse parse = {.error = error, .secretive = list && strchr(list, '@')};
    bool right = true;
    *count = 0;
    for (const char *at = list ? list : ""; right;) {
        at += strspn(at, separators);
        size_t bytes = strcspn(at, separators);
        if (bytes == 0) break;
        char *text = strndup(at, bytes);
        right = text ? add_one(&parse, text, urls, count) : no_memory(&parse);
        free(text);
        at += bytes;
    }
    if (right && *count == 0) {
        right = false;
        error->result = REDLOCK_BAD_ARGUMENT;
        snprintf(error->text, sizeof(error->text), "no nodes given; list at least one, as %s",
                 known);
    }
    if (right && check_schemes(&parse, urls, *count)) return REDLOCK_OK;
    while (*count > 0) url_free(&urls[--*count]);
    return error->result;
}

void url_free(struct url *url) {
    if (url->password) explicit_bzero(url->password, strlen(url->password));
    free(url->text);
    free(url->user);
    free(url->password);
    free(url->host);
    free(url->path);
    memset(url, 0, sizeof(*url));
}
