/* SPDX-License-Identifier: BSD-2-Clause */
#include "message.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t line_is_passing;

/* Nothing better can be done when standard error itself is gone. */
static void write_error(const char *text, size_t length) {
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
}

void end_passing(void) {
    static const char clear[] = "\r\033[K";
    if (!line_is_passing) return;
    line_is_passing = 0;
    write_error(clear, sizeof clear - 1);
}

void tell_passing(const char *format, ...) {
    char line[512] = "\r\033[K";
    const size_t head = strlen(line);
    struct winsize window = {.ws_col = 0};
    if (!isatty(STDERR_FILENO)) return;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
    /* A line that wraps could not be taken back. */
    const size_t columns = window.ws_col > 1 ? window.ws_col - 1U : 79;
    va_list arguments;
    va_start(arguments, format);
    int wanted =
        vsnprintf(line + head, columns < sizeof line - head ? columns + 1 : sizeof line - head, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    line_is_passing = 1;
    write_error(line, strlen(line));
}

void complain(const char *format, ...) {
    char line[2048] = "redlock: ";
    const size_t head = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(line + head, sizeof line - head - 1, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    size_t length = strlen(line);
    line[length++] = '\n';
    end_passing();
    write_error(line, length);
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

static int is_control(const unsigned char *bytes, size_t length) {
    if (length == 1) return bytes[0] < 0x20 || bytes[0] == 0x7f || bytes[0] == '\\';
    return length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0; /* C1: some terminals obey them */
}

char *printable(char *out, size_t size, const void *bytes, size_t count) {
    const unsigned char *in = bytes;
    size_t used = 0;
    for (size_t i = 0; i < count;) {
        size_t length = utf8_length(in + i, count - i);
        if (length == 0 || is_control(in + i, length)) {
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
    return out;
}
