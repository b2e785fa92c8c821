/* Traces: blocks of events, one per thread, and how they are written. */
#include "base/trace.h"
#include "base/settings.h"

#include "base/fail.h"
#include "base/safe_text.h"
#include "base/spin.h"
#include "base/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic uint32_t aqi_trace_mask;

static const struct {
    const char *name;
    const char *letters; /* of GASNET_TRACEMASK */
} trace_categories[] = {{"am", "AD"},   {"rma", "GP"}, {"atomic", ""},
                        {"coll", "BW"}, {"wait", "S"}, {"job", "I"}};
static_assert((1u << AQI_COUNT_OF(trace_categories)) - 1 == AQI_TRACE_ALL, "a name for each");

struct trace_event {
    uint64_t begun, duration; /* ns; `duration` is UINT64_MAX for an instant */
    uint64_t bytes;
    const char *name;
    uint32_t peer;
    uint32_t category; /* index of its name */
};

enum {
    TRACE_EVENTS = 512,
    TRACE_CHUNK = 8192,
    TRACE_LINE = 400,
    TRACE_NAME = 120,
    TRACE_TRIES = 100000
};

/* Events [written, count) are still to be written. Only the thread itself increases `count`. */
struct trace_block {
    struct trace_event events[TRACE_EVENTS];
    _Atomic uint32_t count;
    uint32_t written; /* under the lock, as is resetting `count` */
    struct aqi_spin lock;
    uint32_t thread;
    struct trace_block *next;
};

static struct {
    int fd;
    pid_t pid; /* forked children have copies of the blocks, but must not write them */
    struct aqi_trace_params params;
    bool text;
    atomic_bool ended, lost;
    _Atomic uint64_t written;
    _Atomic uint32_t threads;
    struct trace_block *_Atomic blocks; /* list of all blocks */
} trace = {.fd = -1};

/* --- the mask -------------------------------------------------------------------------------- */

static bool trace_letters(const char *text, size_t len, unsigned *mask)
{
    unsigned found = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < 'A' || text[i] > 'Z') return false;
        for (unsigned c = 0; c < AQI_COUNT_OF(trace_categories); c++)
            if (strchr(trace_categories[c].letters, text[i]) != NULL) found |= 1u << c;
    }
    *mask |= found;
    return true;
}

static bool trace_is(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && memcmp(word, text, len) == 0;
}

static bool trace_word(const char *text, size_t len, unsigned *mask)
{
    unsigned found = trace_is("all", text, len) ? AQI_TRACE_ALL : 0;
    for (unsigned c = 0; c < AQI_COUNT_OF(trace_categories); c++)
        if (trace_is(trace_categories[c].name, text, len)) found = 1u << c;
    *mask |= found;
    return found != 0 || trace_is("off", text, len) || trace_letters(text, len, mask);
}

bool aqi_trace_read(const char *text, unsigned *mask)
{
    unsigned found = 0;
    for (const char *part = text; *part != '\0';) {
        size_t len = strcspn(part, ",+");
        if (!trace_word(part, len, &found)) return false;
        part += len;
        if (*part != '\0') part++;
    }
    *mask = found;
    return true;
}

/* --- writing --------------------------------------------------------------------------------- */

static void trace_chrome(struct aqi_safe_text *line, const struct trace_event *e, uint32_t thread)
{
    bool point = e->duration == UINT64_MAX;
    aqi_safe_quoted(line, "{\"name\":\"", e->name, TRACE_NAME);
    aqi_safe_add(line, "\",\"cat\":\"");
    aqi_safe_add(line, trace_categories[e->category].name);
    aqi_safe_add(line, point ? "\",\"ph\":\"i\",\"s\":\"t" : "\",\"ph\":\"X");
    aqi_safe_thousandths(line, "\",\"ts\":", e->begun);
    if (!point) aqi_safe_thousandths(line, ",\"dur\":", e->duration);
    aqi_safe_number(line, ",\"pid\":", trace.params.rank);
    aqi_safe_number(line, ",\"tid\":", thread);
    aqi_safe_number(line, ",\"args\":{\"bytes\":", e->bytes);
    if (e->peer != AQI_TRACE_NOBODY) aqi_safe_number(line, ",\"peer\":", e->peer);
    aqi_safe_add(line, "}},\n");
}

/* "aq[RANK.THREAD] MICROSECONDS category name peer P bytes B took T us" */
static void trace_text(struct aqi_safe_text *line, const struct trace_event *e, uint32_t thread)
{
    aqi_safe_number(line, "aq[", trace.params.rank);
    aqi_safe_number(line, ".", thread);
    aqi_safe_thousandths(line, "] ", e->begun);
    aqi_safe_add(line, " us ");
    aqi_safe_add(line, trace_categories[e->category].name);
    aqi_safe_quoted(line, " ", e->name, TRACE_NAME);
    if (e->peer != AQI_TRACE_NOBODY) aqi_safe_number(line, " peer ", e->peer);
    aqi_safe_number(line, " bytes ", e->bytes);
    if (e->duration != UINT64_MAX) {
        aqi_safe_thousandths(line, " took ", e->duration);
        aqi_safe_add(line, " us");
    }
    aqi_safe_add(line, "\n");
}

/* Nothing is written beyond the limit, except by threads that write at the same time. */
static void trace_write(struct aqi_safe_text *chunk)
{
    uint64_t before = atomic_fetch_add(&trace.written, chunk->used);
    bool over = trace.params.limit != 0 && before >= trace.params.limit;
    if (over || atomic_load(&trace.ended) || atomic_load(&trace.lost)) chunk->used = 0;
    bool written = aqi_safe_write(chunk, trace.fd);
    if (over || !written) atomic_store_explicit(&aqi_trace_mask, 0, memory_order_relaxed);
    /* EPIPE is not reported: a process whose socket was closed is about to end. */
    if (!written && !atomic_exchange(&trace.lost, true) && errno != EPIPE)
        aqi_safe_lost(aqi_setting_variable("AQ_TRACE_FILE"));
}

/* Called with the lock of the block, or in its own thread. Each write consists of whole lines. */
static void trace_write_block(struct trace_block *block)
{
    char bytes[TRACE_CHUNK];
    struct aqi_safe_text chunk = {.text = bytes, .room = sizeof(bytes)};
    /* Reads the store in aqi_trace_record. */
    uint32_t count = atomic_load_explicit(&block->count, memory_order_acquire);
    for (; block->written < count; block->written++) {
        struct aqi_safe_text line = {.text = bytes + chunk.used,
                                     .room = aqi_min(sizeof(bytes) - chunk.used, TRACE_LINE)};
        (trace.text ? trace_text : trace_chrome)(&line, &block->events[block->written],
                                                 block->thread);
        chunk.used += line.used;
        if (sizeof(bytes) - chunk.used < TRACE_LINE) trace_write(&chunk);
    }
    trace_write(&chunk);
}

/* --- recording ------------------------------------------------------------------------------- */

/* The block of this thread, allocated on first use; NULL if out of memory: nothing is traced. */
static struct trace_block *trace_mine(void)
{
    if (aqi_counters_mine == NULL) (void)aqi_counters_attach();
    struct aqi_counters *thread = aqi_counters_mine;
    if (thread == NULL) return NULL;
    struct trace_block *block = atomic_load_explicit(&thread->trace, memory_order_relaxed);
    if (block != NULL || (block = calloc(1, sizeof(*block))) == NULL) return block;
    block->thread = atomic_fetch_add(&trace.threads, 1);
    block->next = atomic_load_explicit(&trace.blocks, memory_order_relaxed);
    /* Read by the load in aqi_trace_close. */
    while (!atomic_compare_exchange_weak_explicit(&trace.blocks, &block->next, block,
                                                  memory_order_release, memory_order_relaxed))
        ;
    atomic_store_explicit(&thread->trace, block, memory_order_relaxed);
    return block;
}

void aqi_trace_record(unsigned category, const char *name, uint64_t begun, uint32_t peer,
                      uint64_t bytes)
{
    struct trace_block *mine = trace_mine();
    if (mine == NULL) return;
    uint64_t now = aqi_now_ns();
    uint32_t n = atomic_load_explicit(&mine->count, memory_order_relaxed);
    mine->events[n] = (struct trace_event){.begun = begun != 0 ? begun : now,
                                           .duration = begun != 0 ? now - begun : UINT64_MAX,
                                           .bytes = bytes,
                                           .name = name,
                                           .peer = peer,
                                           .category = (uint32_t)__builtin_ctz(category)};
    /* Read by the load in trace_write_block. */
    atomic_store_explicit(&mine->count, n + 1, memory_order_release);
    if (n + 1 < TRACE_EVENTS && !trace.params.flush) return;
    aqi_spin_lock(&mine->lock);
    trace_write_block(mine);
    mine->written = 0;
    atomic_store_explicit(&mine->count, 0, memory_order_release);
    aqi_spin_unlock(&mine->lock);
}

/* --- opening and closing --------------------------------------------------------------------- */

static void trace_header(void)
{
    char bytes[200];
    struct aqi_safe_text line = {.text = bytes, .room = sizeof(bytes)};
    if (trace.text) return;
    aqi_safe_number(&line,
                    "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", trace.params.rank);
    aqi_safe_number(&line, ",\"args\":{\"name\":\"rank ", trace.params.rank);
    aqi_safe_add(&line, "\"}},\n");
    (void)aqi_safe_write(&line, trace.fd);
}

/* No comma after the last element. Readers supply the bracket that a truncated trace lacks. */
static void trace_footer(void)
{
    static const char begin[] =
        "{\"name\":\"end\",\"cat\":\"job\",\"ph\":\"i\",\"s\":\"p\",\"ts\":";
    char bytes[200];
    struct aqi_safe_text line = {.text = bytes, .room = sizeof(bytes)};
    if (trace.text) return;
    aqi_safe_thousandths(&line, begin, aqi_now_ns());
    aqi_safe_number(&line, ",\"pid\":", trace.params.rank);
    aqi_safe_add(&line, ",\"tid\":0}\n]\n");
    (void)aqi_safe_write(&line, trace.fd);
}

void aqi_trace_open(const struct aqi_trace_params *params)
{
    if (params->mask == 0) return;
    trace.fd = params->fd;
    trace.params = *params;
    trace.pid = getpid();
    trace.text = params->format == AQI_TRACE_TEXT ||
                 (params->format == AQI_TRACE_AUTO && trace.fd == STDERR_FILENO);
    trace_header();
    atomic_store_explicit(&aqi_trace_mask, params->mask, memory_order_release);
}

void aqi_trace_close(void)
{
    int saved_errno = errno;
    if (trace.fd < 0 || trace.pid != getpid() || atomic_load(&trace.ended)) return;
    atomic_store_explicit(&aqi_trace_mask, 0, memory_order_relaxed);
    struct trace_block *block = atomic_load_explicit(&trace.blocks, memory_order_acquire);
    for (; block != NULL; block = block->next) {
        /* Skip it if its thread is writing, or was interrupted by the signal being handled. */
        bool ours = false;
        for (int i = 0; i < TRACE_TRIES && !(ours = aqi_spin_try(&block->lock)); i++)
            aqi_pause();
        if (!ours) continue;
        trace_write_block(block);
        aqi_spin_unlock(&block->lock);
    }
    trace_footer();
    atomic_store(&trace.ended, true);
    errno = saved_errno;
}
