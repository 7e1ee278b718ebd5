/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script_confine.h"
#include "script_programs.h"
#include "script_wire.h"

enum { PROGRAMS_MAX = 64, TEXT_BYTES_MAX = 128 * 1024 };

/* The gateway's next message may arrive during a run: one buffer keeps its frame, and outgoing
 * messages are built in the other. */
static char received[WIRE_HEAD_BYTES + WIRE_BODY_BYTES_MAX],
    sent[WIRE_HEAD_BYTES + WIRE_BODY_BYTES_MAX];
static struct script_bytes arguments[WIRE_ARGUMENTS_MAX];

/* ---- frames ---- */

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

static void receive(struct wire_message *message) {
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

/* ---- requests ---- */

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
        answer.text = (struct script_bytes){line, strlen(line)};
    }
    send_message(&answer);
}

static void end_with(struct script_value value) {
    const struct wire_message answer = {.kind = WIRE_END, .value = value};
    send_message(&answer);
}

static void end_with_error(const char *text) {
    end_with((struct script_value){.kind = SCRIPT_ERROR, .bytes = {text, strlen(text)}});
}

/* The text has been loaded before, if perhaps by another worker. */
static struct script_run *begin(struct scripts *scripts, const struct wire_message *message) {
    char line[WIRE_ERROR_BYTES];
    if (!load(scripts, message, line)) {
        end_with_error(line);
        return NULL;
    }
    struct script_run *run = script_run_new(scripts, message->sha, message->key, message->arguments,
                                            message->argument_count);
    if (run == NULL) end_with_error("OOM out of memory");
    return run;
}

/* Runs the script to its end, or until a message other than an answer comes: that is in *message
 * then, and the result is true. */
static bool run_script(struct scripts *scripts, struct wire_message *message) {
    struct wire_message call = {.kind = WIRE_CALL};
    struct script_value result;
    bool other = false;
    struct script_run *run = begin(scripts, message);
    if (run == NULL) return false;
    const struct script_value *answer = NULL;
    while (!other && script_run_step(run, answer, &call.call, &result) == SCRIPT_CALLS) {
        send_message(&call);
        receive(message);
        other = message->kind != WIRE_ANSWER;
        answer = &message->value;
    }
    if (!other) end_with(result);
    script_run_free(run);
    return other;
}

static void confine_and_say_so(void) {
    struct wire_message message = {.kind = WIRE_READY, .pid = getpid()};
    confine_descriptors();
    message.limited = confine_limits();
    message.filtered = confine_system_calls();
    send_message(&message);
}

/* Before it reports ready, it allocates all the memory that most scripts need. */
static void warm_up(struct scripts *scripts) {
    static const char text[] =
        "return {ok = string.format('%d', #KEYS) .. tostring(redis.call('get', KEYS[1]))}";
    static const char name[] = "0000000000000000000000000000000000000000";
    char error[128];
    struct script_call call;
    struct script_value result;
    if (!scripts_load(scripts, name, text, sizeof text - 1, error, sizeof error)) return;
    struct script_run *run = script_run_new(scripts, name, (struct script_bytes){"k", 1}, NULL, 0);
    if (run != NULL) script_run_step(run, NULL, &call, &result);
    script_run_free(run);
    scripts_flush(scripts);
}

void script_worker_run(void) {
    struct wire_message message;
    struct scripts *scripts = scripts_new(PROGRAMS_MAX, TEXT_BYTES_MAX);
    if (scripts == NULL) _exit(1);
    warm_up(scripts);
    confine_and_say_so();
    receive(&message);
    while (true) {
        if (message.kind == WIRE_RUN && run_script(scripts, &message)) continue;
        if (message.kind == WIRE_LOAD) answer_load(scripts, &message);
        receive(&message);
    }
}
