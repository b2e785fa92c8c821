/* Shows the ranks of a job on a terminal, with ncurses if it was available at build time. */
#include "aqtop.h"

#include <stdlib.h>
#include <unistd.h>

#if AQTOP_SCREEN
#include <curses.h>
#include <poll.h>

static struct {
    enum column by;
    bool reverse;
    size_t first; /* first row shown */
} screen;

static void screen_draw(const struct watch *watch)
{
    char line[PRINT_LINE];
    size_t count, room = LINES > 3 ? (size_t)LINES - 3 : 0;
    const struct rank **ranks = print_sorted(watch, screen.by, screen.reverse, &count);
    if (screen.first >= count) screen.first = count > 0 ? count - 1 : 0;
    erase();
    print_head(watch, line);
    mvaddnstr(0, 0, line, COLS);
    print_titles(line);
    attron(A_REVERSE);
    mvaddnstr(1, 0, line, COLS);
    attroff(A_REVERSE);
    for (size_t i = 0; i < room && screen.first + i < count; i++) {
        print_rank(ranks[screen.first + i], line);
        mvaddnstr(2 + (int)i, 0, line, COLS);
    }
    mvprintw(LINES - 1, 0,
             "q: quit; s: sort by the next column (%s); r: reverse; arrows and page keys: scroll",
             column_names[screen.by]);
    refresh();
    free(ranks);
}

static bool screen_key(int key)
{
    size_t page = LINES > 4 ? (size_t)LINES - 4 : 1;
    switch (key) {
    case 'q':
        return false;
    case 's':
        screen.by = (enum column)((screen.by + 1) % COLUMNS);
        break;
    case 'r':
        screen.reverse = !screen.reverse;
        break;
    case KEY_DOWN:
        screen.first++;
        break;
    case KEY_UP:
        screen.first -= screen.first > 0;
        break;
    case KEY_NPAGE:
        screen.first += page;
        break;
    case KEY_PPAGE:
        screen.first -= screen.first < page ? screen.first : page;
        break;
    default:
        break;
    }
    return true;
}

bool screen_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0';
}

void screen_run(struct watch *watch, unsigned interval_ms, enum column by)
{
    bool going = true;
    screen.by = by;
    initscr();
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(0);
    while (going) {
        struct pollfd states[] = {{.fd = watch->fd, .events = POLLIN},
                                  {.fd = STDIN_FILENO, .events = POLLIN}};
        int key;
        (void)poll(states, 2, (int)interval_ms); /* returns early if the window size changes */
        if (states[0].revents != 0) going = watch_read(watch);
        if (states[1].revents & (POLLHUP | POLLERR)) going = false;
        while (going && (key = getch()) != ERR)
            going = screen_key(key);
        if (watch_is_fresh(watch)) (void)watch_rate(watch);
        screen_draw(watch);
    }
    endwin();
}

#else

bool screen_possible(void)
{
    return false;
}

void screen_run(struct watch *watch, unsigned interval_ms, enum column by)
{
    (void)watch, (void)interval_ms, (void)by;
}

#endif
