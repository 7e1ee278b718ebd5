/* SPDX-License-Identifier: BSD-2-Clause
 *
 * show --watch. A terminal shows the present state, redrawn in place as by watch(1). Elsewhere each
 * change is printed, as by kubectl get --watch: a program reads what is new. A renewal is not a
 * change.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "config/duration.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "show.h"

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* One resource as it was at the last look. */
struct known {
    char *name;
    size_t bytes;
    uint64_t state;
    uint64_t look; /* the last one that met it */
};

struct watch {
    struct session *session;
    int count; /* 0: every lock */
    char **resources;
    struct known *known; /* in the order of their names */
    size_t known_count, room;
    uint64_t look;
    bool redraws, failed;
    uint32_t refused;   /* bits, by node: this user may not see its keys ... */
    char unlisted[900]; /* ... and the lines that say so, on a screen */
    FILE *out;          /* the screen that is being drawn */
    size_t shown;       /* resources in it */
};

/* ---- the end ------------------------------------------------------------------------------ */

static int stop_fd = -1;

/* Also ends a write(2) to a reader that does not read, since it is not restarted. */
static void on_interrupt(int signal) {
    static const uint64_t one = 1;
    const int error = errno;
    (void)signal;
    ssize_t written = write(stop_fd, &one, sizeof one);
    (void)written;
    errno = error;
}

static bool is_stopped(int timeout_ms) {
    struct pollfd poller = {.fd = stop_fd, .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

/* The client's connections live on meanwhile. */
static bool rest_until(struct session *session, int64_t until) {
    struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN},
                           {.fd = redlock_client_fd(session->client), .events = POLLIN}};
    for (int64_t now = now_ns(); now < until; now = now_ns()) {
        const int64_t ms = (until - now + MS - 1) / MS;
        poll(fds, 2, ms > 60000 ? 60000 : (int)ms);
        if (is_stopped(0)) return false;
        if (redlock_process(session->client) != REDLOCK_OK) return false;
    }
    return !is_stopped(0);
}

/* ---- changes ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * FNV_PRIME;
    return hash;
}

static int by_bytes(const void *a, const void *b) {
    return reader_compare(*(const struct reader *const *)a, *(const struct reader *const *)b);
}

/* Renewals change their order, and which of many are listed. */
static uint64_t mix_readers(uint64_t hash, const struct readers *readers) {
    hash = mix(hash, &readers->total, sizeof readers->total);
    const struct reader **list = readers->cut ? NULL : calloc(readers->count + 1, sizeof *list);
    for (size_t i = 0; list != NULL && i < readers->count; i++) list[i] = &readers->list[i];
    if (list != NULL) qsort(list, readers->count, sizeof *list, by_bytes);
    for (size_t i = 0; list != NULL && i < readers->count; i++) {
        hash = mix(hash, &list[i]->nodes, sizeof list[i]->nodes);
        hash = mix(hash, list[i]->token, list[i]->bytes);
    }
    free(list);
    return hash;
}

/* Everything that is shown, except the time left. */
static uint64_t state_of(const struct sight *sight) {
    uint64_t hash = mix(FNV_BASIS, &sight->result, sizeof sight->result);
    for (size_t i = 0; i < sight->count; i++) {
        const struct redlock_view *view = &sight->views[i];
        const bool has_end = view->remaining_ms >= 0;
        hash = mix(hash, &view->verdict, sizeof view->verdict);
        if (view->verdict != REDLOCK_VERDICT_GRANTED) continue;
        hash = mix(hash, &has_end, sizeof has_end);
        hash = mix(hash, &view->token_bytes, sizeof view->token_bytes);
        hash = mix(hash, view->token, view->token_bytes);
    }
    return mix_readers(hash, &sight->readers);
}

/* The entry of that name, made if there is none; NULL: no memory. */
static struct known *entry_of(struct watch *watch, const char *name, size_t bytes) {
    size_t low = 0, high = watch->known_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct known *known = &watch->known[middle];
        const int order = compare_bytes(known->name, known->bytes, name, bytes);
        if (order == 0) return &watch->known[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (watch->known_count == watch->room) {
        const size_t room = watch->room == 0 ? 64 : watch->room * 2;
        struct known *grown = realloc(watch->known, room * sizeof *grown);
        if (grown == NULL) return NULL;
        watch->known = grown;
        watch->room = room;
    }
    char *copy = malloc(bytes + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, name, bytes);
    copy[bytes] = '\0';
    struct known *entry = &watch->known[low];
    memmove(entry + 1, entry, (watch->known_count - low) * sizeof *entry);
    watch->known_count++;
    *entry = (struct known){.name = copy, .bytes = bytes};
    return entry;
}

/* ---- output -------------------------------------------------------------------------------- */

static void print_event_json(struct watch *watch, const struct sight *sight) {
    json_t *object = sight_json(watch->session, sight);
    json_object_set_new(object, "time", time_json());
    json_print(object);
}

static void print_hour(FILE *out) {
    char hour[32];
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(hour, sizeof hour, "%F %T", &local);
    fprintf(out, "%s\n", hour);
}

static void print_event(struct watch *watch, const struct sight *sight) {
    if (watch->session->settings->json) {
        print_event_json(watch, sight);
        return;
    }
    print_hour(stdout);
    sight_print(watch->session, sight, stdout);
    putchar('\n');
}

/* Whether a node holds what the majority does. */
static bool agrees(const struct sight *sight, const struct majority *majority, size_t node) {
    const struct redlock_view *view = &sight->views[node],
                              *holder = &sight->views[majority->holder];
    if (majority->verdict == MAJORITY_FREE) return view->verdict == REDLOCK_VERDICT_ABSENT;
    if (majority->verdict == MAJORITY_FOREIGN) return view->verdict == REDLOCK_VERDICT_WRONGTYPE;
    return majority->verdict == MAJORITY_HELD && has_same_token(view, holder);
}

/* One line for a lock, and one for each node that differs: a screen has few lines. */
static void print_brief(struct watch *watch, const struct sight *sight) {
    const struct majority majority = majority_of(sight->views, sight->count);
    char name[1024], token[REDLOCK_TOKEN_BYTES_MAX * 4 + 8], owner[sizeof token], left[64];
    const bool held = majority.verdict == MAJORITY_HELD;
    if (held && !is_shared(&sight->views[majority.holder])) {
        const struct redlock_view *holder = &sight->views[majority.holder];
        owner_text(holder, owner, sizeof owner);
        token_text(holder, watch->session->settings->look.tokens, token, sizeof token);
        const bool shows_token = owner[0] == '\0' || watch->session->settings->look.tokens;
        fprintf(watch->out, "%s: held by %s%s%s%s, %s%s (%zu of %zu)\n",
                printable(name, sizeof name, sight->resource, sight->bytes), owner,
                owner[0] != '\0' && shows_token ? ", " : "", shows_token ? "token " : "",
                shows_token ? token : "",
                majority.remaining_ms < 0 ? "without an end"
                                          : duration_text(left, sizeof left, majority.remaining_ms),
                majority.remaining_ms < 0 ? "" : " left", majority.votes, sight->count);
    } else {
        sight_print_head(watch->session, sight, watch->out);
    }
    for (size_t i = 0; i < sight->count; i++) {
        if (!agrees(sight, &majority, i)) sight_print_node(watch->session, sight, i, watch->out);
    }
    readers_print(watch->session, &sight->readers, sight->count, watch->out);
}

/* The first `columns` characters of a line; one that is cut ends in a mark. Characters of two
 * columns may still wrap. */
static void put_line(FILE *out, const char *line, size_t bytes, size_t columns) {
    size_t at = 0, used = 0, last = 0;
    while (at < bytes && used < columns) {
        const size_t length = utf8_length((const unsigned char *)line + at, bytes - at);
        last = at;
        at += length > 0 ? length : 1;
        used++;
    }
    const bool is_cut = at < bytes;
    fwrite(line, 1, is_cut ? last : at, out);
    if (is_cut) fputs("…", out);
}

/* Over the last screen, without clearing it first: nothing flickers. */
static void put_screen(const char *text, size_t bytes, bool first) {
    struct winsize window = {0};
    char *frame = NULL;
    size_t frame_bytes = 0;
    FILE *out = open_memstream(&frame, &frame_bytes);
    if (out == NULL) return;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    const size_t rows = window.ws_row > 1 ? window.ws_row : 24,
                 columns = window.ws_col > 1 ? window.ws_col : 80;
    size_t left = 0, row = 0;
    for (size_t i = 0; i < bytes; i++) left += text[i] == '\n';
    fputs(first ? "\033[H\033[2J" : "\033[H", out);
    /* The cursor's row below the text stays empty. */
    for (const char *at = text, *end; (end = memchr(at, '\n', bytes - (size_t)(at - text))) != NULL;
         at = end + 1) {
        const bool is_last = row + 2 >= rows && left > 1;
        if (is_last) {
            fprintf(out, "(%zu more lines)", left);
        } else {
            put_line(out, at, (size_t)(end - at), columns);
        }
        fputs("\033[K\n", out);
        row++;
        left--;
        if (is_last) break;
    }
    fputs("\033[J", out);
    fclose(out);
    fwrite(frame, 1, frame_bytes, stdout);
    free(frame);
}

/* ---- looking ------------------------------------------------------------------------------- */

static bool show_sight(struct watch *watch, const struct sight *sight) {
    struct known *entry = entry_of(watch, sight->resource, sight->bytes);
    if (entry == NULL) return false;
    const uint64_t state = state_of(sight);
    const bool is_new = entry->look == 0 || entry->state != state;
    entry->state = state;
    entry->look = watch->look;
    if (watch->redraws) {
        if (watch->session->settings->verbose) {
            sight_print(watch->session, sight, watch->out);
        } else {
            print_brief(watch, sight);
        }
        watch->shown++;
    } else if (is_new) {
        print_event(watch, sight);
    }
    return true;
}

static bool look_at(struct watch *watch, const char *resource, size_t bytes, bool is_asked_for) {
    struct sight sight;
    sight_take(watch->session, resource, bytes, is_asked_for, &sight);
    if (sight.result != REDLOCK_OK && sight.result != REDLOCK_NO_QUORUM) {
        complain("%s", redlock_result_text(sight.result));
        return false;
    }
    if (!is_asked_for && !session_lists_every_value(watch->session) && !sight_is_lock(&sight))
        return true;
    const bool goes_on = show_sight(watch, &sight);
    sight_free(&sight);
    return goes_on;
}

/* A lock that is gone from the list is shown once more. */
static bool look_at_gone(struct watch *watch) {
    size_t kept = 0;
    bool goes_on = true;
    for (size_t i = 0; i < watch->known_count; i++) {
        struct known *known = &watch->known[i];
        if (known->look != watch->look) {
            if (goes_on && !watch->redraws) {
                struct sight sight;
                sight_take(watch->session, known->name, known->bytes, false, &sight);
                print_event(watch, &sight);
                sight_free(&sight);
                goes_on = ferror(stdout) == 0;
            }
            free(known->name);
            continue;
        }
        watch->known[kept++] = *known;
    }
    watch->known_count = kept;
    return goes_on;
}

/* Once, and again when it has changed. */
static void report_unlisted(struct watch *watch, const struct unlisted *unlisted) {
    uint32_t refused = 0;
    for (size_t i = 0; i < redlock_client_nodes(watch->session->client); i++)
        if (unlisted->verdicts[i] == REDLOCK_VERDICT_NOPERM) refused |= UINT32_C(1) << i;
    if (refused != watch->refused) {
        watch->refused = refused;
        if (watch->redraws)
            unlisted_text(watch->session, unlisted, watch->unlisted, sizeof watch->unlisted);
        else if (unlisted->unseen)
            session_unlisted(watch->session, unlisted->verdicts, unlisted->need, REDLOCK_NO_QUORUM);
        else
            unlisted_report(watch->session, unlisted);
    }
    if (watch->redraws && refused != 0) fputs(watch->unlisted, watch->out);
}

static bool look_at_all(struct watch *watch) {
    struct listing listing;
    struct unlisted unlisted;
    int result = listing_take(watch->session, &listing);
    bool goes_on = result == REDLOCK_OK || result == REDLOCK_NO_QUORUM;
    unlisted_take(watch->session, &listing, &unlisted);
    if (unlisted.unseen && result == REDLOCK_OK) result = REDLOCK_NO_QUORUM;
    if (goes_on) report_unlisted(watch, &unlisted);
    if (!goes_on) complain("%s", redlock_result_text(result));
    for (size_t i = 0; goes_on && i < listing.count && !is_stopped(0); i++)
        goes_on = look_at(watch, listing.names[i], listing.bytes[i], false);
    listing_free(&listing);
    if (result == REDLOCK_NO_QUORUM && watch->redraws)
        fputs(unlisted.unseen ? "no permission (ACL) on too many nodes: the list may lack locks\n"
                              : "too few nodes answer: the list may lack locks\n",
              watch->out);
    /* Without a majority a lock may exist that is not in the list. */
    if (result != REDLOCK_OK || is_stopped(0)) return goes_on;
    if (watch->redraws && watch->shown == 0) fputs("no locks\n", watch->out);
    return goes_on && look_at_gone(watch);
}

static bool look(struct watch *watch) {
    char *text = NULL;
    size_t bytes = 0;
    bool goes_on = true;
    watch->shown = 0;
    const bool first = watch->look++ == 0;
    if (watch->redraws) {
        watch->out = open_memstream(&text, &bytes);
        if (watch->out == NULL) return false;
        print_hour(watch->out);
        fputc('\n', watch->out);
    }
    if (watch->count == 0) goes_on = look_at_all(watch);
    for (int i = 0; i < watch->count && goes_on; i++)
        goes_on = look_at(watch, watch->resources[i], strlen(watch->resources[i]), true);
    if (watch->redraws) {
        fclose(watch->out);
        if (goes_on && !is_stopped(0)) put_screen(text, bytes, first);
        free(text);
    }
    return fflush(stdout) == 0 && ferror(stdout) == 0 && goes_on;
}

int show_watch(struct session *session, int count, char **resources) {
    const int64_t interval = session->settings->look.watch_ms * MS;
    const char *kind = getenv("TERM");
    struct watch watch = {.session = session,
                          .count = count,
                          .resources = resources,
                          .redraws = !session->settings->json && isatty(STDOUT_FILENO) &&
                                     (kind == NULL || strcmp(kind, "dumb") != 0)};
    const struct sigaction action = {.sa_handler = on_interrupt};
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0) return EXIT_SYSTEM;
    sigaction(SIGINT, &action, NULL);
    bool goes_on = true;
    while (goes_on) {
        const int64_t began = now_ns();
        goes_on = look(&watch);
        if (goes_on && !rest_until(session, began + interval)) break;
    }
    const bool stopped = is_stopped(0);
    if (stopped) clearerr(stdout); /* a write that ^C ended */
    for (size_t i = 0; i < watch.known_count; i++) free(watch.known[i].name);
    free(watch.known);
    close(stop_fd);
    return stopped ? EXIT_OK : EXIT_SYSTEM;
}
