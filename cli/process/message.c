/* SPDX-License-Identifier: BSD-2-Clause */
#include "message.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "diagnostics.h"

static const char clear[] = "\r\033[K";
static volatile sig_atomic_t line_is_passing;
static char last[512];

/* Control characters and stray bytes become \xNN; the rest passes, but a backslash only if it
 * `may`. */
static size_t escape(char *out, size_t size, const void *bytes, size_t count, bool backslash_may);

void end_passing(void) {
    if (!line_is_passing) return;
    line_is_passing = 0;
    diagnostics_write(clear, sizeof clear - 1);
}

void end_passing_from_handler(void) {
    if (!line_is_passing) return;
    line_is_passing = 0;
    diagnostics_write_from_handler(clear, sizeof clear - 1);
}

void forget_passing(void) { line_is_passing = 0; }

/* A line that wraps could not be cleared. */
size_t passing_columns(void) {
    struct winsize window = {.ws_col = 0};
    const char *kind = getenv("TERM");
    if (!isatty(STDERR_FILENO) || (kind != NULL && strcmp(kind, "dumb") == 0)) return 0;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
    return window.ws_col > 1 ? window.ws_col - 1U : 79;
}

void report_passing(const char *format, ...) {
    char text[512], line[512];
    const size_t columns = passing_columns(), head = sizeof clear - 1;
    if (columns == 0) return;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    const size_t room = columns < sizeof line - head ? columns + 1 : sizeof line - head;
    memcpy(line, clear, head);
    size_t length = escape(line + head, room, text, strlen(text), true);
    line_is_passing = 1;
    diagnostics_write_passing(line, head + length);
}

/* What messages say themselves: the form of a URL, without its scheme. */
static bool is_form(const char *url) {
    static const char *const forms[] = {"user:password@host", "USER:PASSWORD@HOST", "HOST:PORT"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const size_t length = strlen(forms[i]);
        if (strncmp(url, forms[i], length) == 0 &&
            strchr("/,;.) \t\n'\"", url[length]) != NULL) /* or its end */
            return true;
    }
    return false;
}

/* A message may repeat a word of the user's, and that word may be a URL. A word that was cut off
 * has no @: then the text after the colon may be the password, unless it is a port. */
static void leave_out_password(char *url) {
    if (is_form(url)) return;
    char *const end = url + strcspn(url, " \t\n'\","), *at = NULL;
    for (char *here = url; here < end; here++)
        if (*here == '@') at = here;
    char *const colon = url + strcspn(url, " \t\n'\",:@[/");
    if (*colon != ':') return;
    if (at != NULL) {
        char *const rest = colon == url ? at + 1 : at; /* a password without a user */
        memmove(colon, rest, strlen(rest) + 1);
        return;
    }
    const size_t digits = strspn(colon + 1, "0123456789");
    if (digits > 0 ? strchr("/?:;.) \t\n'\",", colon[1 + digits]) == NULL : colon[1] != ' ')
        memmove(colon + 1, end, strlen(end) + 1);
}

static void leave_out_passwords(char *text) {
    for (char *url = text; (url = strstr(url, "://")) != NULL;) leave_out_password(url += 3);
}

void complain(const char *format, ...) {
    char text[2048] = "redlock: ", line[DIAGNOSTIC_BYTES_MAX];
    size_t head = strlen(text), length = 0;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(text + head, sizeof text - head, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    leave_out_passwords(text + head);
    snprintf(last, sizeof last, "%.*s", (int)sizeof last - 1, text + head);
    if (line_is_passing) {
        line_is_passing = 0;
        memcpy(line, clear, length = sizeof clear - 1);
    }
    length += escape(line + length, sizeof line - length - 1, text, strlen(text), true);
    line[length++] = '\n';
    diagnostics_write(line, length);
}

const char *last_complaint(void) { return last; }

void print_export(const char *name, const char *value) {
    printf("export %s='", name);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*at);
        }
    }
    fputs("'\n", stdout);
}

size_t utf8_length(const unsigned char *bytes, size_t count) {
    if (count == 0) return 0;
    const unsigned char first = bytes[0];
    size_t length = first < 0x80                    ? 1
                    : first >= 0xc2 && first < 0xe0 ? 2
                    : first >= 0xe0 && first < 0xf0 ? 3
                    : first >= 0xf0 && first < 0xf5 ? 4
                                                    : 0;
    if (length > count) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    }
    if (first == 0xe0 && bytes[1] < 0xa0) return 0; /* overlong */
    if (first == 0xed && bytes[1] > 0x9f) return 0; /* surrogate */
    if (first == 0xf0 && bytes[1] < 0x90) return 0; /* overlong */
    if (first == 0xf4 && bytes[1] > 0x8f) return 0; /* beyond Unicode */
    return length;
}

static bool is_control(const unsigned char *bytes, size_t length) {
    if (length == 1) return bytes[0] < 0x20 || bytes[0] == 0x7f;
    return length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0; /* C1: some terminals obey them */
}

static size_t escape(char *out, size_t size, const void *bytes, size_t count, bool backslash_may) {
    const unsigned char *in = bytes;
    size_t used = 0;
    for (size_t i = 0; i < count;) {
        size_t length = utf8_length(in + i, count - i);
        if (length == 0 || is_control(in + i, length) || (in[i] == '\\' && !backslash_may)) {
            if (used + 5 > size) break;
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", in[i]);
            i++;
            continue;
        }
        if (used + length + 1 > size) break;
        memcpy(out + used, in + i, length);
        used += length;
        i += length;
    }
    out[used] = '\0';
    return used;
}

char *printable(char *out, size_t size, const void *bytes, size_t count) {
    escape(out, size, bytes, count, false);
    return out;
}
