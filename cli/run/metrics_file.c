/* SPDX-License-Identifier: BSD-2-Clause */
#include "metrics_file.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <redlock/metrics.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "process/boottime.h"
#include "process/draft.h"
#include "process/exit_codes.h"
#include "process/message.h"

#define SECOND (1000 * MS)
#define WRITES_APART SECOND /* renewals may come every few milliseconds */
#define LAST_WRITE_MAX SECOND

/* Times are CLOCK_BOOTTIME; 0: not yet. */
struct run_metrics {
    int64_t began, ended;
    int64_t waited;               /* -1: it still waits */
    int64_t acquired, given_back; /* given back, or lost */
    int64_t validity_end;
    uint64_t renewals, renewals_failed;
    bool held, lost;
    int exit; /* -1: it has not ended */
};

/* What the writer needs; the mutex is never held for longer than a copy takes. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed, written;
    const char *path;
    char *labels;
    bool urgent, warned;
    int error; /* of the last write */
    uint64_t changes, changes_written;
    struct run_metrics run;
} file = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the content ---- */

/* The bytes of a label's value, which must be UTF-8; other bytes become '?'. NULL: no memory. */
static char *escaped(const char *text) {
    const unsigned char *in = (const unsigned char *)text;
    size_t left = strlen(text), used = 0;
    char *out = malloc(2 * left + 1);
    if (out == NULL) return NULL;
    while (left > 0) {
        size_t length = utf8_length(in, left);
        if (*in == '"' || *in == '\\' || *in == '\n') out[used++] = '\\';
        if (length > 0) memcpy(out + used, in, length);
        if (length == 0) out[used] = '?';
        if (*in == '\n') out[used] = 'n';
        if (length == 0) length = 1;
        used += length;
        in += length;
        left -= length;
    }
    out[used] = '\0';
    return out;
}

/* Several files of one directory are collected as one page, where a series must be there once: two
 * jobs with one resource, of two quorums for example, differ by the names of their files. NULL: no
 * memory. */
static char *labels_of(const char *resource, const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = escaped(resource), *file_name = escaped(slash != NULL ? slash + 1 : path), *labels;
    if (name == NULL || file_name == NULL ||
        asprintf(&labels, "resource=\"%s\",file=\"%s\"", name, file_name) < 0)
        labels = NULL;
    free(name);
    free(file_name);
    return labels;
}

static void metric(FILE *out, const char *labels, const char *name, const char *type,
                   const char *help, double value) {
    fprintf(out,
            "# HELP redlock_run_%s %s\n# TYPE redlock_run_%s %s\n"
            "redlock_run_%s{%s} %.15g\n",
            name, help, name, type, name, labels, value);
}

static double seconds(int64_t ns) { return (double)ns / (double)SECOND; }

/* Prometheus counts from 1970. */
static double unix_time(int64_t boottime) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - seconds(now_ns() - boottime);
}

static void write_text(FILE *out, const char *labels, const struct run_metrics *run) {
    const int64_t until = run->held ? now_ns() : run->given_back;
    metric(out, labels, "held", "gauge", "1: the lock is held.", run->held);
    metric(out, labels, "lost", "gauge", "1: the lock was lost.", run->lost);
    if (run->began > 0)
        metric(out, labels, "start_time_seconds", "gauge", "When the run began, since 1970.",
               unix_time(run->began));
    if (run->waited >= 0)
        metric(out, labels, "wait_seconds", "gauge", "How long it waited for the lock.",
               seconds(run->waited));
    if (run->acquired > 0) {
        metric(out, labels, "hold_seconds", "gauge",
               "How long the lock was held, up to the last write of this file.",
               seconds(until - run->acquired));
        metric(out, labels, "validity_end_time_seconds", "gauge",
               "Until when the lock was proven to be held, since 1970.",
               unix_time(run->validity_end));
        metric(out, labels, "renewals_total", "counter", "Renewals that succeeded.",
               (double)run->renewals);
        metric(out, labels, "renewals_failed_total", "counter",
               "Renewals that failed; of several in a row only the first.",
               (double)run->renewals_failed);
    }
    if (run->exit < 0) return;
    metric(out, labels, "exit_code", "gauge", "The exit status of redlock run.", run->exit);
    metric(out, labels, "end_time_seconds", "gauge", "When the run ended, since 1970.",
           unix_time(run->ended));
}

/* ---- writing ---- */

/* 0, or errno. The old content stays if the new one cannot be written. */
static int replace(const char *path, const char *labels, const struct run_metrics *run) {
    int fd;
    char *draft = draft_beside(path, &fd);
    if (draft == NULL) return errno;
    FILE *out = fdopen(fd, "w");
    bool failed = out == NULL;
    int error = errno;
    if (out == NULL) {
        close(fd);
    } else {
        write_text(out, labels, run);
        failed = ferror(out) != 0;
        errno = EIO;
        if (fclose(out) != 0) failed = true;
        error = errno;
    }
    if (!failed && rename(draft, path) != 0) {
        failed = true;
        error = errno;
    }
    if (failed) unlink(draft);
    free(draft);
    return failed ? error : 0;
}

/* The mutex is held. */
static void wait_until_due(int64_t last) {
    while (file.changes == file.changes_written) pthread_cond_wait(&file.changed, &file.mutex);
    while (!file.urgent) {
        const int64_t left = last + WRITES_APART - now_ns();
        struct timespec at;
        if (left <= 0) return;
        clock_gettime(CLOCK_MONOTONIC, &at);
        const int64_t end = at.tv_sec * SECOND + at.tv_nsec + left;
        at = (struct timespec){.tv_sec = (time_t)(end / SECOND), .tv_nsec = (long)(end % SECOND)};
        pthread_cond_timedwait(&file.changed, &file.mutex, &at);
    }
}

static void *write_forever(void *unused) {
    (void)unused;
    pthread_mutex_lock(&file.mutex);
    for (int64_t last = now_ns() - WRITES_APART;; last = now_ns()) {
        wait_until_due(last);
        const struct run_metrics run = file.run;
        const uint64_t changes = file.changes;
        file.urgent = false;
        pthread_mutex_unlock(&file.mutex);
        int error = replace(file.path, file.labels, &run);
        pthread_mutex_lock(&file.mutex);
        file.error = error;
        file.changes_written = changes;
        pthread_cond_broadcast(&file.written);
    }
    return NULL;
}

/* The mutex is held. */
static void changed(bool urgent) {
    file.changes++;
    file.urgent = file.urgent || urgent;
    pthread_cond_signal(&file.changed);
}

/* ---- the run ---- */

int metrics_file_check(const struct settings *settings) {
    struct stat status;
    const char *path = settings->run.metrics_file;
    if (path == NULL) return 0;
    if (path[0] != '\0' && (lstat(path, &status) != 0 || S_ISREG(status.st_mode))) return 0;
    complain("--metrics-file '%s' must be a plain file, or absent: it is replaced as a whole",
             path);
    return EXIT_USAGE_ERROR;
}

/* pthread_cond_clockwait() is not in every C library. */
static void begin_conditions(void) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&file.changed, &monotonic);
    pthread_cond_init(&file.written, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void metrics_file_begin(const struct settings *settings, const char *resource) {
    pthread_t thread;
    sigset_t all, before;
    if (settings->run.metrics_file == NULL) return;
    file.labels = labels_of(resource, settings->run.metrics_file);
    file.run = (struct run_metrics){.began = now_ns(), .waited = -1, .exit = -1};
    file.path = settings->run.metrics_file;
    if (file.labels == NULL) {
        file.path = NULL;
        return;
    }
    begin_conditions();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    file.error = pthread_create(&thread, NULL, write_forever, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (file.error != 0) {
        metrics_file_warn();
        file.path = NULL;
        return;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&file.mutex);
    changed(true);
    pthread_mutex_unlock(&file.mutex);
}

static void give_back(struct run_metrics *run, int64_t at) {
    if (run->held) run->given_back = at;
    run->held = false;
}

static void on_event(void *unused, const struct redlock_event *event) {
    struct run_metrics *run = &file.run;
    (void)unused;
    pthread_mutex_lock(&file.mutex);
    switch (event->kind) {
    case REDLOCK_EVENT_ACQUIRED:
        run->held = true;
        run->acquired = event->acquired_ns;
        run->validity_end = event->validity_end_ns;
        /* fall through */
    case REDLOCK_EVENT_FAILED: run->waited = event->ended_ns - event->began_ns; break;
    case REDLOCK_EVENT_EXTENDED:
        if (event->validity_end_ns > 0) run->validity_end = event->validity_end_ns;
        if (event->result == REDLOCK_OK)
            run->renewals++;
        else
            run->renewals_failed++;
        break;
    case REDLOCK_EVENT_LOST:
        run->lost = true;
        give_back(run, event->ended_ns);
        break;
    case REDLOCK_EVENT_RELEASED:
        if (event->result == REDLOCK_LOST) run->lost = true;
        give_back(run, event->began_ns);
        break;
    default: break;
    }
    changed(event->kind != REDLOCK_EVENT_EXTENDED);
    pthread_mutex_unlock(&file.mutex);
}

void metrics_file_follow(struct redlock_client *client) {
    if (file.path != NULL) redlock_client_observe(client, on_event, NULL);
}

void metrics_file_warn(void) {
    if (file.path == NULL || file.warned) return;
    pthread_mutex_lock(&file.mutex);
    const int error = file.error;
    pthread_mutex_unlock(&file.mutex);
    if (error == 0) return;
    file.warned = true;
    complain("cannot write the metrics file %s: %s", file.path, strerror(error));
}

void metrics_file_end(const struct outcome *outcome) {
    if (file.path == NULL) return;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t end = at.tv_sec * SECOND + at.tv_nsec + LAST_WRITE_MAX;
    at = (struct timespec){.tv_sec = (time_t)(end / SECOND), .tv_nsec = (long)(end % SECOND)};
    int result = 0;
    pthread_mutex_lock(&file.mutex);
    file.run.ended = now_ns();
    file.run.exit = outcome->exit;
    give_back(&file.run, file.run.ended);
    changed(true);
    while (file.changes_written < file.changes && result == 0)
        result = pthread_cond_timedwait(&file.written, &file.mutex, &at);
    if (result != 0 && file.error == 0) file.error = result;
    pthread_mutex_unlock(&file.mutex);
    metrics_file_warn();
}

void metrics_file_outcome(const struct settings *settings, const char *resource,
                          const struct outcome *outcome) {
    if (settings->run.metrics_file == NULL) return;
    const struct run_metrics run = {.ended = now_ns(),
                                    .waited = -1,
                                    .lost = outcome->kind == OUTCOME_LOST,
                                    .exit = outcome->exit};
    char *labels = labels_of(resource, settings->run.metrics_file);
    int error = labels != NULL ? replace(settings->run.metrics_file, labels, &run) : ENOMEM;
    if (error != 0)
        complain("cannot write the metrics file %s: %s", settings->run.metrics_file,
                 strerror(error));
    free(labels);
}
