/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One request after the other whose script costs as much as a script can: without many
 * instructions, without an end, too deep, too large, and beyond the end of the interpreter's stack.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { DIGITS = 4000, REQUEST_BYTES_MAX = DIGITS + 512, CHUNK_BYTES = 64 * 1024 };

static const char *const scripts[] = {
    "local t = {} for i = 1, 1000 do t[i] = '' end while true do table.concat(t) end",
    "local f = string.format while true do f('%99.99f', 1e300) end",
    "while true do local a = ARGV[1] + ARGV[1] end",
    "local a = unpack(KEYS, 0, 2147483647) return 1",
    "local a = unpack(KEYS, -2147483648) return 1",
    "while true do end",
    "local function f(n) return 1 + f(n + 1) end return f(1)",
    "local s = 'x' while true do s = s .. s end",
    "local s = ('x'):rep(10) return s",
    "return 1 +"};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* All of them in a row. Returns how many bytes that is. */
static size_t write_requests(char *out) {
    static char digits[DIGITS + 1];
    size_t bytes = 0;
    memset(digits, '7', DIGITS);
    for (unsigned i = 0; i < SCRIPTS; i++)
        bytes += (size_t)sprintf(
            out + bytes,
            "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$7\r\nhostile\r\n$%d\r\n%s\r\n",
            strlen(scripts[i]), scripts[i], DIGITS, digits);
    return bytes;
}

bool hostile_do(struct crowd *crowd, struct nuisance *nuisance) {
    static char requests[SCRIPTS * REQUEST_BYTES_MAX], answers[CHUNK_BYTES];
    static size_t bytes;
    if (bytes == 0) bytes = write_requests(requests);
    while (true) {
        const size_t at = (size_t)(nuisance->done % bytes);
        const ssize_t sent =
            send(nuisance->fd, requests + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent <= 0) break;
        nuisance->done += (uint64_t)sent;
    }
    const ssize_t got = recv(nuisance->fd, answers, sizeof answers, MSG_DONTWAIT);
    if (got > 0) crowd->scripts += (uint64_t)got;
    return got > 0 || (got < 0 && errno == EAGAIN);
}
