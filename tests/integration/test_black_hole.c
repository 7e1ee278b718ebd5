/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Connections that become black holes, as when a firewall forgets them: nothing passes any more,
 * and neither side learns of it. New connections work. A lock must outlive that.
 */
#include <string.h>

#include "guarded.h"
#include "proxy.h"

enum { NODES = 3, LOCKS = 20 };

static struct servers classic, guarded;

static int start_both(void **state) {
    (void)state;
    servers_start(&classic, NODES);
    start_quorum(&guarded, NODES, 30000);
    return 0;
}

static int stop_both(void **state) {
    (void)state;
    servers_stop(&classic);
    servers_stop(&guarded);
    return 0;
}

/* The servers, each behind a proxy. */
struct front {
    struct servers seen; /* its addresses only */
    struct proxy *proxy[NODES];
};

static void front_begin(struct front *front, const struct servers *servers) {
    size_t used = 0;
    *front = (struct front){.seen.count = NODES};
    for (int i = 0; i < NODES; i++) {
        front->proxy[i] = proxy_start(servers->at[i].port);
        used +=
            (size_t)snprintf(front->seen.urls + used, sizeof front->seen.urls - used,
                             "%sredis://127.0.0.1:%d", i ? "," : "", proxy_port(front->proxy[i]));
    }
}

static void front_end(const struct front *front) {
    for (int i = 0; i < NODES; i++) proxy_stop(front->proxy[i]);
}

static void forget_all(const struct front *front) {
    for (int i = 0; i < NODES; i++) proxy_forget(front->proxy[i]);
}

/* Many locks, each of its own client, so that one run is as good as many. */
static void locks_outlive_the_cut(const struct servers *servers, int mode, int64_t ttl_ms) {
    static struct notices notices[LOCKS];
    struct front front;
    struct redlock_client *client[LOCKS];
    struct redlock_lock *lock[LOCKS];
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.mode = mode;
    memset(notices, 0, sizeof notices);
    front_begin(&front, servers);
    for (int i = 0; i < LOCKS; i++) {
        char name[40];
        struct redlock_lock_options with = notices_options(ttl_ms, &notices[i]);
        with.renew = 1;
        snprintf(name, sizeof name, "outlives:%d", i);
        client[i] = open_client(&front.seen, &options);
        lock[i] = new_lock(client[i], name, &with);
        assert_result(redlock_acquire(lock[i], 2000), REDLOCK_OK);
    }
    forget_all(&front);
    nap_ms((long)(2 * ttl_ms));
    unsigned held = 0;
    for (int i = 0; i < LOCKS; i++)
        held += redlock_validity_ms(lock[i]) > 0 && notices[i].count[REDLOCK_CHANGE_LOST] == 0;
    assert_int_equal(held, LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        redlock_lock_free(lock[i]);
        redlock_client_free(client[i]);
    }
    front_end(&front);
}

static void a_lock_of_three_seconds_outlives_it(void **state) {
    (void)state;
    locks_outlive_the_cut(&classic, REDLOCK_MODE_CLASSIC, 3000);
}

static void so_does_a_guarded_one(void **state) {
    (void)state;
    locks_outlive_the_cut(&guarded, REDLOCK_MODE_GUARDED, 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_of_three_seconds_outlives_it),
        cmocka_unit_test(so_does_a_guarded_one),
    };
    return cmocka_run_group_tests(tests, start_both, stop_both);
}
