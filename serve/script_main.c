/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock-script: the gateway starts it once, and it starts the processes that run scripts when the
 * gateway requests them. It is small, and of the gateway's state it has only this one channel,
 * descriptor 0. A new process therefore starts quickly and knows no secrets. It runs no script
 * itself. Only it waits for its children, so a process that it ends is certainly the one that it
 * started.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script_confine.h"
#include "script_worker.h"
#include "spawner_wire.h"

/* The gateway has priority when both want the processor. */
enum { NICE = 10 };

static pid_t workers[SPAWNER_SLOTS]; /* 0: free */

/* *channel is -1 if none came. False: the gateway has ended. */
static bool receive(struct spawner_packet *packet, int *channel) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof *channel)];
    } control;
    struct iovec piece = {.iov_base = packet, .iov_len = sizeof *packet};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t count;
    do count = recvmsg(0, &message, MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    if (count != (ssize_t)sizeof *packet || packet->slot >= SPAWNER_SLOTS) return false;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *channel = -1;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(channel, CMSG_DATA(head), sizeof *channel);
    return true;
}

static _Noreturn void become_worker(int channel, pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || dup2(channel, 0) != 0)
        _exit(1);
    script_worker_run();
}

/* If a process cannot be started, the gateway sees the end of its channel. */
static void start(unsigned slot, int channel) {
    const pid_t parent = getpid();
    if (channel < 0) return;
    const pid_t pid = workers[slot] == 0 ? fork() : -1;
    if (pid == 0) become_worker(channel, parent);
    if (pid > 0) workers[slot] = pid;
    close(channel);
}

static void end(unsigned slot) {
    if (workers[slot] == 0) return;
    kill(workers[slot], SIGKILL);
    while (waitpid(workers[slot], NULL, 0) < 0 && errno == EINTR) continue;
    workers[slot] = 0;
}

/* A signal to the whole group is meant for the gateway, which answers the requests under way before
 * it ends. */
static void leave_signals_to_the_gateway(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) signal(numbers[i], SIG_IGN);
}

int main(int argc, char **argv) {
    struct spawner_packet packet;
    int type = 0, channel;
    socklen_t length = sizeof type;
    (void)argv;
    if (argc > 1 || getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
        type != SOCK_SEQPACKET) {
        fputs("redlock-script runs the scripts of `redlock serve`, which starts it\n", stderr);
        return 64;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return 1;
    prctl(PR_SET_NAME, "redlock-script"); /* it is started through a descriptor */
    confine_descriptors();
    leave_signals_to_the_gateway();
    if (setpriority(PRIO_PROCESS, 0, NICE) !=
        0) { /* without permission, it shares the processor evenly */
    }
    while (receive(&packet, &channel)) {
        if (packet.order == SPAWNER_START)
            start(packet.slot, channel);
        else
            end(packet.slot);
    }
    for (unsigned slot = 0; slot < SPAWNER_SLOTS; slot++) end(slot);
    return 0;
}
