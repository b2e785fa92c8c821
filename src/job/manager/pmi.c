/* PMI-1 by its wire protocol: lines of "name=value" fields over the manager's socket. */
#include "base/fail.h"
#include "job/settings.h"
#include "manager_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PMI_LINE 1024u /* longest line accepted by all servers */

struct pmi_manager {
    struct aqi_manager manager;
    struct manager_stream stream;
    bool broken; /* a call has failed: the next message may be the answer to it */
    size_t piece;
    char space[AQI_MANAGER_NAME]; /* the name of the key-value space */
};

static struct pmi_manager *pmi_of(struct aqi_manager *manager)
{
    return (struct pmi_manager *)(void *)manager;
}

static bool pmi_launched(void)
{
    bool socket = getenv("PMI_FD") != NULL && getenv("PMI_RANK") != NULL;
    return socket || (getenv("PMI_PORT") != NULL && getenv("PMI_ID") != NULL);
}

static aq_status pmi_send(struct pmi_manager *pmi, const char *format, ...) AQI_PRINTF(2, 3);
static aq_status pmi_send(struct pmi_manager *pmi, const char *format, ...)
{
    char line[PMI_LINE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(line))
        return aqi_fail(AQ_ESIZE, "job",
                        "a line of %d bytes is too long for PMI: the maximum is %u", len,
                        PMI_LINE - 1);
    return manager_stream_send(&pmi->stream, line, (size_t)len);
}

/* Receive the next line, which must be `cmd`. A timeout is not recorded. */
static aq_status pmi_receive(struct pmi_manager *pmi, const char *cmd, uint64_t patience_ns,
                             struct manager_fields *fields)
{
    char *line;
    aq_status status = manager_stream_line(&pmi->stream, patience_ns, cmd, &line);
    if (status != AQ_OK) return status;
    const char *said = manager_cut(line, ' ', fields) ? manager_field(fields, "cmd") : NULL;
    if (said == NULL || strcmp(said, cmd) != 0)
        return aqi_fail(AQ_EPROTO, "job", "the manager answered '%.40s' instead of '%s' (PMI-1)",
                        said == NULL ? "an invalid command" : said, cmd);
    return AQ_OK;
}

/* Receive the answer to a request whose sending returned `sent`. */
static aq_status pmi_answer(struct pmi_manager *pmi, aq_status sent, const char *cmd,
                            struct manager_fields *fields)
{
    aq_status status = sent;
    if (status == AQ_OK) {
        status = pmi_receive(pmi, cmd, aqi_job_config.start_timeout_ns, fields);
        if (status == AQ_ETIMEOUT) status = manager_silent(cmd);
    }
    if (status != AQ_OK) pmi->broken = true;
    return status;
}

static bool pmi_refused(const struct manager_fields *fields)
{
    const char *rc = manager_field(fields, "rc");
    return rc != NULL && strcmp(rc, "0") != 0;
}

static aq_status pmi_put_text(struct aqi_manager *manager, const char *key, const char *text,
                              size_t len)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    aq_status status =
        pmi_send(pmi, "cmd=put kvsname=%s key=%s value=%.*s\n", pmi->space, key, (int)len, text);
    status = pmi_answer(pmi, status, "put_result", &fields);
    if (status == AQ_OK && pmi_refused(&fields)) {
        const char *why = manager_field(&fields, "msg");
        status = aqi_fail(AQ_EREFUSED, "job", "the manager rejected the value of %s: %.100s", key,
                          why == NULL ? "it gave no reason" : why);
    }
    return status;
}

static aq_status pmi_get_text(struct aqi_manager *manager, uint32_t rank, const char *key,
                              char *text, size_t room)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    (void)rank; /* the key contains it */
    aq_status status = pmi_send(pmi, "cmd=get kvsname=%s key=%s\n", pmi->space, key);
    status = pmi_answer(pmi, status, "get_result", &fields);
    if (status != AQ_OK) return status;
    const char *value = manager_field(&fields, "value");
    if (pmi_refused(&fields) || value == NULL) return AQ_AGAIN;
    snprintf(text, room, "%s", value);
    return AQ_OK;
}

static struct manager_words pmi_words(struct pmi_manager *pmi)
{
    return (struct manager_words){pmi->piece, pmi_put_text, pmi_get_text};
}

static aq_status pmi_put(struct aqi_manager *manager, const char *key, const void *value,
                         size_t len)
{
    struct manager_words words = pmi_words(pmi_of(manager));
    return manager_put_words(manager, &words, key, value, len);
}

static aq_status pmi_get(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                         size_t room, size_t *len)
{
    struct manager_words words = pmi_words(pmi_of(manager));
    return manager_get_words(manager, &words, rank, key, value, room, len);
}

static aq_status pmi_fence(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    aq_status status = pmi_send(pmi, "cmd=barrier_in\n");
    if (status == AQ_OK)
        status = pmi_receive(pmi, "barrier_out", aqi_job_config.start_timeout_ns, &fields);
    if (status != AQ_OK) pmi->broken = true;
    if (status == AQ_ETIMEOUT) return manager_fence_late(manager);
    if (status == AQ_OK && pmi_refused(&fields))
        return aqi_fail(AQ_EPEER, "job", "the manager has aborted the job");
    return status;
}

static void pmi_abort(struct aqi_manager *manager, int code, const char *text)
{
    struct pmi_manager *pmi = pmi_of(manager);
    (void)text; /* the protocol has no field for it */
    (void)pmi_send(pmi, "cmd=abort exitcode=%d\n", code);
    pmi->broken = true;
}

static void pmi_close(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    if (!pmi->broken && pmi_send(pmi, "cmd=finalize\n") == AQ_OK)
        (void)pmi_receive(pmi, "finalize_ack", MANAGER_LEAVE_NS, &fields);
    manager_stream_close(&pmi->stream);
}

/* ---- opening ---- */

/* A server at a port sends rank and size in answer to the process's ID. */
static aq_status pmi_introduce(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    struct aqi_manager_info *info = &pmi->manager.info;
    const char *id = getenv("PMI_ID");
    bool size = false, rank = false, debug = false;
    if (id == NULL || !manager_is_word(id))
        return aqi_fail(AQ_ESTATE, "job",
                        "PMI_PORT is set, but PMI_ID is not: start this program "
                        "with mpiexec");
    aq_status status = pmi_send(pmi, "cmd=initack pmiid=%.100s\n", id);
    status = pmi_answer(pmi, status, "initack", &fields);
    while (status == AQ_OK && !debug) {
        status = pmi_answer(pmi, AQ_OK, "set", &fields);
        if (status != AQ_OK) break;
        size = manager_field_number(&fields, "size", UINT32_MAX, &info->size) || size;
        rank = manager_field_number(&fields, "rank", UINT32_MAX, &info->rank) || rank;
        debug = manager_field(&fields, "debug") != NULL;
    }
    if (status == AQ_OK && !(size && rank))
        status =
            aqi_fail(AQ_EPROTO, "job",
                     "the manager at PMI_PORT does not report the rank and the size of the job");
    return status;
}

static aq_status pmi_identify(struct pmi_manager *pmi)
{
    struct aqi_manager_info *info = &pmi->manager.info;
    if (getenv("PMI_FD") == NULL) return pmi_introduce(pmi);
    if (manager_environment("PMI_RANK", UINT32_MAX, &info->rank) &&
        manager_environment("PMI_SIZE", UINT32_MAX, &info->size))
        return AQ_OK;
    return aqi_fail(AQ_ESTATE, "job",
                    "PMI_FD is set, but PMI_RANK and PMI_SIZE are not numbers: "
                    "start this program with mpiexec or srun");
}

static aq_status pmi_greet(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    uint32_t version, sub;
    aq_status status = pmi_send(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n");
    status = pmi_answer(pmi, status, "response_to_init", &fields);
    if (status != AQ_OK) return status;
    if (pmi_refused(&fields) || !manager_field_number(&fields, "pmi_version", 99, &version) ||
        !manager_field_number(&fields, "pmi_subversion", 99, &sub) || version != 1)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not support PMI-1: set AQ_BOOT=pmi2 or AQ_BOOT=pmix");
    snprintf(pmi->manager.info.version, AQI_MANAGER_NAME, "PMI %u.%u", version, sub);
    return AQ_OK;
}

/* Get the limits of keys and values, and the name of the key-value space. */
static aq_status pmi_learn(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    uint32_t key, value;
    aq_status status = pmi_answer(pmi, pmi_send(pmi, "cmd=get_maxes\n"), "maxes", &fields);
    if (status != AQ_OK) return status;
    if (!manager_field_number(&fields, "keylen_max", UINT32_MAX, &key) ||
        !manager_field_number(&fields, "vallen_max", UINT32_MAX, &value) ||
        key < MANAGER_WIRE_KEY || value < 64)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager's limits for keys or values are too short, or not reported "
                        "(%u and 64 bytes are needed)",
                        MANAGER_WIRE_KEY);
    status = pmi_answer(pmi, pmi_send(pmi, "cmd=get_my_kvsname\n"), "my_kvsname", &fields);
    if (status != AQ_OK) return status;
    const char *space = manager_field(&fields, "kvsname");
    if (space == NULL || !manager_is_word(space) || strlen(space) >= sizeof(pmi->space))
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not report the name of its key-value space");
    strcpy(pmi->space, space);
    strcpy(pmi->manager.info.job, space);
    size_t around = sizeof("cmd=put kvsname= key= value=\n") + strlen(space) + MANAGER_WIRE_KEY;
    pmi->piece = aqi_min(value - 1, PMI_LINE - around);
    return AQ_OK;
}

static aq_status pmi_map(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    aq_status status = pmi_send(pmi, "cmd=get kvsname=%s key=PMI_process_mapping\n", pmi->space);
    status = pmi_answer(pmi, status, "get_result", &fields);
    if (status != AQ_OK) return status;
    const char *mapping = pmi_refused(&fields) ? NULL : manager_field(&fields, "value");
    return manager_map_hosts(&pmi->manager, mapping);
}

static aq_status pmi_open(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    aq_status status = manager_stream_open(&pmi->stream, true);
    if (status != AQ_OK) return status;
    status = pmi_identify(pmi);
    if (status == AQ_OK) status = manager_check_ranks(manager);
    if (status == AQ_OK) status = pmi_greet(pmi);
    if (status == AQ_OK) status = pmi_learn(pmi);
    if (status == AQ_OK) status = pmi_map(pmi);
    if (status != AQ_OK) manager_stream_close(&pmi->stream);
    return status;
}

const struct aqi_manager_kind aqi_manager_pmi = {
    .name = "pmi",
    .bytes = sizeof(struct pmi_manager),
    .launched = pmi_launched,
    .open = pmi_open,
    .put = pmi_put,
    .fence = pmi_fence,
    .get = pmi_get,
    .abort = pmi_abort,
    .close = pmi_close,
};
