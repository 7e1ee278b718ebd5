/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file may be on a disk that hangs, or be a pipe without a writer. A thread therefore reads the
 * files, and the loop continues.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "loop/gateway.h"
#include "connection/password.h"
#include "http/notify.h"
#include "reload.h"

enum { CLOSE_SECONDS = 1 };

struct reload {
    struct gateway *gateway;
    struct event *hup, *done;
    int fd; /* the thread writes to it when it has read all files */
    pthread_t thread;
    bool running;
    char *password; /* owned by the thread until it has read all files */
    char why[512];  /* "": all files were read */
};

static void *read_files(void *context) {
    struct reload *reload = context;
    const char *path = reload->gateway->options->password_file;
    struct redlock_error error = {0};
    const uint64_t one = 1;
    if (path != NULL) reload->password = password_read(path, reload->why, sizeof reload->why);
    if (reload->why[0] == '\0' &&
        redlock_client_reload(reload->gateway->client, &error) != REDLOCK_OK)
        snprintf(reload->why, sizeof reload->why, "%s", error.text);
    return write(reload->fd, &one, sizeof one) == sizeof one ? NULL
                                                             : reload; /* an eventfd takes a 1 */
}

/* A file that cannot be used changes nothing: the previous content stays in force. */
static void on_done(evutil_socket_t fd, short what, void *context) {
    struct reload *reload = context;
    struct gateway *gateway = reload->gateway;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) != sizeof count) return;
    pthread_join(reload->thread, NULL);
    reload->running = false;
    if (reload->why[0] != '\0') {
        gateway->options->say("SIGHUP: %s; nothing was changed", reload->why);
        password_free(reload->password);
    } else {
        if (reload->password != NULL) {
            password_free(gateway->password);
            gateway->password = reload->password;
            password_check_secrecy(gateway->options);
        }
        gateway->options->say("SIGHUP: the password file and the files of TLS were read again");
    }
    reload->password = NULL;
    notify_manager("READY=1");
}

static void on_hup(evutil_socket_t number, short what, void *context) {
    struct reload *reload = context;
    (void)number;
    (void)what;
    if (reload->running) {
        reload->gateway->options->say(
            "SIGHUP: the files of the last SIGHUP are still being read: restart the gateway if that does not end");
        return;
    }
    notify_manager("RELOADING=1");
    reload->why[0] = '\0';
    reload->running = pthread_create(&reload->thread, NULL, read_files, reload) == 0;
    if (reload->running) return;
    reload->gateway->options->say(
        "SIGHUP: cannot start a thread to read the files; nothing was changed");
    notify_manager("READY=1");
}

bool reload_open(struct gateway *gateway) {
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL) return false;
    reload->gateway = gateway;
    gateway->reload = reload;
    reload->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reload->fd < 0) return false;
    reload->hup = evsignal_new(gateway->base, SIGHUP, on_hup, reload);
    reload->done = event_new(gateway->base, reload->fd, EV_READ | EV_PERSIST, on_done, reload);
    return reload->hup != NULL && reload->done != NULL && event_add(reload->hup, NULL) == 0 &&
           event_add(reload->done, NULL) == 0;
}

bool reload_close(struct gateway *gateway) {
    struct reload *reload = gateway->reload;
    struct timespec until;
    if (reload == NULL) return true;
    if (reload->hup != NULL) event_free(reload->hup);
    if (reload->done != NULL) event_free(reload->done);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_SECONDS;
    if (reload->running && pthread_timedjoin_np(reload->thread, NULL, &until) != 0) return false;
    if (reload->fd >= 0) close(reload->fd);
    password_free(reload->password);
    free(reload);
    return true;
}
