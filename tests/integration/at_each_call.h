/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Something happens at the nth system call of a thread: the linker's --wrap counts them. For one
 * file of a program.
 */
#ifndef TESTS_AT_EACH_CALL_H
#define TESTS_AT_EACH_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static _Thread_local unsigned countdown; /* of this thread's system calls; 0: none is counted */
static atomic_bool hit;
static void at_the_call(void); /* what happens */

static void count_down(void) {
    if (countdown == 0 || --countdown > 0) return;
    hit = true;
    at_the_call();
}

#define WRAPPED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        count_down();                                                                              \
        return __real_##name arguments;                                                            \
    }

WRAPPED(ssize_t, send, (int fd, const void *data, size_t bytes, int flags),
        (fd, data, bytes, flags))
WRAPPED(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))
WRAPPED(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes))
WRAPPED(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
WRAPPED(int, epoll_wait, (int fd, struct epoll_event *events, int count, int timeout),
        (fd, events, count, timeout))

#endif
