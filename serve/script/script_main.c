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
#include "interpreter.h"
#include "script_wire.h"
#include "spawner.h"

/* The gateway has priority when both want the processor. */
enum { NICE = 10 };
enum { PROGRAMS_MAX = 64, TEXT_BYTES_MAX = 128 * 1024 };

/* The gateway's next message may arrive during a run: one buffer keeps its frame, and outgoing
 * messages are built in the other. */
static char received[WIRE_HEAD_BYTES + WIRE_BODY_BYTES_MAX],
    sent[WIRE_HEAD_BYTES + WIRE_BODY_BYTES_MAX];
static struct bytes arguments[WIRE_ARGUMENTS_MAX];

/* ---- a worker: its frames ---- */

/* The gateway has ended, or is faulty: the worker ends. */
static void read_whole(char *at, size_t bytes) {
    while (bytes > 0) {
        const ssize_t count = read(0, at, bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) _exit(0);
        at += count;
        bytes -= (size_t)count;
    }
}

static void receive_message(struct wire_message *message) {
    read_whole(received, WIRE_HEAD_BYTES);
    const size_t bytes = wire_body_bytes(received);
    if (bytes > WIRE_BODY_BYTES_MAX) _exit(1);
    read_whole(received + WIRE_HEAD_BYTES, bytes);
    if (!wire_read(received, WIRE_HEAD_BYTES + bytes, message, arguments)) _exit(1);
}

static void send_message(const struct wire_message *message) {
    const size_t bytes = wire_bytes(message);
    if (bytes > sizeof sent) _exit(1);
    wire_write(message, sent);
    for (size_t at = 0; at < bytes;) {
        const ssize_t count = write(0, sent + at, bytes - at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) _exit(0);
        at += (size_t)count;
    }
}

/* ---- a worker: requests ---- */

/* False: `line` is the error, as the client sees it. */
static bool load(struct scripts *scripts, const struct wire_message *message,
                 char line[WIRE_ERROR_BYTES]) {
    char error[WIRE_ERROR_BYTES - 4];
    if (scripts_load(scripts, message->sha, message->text.data, message->text.bytes, error,
                     sizeof error))
        return true;
    snprintf(line, WIRE_ERROR_BYTES, "ERR %s", error);
    return false;
}

static void answer_load(struct scripts *scripts, const struct wire_message *message) {
    char line[WIRE_ERROR_BYTES];
    struct wire_message answer = {.kind = WIRE_LOADED};
    if (!load(scripts, message, line)) {
        answer.kind = WIRE_REFUSED;
        answer.text = (struct bytes){line, strlen(line)};
    }
    send_message(&answer);
}

static void end_with(struct answer value) {
    const struct wire_message answer = {.kind = WIRE_END, .value = value};
    send_message(&answer);
}

/* Runs the script to its end, or until a message other than an answer comes: that is in *message
 * then, and the result is true. */
static bool run_script(struct scripts *scripts, struct wire_message *message) {
    struct wire_message call = {.kind = WIRE_CALL};
    char line[WIRE_ERROR_BYTES];
    struct answer result;
    bool other = false;
    /* The text has been loaded before, if perhaps by another worker. */
    if (!load(scripts, message, line)) {
        end_with(answer_error(line));
        return false;
    }
    struct script_run *run = script_run_new(scripts, message->sha, message->key, message->arguments,
                                            message->argument_count);
    if (run == NULL) {
        end_with(answer_error("OOM out of memory"));
        return false;
    }
    const struct answer *answer = NULL;
    while (!other && script_run_step(run, answer, &call.call, &result) == PROGRAM_CALLS) {
        send_message(&call);
        receive_message(message);
        other = message->kind != WIRE_ANSWER;
        answer = &message->value;
    }
    if (!other) end_with(result);
    script_run_free(run);
    return other;
}

/* Before it reports ready, it allocates all the memory that most scripts need. */
static void warm_up(struct scripts *scripts) {
    static const char text[] =
        "return {ok = string.format('%d', #KEYS) .. tostring(redis.call('get', KEYS[1]))}";
    static const char name[] = "0000000000000000000000000000000000000000";
    char error[128];
    struct key_call call;
    struct answer result;
    if (!scripts_load(scripts, name, text, sizeof text - 1, error, sizeof error)) return;
    struct script_run *run = script_run_new(scripts, name, (struct bytes){"k", 1}, NULL, 0);
    if (run != NULL) script_run_step(run, NULL, &call, &result);
    script_run_free(run);
    scripts_flush(scripts);
}

/* Serves the gateway at descriptor 0, until the gateway closes it. */
static _Noreturn void run_worker(void) {
    struct wire_message message = {.kind = WIRE_READY, .pid = getpid()};
    struct scripts *scripts = scripts_new(PROGRAMS_MAX, TEXT_BYTES_MAX);
    if (scripts == NULL) _exit(1);
    warm_up(scripts);
    confine_descriptors();
    message.limited = confine_limits();
    if (!message.limited) message.error = errno;
    message.filtered = confine_system_calls();
    if (message.limited && !message.filtered) message.error = errno;
    send_message(&message);
    receive_message(&message);
    while (true) {
        if (message.kind == WIRE_RUN && run_script(scripts, &message)) continue;
        if (message.kind == WIRE_LOAD) answer_load(scripts, &message);
        receive_message(&message);
    }
}

/* ---- the process that starts workers ---- */

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

/* If a process cannot be started, the gateway sees the end of its channel. */
static void start(unsigned slot, int channel) {
    const pid_t parent = getpid();
    if (channel < 0) return;
    const pid_t pid = workers[slot] == 0 ? fork() : -1;
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || dup2(channel, 0) != 0)
            _exit(1);
        run_worker();
    }
    if (pid > 0) workers[slot] = pid;
    close(channel);
}

static void end(unsigned slot) {
    if (workers[slot] == 0) return;
    kill(workers[slot], SIGKILL);
    while (waitpid(workers[slot], NULL, 0) < 0 && errno == EINTR) continue;
    workers[slot] = 0;
}

int main(int argc, char **argv) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
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
    /* A signal to the whole group is meant for the gateway, which answers the requests under way
     * before it ends. */
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) signal(numbers[i], SIG_IGN);
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
