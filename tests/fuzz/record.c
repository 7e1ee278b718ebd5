/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Records what real servers say to the client of play.c, as inputs for fuzz_client:
 * scripts/fuzz-record runs it. usage: fuzz_record_client SOCKETS DIRECTORY, where SOCKETS has the
 * Unix sockets 1, 2 and 3 of empty servers, 4, 5 and 6 of others that know no scripts, and perhaps
 * 7, 8 and 9, of which the first two have the module
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "must.h"
#include "play.h"

int __real_socket(int family, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);

enum { SETS_OF = 3 };

static const char *sockets;
static unsigned first_socket;
static FILE *file;

/* What the program does, one after the other. Locks that one leaves behind, the next finds. */
static const struct {
    const char *name;
    uint8_t flags, codes[8];
} programs[] = {
    {"classic", PLAY_CLASSIC, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"classic-two-keys", PLAY_CLASSIC | PLAY_TWO_KEYS, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"classic-one-node",
     PLAY_CLASSIC | PLAY_ONE_NODE,
     {PLAY_ADOPT, PLAY_EXTEND, PLAY_RELEASE, PLAY_SERVER_INFO}},
    {"classic-renewal",
     PLAY_CLASSIC,
     {PLAY_ACQUIRE, PLAY_TIME_1S, PLAY_TIME_1S, PLAY_TIME_1S, PLAY_TIME_1S}},
    {"classic-left",
     PLAY_CLASSIC | PLAY_NO_RENEWAL,
     {PLAY_ACQUIRE, PLAY_DISOWN, PLAY_PEEK, PLAY_LIST}},
    {"classic-held", PLAY_CLASSIC, {PLAY_ACQUIRE, PLAY_WAIT, PLAY_TIME_30MS, PLAY_CANCEL}},
    {"auto-held", PLAY_AUTO, {PLAY_ACQUIRE, PLAY_SERVER_INFO}},
    {"setnx", PLAY_SETNX, {PLAY_PEEK, PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"guarded-no-record", PLAY_GUARDED, {PLAY_ACQUIRE, PLAY_QUORUM}},
    {"guarded-init", PLAY_GUARDED, {PLAY_INIT}},
    {"guarded", PLAY_GUARDED, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"guarded-confirms",
     PLAY_GUARDED | PLAY_CONFIRMS | PLAY_TWO_KEYS,
     {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_DISOWN}},
    {"guarded-held", PLAY_GUARDED, {PLAY_WAIT, PLAY_TIME_30MS, PLAY_CANCEL}},
    {"guarded-members", PLAY_GUARDED, {PLAY_TIME_1S, PLAY_TIME_1S, PLAY_MEMBERS}},
    {"plain", PLAY_CLASSIC | PLAY_NO_SCRIPTS, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"plain-two-keys",
     PLAY_CLASSIC | PLAY_NO_SCRIPTS | PLAY_TWO_KEYS,
     {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"plain-setnx", PLAY_SETNX | PLAY_NO_SCRIPTS, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"plain-held",
     PLAY_CLASSIC | PLAY_NO_SCRIPTS,
     {PLAY_ACQUIRE, PLAY_DISOWN, PLAY_WAIT, PLAY_TIME_30MS, PLAY_CANCEL}},
    {"auto-guarded", PLAY_AUTO, {PLAY_ACQUIRE}},
    {"native", PLAY_CLASSIC | PLAY_MIXED, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"native-two-keys",
     PLAY_CLASSIC | PLAY_MIXED | PLAY_TWO_KEYS,
     {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE, PLAY_SERVER_INFO}},
    {"native-left",
     PLAY_CLASSIC | PLAY_MIXED | PLAY_NO_RENEWAL,
     {PLAY_ACQUIRE, PLAY_DISOWN, PLAY_PEEK, PLAY_LIST}},
    {"native-held",
     PLAY_CLASSIC | PLAY_MIXED,
     {PLAY_ACQUIRE, PLAY_WAIT, PLAY_TIME_30MS, PLAY_CANCEL}},
    {"native-init", PLAY_GUARDED | PLAY_MIXED, {PLAY_INIT}},
    {"native-guarded", PLAY_GUARDED | PLAY_MIXED, {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_RELEASE}},
    {"native-confirms",
     PLAY_GUARDED | PLAY_MIXED | PLAY_CONFIRMS | PLAY_TWO_KEYS,
     {PLAY_ACQUIRE, PLAY_EXTEND, PLAY_DISOWN}},
    {"native-guarded-held", PLAY_GUARDED | PLAY_MIXED, {PLAY_WAIT, PLAY_TIME_30MS, PLAY_CANCEL}},
    {"native-auto", PLAY_AUTO | PLAY_MIXED, {PLAY_ACQUIRE}},
};

static bool is_mixed(uint8_t flags) { return (flags & PLAY_MIXED) == PLAY_MIXED; }

static int connect_real(unsigned node) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%u", sockets, first_socket + node);
    must(fd >= 0 && __real_connect(fd, (const struct sockaddr *)&address, sizeof address) == 0,
         "no server");
    return fd;
}

/* ---- what is kept of what they say ---- */

enum { ELEMENTS_MAX = 64, ELEMENTS_KEPT = 2, INFO_MAX = 1024 };

/* The lines of INFO that the library looks at: the others say much of the machine, and nothing to a
 * fuzzer. */
static const char *const fields[] = {
    "# ",
    "redis_version:",
    "redis_mode:",
    "run_id:",
    "role:",
    "connected_slaves:",
    "master_replid:",
    "used_memory:",
    "maxmemory:",
    "maxmemory_policy:",
    "loading:",
    "evicted_keys:",
    "uptime_in_seconds:",
    "aof_last_write_status:",
    "connected_clients:",
    "maxclients:",
};

static void put(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') fputc(PLAY_BYTE, file);
        fputc(byte, file);
    }
}

static size_t shorten_info(const char *info, size_t count, char *kept) {
    size_t used = 0;
    for (const char *at = info, *end = info + count, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        bool keep = false;
        next = newline != NULL ? newline + 1 : end;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            keep = keep || strncmp(at, fields[i], strlen(fields[i])) == 0;
        if (!keep || used + (size_t)(next - at) > INFO_MAX) continue;
        memcpy(kept + used, at, (size_t)(next - at));
        used += (size_t)(next - at);
    }
    return used;
}

static void put_head(char type, size_t number) {
    char head[32];
    put(head, (size_t)snprintf(head, sizeof head, "%c%zu\r\n", type, number));
}

static void put_string(char type, const char *text, size_t count) {
    char kept[INFO_MAX + 4] = "txt:";
    const size_t format = type == '=' ? 4 : 0;
    if (count >= format + 2 && memcmp(text + format, "# ", 2) == 0) {
        count = format + shorten_info(text + format, count - format, kept + format);
        text = kept;
    }
    put_head(type, count);
    put(text, count);
    put("\r\n", 2);
}

/* One reply or a part of one; of a long array a few elements are kept. Returns where it ends. */
static const char *put_reply(const char *at, const char *end, bool keep) {
    const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
    must(line != NULL, "a reply in pieces");
    const char type = *at;
    const long number = strtol(at + 1, NULL, 10);
    line += 2;
    if (strchr("$=!", type) != NULL && number >= 0) {
        must(end - line >= number + 2, "a string in pieces");
        if (keep) put_string(type, line, (size_t)number);
        return line + number + 2;
    }
    if (strchr("*%~>", type) == NULL || number < 0) {
        if (keep) put(at, (size_t)(line - at));
        return line;
    }
    const long each = type == '%' ? 2 : 1, kept = number > ELEMENTS_MAX ? ELEMENTS_KEPT : number;
    if (keep) put_head(type, (size_t)kept);
    for (long i = 0; i < number * each; i++) line = put_reply(line, end, keep && i < kept * each);
    return line;
}

static void said(unsigned node, unsigned conn, const char *bytes, size_t count) {
    fputc((int)(PLAY_NODE_1 + node), file);
    for (unsigned i = 0; i < conn; i++) fputc(PLAY_NEXT, file);
    for (const char *at = bytes, *end = bytes + count; at < end;) at = put_reply(at, end, true);
    fputc(PLAY_SEND, file);
}

static void acts(uint8_t code) { fputc(code, file); }

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: fuzz_record_client SOCKETS DIRECTORY\n", stderr);
        return 64;
    }
    sockets = argv[1];
    play_real = (struct play_real){.connect = connect_real, .said = said, .acts = acts};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        char path[4096];
        uint8_t input[1 + sizeof programs[i].codes];
        size_t bytes = 0;
        input[bytes++] = programs[i].flags;
        for (size_t k = 0; k < sizeof programs[i].codes && programs[i].codes[k] != 0; k++)
            input[bytes++] = programs[i].codes[k];
        snprintf(path, sizeof path, "%s/%s", argv[2], programs[i].name);
        first_socket = programs[i].flags & PLAY_NO_SCRIPTS ? 1 + SETS_OF : 1;
        if (is_mixed(programs[i].flags)) first_socket = 1 + 2 * SETS_OF;
        char module[200];
        snprintf(module, sizeof module, "%s/%u", sockets, first_socket);
        if (is_mixed(programs[i].flags) && access(module, F_OK) != 0) continue;
        file = fopen(path, "wb");
        must(file != NULL, "no file");
        fputc(input[0], file);
        play(input, bytes);
        must(fclose(file) == 0, "not written");
    }
    return 0;
}
