/* SPDX-License-Identifier: BSD-2-Clause
 *
 * exit(3) with clients open. OpenSSL frees its tables in an exit handler, while our service threads
 * may be in a handshake. So a handler of ours, registered after OpenSSL's and thus run before it,
 * abandons the connections of all clients that use TLS. */
#include <stdlib.h>

#include "turn.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct schedule *first;
static unsigned process; /* the one whose list it is: a child inherits neither list nor mutex */

static void enter_list(void) {
    if (process != net_process_number()) {
        mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        first = NULL;
        process = net_process_number();
    }
    pthread_mutex_lock(&mutex);
}

/* All that uses OpenSSL holds the schedule's mutex. Only a callback that calls exit(3) may hold it
 * already, on this thread. */
static void abandon_all(void) {
    enter_list();
    for (struct schedule *each = first; each; each = each->listed_next) {
        const bool held = in_a_call() ? pthread_mutex_trylock(&each->mutex) == 0
                                      : pthread_mutex_lock(&each->mutex) == 0;
        each->exiting = true;
        net_kick(each->net);
        net_detach(each->net);
        if (held) pthread_mutex_unlock(&each->mutex);
    }
    pthread_mutex_unlock(&mutex);
}

static void handle_exit(void) { atexit(abandon_all); }

void schedule_watch_exit(struct schedule *schedule) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, handle_exit);
    enter_list();
    schedule->listed = true;
    schedule->listed_next = first;
    first = schedule;
    pthread_mutex_unlock(&mutex);
}

void schedule_unwatch_exit(struct schedule *schedule) {
    if (!schedule->listed) return;
    enter_list();
    struct schedule **at = &first;
    while (*at && *at != schedule) at = &(*at)->listed_next;
    if (*at) *at = schedule->listed_next;
    pthread_mutex_unlock(&mutex);
}
