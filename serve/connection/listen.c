/* SPDX-License-Identifier: BSD-2-Clause */
#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>
#include <systemd/sd-daemon.h>

#include "connection.h"
#include "loop/gateway.h"
#include "http/address.h"

enum { BACKLOG = 511 };

struct listener {
    struct gateway *gateway;
    struct listener *next;
    struct evconnlistener *events;
    struct event *again; /* after a pause when descriptors have run out */
    char *path;          /* of a socket that the gateway created; NULL: none */
    dev_t device;        /* and its inode at that time: another program may have replaced it */
    ino_t inode;
};

/* ---- connections ---- */

static void on_connection(struct evconnlistener *events, evutil_socket_t fd,
                          struct sockaddr *address, int bytes, void *context) {
    (void)events;
    (void)bytes;
    connection_open(((struct listener *)context)->gateway, fd, address);
}

static void on_again(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    evconnlistener_enable(((struct listener *)context)->events);
}

/* Without a free descriptor accept(2) fails, and would be called again at once, endlessly. */
static void on_accept_error(struct evconnlistener *events, void *context) {
    struct listener *listener = context;
    struct gateway *gateway = listener->gateway;
    const struct timeval after = {.tv_usec = 100000};
    char text[128];
    snprintf(text, sizeof text, "cannot accept a connection: %s", strerror(EVUTIL_SOCKET_ERROR()));
    notice_say(&gateway->accept_fails, gateway->options, text);
    gateway->metrics.refusals[REFUSED_CONNECTION]++;
    if (listener->again == NULL) return;
    evconnlistener_disable(events);
    evtimer_add(listener->again, &after);
}

static void listener_free(struct listener *listener) {
    struct stat now;
    if (listener->events != NULL) evconnlistener_free(listener->events);
    if (listener->again != NULL) event_free(listener->again);
    bool ours = listener->path != NULL && lstat(listener->path, &now) == 0 &&
                now.st_dev == listener->device && now.st_ino == listener->inode;
    if (ours) unlink(listener->path);
    free(listener->path);
    free(listener);
}

/* Takes ownership of the descriptor. False after a message. */
static bool listener_add(struct gateway *gateway, int fd, const char *path) {
    struct listener *listener = calloc(1, sizeof *listener);
    struct stat made = {0};
    evutil_make_socket_nonblocking(fd);
    if (listener != NULL && path != NULL && lstat(path, &made) == 0) listener->path = strdup(path);
    if (listener != NULL)
        listener->events =
            evconnlistener_new(gateway->base, on_connection, listener,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (listener == NULL || listener->events == NULL) {
        gateway->options->say("cannot listen: %s", strerror(errno));
        close(fd);
        if (listener != NULL) listener_free(listener);
        return false;
    }
    listener->gateway = gateway;
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    listener->again = evtimer_new(gateway->base, on_again, listener);
    evconnlistener_set_error_cb(listener->events, on_accept_error);
    listener->next = gateway->listeners;
    gateway->listeners = listener;
    return true;
}

/* ---- Unix sockets ---- */

/* Whether a server answers there. */
static bool is_live(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return true;
    bool dead = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                errno == ECONNREFUSED;
    close(fd);
    return !dead;
}

/* bind(2) creates the file with the permissions that the umask leaves: no other user may connect in
 * between. */
static int bind_with_mode(int fd, const struct sockaddr_un *address, unsigned mode) {
    mode_t before = umask(0777 & ~(mode_t)mode);
    int result = bind(fd, (const struct sockaddr *)address, sizeof *address);
    umask(before);
    return result;
}

static bool listen_unix(struct gateway *gateway, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    void (*say)(const char *format, ...) = gateway->options->say;
    struct stat there;
    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path) {
        say("--listen unix://%s: the path begins with a slash and is at most %zu bytes long", path,
            sizeof address.sun_path - 1);
        return false;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int bound = bind_with_mode(fd, &address, gateway->options->socket_mode);
    if (bound != 0 && errno == EADDRINUSE && lstat(path, &there) == 0 && S_ISSOCK(there.st_mode) &&
        !is_live(&address)) {
        unlink(path); /* left by a gateway that was killed */
        bound = bind_with_mode(fd, &address, gateway->options->socket_mode);
    }
    if (bound == 0 && listen(fd, BACKLOG) == 0) return listener_add(gateway, fd, path);
    const int why = errno;
    gateway->address_is_taken =
        why == EADDRINUSE && lstat(path, &there) == 0 && S_ISSOCK(there.st_mode);
    if (why == EADDRINUSE)
        say("--listen unix://%s: it is in use: another process listens there, or it is not a socket",
            path);
    else
        say("--listen unix://%s: %s", path, strerror(why));
    close(fd);
    return false;
}

/* ---- TCP ---- */

/* A client that can reach the port can take and delete every lock. */
static bool may_be_reached(const struct gateway *gateway, const struct sockaddr *address,
                           const char *name) {
    if (gateway->password != NULL || address->sa_family == AF_UNIX) return true;
    if (address_is_loopback(address)) {
        gateway->options->say(
            "%s: every user of this machine can take and delete the locks here: give "
            "--password-file, or listen on a Unix socket",
            name);
        return true;
    }
    gateway->options->say(
        "%s: others can reach this address, so a password is needed: give --password-file, or listen on 127.0.0.1",
        name);
    return false;
}

static bool listen_one(struct gateway *gateway, const struct addrinfo *one, const char *name) {
    if (!may_be_reached(gateway, one->ai_addr, name)) return false;
    char text[ADDRESS_TEXT_BYTES];
    int fd = address_listen(one, BACKLOG, one->ai_family == AF_INET6);
    if (fd >= 0 && gateway->options->verbose)
        gateway->options->say("listening on %s", address_of(fd, text, sizeof text));
    if (fd >= 0) return listener_add(gateway, fd, NULL);
    const bool has_v4_only = errno == EAFNOSUPPORT && address_is_all_v6(one->ai_addr);
    gateway->address_is_taken = address_is_taken(errno);
    gateway->options->say("--listen %s: %s", name, strerror(errno));
    return has_v4_only;
}

static bool listen_tcp(struct gateway *gateway, const char *name) {
    struct addrinfo *found = NULL;
    const char *error = address_find(name, "it is neither unix:///PATH nor HOST:PORT", &found);
    if (error != NULL) {
        gateway->options->say("--listen %s: %s", name, error);
        return false;
    }
    bool all = true;
    for (const struct addrinfo *one = found; all && one != NULL; one = one->ai_next)
        all = listen_one(gateway, one, name);
    freeaddrinfo(found);
    return all;
}

/* ---- systemd ---- */

static bool take_handed_over(struct gateway *gateway) {
    const char *handed_over = getenv("LISTEN_FDS");
    char text[32];
    snprintf(text, sizeof text, "%s", handed_over != NULL ? handed_over : "");
    const int count = sd_listen_fds(1);
    if (count < 0)
        gateway->options->say(
            "LISTEN_FDS='%s' is not a number of sockets that were handed over: %s", text,
            strerror(-count));
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
        struct sockaddr_storage address = {0};
        socklen_t bytes = sizeof address;
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0 ||
            getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
            gateway->options->say(
                "descriptor %d, which was handed over, is not a stream socket that listens", fd);
            return false;
        }
        if (!may_be_reached(gateway, (const struct sockaddr *)&address, "the socket unit") ||
            !listener_add(gateway, fd, NULL))
            return false;
    }
    return count >= 0;
}

/* ---- all of them ---- */

bool listen_open(struct gateway *gateway) {
    static const char scheme[] = "unix://";
    const char *names = gateway->options->listen != NULL ? gateway->options->listen : "";
    char *copy = strdup(names), *rest = NULL;
    bool all = copy != NULL && take_handed_over(gateway);
    for (char *name = all ? strtok_r(copy, ", \t", &rest) : NULL; all && name != NULL;
         name = strtok_r(NULL, ", \t", &rest)) {
        if (strncmp(name, scheme, strlen(scheme)) == 0)
            all = listen_unix(gateway, name + strlen(scheme));
        else
            all = listen_tcp(gateway, name);
    }
    free(copy);
    if (!all || gateway->listeners != NULL) return all;
    gateway->options->say(
        "no address to listen on: give --listen unix:///PATH or --listen HOST:PORT, or start it by a socket unit");
    return false;
}

/* A Unix socket by its path, as --listen has it. */
static void name_of(const struct listener *listener, char *out, size_t size) {
    union {
        struct sockaddr any;
        struct sockaddr_storage storage;
        struct sockaddr_un un;
    } address = {0};
    socklen_t bytes = sizeof address.storage;
    snprintf(out, size, "?");
    if (getsockname(evconnlistener_get_fd(listener->events), &address.any, &bytes) != 0) return;
    if (address.any.sa_family == AF_UNIX)
        snprintf(out, size, "unix://%s", address.un.sun_path);
    else
        address_text(&address.any, out, size);
}

/* The list begins with the last one. */
char *listen_names(const struct gateway *gateway, char *out, size_t size) {
    char name[sizeof(struct sockaddr_un) + sizeof "unix://"];
    size_t at = size - 1;
    out[at] = '\0';
    for (const struct listener *one = gateway->listeners; one != NULL; one = one->next) {
        name_of(one, name, sizeof name);
        const size_t bytes = strlen(name), comma = at < size - 1;
        if (at < bytes + comma) break;
        at -= bytes + comma;
        memcpy(out + at, name, bytes);
        if (comma > 0) out[at + bytes] = ',';
    }
    return memmove(out, out + at, size - at);
}

void listen_close(struct gateway *gateway) {
    while (gateway->listeners != NULL) {
        struct listener *listener = gateway->listeners;
        gateway->listeners = listener->next;
        listener_free(listener);
    }
}
