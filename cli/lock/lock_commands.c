/* SPDX-License-Identifier: BSD-2-Clause
 *
 * acquire, extend, release: a lock that outlives the process that took it.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "explain/waiting.h"
#include "frame/commands.h"
#include "frame/session.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/signals.h"

struct taking {
    bool done;
    int result;
};

static void taken(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    *(struct taking *)context = (struct taking){true, result};
}

static int timeout_ms(const struct session *session, const struct wait_line *line) {
    const int64_t now = now_ns(), due = session_shut_out_due(session);
    const int64_t at = wait_line_due(line) < due ? wait_line_due(line) : due;
    if (at == NEVER) return -1;
    return at <= now ? 0 : (int)((at - now + MS - 1) / MS);
}

/* A signal that asks the command to end; 0: none. */
static int end_signal(int signal_fd) {
    int end = 0;
    for (int signal; (signal = signals_next(signal_fd)) != 0;) {
        if (signal == SIGTSTP)
            signals_suspend(); /* this loop reads ^Z, so the kernel does not act on it */
        if (signal_is_passed_on(signal)) end = signal;
    }
    return end;
}

/* Until it is done, or given up: because of a signal, or because the nodes must be corrected. */
static int take_once(struct session *session, struct redlock_lock *lock, struct wait_line *line,
                     int64_t wait_ms, int signal_fd, int *interrupted) {
    struct taking taking = {0};
    int result = redlock_acquire_start(lock, wait_ms, taken, &taking);
    if (result != REDLOCK_OK) return result;
    struct pollfd fds[] = {{.fd = redlock_client_fd(session->client), .events = POLLIN},
                           {.fd = signal_fd, .events = POLLIN}};
    bool shut_out = false;
    while (!taking.done) {
        if (poll(fds, 2, timeout_ms(session, line)) < 0 && errno != EINTR) redlock_cancel(lock);
        const int signal = end_signal(signal_fd);
        if (signal != 0) {
            *interrupted = signal;
            redlock_cancel(lock);
        }
        result = redlock_process(session->client);
        if (result != REDLOCK_OK) return result;
        if (!taking.done) wait_line_step(line);
        if (!taking.done && !shut_out && session_waits_in_vain(session, lock)) {
            shut_out = true;
            redlock_cancel(lock);
        }
    }
    return taking.result;
}

/* A try that ^C interrupts releases what it had acquired: so there is a loop, and signals come from
 * a descriptor. Returns the result; *interrupted is the signal that ended it, or 0. */
static int take(struct session *session, struct redlock_lock *lock, struct wait_line *line,
                int64_t wait_ms, int signal_fd, int *interrupted) {
    const bool endless = wait_ms == REDLOCK_WAIT_FOREVER;
    const int64_t until = endless ? NEVER : now_ns() + wait_ms * MS;
    for (int64_t left_ms = wait_ms;;) {
        int result = take_once(session, lock, line, left_ms, signal_fd, interrupted);
        if (result != REDLOCK_CANCELLED || *interrupted != 0) return result;
        /* It was given up, and while the keys were released the nodes may have come back. */
        if (now_ns() >= until || session_shut_out(session, lock)) return REDLOCK_NO_QUORUM;
        if (!endless) left_ms = (until - now_ns() + MS - 1) / MS;
    }
}

static json_t *token_json(json_t *object, struct redlock_bytes token) {
    json_t *text = json_stringn(token.data, token.bytes);
    if (text != NULL) {
        json_object_set_new(object, "token", text);
        return object;
    }
    /* JSON has only UTF-8: a token with other bytes is printed in hexadecimal. */
    char *hex = malloc(token.bytes * 2 + 1);
    if (hex == NULL) return object;
    for (size_t i = 0; i < token.bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)token.data)[i]);
    json_object_set_new(object, "token_hex", json_string(hex));
    free(hex);
    return object;
}

static int print_json(struct session *session, struct redlock_lock *lock, const char *resource,
                      struct redlock_bytes token, int64_t validity_ms) {
    json_t *object = lock_json(session, lock, resource);
    if (token.bytes > 0) token_json(object, token);
    if (validity_ms >= 0) {
        json_object_set_new(object, "validity_ms", json_integer(validity_ms));
        json_object_set_new(object, "ttl_ms", json_integer(session->settings->ttl_ms));
    }
    return json_print(object);
}

/* The failure as JSON, if that is wanted; returns the exit status. */
static int failed(struct session *session, struct redlock_lock *lock, const char *resource,
                  int status) {
    /* -E 0 is a failure that exits with 0 */
    const bool has_failed = status != EXIT_OK || session->failed.result != REDLOCK_OK;
    if (!has_failed || !session->settings->json) return status;
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    /* A signal ended the command: it must not wait for a reader now. */
    if (status <= EXIT_BY_SIGNAL || poll(&output, 1, 0) != 0)
        json_print(failure_json(session, lock, resource, status));
    return status;
}

/* 0 when the reader has got all of it. */
static int print_lock(struct session *session, struct redlock_lock *lock, const char *resource) {
    struct redlock_bytes token = redlock_token(lock);
    int64_t validity_ms = redlock_validity_ms(lock);
    if (session->settings->json) {
        if (print_json(session, lock, resource, token, validity_ms) != 0) return -1;
    } else {
        int64_t fence = redlock_fence(lock);
        fwrite(token.data, 1, token.bytes, stdout);
        printf(" %" PRId64, validity_ms);
        if (fence > 0) printf(" %" PRId64, fence);
        if (redlock_slot(lock) > 0) printf(" slot:%u", redlock_slot(lock));
        putchar('\n');
    }
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : -1;
}

static void not_renewed(void *context, struct redlock_lock_options *options) {
    options->renew = 0;
    options->owner = context;
    options->owner_bytes = context != NULL ? strlen(context) : 0;
}

struct taker {
    const struct settings *settings;
    char *owner;
};

static void to_take(void *context, struct redlock_lock_options *options) {
    const struct taker *taker = context;
    not_renewed(taker->owner, options);
    options->slots = (uint32_t)taker->settings->slots;
}

static int one_resource(struct settings *settings, const char *command, int argc, char **argv) {
    struct session none = {.settings = settings};
    if (argc == 1) return failed(&none, NULL, argv[0], resource_check(settings, argv[0]));
    complain(argc == 0 ? "redlock %s needs a resource; try 'redlock %s --help'"
                       : "redlock %s takes one resource; try 'redlock %s --help'",
             command, command);
    return failed(&none, NULL, NULL, EXIT_USAGE_ERROR);
}

/* The reader must get the token while the lock is held. So this waits for room in the pipe until
 * the lock ends or a signal comes. The output is smaller than PIPE_BUF, so the write does not
 * block afterwards. */
static int wait_for_reader(struct redlock_lock *lock, int signal_fd, int *interrupted) {
    struct pollfd fds[] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                           {.fd = signal_fd, .events = POLLIN}};
    for (;;) {
        const int64_t left_ms = redlock_validity_ms(lock);
        if (left_ms <= 0) return REDLOCK_LOST;
        poll(fds, 2, left_ms > 60000 ? 60000 : (int)left_ms);
        if ((*interrupted = end_signal(signal_fd)) != 0) return REDLOCK_CANCELLED;
        if (fds[0].revents != 0) return REDLOCK_OK;
    }
}

static int acquire_with(struct session *session, struct redlock_lock *lock, const char *resource,
                        int signal_fd) {
    const struct settings *settings = session->settings;
    const int64_t wait_ms = settings->wait_ms == WAIT_UNSET ? 0 : settings->wait_ms;
    int interrupted = 0;
    struct wait_line line;
    wait_line_begin(&line, session, lock, resource, wait_ms, getpgrp());
    int result = take(session, lock, &line, wait_ms, signal_fd, &interrupted);
    wait_line_end(&line);
    if (result == REDLOCK_CANCELLED) return EXIT_BY_SIGNAL + interrupted;
    if (result != REDLOCK_OK) return session_failure(session, lock, resource, result);
    /* acquired but unwanted: freeing the lock releases it */
    if (interrupted != 0) return EXIT_BY_SIGNAL + interrupted;
    result = wait_for_reader(lock, signal_fd, &interrupted);
    if (result == REDLOCK_CANCELLED) return EXIT_BY_SIGNAL + interrupted;
    if (result != REDLOCK_OK) {
        complain("nobody read the token until the lock had ended");
        return EXIT_LOST;
    }
    if (print_lock(session, lock, resource) != 0) {
        complain("cannot write the token, so the lock is released again: %s", strerror(errno));
        clearerr(stdout);
        return EXIT_SYSTEM;
    }
    result = redlock_lock_disown(lock);
    if (result == REDLOCK_OK) return EXIT_OK;
    complain("the lock was lost before it could be handed over");
    return EXIT_LOST;
}

/* Scripts take the output apart by its blanks, and the owner is a part of the token. */
static int owner_check(const struct settings *settings, const char *owner) {
    if (settings->json || owner[strcspn(owner, " \t\n\v\f\r")] == '\0') return EXIT_OK;
    complain(
        "an owner with a blank would make two words of the token: use --json, or another --owner");
    return EXIT_USAGE_ERROR;
}

int command_acquire(struct settings *settings, int argc, char **argv) {
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    int status = one_resource(settings, "acquire", argc, argv);
    default_owner(settings, owner, sizeof owner);
    if (status == EXIT_OK) status = owner_check(settings, owner);
    if (status != EXIT_OK) return status;
    struct inherited_signals inherited;
    signals_take(&inherited);
    int signal_fd = signals_open(&inherited);
    if (signal_fd < 0) return EXIT_SYSTEM;
    struct session session;
    status = session_open(&session, settings);
    if (status == 0) {
        struct redlock_lock *lock = NULL;
        struct taker taker = {settings, owner};
        status = session_lock(&session, argv[0], to_take, &taker, &lock);
        if (status == 0) status = acquire_with(&session, lock, argv[0], signal_fd);
        failed(&session, lock, argv[0], status);
        redlock_lock_free(lock);
        session_close(&session);
    } else {
        failed(&session, NULL, argv[0], status);
    }
    close(signal_fd);
    return status;
}

/* ---- a lock made from a given token -------------------------------------------------------- */

struct token {
    unsigned char
        bytes[REDLOCK_TOKEN_BYTES_MAX + 2]; /* one for a newline, one to see that it is too long */
    size_t count;
};

static int token_is_fit(struct token *token, const char *from) {
    if (token->count == 0) {
        complain("the token %s is empty; give the one that redlock acquire printed", from);
        return EXIT_USAGE_ERROR;
    }
    if (token->count > REDLOCK_TOKEN_BYTES_MAX) {
        complain("the token %s is longer than %d bytes", from, REDLOCK_TOKEN_BYTES_MAX);
        return EXIT_USAGE_ERROR;
    }
    const size_t marker = strlen(REDLOCK_SHARED_MARKER);
    if (token->count == marker && memcmp(token->bytes, REDLOCK_SHARED_MARKER, marker) == 0) {
        complain("the token %s is the marker of a shared lock; give the reader's token, which "
                 "redlock acquire --shared printed, and --shared",
                 from);
        return EXIT_USAGE_ERROR;
    }
    return 0;
}

static int token_from_input(struct token *token) {
    while (token->count < sizeof token->bytes) {
        ssize_t got =
            read(STDIN_FILENO, token->bytes + token->count, sizeof token->bytes - token->count);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            complain("cannot read the token from standard input: %s", strerror(errno));
            return EXIT_SYSTEM;
        }
        if (got == 0) break;
        token->count += (size_t)got;
    }
    if (token->count > 0 && token->count < sizeof token->bytes &&
        token->bytes[token->count - 1] == '\n')
        token->count--;
    return token_is_fit(token, "on standard input");
}

static int token_from_text(struct token *token, const char *text, const char *from) {
    size_t length = strlen(text);
    token->count = length < sizeof token->bytes ? length : sizeof token->bytes;
    memcpy(token->bytes, text, token->count);
    return token_is_fit(token, from);
}

/* Removes a lone `-` from the operands. */
static bool wants_input(int *argc, char **argv) {
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "-") != 0) argv[kept++] = argv[i];
    }
    bool found = kept < *argc;
    *argc = kept;
    return found;
}

static int find_token(const struct settings *settings, bool input, struct token *token) {
    token->count = 0;
    if (input) return token_from_input(token);
    if (settings->lock.token != NULL)
        return token_from_text(token, settings->lock.token, "given by --token");
    const char *environment = getenv("REDLOCK_TOKEN");
    if (environment != NULL) return token_from_text(token, environment, "in REDLOCK_TOKEN");
    complain("no token; put it in REDLOCK_TOKEN, or give '-' and send it on standard input");
    return EXIT_USAGE_ERROR;
}

/* The fence that belongs to the token: in guarded mode an extension needs it, and must never use
 * another lock's. So the fence from the environment counts only together with the token from the
 * environment. 0, or the exit status after a message. */
static int find_fence(struct settings *settings, bool input, int mode) {
    const char *environment = getenv("REDLOCK_FENCE");
    char error[256];
    if (settings->fence != 0 || mode != REDLOCK_MODE_GUARDED) return 0;
    if (environment == NULL || environment[0] == '\0') {
        complain(
            "no fence; put it in REDLOCK_FENCE, or give --fence: redlock acquire prints it after the validity");
        return EXIT_USAGE_ERROR;
    }
    if (input || settings->lock.token != NULL) {
        complain(
            "REDLOCK_FENCE counts only together with REDLOCK_TOKEN, and this token came from %s; "
            "give --fence",
            input ? "standard input" : "--token");
        return EXIT_USAGE_ERROR;
    }
    if (settings_fence(settings, environment, error, sizeof error) == 0) return 0;
    complain("REDLOCK_FENCE: %s", error);
    return EXIT_USAGE_ERROR;
}

typedef int adopted_fn(struct session *session, struct redlock_lock *lock, const char *resource);

static int extend_adopted(struct session *session, struct redlock_lock *lock,
                          const char *resource) {
    int result = redlock_extend(lock, 0);
    int64_t validity_ms = redlock_validity_ms(lock);
    int status = result == REDLOCK_OK ? EXIT_OK : session_failure(session, lock, resource, result);
    if (status == EXIT_OK && session->settings->json) {
        print_json(session, lock, resource, (struct redlock_bytes){0}, validity_ms);
    } else if (status == EXIT_OK) {
        const int64_t fence = redlock_fence(lock);
        printf("%" PRId64, validity_ms);
        if (fence > 0) printf(" %" PRId64, fence);
        putchar('\n');
    }
    /* Freeing it would release what the caller still holds. */
    redlock_lock_disown(lock);
    return status;
}

static int release_adopted(struct session *session, struct redlock_lock *lock,
                           const char *resource) {
    int result = redlock_release(lock);
    if (result != REDLOCK_OK) return session_failure(session, lock, resource, result);
    if (session->settings->json) print_json(session, lock, resource, (struct redlock_bytes){0}, -1);
    return EXIT_OK;
}

/* Fences follow the clocks of the clients, so the clock of a holder may be at fault. */
static void refuse_fence(int64_t fence) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    complain("the fence %" PRId64 " is not the fence of this lock: give the one that redlock "
             "acquire printed; this machine's clock is at %" PRId64
             ", and one that is more than a year ahead is refused: if acquire did print it, the "
             "clock of a client was wrong, and redlock run can hold the lock",
             fence, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

/* A slot's token names how many slots there are behind its 40 hex digits: docs/use/slots.md. */
static bool is_of_slot(const struct token *token) {
    return token->count > 41 && token->bytes[40] == '/' &&
           strspn((const char *)token->bytes, "0123456789abcdef") == 40;
}

static bool is_read(struct session *session, const char *resource) {
    struct redlock_view views[REDLOCK_NODES_MAX];
    if (redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX) !=
        REDLOCK_OK)
        return false;
    const struct majority majority = majority_of(views, redlock_client_nodes(session->client));
    return majority.verdict == MAJORITY_HELD && is_shared(&views[majority.holder]);
}

/* The token may be right, and what it is used for wrong. */
static void explain_loss(struct session *session, const char *resource, const struct token *token) {
    if (is_of_slot(token) && strstr(resource, ":slot:") == NULL)
        complain("this is the token of a slot: name the slot that redlock acquire printed, as in "
                 "'%s:slot:1'",
                 resource);
    else if (!session->settings->shared && is_read(session, resource))
        complain("'%s' is a shared lock now: with a reader's token, give --shared", resource);
}

static int adopt(struct session *session, struct settings *settings, bool input,
                 const struct token *token, const char *resource, adopted_fn *act) {
    struct redlock_lock *lock = NULL;
    int status = session_lock(session, resource, not_renewed, NULL, &lock);
    if (status != 0) return failed(session, NULL, resource, status);
    session_connect(session);
    if ((status = session_check(session, resource)) != 0 ||
        (act == extend_adopted && (status = find_fence(settings, input, session->mode)) != 0)) {
        failed(session, lock, resource, status);
        redlock_lock_free(lock);
        return status;
    }
    const int64_t fence = session->mode == REDLOCK_MODE_GUARDED ? session->settings->fence : 0;
    int result = redlock_lock_adopt_fenced(lock, token->bytes, token->count, fence);
    status = result == REDLOCK_OK ? act(session, lock, resource)
                                  : session_failure(session, lock, resource, result);
    if (result == REDLOCK_BAD_ARGUMENT && fence != 0) refuse_fence(fence);
    if (status == EXIT_LOST) explain_loss(session, resource, token);
    failed(session, lock, resource, status);
    redlock_lock_free(lock);
    return status;
}

static int with_adopted(struct settings *settings, const char *command, int argc, char **argv,
                        adopted_fn *act) {
    bool input = wants_input(&argc, argv);
    int status = one_resource(settings, command, argc, argv);
    if (status != 0) return status;
    struct token token;
    struct session session = {.settings = settings};
    if ((status = find_token(settings, input, &token)) != 0 ||
        (status = session_open(&session, settings)) != 0)
        return failed(&session, NULL, argv[0], status);
    if (act == extend_adopted)
        status = failed(&session, NULL, argv[0], find_fence(settings, input, session.mode));
    if (status == 0) status = adopt(&session, settings, input, &token, argv[0], act);
    session_close(&session);
    return status;
}

int command_extend(struct settings *settings, int argc, char **argv) {
    return with_adopted(settings, "extend", argc, argv, extend_adopted);
}

int command_release(struct settings *settings, int argc, char **argv) {
    return with_adopted(settings, "release", argc, argv, release_adopted);
}
