/* SPDX-License-Identifier: BSD-2-Clause */
#include "password.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <event2/event.h>

#include "connection.h"
#include "loop/gateway.h"

/* ---- the file ---- */

enum { PASSWORD_BYTES_MAX = 512 };

char *password_read(const char *path, char *why, size_t size) {
    char line[PASSWORD_BYTES_MAX + 2] = "", *password = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        snprintf(why, size, "--password-file %s: %s", path,
                 file == NULL ? strerror(errno) : "it is empty");
        if (file != NULL) fclose(file);
        return NULL;
    }
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || strlen(line) > PASSWORD_BYTES_MAX)
        snprintf(why, size, "--password-file %s: its first line is a password of 1 to %d bytes",
                 path, PASSWORD_BYTES_MAX);
    else if ((password = strdup(line)) == NULL)
        snprintf(why, size, "--password-file %s: out of memory", path);
    explicit_bzero(line, sizeof line);
    return password;
}

void password_check_secrecy(const struct serve_options *options) {
    struct stat status;
    const char *path = options->password_file;
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if ((status.st_mode & S_IROTH) == 0) return;
    options->say("--password-file %s: all users of this machine can read it: chmod o-r %s", path,
                 path);
}

void password_free(char *password) {
    if (password != NULL) explicit_bzero(password, strlen(password));
    free(password);
}

/* ---- delays ---- */

int guess_delay_ms(unsigned wrong, double recent) {
    if (recent > GUESSES_FREE) return GUESS_DELAY_MS_MAX;
    if (wrong == 0) return 0;
    int ms = GUESS_DELAY_MS;
    for (unsigned i = 1; i < wrong && ms < GUESS_DELAY_MS_MAX; i++) ms *= 2;
    return ms < GUESS_DELAY_MS_MAX ? ms : GUESS_DELAY_MS_MAX;
}

double guess_recent(const struct guesses *guesses, int64_t now_ns) {
    const double forgotten = (double)(now_ns - guesses->since_ns) / 1e9 * GUESSES_FREE_PER_SECOND;
    return guesses->recent > forgotten ? guesses->recent - forgotten : 0;
}

/* Bounded: otherwise a long attack would delay all clients long after its end. */
void guess_count(struct guesses *guesses, int64_t now_ns) {
    const double recent = guess_recent(guesses, now_ns) + 1;
    guesses->recent = recent < 2 * GUESSES_FREE ? recent : 2 * GUESSES_FREE;
    guesses->since_ns = now_ns;
}

/* ---- waiting ---- */

static void on_waited(evutil_socket_t fd, short what, void *context) {
    struct connection *connection = context;
    struct guess *guess = &connection->guess;
    (void)fd;
    (void)what;
    (void)guess_abandon(connection);
    guess->waited = true;
    guess->run(connection);
    guess->waited = false;
    connection_answered(connection);
}

bool guess_abandon(struct connection *connection) {
    struct event *wait = connection->guess.wait;
    if (wait == NULL) return false;
    connection_guess(connection, NULL);
    event_free(wait);
    return true;
}

bool guess_wait(struct connection *connection, void (*run)(struct connection *connection)) {
    struct gateway *gateway = connection->gateway;
    struct guess *guess = &connection->guess;
    if (guess->waited || gateway->password == NULL) return false;
    const int ms = guess_delay_ms(guess->wrong, guess_recent(gateway->guesses, gateway_now_ns()));
    const struct timeval after = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (ms == 0) return false;
    struct event *wait = evtimer_new(gateway->base, on_waited, connection);
    if (wait == NULL || evtimer_add(wait, &after) != 0) {
        if (wait != NULL) event_free(wait);
        reply_error(&connection->reply,
                    "OOM out of memory"); /* without a delay the password is not checked */
        return true;
    }
    connection_guess(connection, wait);
    guess->run = run;
    connection->busy = true;
    return true;
}

/* ---- checks ---- */

static bool is_password(const char *password, struct bytes word) {
    size_t bytes = strlen(password);
    unsigned char differs = word.bytes != bytes;
    for (size_t i = 0; i < word.bytes; i++)
        differs |= (unsigned char)(word.data[i] ^ password[i % (bytes + 1)]);
    return differs == 0;
}

/* The line about many has a pause of its own: one mistyped password must not hide an attack. */
static void log_wrong(struct gateway *gateway, const struct connection *connection) {
    const bool many =
        gateway->guesses->recent > GUESSES_FREE || connection->guess.wrong >= GUESSES_MAX;
    char text[ADDRESS_TEXT_BYTES + 96];
    snprintf(text, sizeof text,
             many ? "many wrong passwords, the last from %s: each AUTH is delayed now"
                  : "refused the user or the password of a client at %s",
             connection->peer);
    notice_say(many ? &gateway->wrong_passwords : &gateway->wrong_password, gateway->options, text);
}

bool guess_check(struct connection *connection, struct bytes user, struct bytes word) {
    struct gateway *gateway = connection->gateway;
    const bool asks = gateway->password != NULL;
    if (command_is(user, "default") && (!asks || is_password(gateway->password, word))) {
        connection->guess.wrong = 0;
        return true;
    }
    gateway->metrics.refusals[REFUSED_PASSWORD]++;
    if (asks) {
        connection->guess.wrong++;
        guess_count(gateway->guesses, gateway_now_ns());
    }
    log_wrong(gateway, connection);
    return false;
}
