/* SPDX-License-Identifier: BSD-2-Clause */
#include "live.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "screen.h"

enum { INTERVAL_MS_LEAST = 200, INTERVAL_MS_MOST = 60000, KEY_WAIT_MS = 100, SLICE_MS = 25 };

/* What the screen asks of the looking thread; the observer's mutex protects it. */
struct wishes {
    bool quit, paused, look_now;
    bool filter_changed, detail_changed;
    char filter[TOP_FILTER_BYTES];
    void *detail; /* the resource; NULL: none */
    size_t detail_bytes;
    int64_t interval_ms;
};

struct top {
    struct top_observer *observer;
    struct wishes wishes;
    unsigned looks; /* how often the picture has changed */
    bool failed;    /* no memory: the looking thread has ended */
    struct top_view view;
    struct top_page page;
    bool quits;
};

/* ---- the looking thread ---- */

/* Whether there is anything new to see. */
static bool grant_wishes(struct top *top) {
    struct wishes *wishes = &top->wishes;
    struct top_detail *detail = &top->observer->detail;
    const bool changed = wishes->filter_changed || wishes->detail_changed || wishes->look_now;
    if (wishes->filter_changed) top_model_filter(&top->observer->model, wishes->filter);
    if (wishes->detail_changed) {
        free(detail->resource);
        detail->resource = wishes->detail;
        detail->bytes = wishes->detail_bytes;
        detail->seen = false;
        wishes->detail = NULL;
    }
    wishes->filter_changed = wishes->detail_changed = wishes->look_now = false;
    return changed;
}

static void *look_often(void *argument) {
    struct top *top = argument;
    struct top_observer *observer = top->observer;
    int64_t began = now_ns() - INTERVAL_MS_MOST * MS;
    session_connect(&observer->session);
    for (;;) {
        pthread_mutex_lock(&observer->mutex);
        const bool quit = top->wishes.quit, wished = grant_wishes(top);
        const bool due = !top->wishes.paused && now_ns() >= began + top->wishes.interval_ms * MS;
        const int64_t interval_ms = top->wishes.interval_ms;
        pthread_mutex_unlock(&observer->mutex);
        if (quit) return NULL;
        if (due || wished) {
            began = now_ns();
            int result = top_look(observer, interval_ms);
            pthread_mutex_lock(&observer->mutex);
            top->looks++;
            top->failed = result != REDLOCK_OK && result != REDLOCK_NO_QUORUM;
            pthread_mutex_unlock(&observer->mutex);
            if (top->failed) return NULL;
        }
        session_live_until(&observer->session, now_ns() + SLICE_MS * MS);
    }
}

/* ---- keys ---- */

/* The row under the bar, by name. */
static void select_row(struct top *top, size_t position) {
    struct top_view *view = &top->view;
    const struct top_row *rows[TOP_ROWS_MAX];
    const size_t count = top_model_sorted(&top->observer->model, view->sort, view->reversed, rows);
    free(view->selected);
    view->selected = NULL;
    view->selected_bytes = 0;
    view->position = position < count ? position : count > 0 ? count - 1 : 0;
    if (count == 0) return;
    const struct top_row *row = rows[view->position];
    view->selected = malloc(row->bytes);
    if (view->selected == NULL) return;
    memcpy(view->selected, row->resource, row->bytes);
    view->selected_bytes = row->bytes;
}

static void wish_detail(struct top *top, const void *resource, size_t bytes) {
    struct wishes *wishes = &top->wishes;
    free(wishes->detail);
    wishes->detail = NULL;
    wishes->detail_bytes = 0;
    wishes->detail_changed = true;
    if (resource == NULL || (wishes->detail = malloc(bytes)) == NULL) return;
    memcpy(wishes->detail, resource, bytes);
    wishes->detail_bytes = bytes;
}

static void open_detail(struct top *top) {
    struct top_view *view = &top->view;
    if (view->selected == NULL) select_row(top, view->position);
    if (view->selected == NULL) return;
    wish_detail(top, view->selected, view->selected_bytes);
    view->mode = TOP_DETAIL;
}

static void edit_filter(struct top *top, int key) {
    struct top_view *view = &top->view;
    size_t length = strlen(view->filter);
    if (key == TOP_KEY_ENTER) {
        memcpy(top->wishes.filter, view->filter, sizeof view->filter);
        top->wishes.filter_changed = true;
        view->editing = false;
    } else if (key == TOP_KEY_ESCAPE) {
        memcpy(view->filter, top->observer->model.filter, sizeof view->filter);
        view->editing = false;
    } else if (key == TOP_KEY_BACKSPACE) {
        while (length > 0 && ((unsigned char)view->filter[length - 1] & 0xc0) == 0x80) length--;
        view->filter[length > 0 ? length - 1 : 0] = '\0';
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof view->filter) {
        view->filter[length] = (char)key;
        view->filter[length + 1] = '\0';
    }
}

static void sort_by(struct top_view *view, enum top_sort sort) {
    view->sort = sort;
    view->first = 0;
}

static void change_interval(struct top *top, bool longer) {
    int64_t ms = longer ? top->view.interval_ms * 2 : top->view.interval_ms / 2;
    if (ms < INTERVAL_MS_LEAST) ms = INTERVAL_MS_LEAST;
    if (ms > INTERVAL_MS_MOST) ms = INTERVAL_MS_MOST;
    top->view.interval_ms = top->wishes.interval_ms = ms;
}

static void pause_or_go_on(struct top *top) {
    top->view.paused = top->wishes.paused = !top->view.paused;
    top->wishes.look_now = !top->view.paused;
}

static void move_bar(struct top *top, int key) {
    struct top_view *view = &top->view;
    const size_t page = view->rows_on_page > 1 ? view->rows_on_page - 1 : 1, at = view->position;
    switch (key) {
    case TOP_KEY_UP: select_row(top, at > 0 ? at - 1 : 0); break;
    case TOP_KEY_DOWN: select_row(top, at + 1); break;
    case TOP_KEY_PAGE_UP: select_row(top, at > page ? at - page : 0); break;
    case TOP_KEY_PAGE_DOWN: select_row(top, at + page); break;
    case TOP_KEY_HOME: select_row(top, 0); break;
    case TOP_KEY_END: select_row(top, view->rows > 0 ? view->rows - 1 : 0); break;
    default: break;
    }
}

static void on_list_key(struct top *top, int key) {
    struct top_view *view = &top->view;
    switch (key) {
    case TOP_KEY_ENTER: open_detail(top); break;
    case '/': view->editing = true; break;
    case 's': sort_by(view, (enum top_sort)((view->sort + 1) % TOP_SORTS)); break;
    case 'w': sort_by(view, TOP_BY_WAITERS); break;
    case 'r': sort_by(view, TOP_BY_RESOURCE); break;
    case 'a': sort_by(view, TOP_BY_AGE); break;
    case 'l': sort_by(view, TOP_BY_LEFT); break;
    case 'R': view->reversed = !view->reversed; break;
    case 'k': move_bar(top, TOP_KEY_UP); break;
    case 'j': move_bar(top, TOP_KEY_DOWN); break;
    default: move_bar(top, key); break;
    }
}

/* The mutex is held. */
static void on_key(struct top *top, int key) {
    struct top_view *view = &top->view;
    if (view->editing) {
        edit_filter(top, key);
        return;
    }
    if (view->mode == TOP_HELP) {
        view->mode = TOP_LIST;
        return;
    }
    switch (key) {
    case 'q': top->quits = true; return;
    case 'p':
    case ' ': pause_or_go_on(top); return;
    case '+': change_interval(top, true); return;
    case '-': change_interval(top, false); return;
    case '?':
    case 'h': view->mode = TOP_HELP; return;
    default: break;
    }
    if (view->mode == TOP_LIST) {
        on_list_key(top, key);
    } else if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER) {
        view->mode = TOP_LIST;
        wish_detail(top, NULL, 0);
    }
}

/* ---- the screen ---- */

static volatile sig_atomic_t caught;

static void on_signal(int signal) { caught = signal; }

/* ^C is a way to quit; the others end the process as they would have done, once the terminal is as
 * it was. */
static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void catch_signals(bool on) {
    struct sigaction action = {.sa_handler = on ? on_signal : SIG_DFL}, before;
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        sigaction(ending[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(ending[i], &action, NULL);
    }
}

static void draw(struct top *top) {
    top_screen_size(&top->view.width, &top->view.height);
    pthread_mutex_lock(&top->observer->mutex);
    top_draw(&top->page, top->observer, &top->view);
    pthread_mutex_unlock(&top->observer->mutex);
    top_screen_draw(&top->page);
}

static void show(struct top *top) {
    unsigned drawn = 0;
    bool again = true;
    while (!top->quits && caught == 0) {
        pthread_mutex_lock(&top->observer->mutex);
        again |= top->looks != drawn;
        drawn = top->looks;
        top->quits |= top->failed;
        pthread_mutex_unlock(&top->observer->mutex);
        if (again) draw(top);
        int key = top_screen_key(KEY_WAIT_MS);
        again = key != TOP_KEY_NONE;
        if (key == TOP_KEY_GONE) return;
        if (key == TOP_KEY_NONE || key == TOP_KEY_RESIZED) continue;
        pthread_mutex_lock(&top->observer->mutex);
        on_key(top, key);
        pthread_mutex_unlock(&top->observer->mutex);
    }
}

/* The looking thread gets no signals: they belong to the thread that has the terminal. */
static int start_looking(struct top *top, pthread_t *thread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, look_often, top);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int run(struct top *top) {
    char error[300];
    pthread_t thread;
    catch_signals(true);
    if (!top_screen_open(error, sizeof error)) {
        catch_signals(false);
        complain("%s", error);
        return EXIT_USAGE_ERROR;
    }
    int failed = start_looking(top, &thread);
    top->view.ascii = top_screen_is_ascii();
    if (failed == 0) show(top);
    top_screen_close();
    catch_signals(false);
    if (caught != 0 && caught != SIGINT) raise(caught);
    if (failed != 0) {
        complain("cannot start a thread: %s", strerror(failed));
        return EXIT_SYSTEM;
    }
    pthread_mutex_lock(&top->observer->mutex);
    top->wishes.quit = true;
    pthread_mutex_unlock(&top->observer->mutex);
    pthread_join(thread, NULL);
    if (top->failed) complain("%s", redlock_result_text(REDLOCK_NO_MEMORY));
    return top->failed ? EXIT_SYSTEM : EXIT_OK;
}

int top_live(struct top_observer *observer, int64_t interval_ms) {
    static struct top top;
    top.observer = observer;
    top.view.interval_ms = top.wishes.interval_ms = interval_ms;
    const int status = run(&top);
    free(top.view.selected);
    free(top.wishes.detail);
    return status;
}
