/* The mappings of this process, from /proc/self/maps. */
#include "reg/mappings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { MAPPINGS_TEXT = 8192, MAPPINGS_USUAL_MOST = 65530 };

struct mappings_line {
    struct reg_range range;
    uint64_t offset, inode; /* in a file; 0 if there is none */
    bool anonymous;
};

static const char *mappings_number(const char *text, unsigned base, uint64_t *number)
{
    *number = 0;
    for (;; text++) {
        unsigned digit = *text >= 'a' ? (unsigned)(*text - 'a') + 10 : (unsigned)(*text - '0');
        if (digit >= base) return text;
        *number = *number * base + digit;
    }
}

static const char *mappings_word(const char *text, const char **word)
{
    *word = text += strspn(text, " ");
    return text + strcspn(text, " \n");
}

/* The kernel's own mappings have names such as [vdso]. */
static bool mappings_unnamed(const char *name)
{
    return *name == '\n' || *name == '\0' || strncmp(name, "[heap]", 6) == 0 ||
           strncmp(name, "[stack", 6) == 0 || strncmp(name, "[anon:", 6) == 0;
}

/* from-to rwxp offset device inode name */
static struct mappings_line mappings_read(const char *text)
{
    struct mappings_line line = {.range.from = 0};
    const char *flags, *word, *name;
    text = mappings_number(text, 16, &line.range.from);
    text = mappings_number(text + (*text == '-'), 16, &line.range.to);
    text = mappings_word(text, &flags);
    text = mappings_number(text + strspn(text, " "), 16, &line.offset);
    text = mappings_word(text, &word);
    text = mappings_number(text + strspn(text, " "), 10, &line.inode);
    (void)mappings_word(text, &name);
    line.anonymous =
        strnlen(flags, 4) == 4 && flags[3] == 'p' && line.inode == 0 && mappings_unnamed(name);
    return line;
}

/* The range searched for, and the current run of adjacent mappings. */
struct mappings_look {
    struct reg_range wanted;
    struct reg_mapped at;
    uint64_t end; /* of the last mapping read */
    uint64_t count;
    bool done;
};

static bool mappings_found(const struct mappings_look *look)
{
    return look->at.side.from <= look->wanted.from && look->wanted.to <= look->at.side.to;
}

static void mappings_take(void *arg, const struct mappings_line *line)
{
    struct mappings_look *look = arg;
    const struct reg_range *range = &line->range;
    struct reg_mapped *at = &look->at;
    bool joins = line->anonymous && range->from == at->side.to;
    uint64_t end = look->end;
    look->end = range->to;
    look->count++;
    if (!joins && !look->done && mappings_found(look)) {
        look->done = true;
        at->wide.to = range->from;
    }
    if (look->done) return;
    if (!joins) *at = (struct reg_mapped){0};
    if (!line->anonymous) return;
    if (!joins) {
        at->side.from = range->from;
        at->wide.from = end != 0 ? end : range->from;
    }
    at->side.to = at->wide.to = range->to;
    if (range->to <= look->wanted.from || range->from >= look->wanted.to) return;
    if (at->own.to == 0) at->own.from = range->from;
    at->own.to = range->to;
}

/* No stdio: its buffer might lie in the memory examined. Returns false if not all was read. */
static bool mappings_walk(void (*take)(void *arg, const struct mappings_line *line), void *arg)
{
    char text[MAPPINGS_TEXT];
    size_t held = 0;
    ssize_t got;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return false;
    while ((got = read(maps, text + held, sizeof(text) - 1 - held)) > 0) {
        char *start = text, *next;
        held += (size_t)got;
        text[held] = '\0';
        for (; (next = strchr(start, '\n')) != NULL; start = next + 1) {
            struct mappings_line line = mappings_read(start);
            take(arg, &line);
        }
        held -= (size_t)(start - text); /* the start of a line */
        memmove(text, start, held);
    }
    close(maps);
    return got == 0;
}

uint64_t reg_mappings_find(uint64_t from, uint64_t to, struct reg_mapped *mapped)
{
    struct mappings_look look = {.wanted = {.from = from, .to = to}};
    bool all = mappings_walk(mappings_take, &look);
    *mapped = mappings_found(&look) ? look.at : (struct reg_mapped){0};
    return all ? look.count : 0;
}

/* The current run of mappings that may be a single one. */
struct mappings_runs {
    struct reg_range range, complete, run;
    struct mappings_line last;
};

static bool mappings_continue(const struct mappings_line *line, const struct mappings_line *next)
{
    if (line->range.to != next->range.from) return false;
    if (line->anonymous || next->anonymous) return line->anonymous && next->anonymous;
    return line->inode != 0 && line->inode == next->inode &&
           next->offset == line->offset + (line->range.to - line->range.from);
}

static void mappings_end_run(struct mappings_runs *runs)
{
    const struct reg_range *range = &runs->range, *run = &runs->run;
    if (run->from < range->from && range->from < run->to) runs->complete.from = run->from;
    if (run->from < range->to && range->to < run->to) runs->complete.to = run->to;
}

static void mappings_join(void *arg, const struct mappings_line *line)
{
    struct mappings_runs *runs = arg;
    if (!mappings_continue(&runs->last, line)) {
        mappings_end_run(runs);
        runs->run.from = line->range.from;
    }
    runs->run.to = line->range.to;
    runs->last = *line;
}

bool reg_mappings_complete(struct reg_range *range)
{
    struct mappings_runs runs = {.range = *range, .complete = *range};
    (void)mappings_walk(mappings_join, &runs);
    mappings_end_run(&runs);
    *range = runs.complete;
    return runs.range.from != range->from || runs.range.to != range->to;
}

struct mappings_visit {
    void (*found)(void *arg, const struct reg_range *range);
    void *arg;
};

static void mappings_visit(void *arg, const struct mappings_line *line)
{
    const struct mappings_visit *visit = arg;
    if (line->anonymous) visit->found(visit->arg, &line->range);
}

void reg_mappings_each(void (*found)(void *arg, const struct reg_range *range), void *arg)
{
    struct mappings_visit visit = {.found = found, .arg = arg};
    (void)mappings_walk(mappings_visit, &visit);
}

uint64_t reg_mappings_most(void)
{
    char text[32] = "";
    uint64_t most = 0;
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) > 0) (void)mappings_number(text, 10, &most);
        close(fd);
    }
    return most != 0 ? most : MAPPINGS_USUAL_MOST;
}
