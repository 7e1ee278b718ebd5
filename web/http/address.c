/* SPDX-License-Identifier: BSD-2-Clause */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_port(const char *text) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return false;
    return strtoul(text, &end, 10) <= 65535 && *end == '\0';
}

const char *address_find(const char *text, const char *malformed, struct addrinfo **found) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const char *colon = strrchr(text, ':');
    char host[256];
    if (colon == NULL || !is_port(colon + 1)) return malformed;
    size_t bytes = (size_t)(colon - text);
    if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
        text++;
        bytes -= 2;
    } else if (memchr(text, ':', bytes) != NULL) {
        return malformed; /* an IPv6 address needs its brackets */
    }
    if (bytes == 0 || bytes >= sizeof host) return malformed;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    const int result = getaddrinfo(host, colon + 1, &wanted, found);
    return result == 0 ? NULL : gai_strerror(result);
}

char *address_text(const struct sockaddr *address, char *out, size_t size) {
    char host[INET6_ADDRSTRLEN] = "";
    snprintf(out, size, "unix");
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
    return out;
}

char *address_of(int fd, char *out, size_t size) {
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &bytes);
    return address_text((const struct sockaddr *)&address, out, size);
}

bool address_is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family != AF_INET6) return false;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr) !=
           0;
}

bool address_is_all_v6(const struct sockaddr *address) {
    const struct sockaddr_in6 *in6 = (const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) != 0;
}

int address_listen(const struct addrinfo *address, int backlog, bool is_v6_only) {
    const int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (is_v6_only) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, backlog) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool address_is_taken(int error) { return error == EADDRINUSE || error == EADDRNOTAVAIL; }
