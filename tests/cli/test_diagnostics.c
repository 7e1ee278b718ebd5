/* SPDX-License-Identifier: BSD-2-Clause
 * What is said on standard error arrives whole and in order if somebody reads it, and holds nobody
 * up if not.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#include "process/diagnostics.h"
#include "process/message.h"

enum { LINES = 20000 };

static int reader = -1, kept = -1;

/* The writer's write(2) (-Wl,--wrap=write), which a busy machine does not run at once. */
static unsigned write_delay_ms;
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes) {
    if (fd == STDERR_FILENO && write_delay_ms > 0) poll(NULL, 0, (int)write_delay_ms);
    return __real_write(fd, data, bytes);
}

static double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* Standard error is a pipe from here on. */
static int open_pipe(void **state) {
    int ends[2];
    (void)state;
    kept = dup(STDERR_FILENO);
    if (kept < 0 || pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) return -1;
    close(ends[1]);
    reader = ends[0];
    return 0;
}

static int close_pipe(void **state) {
    (void)state;
    if (reader >= 0) close(reader);
    reader = -1;
    diagnostics_flush(); /* what is left of this test has nowhere to go */
    dup2(kept, STDERR_FILENO);
    close(kept);
    return 0;
}

static void read_line(char *line, size_t size) {
    size_t used = 0;
    do {
        assert_true(used + 1 < size);
        assert_int_equal(read(reader, line + used, 1), 1);
    } while (line[used++] != '\n');
    line[used - 1] = '\0';
}

/* Returns how many were dropped, when a line is the note of that. */
static int dropped_by(const char *line) {
    int dropped = 0, end = 0;
    if (sscanf(line, "redlock: %d messages were dropped here: standard error was not read%n",
               &dropped, &end) != 1)
        return 0;
    return line[end] == '\0' ? dropped : 0;
}

static void test_written_when_the_call_returns(void **state) {
    enum { TIMES = 1000 };
    char line[100], expected[100];
    int late = 0;
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        struct pollfd poller = {.fd = reader, .events = POLLIN};
        complain("line %d", i);
        late += poll(&poller, 1, 0) != 1;
        read_line(line, sizeof line);
        snprintf(expected, sizeof expected, "redlock: line %d", i);
        assert_string_equal(line, expected);
    }
    /* The machine may be too busy to run the writer for 20 ms. */
    if (late > TIMES / 10)
        fail_msg("%d of %d lines were not written when the call returned", late, TIMES);
}

static void test_nobody_reads(void **state) {
    char line[100];
    (void)state;
    const double begun = now_ms();
    for (int i = 0; i < LINES; i++) complain("line %d", i);
    const double took = now_ms() - begun;
    if (took > 1000) fail_msg("%d lines that nobody reads took %.0f ms", LINES, took);
    int next = 0;
    bool noted = false;
    while (!noted) {
        char expected[100];
        read_line(line, sizeof line);
        snprintf(expected, sizeof expected, "redlock: line %d", next);
        noted = dropped_by(line) > 0;
        if (noted) {
            assert_int_equal(dropped_by(line), LINES - next);
        } else {
            assert_string_equal(line, expected);
            next++;
        }
    }
    assert_true(next > 100);
    complain("again");
    read_line(line, sizeof line);
    assert_string_equal(line, "redlock: again");
}

static void test_the_count_stands_where_lines_are_missing(void **state) {
    char line[100];
    int seen = 0, dropped = 0, next = 0;
    (void)state;
    for (int i = 0; i < LINES; i++) {
        complain("line %d", i);
        if (i % 16 != 0) continue;
        read_line(line, sizeof line);
        if (dropped_by(line) > 0) {
            dropped += dropped_by(line);
            next += dropped_by(line);
            continue;
        }
        assert_int_equal(atoi(line + strlen("redlock: line ")), next++);
        seen++;
    }
    while (seen + dropped < LINES) {
        read_line(line, sizeof line);
        if (dropped_by(line) > 0) {
            dropped += dropped_by(line);
            next += dropped_by(line);
            continue;
        }
        assert_int_equal(atoi(line + strlen("redlock: line ")), next++);
        seen++;
    }
    assert_true(dropped > 0 && seen > 0);
}

static void test_flush_gives_up(void **state) {
    char line[100];
    (void)state;
    for (int i = 0; i < LINES; i++) complain("line %d", i);
    const double begun = now_ms();
    diagnostics_flush();
    const double took = now_ms() - begun;
    if (took < 100 || took > 2000) fail_msg("flushing to nobody took %.0f ms", took);
    do {
        read_line(line, sizeof line);
    } while (dropped_by(line) == 0);
}

static void test_never_waits(void **state) {
    char line[100];
    (void)state;
    for (int i = 0; i < LINES; i++) complain("line %d", i);
    diagnostics_never_wait();
    usleep(100000); /* patience would be there again */
    const double begun = now_ms();
    complain("the last");
    const double took = now_ms() - begun;
    if (took > 15) fail_msg("a caller that never waits has waited for %.0f ms", took);
    do {
        read_line(line, sizeof line);
    } while (dropped_by(line) == 0);
}

/* The child has its own queue, and what waits in the parent's is written once. */
static void test_fork(void **state) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it knows no threads after a fork of a process with threads */
#endif
    char line[100];
    int status;
    (void)state;
    for (int i = 0; i < LINES; i++) complain("line %d", i);
    pid_t child = fork();
    if (child == 0) {
        complain("the child");
        diagnostics_flush();
        _exit(0);
    }
    int parents = 0, children = 0, next = 0;
    for (bool noted = false; !noted || children == 0;) {
        read_line(line, sizeof line);
        if (strcmp(line, "redlock: the child") == 0) {
            children++;
        } else if (dropped_by(line) > 0) {
            noted = true;
            parents += dropped_by(line);
        } else {
            assert_int_equal(atoi(line + strlen("redlock: line ")), next++);
            parents++;
        }
    }
    assert_int_equal(parents, LINES);
    assert_int_equal(children, 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_closed_reader(void **state) {
    (void)state;
    close(reader);
    reader = -1;
    signal(SIGPIPE, SIG_DFL);
    const double begun = now_ms();
    for (int i = 0; i < 1000; i++) complain("line %d", i);
    diagnostics_flush();
    assert_true(now_ms() - begun < 1000);
}

static void test_what_strangers_say(void **state) {
    char line[200];
    (void)state;
    complain("%s", "ERR \033]0;yours\007\033[2J\r\nredlock: fine \xc2\x9b"
                   "1m \x80 c:\\temp \xc3\xa9");
    read_line(line, sizeof line);
    assert_string_equal(line, "redlock: ERR \\x1b]0;yours\\x07\\x1b[2J\\x0d\\x0aredlock: fine "
                              "\\xc2\\x9b1m \\x80 c:\\temp \xc3\xa9");
}

static void test_stream(void **state) {
    char line[100];
    (void)state;
    FILE *stream = diagnostics_stream();
    fprintf(stream, "one %d\ntwo ", 1);
    complain("between");
    fputs("lines\n", stream);
    read_line(line, sizeof line);
    assert_string_equal(line, "one 1");
    read_line(line, sizeof line);
    assert_string_equal(line, "redlock: between");
    read_line(line, sizeof line);
    assert_string_equal(line, "two lines");
}

/* Nothing was written for 300 ms, but the pipe has room: that is no sign that nobody reads. */
static void test_a_late_writer_loses_nothing(void **state) {
    char line[100];
    (void)state;
    write_delay_ms = 700;
    complain("late");
    diagnostics_flush();
    write_delay_ms = 0;
    struct pollfd poller = {.fd = reader, .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 0), 1);
    read_line(line, sizeof line);
    assert_string_equal(line, "redlock: late");
}

/* A line that is only shown holds up nobody, not even for as long as a message may: that is 2 % of
 * the time between two of them. */
static void test_a_passing_line_is_not_waited_for(void **state) {
    enum { TIMES = 4, BETWEEN_MS = 500, MESSAGE_MS = 10 };
    char line[100];
    double best = 1e9;
    (void)state;
    write_delay_ms = 20;
    for (int i = 0; i < TIMES; i++) {
        poll(NULL, 0, BETWEEN_MS);
        const double begun = now_ms();
        diagnostics_write_passing("passing\n", strlen("passing\n"));
        diagnostics_write_passing("left out\n", strlen("left out\n"));
        const double took = now_ms() - begun;
        if (took < best) best = took;
    }
    complain("the last");
    write_delay_ms = 0;
    for (int i = 0; i < TIMES; i++) {
        read_line(line, sizeof line);
        assert_string_equal(line, "passing");
    }
    read_line(line, sizeof line);
    assert_string_equal(line, "redlock: the last");
    if (best > MESSAGE_MS / 2.0) fail_msg("the fastest of %d lines took %.1f ms", TIMES, best);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_pipe, close_pipe)
    const struct CMUnitTest tests[] = {
        TEST(test_written_when_the_call_returns),
        TEST(test_what_strangers_say),
        TEST(test_stream),
        TEST(test_a_passing_line_is_not_waited_for),
        TEST(test_nobody_reads),
        TEST(test_the_count_stands_where_lines_are_missing),
        TEST(test_flush_gives_up),
        TEST(test_a_late_writer_loses_nothing),
        TEST(test_fork),
        TEST(test_closed_reader),
        TEST(test_never_waits), /* from here on, for the whole process */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
