/* SPDX-License-Identifier: BSD-2-Clause */
#include "spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "redlock-script"

/* The environment is empty, since it may hold passwords; no signal is ignored or blocked. */
static int start_program(pid_t *pid, const char *path, int channel) {
    char *arguments[] = {(char[]){PROGRAM}, NULL}, *environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int result = posix_spawn_file_actions_init(&actions);
    if (result != 0) return result;
    result = posix_spawnattr_init(&attributes);
    if (result == 0) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        result = posix_spawn_file_actions_adddup2(&actions, channel, 0);
        if (result == 0)
            result = posix_spawn(pid, path, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

void spawner_init(struct spawner *spawner) {
    *spawner = (struct spawner){.channel = -1, .program = -1};
}

void spawner_free(struct spawner *spawner) {
    if (spawner->program >= 0) close(spawner->program);
    spawner->program = -1;
}

/* Next to the running program, so that an installed tree can be moved. */
static bool open_program(struct spawner *spawner) {
    char path[PATH_MAX];
    if (spawner->program >= 0) return true;
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof PROGRAM > sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(slash + 1, PROGRAM, sizeof PROGRAM);
    spawner->program = open(path, O_PATH | O_CLOEXEC);
    return spawner->program >= 0;
}

bool spawner_open(struct spawner *spawner) {
    char path[64];
    int ends[2];
    if (!open_program(spawner) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", spawner->program);
    if (ends[1] == 0) { /* adddup2() of descriptor 0 to itself would leave it to be closed */
        ends[1] = fcntl(0, F_DUPFD_CLOEXEC, 3);
        close(0);
    }
    const int result = ends[1] >= 0 ? start_program(&spawner->pid, path, ends[1]) : errno;
    if (ends[1] >= 0) close(ends[1]);
    if (result != 0) {
        close(ends[0]);
        spawner->pid = 0;
        errno = result;
        return false;
    }
    spawner->channel = ends[0];
    return true;
}

void spawner_close(struct spawner *spawner) {
    if (spawner->pid == 0) return;
    close(spawner->channel);
    kill(spawner->pid, SIGKILL);
    while (waitpid(spawner->pid, NULL, 0) < 0 && errno == EINTR) continue;
    spawner->pid = 0;
    spawner->channel = -1;
}

/* At most a few packets are in the channel: if it is full, the other side no longer reads. */
static bool order(const struct spawner *spawner, enum spawner_order what, unsigned slot,
                  int channel) {
    struct spawner_packet packet = {.order = what, .slot = slot};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof channel)];
    } control;
    struct iovec piece = {.iov_base = &packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (channel >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof channel),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &channel, sizeof channel);
    }
    return sendmsg(spawner->channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           (ssize_t)sizeof packet;
}

int spawner_start(struct spawner *spawner, unsigned slot) {
    int ends[2];
    if (spawner->pid == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    const int flags = fcntl(ends[0], F_GETFL);
    const bool sent = flags >= 0 && fcntl(ends[0], F_SETFL, flags | O_NONBLOCK) == 0 &&
                      order(spawner, SPAWNER_START, slot, ends[1]);
    close(ends[1]);
    if (sent) return ends[0];
    close(ends[0]);
    return -1;
}

bool spawner_end(struct spawner *spawner, unsigned slot) {
    return spawner->pid == 0 || order(spawner, SPAWNER_END, slot, -1);
}
