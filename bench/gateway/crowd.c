/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Cycles are planned at a steady rate, whatever becomes of those before, and each is measured from
 * the moment for which it was planned: who answers late does not thereby get less to do.
 */
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENTS = 128, REQUEST_MAX = 512, ASK_MS = 10000, SHARES = 5 };
#define NUISANCES_EVERY (10 * MS)
#define ASKED_EVERY (100 * MS)
#define LATEST (10000 * MS) /* after the last planned cycle */

static const char release_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

void worker_key(const struct crowd *crowd, const struct worker *worker, char *out) {
    const long pid = getpid();
    if (worker->shared >= 0)
        snprintf(out, KEY_BYTES, "load:%ld:%s:shared:%d", pid, crowd->name, worker->shared);
    else
        snprintf(out, KEY_BYTES, "load:%ld:%s:%u:%u", pid, crowd->name, worker->number,
                 worker->names);
}

void worker_value(const struct worker *worker, char *out) {
    snprintf(out, KEY_BYTES, "%08x-%016" PRIx64, worker->number, worker->value);
}

/* ---- requests ---- */

static void gone(struct crowd *crowd, struct worker *worker) {
    if (worker->shared >= 0 && crowd->holder[worker->shared] == (int)worker->number)
        crowd->holder[worker->shared] = -1;
    if (worker->fd >= 0) close(worker->fd);
    worker->fd = -1;
    worker->state = worker->state == WORKER_IDLE
                        ? WORKER_GONE
                        : worker->state; /* what was under way is of interest */
}

static void ask(struct crowd *crowd, struct worker *worker, const char *request, int bytes) {
    worker->answer_bytes = 0;
    worker->sent_ns = now_ns();
    if (send(worker->fd, request, (size_t)bytes, MSG_NOSIGNAL) == bytes) return;
    gone(crowd, worker);
}

static void take(struct crowd *crowd, struct worker *worker, int64_t due_ns) {
    char request[REQUEST_MAX], key[KEY_BYTES], value[KEY_BYTES], ttl[24];
    worker->due_ns = due_ns;
    worker->state = WORKER_TAKING;
    worker->value++;
    worker_key(crowd, worker, key);
    worker_value(worker, value);
    int ttl_bytes = snprintf(ttl, sizeof ttl, "%" PRId64, crowd->ttl_ms);
    int bytes = snprintf(
        request, sizeof request,
        "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$%d\r\n%s\r\n",
        strlen(key), key, strlen(value), value, ttl_bytes, ttl);
    ask(crowd, worker, request, bytes);
}

static void give(struct crowd *crowd, struct worker *worker) {
    char request[REQUEST_MAX], key[KEY_BYTES], value[KEY_BYTES];
    worker->state = WORKER_GIVING;
    if (worker->shared >= 0) crowd->holder[worker->shared] = -1;
    worker_key(crowd, worker, key);
    worker_value(worker, value);
    int bytes =
        snprintf(request, sizeof request,
                 "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                 crowd->sha, strlen(key), key, strlen(value), value);
    ask(crowd, worker, request, bytes);
}

static void next_cycle(struct crowd *crowd, struct worker *worker) {
    worker->state = WORKER_IDLE;
    if (worker->backlog_count == 0) return;
    int64_t due_ns = worker->backlog[worker->backlog_first];
    worker->backlog_first = (worker->backlog_first + 1) % BACKLOG_MAX;
    worker->backlog_count--;
    take(crowd, worker, due_ns);
}

/* ---- answers ---- */

static void unwelcome(struct crowd *crowd, struct worker *worker) {
    bool unknown = strncmp(worker->answer, "-NOQUORUM", 9) == 0;
    if (unknown)
        crowd->unknown++;
    else
        crowd->wrong++;
    snprintf(crowd->last_error, sizeof crowd->last_error, "%.*s",
             (int)strcspn(worker->answer, "\r"), worker->answer);
    worker->names++;
    next_cycle(crowd, worker);
}

static void taken(struct crowd *crowd, struct worker *worker) {
    if (worker->shared < 0) {
        worker->names += crowd->keeps;
        if (crowd->keeps)
            next_cycle(crowd, worker);
        else
            give(crowd, worker);
        return;
    }
    if (crowd->holder[worker->shared] >= 0) crowd->twice++;
    crowd->holder[worker->shared] = (int)worker->number;
    worker->state = WORKER_HOLDING;
    worker->gives_ns = now_ns() + crowd->hold_ns;
}

static void answered(struct crowd *crowd, struct worker *worker) {
    const char *answer = worker->answer;
    if (crowd->ends) {
        worker->state =
            worker->state == WORKER_TAKING && answer[0] == '+' ? WORKER_HOLDING : WORKER_IDLE;
    } else if (worker->state == WORKER_TAKING && strcmp(answer, "+OK\r\n") == 0) {
        taken(crowd, worker);
    } else if (worker->state == WORKER_TAKING && strcmp(answer, "$-1\r\n") == 0 &&
               worker->shared >= 0) {
        crowd->refused++;
        next_cycle(crowd, worker);
    } else if (worker->state == WORKER_GIVING && strcmp(answer, ":1\r\n") == 0) {
        crowd->cycles++;
        if (crowd->latency != NULL)
            histogram_add(crowd->latency,
                          now_ns() - worker->due_ns - (worker->shared >= 0 ? crowd->hold_ns : 0));
        next_cycle(crowd, worker);
    } else {
        crowd->lost += worker->state == WORKER_GIVING && answer[0] == ':';
        unwelcome(crowd, worker);
    }
}

static void hear(struct crowd *crowd, struct worker *worker) {
    size_t room = sizeof worker->answer - 1 - worker->answer_bytes;
    ssize_t got = recv(worker->fd, worker->answer + worker->answer_bytes, room, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        gone(crowd, worker);
        return;
    }
    worker->answer_bytes += (size_t)got;
    worker->answer[worker->answer_bytes] = '\0';
    if (worker->answer[worker->answer_bytes - 1] != '\n') return;
    if (worker->state == WORKER_TAKING || worker->state == WORKER_GIVING) {
        answered(crowd, worker);
        return;
    }
    crowd->wrong++; /* nobody has asked */
    snprintf(crowd->last_error, sizeof crowd->last_error, "an answer to nothing: %.100s",
             worker->answer);
    worker->answer_bytes = 0;
}

/* ---- the plan ---- */

static struct worker *next_worker(struct crowd *crowd) {
    if (crowd->planned++ % SHARES == 0)
        return &crowd->workers[(unsigned)random() % crowd->sharing]; /* so that they meet */
    return &crowd->workers[crowd->sharing + crowd->next_own++ % (crowd->count - crowd->sharing)];
}

static void plan_due(struct crowd *crowd, int64_t now, int64_t until) {
    for (; crowd->next_ns <= now && crowd->next_ns < until;
         crowd->next_ns += (int64_t)(1e9 / crowd->rate)) {
        struct worker *worker = next_worker(crowd);
        if (worker->fd < 0) continue;
        if (worker->state == WORKER_IDLE) {
            take(crowd, worker, crowd->next_ns);
        } else if (worker->backlog_count < BACKLOG_MAX) {
            worker->backlog[(worker->backlog_first + worker->backlog_count++) % BACKLOG_MAX] =
                crowd->next_ns;
        } else {
            crowd->overrun++;
        }
    }
}

/* When the next lock is to be given back. */
static int64_t give_due(struct crowd *crowd, int64_t now) {
    int64_t next = INT64_MAX;
    for (unsigned i = 0; i < crowd->sharing; i++) {
        struct worker *worker = &crowd->workers[i];
        if (worker->state != WORKER_HOLDING || worker->fd < 0) continue;
        if (worker->gives_ns <= now)
            give(crowd, worker);
        else if (worker->gives_ns < next)
            next = worker->gives_ns;
    }
    return next;
}

static bool is_busy(const struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->count; i++) {
        const struct worker *worker = &crowd->workers[i];
        if (worker->fd >= 0 && worker->state != WORKER_IDLE) return true;
    }
    return false;
}

static void wait_until(struct crowd *crowd, int64_t at) {
    struct epoll_event events[EVENTS];
    const struct itimerspec when = {
        .it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(crowd->timer, TFD_TIMER_ABSTIME, &when, NULL);
    int count = epoll_wait(crowd->epoll, events, EVENTS, 1000);
    for (int i = 0; i < count; i++) {
        struct worker *worker = events[i].data.ptr;
        if (worker != NULL && worker->fd >= 0) hear(crowd, worker);
    }
}

void crowd_run(struct crowd *crowd, int64_t until_ns,
               bool (*while_running)(struct crowd *crowd, void *context), void *context) {
    int64_t nuisances_ns = now_ns(), asked_ns = nuisances_ns;
    crowd->next_ns = nuisances_ns;
    for (;;) {
        int64_t now = now_ns();
        plan_due(crowd, now, until_ns);
        int64_t at = give_due(crowd, now);
        if (crowd->next_ns < until_ns && crowd->next_ns < at) at = crowd->next_ns;
        if (now >= nuisances_ns) {
            nuisances_do(crowd, now);
            nuisances_ns = now + NUISANCES_EVERY;
        }
        if (now >= asked_ns) {
            if (while_running != NULL && !while_running(crowd, context)) return;
            asked_ns = now + ASKED_EVERY;
        }
        if (now >= until_ns && (!is_busy(crowd) || now > until_ns + LATEST)) return;
        wait_until(crowd, at < nuisances_ns ? at : nuisances_ns);
    }
}

void crowd_burst(struct crowd *crowd, unsigned odd) {
    for (unsigned i = crowd->sharing; i < crowd->count; i++) {
        if (i % 2 == odd && crowd->workers[i].fd >= 0 && crowd->workers[i].state == WORKER_IDLE)
            take(crowd, &crowd->workers[i], now_ns());
    }
}

unsigned crowd_read_out(struct crowd *crowd, int ms) {
    unsigned open = 1;
    crowd->ends = true;
    for (int64_t until = now_ns() + ms * MS; open > 0 && now_ns() < until;) {
        wait_until(crowd, now_ns() + 10 * MS);
        open = 0;
        for (unsigned i = 0; i < crowd->count; i++) open += crowd->workers[i].fd >= 0;
    }
    return open;
}

/* ---- the beginning and the end ---- */

static void load_script(struct crowd *crowd) {
    char request[sizeof release_script + 64], answer[64];
    size_t got = 0;
    int fd = served_connect(crowd->served);
    int bytes =
        snprintf(request, sizeof request, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                 sizeof release_script - 1, release_script);
    if (fd < 0 || send(fd, request, (size_t)bytes, MSG_NOSIGNAL) != bytes)
        give_up("the gateway takes no request");
    while (got < 5 + SHA_BYTES + 2) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        ssize_t more =
            poll(&poller, 1, ASK_MS) == 1 ? recv(fd, answer + got, sizeof answer - 1 - got, 0) : 0;
        if (more <= 0) give_up("SCRIPT LOAD is not answered");
        got += (size_t)more;
    }
    close(fd);
    snprintf(crowd->sha, sizeof crowd->sha, "%.40s", answer + 5);
}

static void let_in(struct crowd *crowd, struct worker *worker, unsigned number) {
    *worker = (struct worker){.number = number,
                              .shared = number < crowd->sharing ? (int)(number % SHARED_KEYS) : -1};
    /* A full backlog of the listener refuses for a moment. */
    for (int i = 0; (worker->fd = served_connect(crowd->served)) < 0 && i < 1000; i++) pause_ms(5);
    if (worker->fd < 0) give_up("connection %u: %s", number, strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = worker};
    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, worker->fd, &event) != 0)
        give_up("epoll_ctl: %s", strerror(errno));
}

void crowd_open(struct crowd *crowd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    crowd->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    crowd->workers = calloc(crowd->count, sizeof *crowd->workers);
    if (crowd->workers == NULL || epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, crowd->timer, &event) != 0)
        give_up("epoll: %s", strerror(errno));
    for (unsigned i = 0; i < SHARED_KEYS; i++) crowd->holder[i] = -1;
    load_script(crowd);
    for (unsigned i = 0; i < crowd->count; i++) let_in(crowd, &crowd->workers[i], i);
}

void crowd_close(struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->count; i++) {
        if (crowd->workers[i].fd >= 0) close(crowd->workers[i].fd);
    }
    close(crowd->epoll);
    close(crowd->timer);
    free(crowd->workers);
    crowd->workers = NULL;
}
