/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the gateway and a worker send each other: frames of a head and a body. Both are of one build
 * on one machine, so numbers are as the processor has them. The gateway trusts nothing that a
 * worker sends: whatever is read is checked for its bounds and for its meaning.
 *
 *   worker   READY                 once, before anything else
 *   gateway  LOAD     worker  LOADED or REFUSED
 *   gateway  RUN      worker  CALL, any number of them, each answered by ANSWER; then END
 * RUN in place of ANSWER drops the run under way.
 */
#ifndef SERVE_SCRIPT_WIRE_H
#define SERVE_SCRIPT_WIRE_H

#include "script_name.h"

enum wire_kind {
    WIRE_READY,
    WIRE_LOAD,
    WIRE_LOADED,
    WIRE_REFUSED,
    WIRE_RUN,
    WIRE_CALL,
    WIRE_ANSWER,
    WIRE_END
};

#define WIRE_HEAD_BYTES 8
/* More than the sum of a request and a text, and than a run's memory can hold. */
#define WIRE_BODY_BYTES_MAX ((size_t)512 * 1024)
#define WIRE_ARGUMENTS_MAX 256
#define WIRE_ERROR_BYTES 512

struct wire_message {
    enum wire_kind kind;
    int64_t pid;                    /* READY */
    bool limited, filtered;         /* READY: it has resource limits, a filter of system calls */
    int error;                      /* READY: why it has one of them not; else 0 */
    char sha[SCRIPT_SHA_BYTES + 1]; /* LOAD, RUN */
    struct bytes text; /* LOAD, RUN: the script. REFUSED: the reason, in one sentence */
    struct bytes key;  /* RUN */
    const struct bytes *arguments;
    size_t argument_count;
    struct key_call call; /* CALL */
    struct answer value;  /* ANSWER, END */
};

/* The length with the head. If it exceeds WIRE_BODY_BYTES_MAX and the head, the message cannot be
 * sent. */
size_t wire_bytes(const struct wire_message *message);
/* Writes that number of bytes. */
void wire_write(const struct wire_message *message, char *frame);

/* The length of the body. More than WIRE_BODY_BYTES_MAX: the bytes are not a head. */
size_t wire_body_bytes(const char head[WIRE_HEAD_BYTES]);
/* Reads a whole frame. *message points into the frame, or into `room` for the arguments of a RUN.
 * Where `room` is NULL, a RUN is not expected. False: the frame is not valid. */
bool wire_read(const char *frame, size_t frame_bytes, struct wire_message *message,
               struct bytes room[WIRE_ARGUMENTS_MAX]);

#endif
