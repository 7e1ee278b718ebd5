/* SPDX-License-Identifier: BSD-2-Clause */
#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool is_port(const char *text) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return false;
    return strtoul(text, &end, 10) <= 65535 && *end == '\0';
}

bool address_read(const char *text, struct address *address) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !is_port(colon + 1) || strlen(colon + 1) >= sizeof address->port)
        return false;
    size_t bytes = (size_t)(colon - text);
    if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
        text++;
        bytes -= 2;
    } else if (memchr(text, ':', bytes) != NULL) {
        return false; /* an IPv6 address needs its brackets */
    }
    if (bytes == 0 || bytes >= sizeof address->host) return false;
    memcpy(address->host, text, bytes);
    address->host[bytes] = '\0';
    strcpy(address->port, colon + 1);
    return true;
}

const char *address_find(const struct address *address, struct addrinfo **found) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int result = getaddrinfo(address->host, address->port, &wanted, found);
    return result == 0 ? NULL : gai_strerror(result);
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
