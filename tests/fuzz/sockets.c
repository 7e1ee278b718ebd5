/* SPDX-License-Identifier: BSD-2-Clause */
#include "sockets.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "must.h"

enum {
    FD_FIRST = 1 << 20, /* above what the kernel gives out */
    FDS_MAX = 64,
    HEARD_MAX = 16384, /* what a server has not read yet */
    SAID_MAX = 1 << 18
};

enum kind { FREE, EPOLL, EVENT, TIMER, SOCKET };

static struct descriptor {
    enum kind kind;
    bool open;      /* the client's end */
    bool accepted;  /* the server's end is open */
    bool reset;     /* the server hung up before it had read everything */
    uint64_t count; /* of an eventfd */
    struct epoll_event watched;
    size_t heard_bytes, said_from, said_to;
    char *heard, *said;
} table[FDS_MAX];
static char heard[FDS_MAX][HEARD_MAX], said[FDS_MAX][SAID_MAX];

static struct descriptor *at_fd(int fd) {
    return fd >= FD_FIRST && fd < FD_FIRST + FDS_MAX ? &table[fd - FD_FIRST] : NULL;
}

static struct descriptor *open_at(int fd) {
    struct descriptor *at = at_fd(fd);
    if (at != NULL) must(at->open, "a closed descriptor is used");
    return at;
}

static int new_descriptor(enum kind kind) {
    for (int i = 0; i < FDS_MAX; i++) {
        struct descriptor *at = &table[i];
        if (at->kind != FREE) continue;
        *at = (struct descriptor){.kind = kind, .open = true, .heard = heard[i], .said = said[i]};
        return FD_FIRST + i;
    }
    errno = EMFILE;
    return -1;
}

static void free_unused(struct descriptor *at) {
    if (!at->open && !at->accepted) at->kind = FREE;
}

bool sockets_reset(void) {
    bool any = false;
    for (struct descriptor *at = table; at < table + FDS_MAX; at++) {
        any = any || (at->kind != FREE && at->open);
        at->kind = FREE;
        at->open = at->accepted = false;
    }
    return !any;
}

/* ---- the client's calls ---------------------------------------------------------------------- */

int __wrap_socket(int family, int type, int protocol);
int __wrap_epoll_create1(int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_timerfd_create(clockid_t clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *before);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_close(int fd);
int __real_close(int fd);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags);
ssize_t __real_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_read(int fd, void *to, size_t room);
ssize_t __real_read(int fd, void *to, size_t room);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __real_write(int fd, const void *from, size_t bytes);

static ssize_t failed(int error) {
    errno = error;
    return -1;
}

int __wrap_socket(int family, int type, int protocol) {
    (void)family, (void)type, (void)protocol;
    return new_descriptor(SOCKET);
}

int __wrap_epoll_create1(int flags) {
    (void)flags;
    return new_descriptor(EPOLL);
}

int __wrap_eventfd(unsigned count, int flags) {
    const int fd = new_descriptor(EVENT);
    (void)flags;
    if (fd >= 0) at_fd(fd)->count = count;
    return fd;
}

int __wrap_timerfd_create(clockid_t clock, int flags) {
    (void)clock, (void)flags;
    return new_descriptor(TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *before) {
    (void)flags, (void)when, (void)before;
    must(open_at(fd)->kind == TIMER, "no timer");
    return 0;
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    struct descriptor *at = open_at(fd);
    must(open_at(epoll)->kind == EPOLL && at != NULL, "no epoll set, or nothing to watch");
    const bool is_watched = at->watched.events != 0;
    if (is_watched == (operation == EPOLL_CTL_ADD))
        return (int)failed(is_watched ? EEXIST : ENOENT);
    if (operation == EPOLL_CTL_DEL)
        at->watched.events = 0;
    else
        at->watched = *event;
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes) {
    return open_at(fd) != NULL ? 0 : __real_setsockopt(fd, level, name, value, bytes);
}

int __wrap_close(int fd) {
    struct descriptor *at = open_at(fd);
    if (at == NULL) return __real_close(fd);
    at->open = false;
    free_unused(at);
    return 0;
}

ssize_t __wrap_recv(int fd, void *to, size_t room, int flags) {
    struct descriptor *at = open_at(fd);
    if (at == NULL) return __real_recv(fd, to, room, flags);
    const size_t left = at->said_to - at->said_from, part = left < room ? left : room;
    if (left == 0 && at->accepted) return failed(EAGAIN);
    if (left == 0 && at->reset) {
        at->reset = false; /* it is reported once */
        return failed(ECONNRESET);
    }
    memcpy(to, at->said + at->said_from, part);
    at->said_from += part;
    return (ssize_t)part;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags) {
    struct descriptor *at = open_at(fd);
    if (at == NULL) return __real_send(fd, from, bytes, flags);
    if (!at->accepted) return failed(EPIPE);
    const size_t left = HEARD_MAX - at->heard_bytes, part = left < bytes ? left : bytes;
    if (part == 0 && bytes > 0) return failed(EAGAIN);
    memcpy(at->heard + at->heard_bytes, from, part);
    at->heard_bytes += part;
    return (ssize_t)part;
}

ssize_t __wrap_read(int fd, void *to, size_t room) {
    struct descriptor *at = open_at(fd);
    if (at == NULL) return __real_read(fd, to, room);
    if (at->count == 0) return failed(EAGAIN);
    must(at->kind == EVENT && room == sizeof at->count, "no such read");
    memcpy(to, &at->count, sizeof at->count);
    at->count = 0;
    return sizeof at->count;
}

ssize_t __wrap_write(int fd, const void *from, size_t bytes) {
    struct descriptor *at = open_at(fd);
    uint64_t count;
    if (at == NULL) return __real_write(fd, from, bytes);
    must(at->kind == EVENT && bytes == sizeof count, "no such write");
    memcpy(&count, from, sizeof count);
    at->count += count;
    return sizeof count;
}

static uint32_t events_of(const struct descriptor *at) {
    if (at->kind == EVENT) return at->count > 0 ? EPOLLIN : 0;
    if (at->kind != SOCKET) return 0;
    uint32_t events = at->heard_bytes < HEARD_MAX ? EPOLLOUT : 0;
    if (at->said_from < at->said_to || !at->accepted) events |= EPOLLIN;
    if (!at->accepted) events |= EPOLLHUP | (at->reset ? EPOLLERR : 0);
    return events;
}

int sockets_ready(struct epoll_event *events, int most) {
    int count = 0;
    for (struct descriptor *at = table; at < table + FDS_MAX && count < most; at++) {
        if (!at->open || at->watched.events == 0) continue;
        const uint32_t ready = events_of(at) & (at->watched.events | EPOLLHUP | EPOLLERR);
        if (ready == 0) continue;
        events[count] = at->watched;
        events[count++].events = ready;
    }
    return count;
}

/* ---- the server's end ------------------------------------------------------------------------ */

void socket_accept(int fd) {
    struct descriptor *at = open_at(fd);
    must(at->kind == SOCKET && !at->accepted, "connected twice");
    at->accepted = true;
}

long socket_hear(int fd, char *to, size_t room) {
    struct descriptor *at = at_fd(fd);
    const size_t part = at->heard_bytes < room ? at->heard_bytes : room;
    if (at->heard_bytes == 0 && !at->open) return -1;
    memcpy(to, at->heard, part);
    memmove(at->heard, at->heard + part, at->heard_bytes - part);
    at->heard_bytes -= part;
    return (long)part;
}

bool socket_say(int fd, const char *bytes, size_t count) {
    struct descriptor *at = at_fd(fd);
    if (!at->open) return false;
    if (at->said_from == at->said_to) at->said_from = at->said_to = 0;
    if (count > SAID_MAX - at->said_to) return false;
    memcpy(at->said + at->said_to, bytes, count);
    at->said_to += count;
    return true;
}

void socket_hang_up(int fd) {
    struct descriptor *at = at_fd(fd);
    at->accepted = false;
    at->reset = at->heard_bytes > 0;
    free_unused(at);
}
