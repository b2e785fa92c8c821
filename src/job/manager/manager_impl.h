/*
 * Shared by the managers: encoding of values as text in pieces, ranks that share a host, and the
 * fields of messages.
 */
#ifndef MANAGER_IMPL_H
#define MANAGER_IMPL_H

#include "job/manager/manager.h"

/* ---- hosts (hosts.c) ---- */

/*
 * Read PMI_process_mapping, "(vector,(node,nodes,ranks),…)": `ranks` ranks on each of `nodes` nodes
 * starting at `node`, repeated as long as there are ranks. Returns false if malformed.
 */
bool manager_mapping(const char *text, uint32_t size, uint64_t *node_of);

/* Fill in the hosts of `info`: two ranks are on one host if `node_of` is the same for both. */
aq_status manager_set_hosts(struct aqi_manager *manager, const uint64_t *node_of);

/* The same, by a mapping, which must be the same in all ranks. If it is NULL or malformed, ranks
 * exchange the names of their hosts. */
aq_status manager_map_hosts(struct aqi_manager *manager, const char *mapping);

/* Check that size and rank are valid. */
aq_status manager_check_ranks(const struct aqi_manager *manager);

/* ---- values (values.c) ---- */

#define MANAGER_WIRE_KEY 48u /* maximum bytes of a key on the wire, with NUL */
/* Maximum bytes of a value as text, with NUL: its length, a period, and base 64. */
#define MANAGER_TEXT (sizeof("8192.") + (AQI_MANAGER_VALUE * 4 + 2) / 3)

/* Check that the key and the length of the value are valid. */
aq_status manager_check_put(const char *key, size_t len);

/* Encode bytes as text of [0-9A-Za-z_.-]; returns its length. */
size_t manager_encode(const void *value, size_t len, char text[MANAGER_TEXT]);

/* The total length of an encoded text that begins with `text`; 0 if malformed. */
size_t manager_encoded_length(const char *text);

/* Decode. Returns false if malformed. Writes at most AQI_MANAGER_VALUE bytes. */
bool manager_decode(const char *text, uint8_t *value, size_t *len);

/* Transfer of values for managers whose values are short text. */
struct manager_texts {
    size_t piece; /* maximum bytes of a text */
    aq_status (*put)(struct aqi_manager *manager, const char *key, const char *text, size_t len);
    /* `text` is NUL-terminated, even if the value is longer than `room`. AQ_AGAIN: there is no
     * value. */
    aq_status (*get)(struct aqi_manager *manager, uint32_t rank, const char *key, char *text,
                     size_t room);
};
aq_status manager_put_texts(struct aqi_manager *manager, const struct manager_texts *texts,
                            const char *key, const void *value, size_t len);
aq_status manager_get_texts(struct aqi_manager *manager, const struct manager_texts *texts,
                            uint32_t rank, const char *key, void *value, size_t room, size_t *len);
/* The errors of get if there is no such value, or not enough space. */
aq_status manager_no_value(uint32_t rank, const char *key);
aq_status manager_long_value(uint32_t rank, const char *key, size_t len, size_t room);

/* ---- fields of a message (fields.c) ---- */

#define MANAGER_FIELDS 24u

struct manager_fields {
    size_t count;
    const char *name[MANAGER_FIELDS], *value[MANAGER_FIELDS];
};

/*
 * Split `text`, "name=value" fields between separators, in place; it is NUL-terminated. A doubled
 * ';' separator is part of a value, as in PMI-2. Returns false if malformed.
 */
bool manager_cut(char *text, char separator, struct manager_fields *fields);
/* The value of the first field with this name; NULL: none. */
const char *manager_field(const struct manager_fields *fields, const char *name);
/* Parse a decimal number followed by `end`; `*at` is set to the text after both. */
bool manager_number_before(const char **at, char end, uint32_t *number);
/* Parse a decimal number and nothing else. `text` may be NULL, which is none. */
bool manager_number(const char *text, uint32_t *number);
/* Whether it can be part of a message unchanged: printable, without blanks, ';' and '='. */
bool manager_is_word(const char *text);

/* Parse the length of a PMI-2 message: six characters, digits with blanks before or after. */
bool manager_read_length(const char head[6], size_t *len);

/* ---- the socket to a PMI server (stream.c) ---- */

#define MANAGER_MESSAGE 65536u /* maximum length of a message, with NUL */

struct manager_stream {
    int fd;
    size_t used, taken; /* bytes received, and those consumed */
    char buf[MANAGER_MESSAGE];
};

/* Open the socket of PMI_FD, or of PMI_PORT if `port` allows it. */
aq_status manager_stream_open(struct manager_stream *stream, bool port);
void manager_stream_close(struct manager_stream *stream);
/* Send all bytes. AQ_EPEER, AQ_ETIMEOUT, … */
aq_status manager_stream_send(struct manager_stream *stream, const char *text, size_t len);
/*
 * Receive a line without its newline, or a message preceded by its length, as a string that is
 * valid until the next call. `doing` is for errors. AQ_ETIMEOUT is not recorded: manager_silent
 * does that.
 */
aq_status manager_stream_line(struct manager_stream *stream, uint64_t timeout_ns, const char *doing,
                              char **line);
aq_status manager_stream_message(struct manager_stream *stream, uint64_t timeout_ns,
                                 const char *doing, char **message);

/* Time limit for the last answer of a manager. */
#define MANAGER_LEAVE_NS (aqi_job_config.exit_timeout_ns / 2)

aq_status manager_silent(const char *doing);
/* The error of a fence that took longer than AQ_START_TIMEOUT. */
aq_status manager_fence_late(const struct aqi_manager *manager);

/* Whether the environment shows that mpiexec.hydra is the innermost launcher. */
bool manager_is_hydra(void);

#endif
