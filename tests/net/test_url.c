/* SPDX-License-Identifier: BSD-2-Clause
 * The list of nodes: what it means, and what is said of one that means nothing. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec/url.h"

struct good {
    const char *text;
    enum url_kind kind;
    const char *user, *password, *host, *path, *port, *db, *shown;
};

static const struct good good[] = {
    {"redis://host", URL_TCP, NULL, NULL, "host", NULL, "6379", "", "redis://host:6379"},
    {"redis://HOST.example:7000/", URL_TCP, NULL, NULL, "host.example", NULL, "7000", "",
     "redis://host.example:7000"},
    {"REDIS://h/3", URL_TCP, NULL, NULL, "h", NULL, "6379", "3", "redis://h:6379/3"},
    {"redis://h/007", URL_TCP, NULL, NULL, "h", NULL, "6379", "7", "redis://h:6379/7"},
    {"redis://h/0", URL_TCP, NULL, NULL, "h", NULL, "6379", "0", "redis://h:6379/0"},
    {"redis://:pass@h:1", URL_TCP, NULL, "pass", "h", NULL, "1", "", "redis://h:1"},
    {"redis://ann:p%40s%3As%2F%25@h", URL_TCP, "ann", "p@s:s/%", "h", NULL, "6379", "",
     "redis://ann@h:6379"},
    {"redis://a%6En:a:b@h", URL_TCP, "ann", "a:b", "h", NULL, "6379", "", "redis://ann@h:6379"},
    {"redis://ann:@h", URL_TCP, "ann", "", "h", NULL, "6379", "", "redis://ann@h:6379"},
    {"rediss://h:65535", URL_TLS, NULL, NULL, "h", NULL, "65535", "", "rediss://h:65535"},
    {"redis://[::1]:7000/1", URL_TCP, NULL, NULL, "::1", NULL, "7000", "1", "redis://[::1]:7000/1"},
    {"redis://[FE80::A]", URL_TCP, NULL, NULL, "fe80::a", NULL, "6379", "",
     "redis://[fe80::a]:6379"},
    {"redis://[FE80::A%25Eth0]:7000/1", URL_TCP, NULL, NULL, "fe80::a%Eth0", NULL, "7000", "1",
     "redis://[fe80::a%25Eth0]:7000/1"},
    {"rediss://u:p@[fe80::a%25br-1.2_3~4]", URL_TLS, "u", "p", "fe80::a%br-1.2_3~4", NULL, "6379",
     "", "rediss://u@[fe80::a%25br-1.2_3~4]:6379"},
    {"redis://:a%5D%40@[fe80::a%252]", URL_TCP, NULL, "a]@", "fe80::a%2", NULL, "6379", "",
     "redis://[fe80::a%252]:6379"},
    {"unix:///run/redis.sock", URL_UNIX, NULL, NULL, NULL, "/run/redis.sock", "", "",
     "unix:///run/redis.sock"},
    {"unix:///a%20b/s?db=4", URL_UNIX, NULL, NULL, NULL, "/a b/s", "", "4", "unix:///a b/s?db=4"},
    {"unix://u:p@/s", URL_UNIX, "u", "p", NULL, "/s", "", "", "unix://u@/s"},
    {"redis://h?scheme=setnx", URL_TCP, NULL, NULL, "h", NULL, "6379", "",
     "redis://h:6379?scheme=setnx"},
    {"redis://:p@h/2?scheme=setnx", URL_TCP, NULL, "p", "h", NULL, "6379", "2",
     "redis://h:6379/2?scheme=setnx"},
    {"rediss://h/?scheme=setnx-ms", URL_TLS, NULL, NULL, "h", NULL, "6379", "",
     "rediss://h:6379?scheme=setnx-ms"},
    {"unix:///s?scheme=setnx", URL_UNIX, NULL, NULL, NULL, "/s", "", "", "unix:///s?scheme=setnx"},
    {"unix:///s?db=2&scheme=setnx", URL_UNIX, NULL, NULL, NULL, "/s", "", "2",
     "unix:///s?db=2&scheme=setnx"},
    {"unix:///s?scheme=setnx&db=2", URL_UNIX, NULL, NULL, NULL, "/s", "", "2",
     "unix:///s?db=2&scheme=setnx"},
};

static void same_text(const char *is, const char *should) {
    if (!is || !should)
        assert_ptr_equal(is, should);
    else
        assert_string_equal(is, should);
}

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct url urls[RL_NODES_MAX];
        struct net_error error = {0};
        unsigned count = 0;
        if (urls_parse(good[i].text, urls, &count, &error) != REDLOCK_OK)
            fail_msg("%s: %s", good[i].text, error.text);
        assert_int_equal(count, 1);
        assert_int_equal(urls[0].kind, good[i].kind);
        same_text(urls[0].user, good[i].user);
        same_text(urls[0].password, good[i].password);
        same_text(urls[0].host, good[i].host);
        same_text(urls[0].path, good[i].path);
        same_text(urls[0].port, good[i].port);
        same_text(urls[0].db, good[i].db);
        same_text(urls[0].text, good[i].shown);
        url_free(&urls[0]);
    }
}

static void test_lists(void **state) {
    static const char *const lists[] = {
        "redis://a,redis://b,redis://c", " redis://a redis://b\nredis://c\t",
        ",,redis://a, redis://b ,,redis://c,", "redis://a redis://a:6380 unix:///a",
        "redis://[fe80::1%25a],redis://[fe80::1%25b],redis://[fe80::1]"};
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct url urls[RL_NODES_MAX];
        struct net_error error = {0};
        unsigned count = 0;
        assert_int_equal(urls_parse(lists[i], urls, &count, &error), REDLOCK_OK);
        assert_int_equal(count, 3);
        while (count > 0) url_free(&urls[--count]);
    }
}

struct bad {
    const char *text, *says;
};

static const struct bad bad[] = {
    {NULL, "no nodes"},
    {"", "no nodes"},
    {" , ", "no nodes"},
    {"localhost:6379", "redis://localhost:6379"},
    {"127.0.0.1:6379", "redis://127.0.0.1:6379"},
    {"redis://a,b", "node 2"},
    {"redis:/a", "no scheme"},
    {"http://a", "unknown scheme \"http\"; write redis://"},
    {"redis+tls://a", "unknown scheme"},
    {"://a", "unknown scheme"},
    {"redis://", "no host"},
    {"redis://:6379", "no host"},
    {"redis:///0", "no host"},
    {"redis://a:0", "port"},
    {"redis://a:65536", "port"},
    {"redis://a:99999999999", "port"},
    {"redis://a:x", "not a URL"},
    {"redis://a/x", "database"},
    {"redis://a/-1", "database"},
    {"redis://a/1/2", "database"},
    {"redis://a/9999999999", "database"},
    {"redis://a?db=1", "unix://"},
    {"redis://a#1", "%23"},
    {"redis://ann@a", "without a password"},
    {"redis://[::1", "not a URL"},
    {"redis://::1:6379", "redis://[::1]:6379"},
    {"rediss://fe80::2/1", "in brackets"},
    {"redis://:pass:word@::1:6379", "in brackets"},
    {"redis://[v1.x]", "address"},
    {"redis://[fe80::1%eth0]", "redis://[fe80::1%25eth0]:6379"},
    {"redis://[fe80::1%25]", "follows %25"},
    {"redis://[fe80::1%25a%20b]", "follows %25"},
    {"redis://[fe80::1%25sixteen-bytes-xx]", "follows %25"},
    {"redis://[fe80::1%25a] redis://[FE80::1%25a]:6379", "listed twice"},
    {"redis://a:%zz@b", "not a URL"},
    {"redis://:a%00b@c", "%00"},
    {"unix://run/redis.sock", "three slashes"},
    {"unix:///", "three slashes"},
    {"unix:///s?db=", "database"},
    {"unix:///s?db=x", "database"},
    {"unix:///s?dB=1", "?db=n"},
    {"redis://a?", "scheme=setnx"},
    {"redis://a?scheme=", "as in ?scheme=setnx"},
    {"redis://a?scheme=setnx&", "scheme=setnx"},
    {"redis://a?scheme=redlock", "as in ?scheme=setnx"},
    {"redis://a?scheme=setnxx", "as in ?scheme=setnx"},
    {"redis://a?Scheme=setnx", "scheme=setnx"},
    {"redis://a?scheme=setnx redis://b", "node 1: scheme=setnx is a lock on one server"},
    {"redis://a redis://b redis://c?scheme=setnx-ms",
     "node 3: scheme=setnx-ms is a lock on one server"},
    {"redis://a redis://A:6379", "listed twice"},
    {"redis://a/1 redis://a/2", "listed twice"},
    {"unix:///s unix:///s?db=1", "listed twice"},
    {"redis://1 redis://2 redis://3 redis://4 redis://5 redis://6 redis://7 redis://8 redis://9 redis://10 redis://11 "
     "redis://12 redis://13 redis://14 redis://15 redis://16",
     "at most 15"},
    {"unix:///"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "longer"},
    /* cut in the middle of a password */
    {"redis://:sec,ret@a", "percent-encode"},
    {"redis://:sec ret@a", "percent-encode"},
    {"redis://a redis://:ok@b secret", "no scheme"},
    {"redis://u:s#ecret@a", ""},
    {"redis://u:s/ecret@a", ""},
    {"redis://u:secret@a redis://u:secret@a", "listed twice"},
    {"secret@a:6379", "no scheme"},
    {"secret://u:p@a", "unknown scheme"},
    /* no '@' at all: the host was left out, or the '@' is encoded */
    {"redis://default:secret", "percent-encode"},
    {"redis://:secret:127.0.0.1:6379", "percent-encode"},
    {"redis://:secret%40a", "percent-encode"},
    {"default:secret", "no scheme"},
    {"http://u:secret", "unknown scheme"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct url urls[RL_NODES_MAX];
        struct net_error error = {0};
        unsigned count = 0;
        int result = urls_parse(bad[i].text, urls, &count, &error);
        if (result != REDLOCK_BAD_ARGUMENT || error.result != result)
            fail_msg("%s was accepted", bad[i].text);
        if (!strstr(error.text, bad[i].says))
            fail_msg("%s: \"%s\" lacks \"%s\"", bad[i].text, error.text, bad[i].says);
        if (strstr(error.text, "sec") || strstr(error.text, "ret@"))
            fail_msg("%s tells the secret", error.text);
        assert_int_equal(count, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
