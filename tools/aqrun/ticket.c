/* Encodes and decodes an agent's ticket: a table of fields, and checks of their consistency. */
#include "ticket.h"

#include "base/fail.h"

#include <aqueduct/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKET_HEAD      "aqrun ticket "
#define TICKET_HEAD_LINE 80u /* maximum length of the first line */

enum ticket_type {
    TICKET_U32,
    TICKET_U64,
    TICKET_KEY,
    TICKET_TEXT,
    TICKET_TEXTS,
    TICKET_HOSTS,
    TICKET_LIMITS
};

struct ticket_field {
    const char *name;
    enum ticket_type type;
    size_t offset; /* in struct ticket */
};

/* The sizes of types with a fixed one. */
static const size_t ticket_sizes[] = {[TICKET_U32] = sizeof(uint32_t),
                                      [TICKET_U64] = sizeof(uint64_t),
                                      [TICKET_KEY] = AQI_JOB_KEY_BYTES};

#define TICKET_FIELD(kind, field)                                                                  \
    {                                                                                              \
        .name = #field, .type = TICKET_##kind, .offset = offsetof(struct ticket, field)            \
    }

static const struct ticket_field ticket_fields[] = {
    TICKET_FIELD(KEY, key),
    TICKET_FIELD(TEXT, job),
    TICKET_FIELD(U32, ranks),
    TICKET_FIELD(U32, hosts),
    TICKET_FIELD(U32, host),
    TICKET_FIELD(U32, fanout),
    TICKET_FIELD(TEXTS, addresses),
    TICKET_FIELD(TEXT, ports),
    TICKET_FIELD(HOSTS, tree),
    TICKET_FIELD(TEXT, folder),
    TICKET_FIELD(TEXTS, argv),
    TICKET_FIELD(TEXTS, environment),
    TICKET_FIELD(U32, umask),
    TICKET_FIELD(LIMITS, limits),
    TICKET_FIELD(U32, flags),
    TICKET_FIELD(TEXT, ssh_command),
    TICKET_FIELD(TEXT, ssh_options),
    TICKET_FIELD(TEXT, remote_aqrun),
    TICKET_FIELD(TEXT, output),
    TICKET_FIELD(U64, ssh_timeout_ns),
    TICKET_FIELD(U64, start_timeout_ns),
    TICKET_FIELD(U64, exit_timeout_ns),
    TICKET_FIELD(U64, host_timeout_ns),
};
static_assert(AQI_COUNT_OF(ticket_fields) <= 64, "a field is a bit of a word");

/* --- writing -------------------------------------------------------------------------------- */

/* In the first pass, `bytes` is NULL, and bytes are only counted. */
struct ticket_out {
    uint8_t *bytes;
    size_t used;
};

static void ticket_put(struct ticket_out *out, const void *from, size_t len)
{
    if (out->bytes != NULL && len > 0) memcpy(out->bytes + out->used, from, len);
    out->used += len;
}

static void ticket_put_u32(struct ticket_out *out, uint32_t value)
{
    ticket_put(out, &value, sizeof(value));
}

static void ticket_put_u64(struct ticket_out *out, uint64_t value)
{
    ticket_put(out, &value, sizeof(value));
}

static void ticket_put_text(struct ticket_out *out, const char *text)
{
    ticket_put(out, text, strlen(text) + 1);
}

static void ticket_put_value(struct ticket_out *out, const struct ticket *ticket,
                             const struct ticket_field *field)
{
    const void *at = (const char *)ticket + field->offset;
    switch (field->type) {
    case TICKET_U32:
    case TICKET_U64:
    case TICKET_KEY:
        ticket_put(out, at, ticket_sizes[field->type]);
        break;
    case TICKET_TEXT:
        ticket_put_text(out, *(const char *const *)at);
        break;
    case TICKET_TEXTS:
        for (const char *const *text = *(const char *const *const *)at; *text != NULL; text++)
            ticket_put_text(out, *text);
        break;
    case TICKET_HOSTS:
        for (uint32_t i = 0; i < ticket->tree_count; i++) {
            const struct ticket_host *host = &ticket->tree[i];
            ticket_put_u32(out, host->number);
            ticket_put_u32(out, host->first);
            ticket_put_u32(out, host->count);
            ticket_put_text(out, host->name);
        }
        break;
    case TICKET_LIMITS:
        for (uint32_t i = 0; i < ticket->limit_count; i++) {
            ticket_put_u32(out, ticket->limits[i].resource);
            ticket_put_u64(out, ticket->limits[i].soft);
            ticket_put_u64(out, ticket->limits[i].hard);
        }
        break;
    }
}

static void ticket_put_length(struct ticket_out *out, size_t at, size_t len)
{
    uint32_t value = (uint32_t)len;
    if (out->bytes != NULL) memcpy(out->bytes + at, &value, sizeof(value));
}

static void ticket_put_all(struct ticket_out *out, const struct ticket *ticket)
{
    char line[TICKET_HEAD_LINE];
    snprintf(line, sizeof(line), TICKET_HEAD "%u %s\n", aqi_wire_version(AQI_WIRE_AGENTS),
             aq_version());
    ticket_put(out, line, strlen(line));
    size_t total = out->used;
    ticket_put_u32(out, 0);
    for (size_t i = 0; i < AQI_COUNT_OF(ticket_fields); i++) {
        const struct ticket_field *field = &ticket_fields[i];
        uint8_t name_len = (uint8_t)strlen(field->name);
        ticket_put(out, &name_len, 1);
        ticket_put(out, field->name, name_len);
        size_t length = out->used;
        ticket_put_u32(out, 0);
        ticket_put_value(out, ticket, field);
        ticket_put_length(out, length, out->used - length - sizeof(uint32_t));
    }
    ticket_put_length(out, total, out->used - total - sizeof(uint32_t));
}

uint8_t *ticket_encode(const struct ticket *ticket, size_t *len, char why[TICKET_WHY])
{
    struct ticket_out out = {0};
    ticket_put_all(&out, ticket);
    if (out.used > TICKET_MAX) {
        aqi_explain(
            why, TICKET_WHY,
            "the environment, the arguments and the names of hosts have %zu MB, but at most "
            "%u MB can be sent to other hosts: pass fewer variables (--env-only)",
            out.used >> 20, TICKET_MAX >> 20);
        return NULL;
    }
    *len = out.used;
    out = (struct ticket_out){.bytes = malloc(out.used)};
    if (out.bytes == NULL)
        aqi_explain(why, TICKET_WHY, "no memory for a ticket of %zu bytes", *len);
    else
        ticket_put_all(&out, ticket);
    return out.bytes;
}

/* --- reading -------------------------------------------------------------------------------- */

/* The unread part of a field. */
struct ticket_in {
    uint8_t *at, *end;
};

static bool ticket_get(struct ticket_in *in, void *to, size_t len)
{
    if ((size_t)(in->end - in->at) < len) return false;
    memcpy(to, in->at, len);
    in->at += len;
    return true;
}

static bool ticket_get_text(struct ticket_in *in, const char **text)
{
    uint8_t *zero = memchr(in->at, 0, (size_t)(in->end - in->at));
    if (zero == NULL) return false;
    *text = (const char *)in->at;
    in->at = zero + 1;
    return true;
}

/* Memory owned by a ticket. */
struct ticket_piece {
    struct ticket_piece *next;
    size_t size;
    _Alignas(16) uint8_t bytes[];
};

/* Allocate the items of a list and a terminating zero. */
static void *ticket_room(struct ticket *ticket, size_t count, size_t size)
{
    size_t bytes = (count + 1) * size;
    struct ticket_piece *piece = calloc(1, sizeof(*piece) + bytes);
    if (piece == NULL) return NULL;
    piece->size = bytes;
    piece->next = ticket->memory;
    ticket->memory = piece;
    return piece->bytes;
}

/* Erase keys and passwords in the environment before freeing them. */
void ticket_free(struct ticket *ticket)
{
    while (ticket->memory != NULL) {
        struct ticket_piece *piece = ticket->memory;
        ticket->memory = piece->next;
        explicit_bzero(piece->bytes, piece->size);
        free(piece);
    }
    explicit_bzero(ticket, sizeof(*ticket));
}

static bool ticket_get_texts(struct ticket *ticket, struct ticket_in *in, const char ***texts)
{
    size_t count = 0;
    for (const uint8_t *at = in->at; at < in->end; at++)
        count += *at == 0;
    const char **list = ticket_room(ticket, count, sizeof(*list));
    if (list == NULL) return false;
    *texts = list;
    while (in->at < in->end)
        if (!ticket_get_text(in, list++)) return false;
    return true;
}

/* Minimum bytes of an item: those of its numbers. */
enum { TICKET_HOST_BYTES = 12, TICKET_LIMIT_BYTES = 20 };

static bool ticket_get_hosts(struct ticket *ticket, struct ticket_in *in)
{
    size_t max = (size_t)(in->end - in->at) / TICKET_HOST_BYTES;
    struct ticket_host *host = ticket_room(ticket, max, sizeof(*host));
    ticket->tree = host;
    ticket->tree_count = 0;
    for (; host != NULL && in->at < in->end; host++, ticket->tree_count++)
        if (!ticket_get(in, &host->number, 4) || !ticket_get(in, &host->first, 4) ||
            !ticket_get(in, &host->count, 4) || !ticket_get_text(in, &host->name))
            return false;
    return host != NULL;
}

static bool ticket_get_limits(struct ticket *ticket, struct ticket_in *in)
{
    size_t max = (size_t)(in->end - in->at) / TICKET_LIMIT_BYTES;
    struct ticket_limit *limit = ticket_room(ticket, max, sizeof(*limit));
    ticket->limits = limit;
    ticket->limit_count = 0;
    for (; limit != NULL && in->at < in->end; limit++, ticket->limit_count++)
        if (!ticket_get(in, &limit->resource, 4) || !ticket_get(in, &limit->soft, 8) ||
            !ticket_get(in, &limit->hard, 8))
            return false;
    return limit != NULL;
}

static bool ticket_get_value(struct ticket *ticket, struct ticket_in *in,
                             const struct ticket_field *field)
{
    void *to = (char *)ticket + field->offset;
    switch (field->type) {
    case TICKET_U32:
    case TICKET_U64:
    case TICKET_KEY:
        return ticket_get(in, to, ticket_sizes[field->type]);
    case TICKET_TEXT:
        return ticket_get_text(in, to);
    case TICKET_TEXTS:
        return ticket_get_texts(ticket, in, to);
    case TICKET_HOSTS:
        return ticket_get_hosts(ticket, in);
    case TICKET_LIMITS:
        return ticket_get_limits(ticket, in);
    }
    return false;
}

static const struct ticket_field *ticket_find(const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < AQI_COUNT_OF(ticket_fields); i++)
        if (strlen(ticket_fields[i].name) == len && memcmp(ticket_fields[i].name, name, len) == 0)
            return &ticket_fields[i];
    return NULL;
}

/* Decode the next field of the body; `seen` is the set of fields received. */
static bool ticket_get_field(struct ticket *ticket, struct ticket_in *in, uint64_t *seen,
                             char why[TICKET_WHY])
{
    uint8_t name_len, name[UINT8_MAX];
    uint32_t len;
    if (!ticket_get(in, &name_len, 1) || !ticket_get(in, name, name_len) ||
        !ticket_get(in, &len, sizeof(len)) || (size_t)(in->end - in->at) < len)
        return aqi_explain(why, TICKET_WHY,
                           "the ticket is damaged: a field reaches beyond its end");
    struct ticket_in value = {in->at, in->at + len};
    in->at = value.end;
    const struct ticket_field *field = ticket_find(name, name_len);
    if (field == NULL) return true;
    uint64_t bit = 1ull << (field - ticket_fields);
    if ((*seen & bit) != 0)
        return aqi_explain(why, TICKET_WHY, "the ticket is damaged: it contains %s twice",
                           field->name);
    *seen |= bit;
    if (ticket_get_value(ticket, &value, field) && value.at == value.end) return true;
    return aqi_explain(why, TICKET_WHY, "the ticket is damaged: invalid %s", field->name);
}

/* Check what later code relies on. Returns the name of a field that violates it, or NULL. */
static const char *ticket_invalid_field(const struct ticket *t)
{
    if (t->ranks == 0 || t->ranks > AQI_MAX_RANKS) return "ranks";
    if (t->hosts < 2 || t->hosts > t->ranks + 1) return "hosts";
    if (t->host == 0 || t->host >= t->hosts) return "host";
    if (t->fanout == 0) return "fanout";
    if (t->addresses[0] == NULL) return "addresses";
    if (t->argv[0] == NULL || t->argv[0][0] == '\0') return "argv";
    if (t->umask > 0777) return "umask";
    for (size_t i = 0; t->environment[i] != NULL; i++)
        if (strchr(t->environment[i], '=') == NULL) return "environment";
    if (t->tree_count == 0 || t->tree[0].number != t->host) return "tree";
    for (uint32_t i = 0; i < t->tree_count; i++) {
        const struct ticket_host *host = &t->tree[i];
        if (host->number >= t->hosts || host->count == 0 || host->name[0] == '\0' ||
            !aqi_within(host->first, host->count, 0, t->ranks))
            return "tree";
    }
    return NULL;
}

static bool ticket_get_body(struct ticket *ticket, struct ticket_in in, char why[TICKET_WHY])
{
    uint64_t seen = 0;
    while (in.at < in.end)
        if (!ticket_get_field(ticket, &in, &seen, why)) return false;
    for (size_t i = 0; i < AQI_COUNT_OF(ticket_fields); i++)
        if ((seen & 1ull << i) == 0)
            return aqi_explain(why, TICKET_WHY, "the ticket is damaged: %s is missing",
                               ticket_fields[i].name);
    const char *invalid = ticket_invalid_field(ticket);
    if (invalid == NULL) return true;
    return aqi_explain(why, TICKET_WHY, "the ticket is damaged: invalid %s", invalid);
}

/* Check the first line. Returns 1 if it is valid, 0 if it is incomplete, -1 on failure (see
 * `why`). */
static int ticket_get_head(const uint8_t *bytes, size_t len, const char *self, size_t *used,
                           char why[TICKET_WHY])
{
    static const char head[] = TICKET_HEAD;
    unsigned protocol;
    char line[TICKET_HEAD_LINE + 1], version[TICKET_HEAD_LINE + 1];
    if (memcmp(bytes, head, aqi_min(len, sizeof(head) - 1)) != 0) {
        aqi_explain(why, TICKET_WHY,
                    "no ticket on standard input: aqrun itself uses --agent, to start agents on "
                    "other hosts");
        return -1;
    }
    const uint8_t *newline = memchr(bytes, '\n', aqi_min(len, TICKET_HEAD_LINE));
    if (newline == NULL && len < TICKET_HEAD_LINE) return 0;
    *used = newline != NULL ? (size_t)(newline + 1 - bytes) : 0;
    memcpy(line, bytes, *used);
    line[*used] = '\0';
    if (newline == NULL ||
        sscanf(line + sizeof(head) - 1, "%9u %80[0-9A-Za-z.+~-]\n", &protocol, version) != 2) {
        aqi_explain(why, TICKET_WHY, "the ticket is damaged: its first line is invalid");
        return -1;
    }
    unsigned major, minor;
    if (protocol == aqi_wire_version(AQI_WIRE_AGENTS) &&
        sscanf(version, "%9u.%9u.", &major, &minor) == 2 &&
        aqi_versions_fit(major, minor, AQ_VERSION_MAJOR, AQ_VERSION_MINOR)) {
        if (strcmp(version, aq_version()) != 0)
            aqi_explain(why, TICKET_WHY,
                        "the job was started by aqrun %s, and %s on this host is aqrun %s: they "
                        "are compatible, but it is better to install the same version on all hosts",
                        version, self, aq_version());
        return 1;
    }
    aqi_explain(
        why, TICKET_WHY,
        "the job was started by aqrun %s (ticket %u), but %s on this host is aqrun %s (ticket %u): "
        "install the same version on all hosts, or set AQ_REMOTE_AQRUN to its path",
        version, protocol, self, aq_version(), aqi_wire_version(AQI_WIRE_AGENTS));
    return -1;
}

static ssize_t ticket_incomplete(bool ended, size_t have, char why[TICKET_WHY])
{
    if (!ended) return 0;
    aqi_explain(why, TICKET_WHY,
                "the ticket ended after %zu bytes: was the ssh session interrupted?", have);
    return -1;
}

ssize_t ticket_decode(const uint8_t *bytes, size_t len, bool ended, const char *self,
                      struct ticket *ticket, char why[TICKET_WHY])
{
    size_t head;
    uint32_t body;
    why[0] = '\0';
    int known = ticket_get_head(bytes, len, self, &head, why);
    if (known < 0) return -1;
    if (known == 0 || len - head < sizeof(body)) return ticket_incomplete(ended, len, why);
    memcpy(&body, bytes + head, sizeof(body));
    head += sizeof(body);
    if (body > TICKET_MAX) {
        aqi_explain(why, TICKET_WHY, "the ticket is damaged: it has %u bytes", body);
        return -1;
    }
    if (len - head < body) return ticket_incomplete(ended, len, why);
    *ticket = (struct ticket){0};
    uint8_t *copy = ticket_room(ticket, body, 1);
    if (copy == NULL) {
        aqi_explain(why, TICKET_WHY, "no memory for a ticket of %u bytes", body);
        return -1;
    }
    memcpy(copy, bytes + head, body);
    if (ticket_get_body(ticket, (struct ticket_in){copy, copy + body}, why))
        return (ssize_t)(head + body);
    ticket_free(ticket);
    return -1;
}
