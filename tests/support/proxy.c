/* SPDX-License-Identifier: BSD-2-Clause */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX 128
#define CHUNK_BYTES 4096

struct chunk {
    struct chunk *next;
    double due_ms;
    size_t bytes;
    char data[CHUNK_BYTES];
};

/* One client's connection and ours to the server. */
struct link {
    int client, server;
    bool forgotten;
    struct chunk *first, **last; /* answers that wait for their time */
};

struct proxy {
    pthread_mutex_t mutex; /* over the settings; the links are the thread's own */
    pthread_t thread;
    int listener, kick, port, server_port;
    long delay_ms;
    int swallow, damage;
    bool cut, forget, stopping;
    struct link links[LINKS_MAX];
    int links_count;
};

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void die(const char *what) {
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    abort();
}

static void link_end(struct proxy *proxy, int i) {
    struct link *link = &proxy->links[i];
    while (link->first) {
        struct chunk *chunk = link->first;
        link->first = chunk->next;
        free(chunk);
    }
    close(link->client);
    close(link->server);
    *link = proxy->links[--proxy->links_count];
    if (!link->first) link->last = &link->first; /* it pointed into the place it was moved from */
}

static void link_begin(struct proxy *proxy) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)proxy->server_port)};
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || proxy->links_count == LINKS_MAX ||
        connect(server, (struct sockaddr *)&to, sizeof to) != 0) {
        if (client >= 0) close(client);
        close(server);
        return;
    }
    struct link *link = &proxy->links[proxy->links_count++];
    *link = (struct link){.client = client, .server = server};
    link->last = &link->first;
}

static bool write_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t put = send(fd, data, bytes, MSG_NOSIGNAL);
        if (put <= 0) return false;
        data += put;
        bytes -= (size_t)put;
    }
    return true;
}

static bool pass_request(const struct link *link) {
    char data[CHUNK_BYTES];
    ssize_t got = recv(link->client, data, sizeof data, 0);
    return got > 0 && (link->forgotten || write_all(link->server, data, (size_t)got));
}

static bool take_answer(struct proxy *proxy, struct link *link) {
    struct chunk *chunk = malloc(sizeof *chunk);
    if (!chunk) die("malloc");
    ssize_t got = recv(link->server, chunk->data, sizeof chunk->data, 0);
    pthread_mutex_lock(&proxy->mutex);
    bool keep = got > 0 && !proxy->swallow && !link->forgotten;
    chunk->due_ms = now() + (double)proxy->delay_ms;
    if (got > 0 && proxy->damage) chunk->data[got - 1] ^= 1;
    pthread_mutex_unlock(&proxy->mutex);
    if (!keep) {
        free(chunk);
        return got > 0;
    }
    chunk->bytes = (size_t)got;
    chunk->next = NULL;
    *link->last = chunk;
    link->last = &chunk->next;
    return true;
}

static bool pass_answers(struct link *link) {
    while (!link->forgotten && link->first && link->first->due_ms <= now()) {
        struct chunk *chunk = link->first;
        bool passed = write_all(link->client, chunk->data, chunk->bytes);
        link->first = chunk->next;
        if (!link->first) link->last = &link->first;
        free(chunk);
        if (!passed) return false;
    }
    return true;
}

static int next_due_in(const struct proxy *proxy) {
    double left = 1000, at = now();
    for (int i = 0; i < proxy->links_count; i++) {
        const struct chunk *first = proxy->links[i].first;
        if (first && !proxy->links[i].forgotten && first->due_ms - at < left)
            left = first->due_ms - at;
    }
    return left > 0 ? (int)left + 1 : 0;
}

/* False: it is to stop. */
static bool obey(struct proxy *proxy) {
    uint64_t kicks;
    ssize_t got = read(proxy->kick, &kicks, sizeof kicks);
    (void)got;
    pthread_mutex_lock(&proxy->mutex);
    bool cut = proxy->cut || proxy->stopping, go_on = !proxy->stopping;
    for (int i = 0; proxy->forget && i < proxy->links_count; i++) proxy->links[i].forgotten = true;
    proxy->cut = proxy->forget = false;
    pthread_mutex_unlock(&proxy->mutex);
    while (cut && proxy->links_count > 0) link_end(proxy, 0);
    return go_on;
}

static void serve_links(struct proxy *proxy, const struct pollfd *fds) {
    for (int i = proxy->links_count - 1; i >= 0;
         i--) { /* backwards: an ended link's place is taken by the last */
        struct link *link = &proxy->links[i];
        bool alive = true;
        if (fds[2 * i].revents) alive = pass_request(link);
        if (alive && fds[2 * i + 1].revents) alive = take_answer(proxy, link);
        if (alive) alive = pass_answers(link);
        if (!alive) link_end(proxy, i);
    }
}

static void *run(void *argument) {
    struct proxy *proxy = argument;
    struct pollfd fds[2 + 2 * LINKS_MAX];
    for (;;) {
        fds[0] = (struct pollfd){.fd = proxy->kick, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (int i = 0; i < proxy->links_count; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = proxy->links[i].client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = proxy->links[i].server, .events = POLLIN};
        }
        if (poll(fds, (nfds_t)(2 + 2 * proxy->links_count), next_due_in(proxy)) < 0 &&
            errno != EINTR)
            die("poll");
        serve_links(proxy, fds + 2);
        if (fds[1].revents) link_begin(proxy);
        if (fds[0].revents && !obey(proxy)) return NULL;
    }
}

struct proxy *proxy_start(int port) {
    struct proxy *proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (!proxy) die("calloc");
    proxy->server_port = port;
    proxy->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(proxy->listener, 64) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &length) != 0)
        die("listen");
    proxy->port = ntohs(address.sin_port);
    pthread_mutex_init(&proxy->mutex, NULL);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0) die("thread");
    return proxy;
}

static void kick(struct proxy *proxy) {
    uint64_t one = 1;
    if (write(proxy->kick, &one, sizeof one) != sizeof one) die("kick");
}

void proxy_stop(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->stopping = true;
    pthread_mutex_unlock(&proxy->mutex);
    kick(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    close(proxy->kick);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

int proxy_port(const struct proxy *proxy) { return proxy->port; }

void proxy_delay(struct proxy *proxy, long ms) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->delay_ms = ms;
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_swallow(struct proxy *proxy, int on) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->swallow = on;
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_damage(struct proxy *proxy, int on) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->damage = on;
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_cut(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    pthread_mutex_unlock(&proxy->mutex);
    kick(proxy);
}

void proxy_forget(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->forget = true;
    pthread_mutex_unlock(&proxy->mutex);
    kick(proxy);
}
