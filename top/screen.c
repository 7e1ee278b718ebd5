/* SPDX-License-Identifier: BSD-2-Clause */
#include "screen.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PAIR_BAD = 1, PAIR_WARN };

static SCREEN *screen;
static bool has_colours;

/* ncurses installs no handler where there is one. Its own fails with a size above 32767, which the
 * other end of a terminal may announce. */
static volatile sig_atomic_t size_changed;
static void note_size(int number) {
    (void)number;
    size_changed = 1;
}

static int clipped(unsigned short size, int most) { return size < most ? size : most; }

static bool follow_size(void) {
    struct winsize size;
    if (!size_changed) return false;
    size_changed = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return false;
    resizeterm(clipped(size.ws_row, TOP_LINES_MAX), clipped(size.ws_col, TOP_COLUMNS_MAX));
    clearok(curscr, TRUE);
    return true;
}

bool top_screen_open(char *error, size_t size) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        snprintf(error, size, "top needs a terminal; without one use --once or --json");
        return false;
    }
    setlocale(LC_CTYPE, "");
    const struct sigaction on_size = {.sa_handler = note_size};
    sigaction(SIGWINCH, &on_size, NULL);
    /* newterm() reports a failure; initscr() would end the process. */
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        const char *term = getenv("TERM");
        snprintf(
            error, size,
            "the terminal '%.60s' (TERM) is unknown here; set TERM=vt100, or use --once or --json",
            term != NULL ? term : "");
        return false;
    }
    set_escdelay(25);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    const char *no_colour = getenv("NO_COLOR");
    has_colours =
        (no_colour == NULL || no_colour[0] == '\0') && has_colors() && start_color() == OK;
    if (has_colours) {
        const short back = use_default_colors() == OK ? -1 : COLOR_BLACK;
        init_pair(PAIR_BAD, COLOR_RED, back);
        init_pair(PAIR_WARN, COLOR_YELLOW, back);
    }
    return true;
}

void top_screen_close(void) {
    if (screen == NULL) return;
    /* A terminal without a second screen keeps the picture: the prompt gets an empty line below. */
    move(LINES - 1, 0);
    clrtoeol();
    refresh();
    endwin();
    delscreen(screen);
    screen = NULL;
}

bool top_screen_is_ascii(void) { return strcmp(nl_langinfo(CODESET), "UTF-8") != 0; }

void top_screen_size(size_t *width, size_t *height) {
    *width = COLS > 0 ? (size_t)COLS : 80;
    *height = LINES > 0 ? (size_t)LINES : 24;
    if (*width > TOP_COLUMNS_MAX) *width = TOP_COLUMNS_MAX;
    if (*height > TOP_LINES_MAX) *height = TOP_LINES_MAX;
}

static attr_t look_of(enum top_style style) {
    switch (style) {
    case TOP_TITLE: return A_BOLD;
    case TOP_HEAD: return A_BOLD | A_UNDERLINE;
    case TOP_FOOT:
    case TOP_SELECTED: return A_REVERSE;
    case TOP_BAD: return A_BOLD | (has_colours ? COLOR_PAIR(PAIR_BAD) : 0);
    case TOP_WARN: return has_colours ? COLOR_PAIR(PAIR_WARN) : A_BOLD;
    case TOP_PLAIN: break;
    }
    return A_NORMAL;
}

void top_screen_draw(const struct top_page *page) {
    erase();
    for (size_t i = 0; i < page->count; i++) {
        attrset((int)look_of(page->lines[i].style));
        mvaddstr((int)i, 0, page->lines[i].text);
    }
    attrset((int)A_NORMAL);
    refresh();
}

static int key_of(int key) {
    switch (key) {
    case ERR: return TOP_KEY_NONE;
    case KEY_UP: return TOP_KEY_UP;
    case KEY_DOWN: return TOP_KEY_DOWN;
    case KEY_PPAGE: return TOP_KEY_PAGE_UP;
    case KEY_NPAGE: return TOP_KEY_PAGE_DOWN;
    case KEY_HOME: return TOP_KEY_HOME;
    case KEY_END: return TOP_KEY_END;
    case KEY_ENTER:
    case '\r': return TOP_KEY_ENTER;
    case KEY_BACKSPACE:
    case '\b': return TOP_KEY_BACKSPACE;
    default: return key < 256 ? key : TOP_KEY_NONE;
    }
}

int top_screen_key(int wait_ms) {
    if (follow_size()) return TOP_KEY_RESIZED;
    int key = getch(); /* what ncurses has read already */
    if (key != ERR) return key_of(key);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, wait_ms) > 0) {
        key = getch();
        /* a closed terminal is readable and has nothing to read */
        if (key == ERR && (input.revents & (POLLHUP | POLLERR))) return TOP_KEY_GONE;
    } else {
        key = getch();
    }
    return key == ERR && follow_size() ? TOP_KEY_RESIZED : key_of(key);
}
