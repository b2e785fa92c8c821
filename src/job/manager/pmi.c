/*
 * PMI-1 and PMI-2 by their wire protocols, over the manager's socket: lines of "name=value" fields,
 * or "name=value;" fields preceded by their length.
 */
#include "base/fail.h"
#include "job/settings.h"
#include "manager_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PMI_LINE    1024u /* longest line accepted by all servers of PMI-1 */
#define PMI_MESSAGE 1536u /* longest message of PMI-2 to send */
#define PMI_PIECE   900u  /* all servers of PMI-2 accept values of 1024 bytes */

struct pmi_manager {
    struct aqi_manager manager;
    struct manager_stream stream;
    bool second; /* PMI-2 */
    bool broken; /* a call has failed: the next message may be the answer to it */
    struct manager_texts texts;
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

/* Slurm's plugin supports PMI-1 only for old programs; all other servers are known to support
 * PMI-1. */
static bool pmi_launched_2(void)
{
    return getenv("PMI_FD") != NULL && getenv("SLURM_STEP_ID") != NULL &&
           getenv("PMI_JOBID") != NULL && !manager_is_hydra();
}

/* ---- messages ---- */

static aq_status pmi_send(struct pmi_manager *pmi, const char *format, va_list args)
{
    char text[6 + PMI_MESSAGE], head[8];
    size_t room = pmi->second ? PMI_MESSAGE : PMI_LINE;
    int len = vsnprintf(text + 6, room, format, args);
    if (len < 0 || (size_t)len >= room)
        return aqi_fail(AQ_ESIZE, "job", "a %s of %d bytes is too long for %s: the maximum is %zu",
                        pmi->second ? "message" : "line", len, pmi->second ? "PMI-2" : "PMI",
                        room - 1);
    if (!pmi->second) return manager_stream_send(&pmi->stream, text + 6, (size_t)len);
    snprintf(head, sizeof(head), "%6u", (unsigned)len % 1000000u);
    memcpy(text, head, 6);
    return manager_stream_send(&pmi->stream, text, 6 + (size_t)len);
}

/* Send a message that is not answered. */
static AQI_PRINTF(2, 3) aq_status pmi_notify(struct pmi_manager *pmi, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    aq_status status = pmi_send(pmi, format, args);
    va_end(args);
    return status;
}

/* Receive the next message, which must be `cmd`. A timeout is not recorded. */
static aq_status pmi_receive(struct pmi_manager *pmi, const char *cmd, uint64_t timeout_ns,
                             struct manager_fields *fields)
{
    char *text;
    aq_status status = pmi->second ? manager_stream_message(&pmi->stream, timeout_ns, cmd, &text)
                                   : manager_stream_line(&pmi->stream, timeout_ns, cmd, &text);
    if (status != AQ_OK) return status;
    bool sane = manager_cut(text, pmi->second ? ';' : ' ', fields);
    const char *said = sane ? manager_field(fields, "cmd") : NULL;
    if (said == NULL || strcmp(said, cmd) != 0)
        return aqi_fail(AQ_EPROTO, "job", "the manager answered '%.40s' instead of '%s' (PMI-%d)",
                        said == NULL ? "an invalid command" : said, cmd, pmi->second ? 2 : 1);
    return AQ_OK;
}

/*
 * Send a request, unless `format` is NULL, and receive its answer `cmd`. `all`: the answer waits
 * for other ranks.
 */
static AQI_PRINTF(5, 6) aq_status pmi_query(struct pmi_manager *pmi, bool all, const char *cmd,
                                            struct manager_fields *fields, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    aq_status status = format != NULL ? pmi_send(pmi, format, args) : AQ_OK;
    va_end(args);
    if (status == AQ_OK) {
        status = pmi_receive(pmi, cmd, aqi_job_config.start_timeout_ns, fields);
        if (status == AQ_ETIMEOUT && !all) status = manager_silent(cmd);
    }
    if (status != AQ_OK) pmi->broken = true;
    return status == AQ_ETIMEOUT && all ? manager_fence_late(&pmi->manager) : status;
}

/* Only PMI-2 reports success in all answers. */
static bool pmi_refused(const struct pmi_manager *pmi, const struct manager_fields *fields)
{
    const char *rc = manager_field(fields, "rc");
    return rc == NULL ? pmi->second : strcmp(rc, "0") != 0;
}

/* ---- values ---- */

static aq_status pmi_put_text(struct aqi_manager *manager, const char *key, const char *text,
                              size_t len)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    aq_status status =
        pmi->second
            ? pmi_query(pmi, false, "kvs-put-response", &fields, "cmd=kvs-put;key=%s;value=%.*s;",
                        key, (int)len, text)
            : pmi_query(pmi, false, "put_result", &fields, "cmd=put kvsname=%s key=%s value=%.*s\n",
                        manager->info.job, key, (int)len, text);
    if (status == AQ_OK && pmi_refused(pmi, &fields)) {
        const char *why = manager_field(&fields, pmi->second ? "errmsg" : "msg");
        status = aqi_fail(AQ_EREFUSED, "job", "the manager rejected the value of %s: %.100s", key,
                          why == NULL ? "it gave no reason" : why);
    }
    return status;
}

/* The value in an answer; NULL: not found. */
static const char *pmi_found(const struct pmi_manager *pmi, const struct manager_fields *fields)
{
    const char *found = pmi->second ? manager_field(fields, "found") : "TRUE";
    if (pmi_refused(pmi, fields) || found == NULL || strcmp(found, "TRUE") != 0) return NULL;
    return manager_field(fields, "value");
}

static aq_status pmi_get_text(struct aqi_manager *manager, uint32_t rank, const char *key,
                              char *text, size_t room)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    aq_status status =
        pmi->second
            ? pmi_query(pmi, false, "kvs-get-response", &fields,
                        "cmd=kvs-get;jobid=%s;srcid=%u;key=%s;", manager->info.job, rank, key)
            : pmi_query(pmi, false, "get_result", &fields, "cmd=get kvsname=%s key=%s\n",
                        manager->info.job, key);
    if (status != AQ_OK) return status;
    const char *value = pmi_found(pmi, &fields);
    if (value == NULL) return AQ_AGAIN;
    snprintf(text, room, "%s", value);
    return AQ_OK;
}

static aq_status pmi_put(struct aqi_manager *manager, const char *key, const void *value,
                         size_t len)
{
    return manager_put_texts(manager, &pmi_of(manager)->texts, key, value, len);
}

static aq_status pmi_get(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                         size_t room, size_t *len)
{
    return manager_get_texts(manager, &pmi_of(manager)->texts, rank, key, value, room, len);
}

static aq_status pmi_fence(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    aq_status status = pmi->second
                           ? pmi_query(pmi, true, "kvs-fence-response", &fields, "cmd=kvs-fence;")
                           : pmi_query(pmi, true, "barrier_out", &fields, "cmd=barrier_in\n");
    if (status == AQ_OK && pmi_refused(pmi, &fields))
        status = aqi_fail(AQ_EPEER, "job", "the manager has aborted the job");
    if (status != AQ_OK || !pmi->second) return status;
    /* mpiexec.hydra answers a fence immediately, before other ranks have called it. A get of a
     * value that may still be put is answered once they have. */
    return pmi_query(pmi, true, "kvs-get-response", &fields,
                     "cmd=kvs-get;jobid=%s;srcid=%u;key=aq.absent;", manager->info.job,
                     manager->info.rank);
}

/* ---- leaving ---- */

/* A message has a field either for the code or for the text. */
static void pmi_abort(struct aqi_manager *manager, int code, const char *text)
{
    struct pmi_manager *pmi = pmi_of(manager);
    char plain[200];
    pmi->broken = true;
    if (!pmi->second) (void)pmi_notify(pmi, "cmd=abort exitcode=%d\n", code);
    /* With PMI-2, managers use the code of a process that ends; mpiexec.hydra only recognizes the
     * end of a process without finalize. */
    if (!pmi->second || manager_is_hydra()) return;
    snprintf(plain, sizeof(plain), "%s", text);
    for (char *at = plain; *at != '\0'; at++)
        if (*at < ' ' || *at > '~' || *at == ';' || *at == '=') *at = '_';
    (void)pmi_notify(pmi, "cmd=abort;isworld=TRUE;msg=%s;", plain);
}

static void pmi_close(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    struct manager_fields fields;
    if (!pmi->broken &&
        pmi_notify(pmi, "%s", pmi->second ? "cmd=finalize;" : "cmd=finalize\n") == AQ_OK)
        (void)pmi_receive(pmi, pmi->second ? "finalize-response" : "finalize_ack", MANAGER_LEAVE_NS,
                          &fields);
    manager_stream_close(&pmi->stream);
}

/* ---- opening with PMI-1 ---- */

/* A part of the version of the protocol, of at most two digits. */
static bool pmi_version(const struct manager_fields *fields, const char *name, uint32_t *number)
{
    uint32_t value;
    if (!manager_number(manager_field(fields, name), &value) || value > 99) return false;
    *number = value;
    return true;
}

static aq_status pmi_name(struct pmi_manager *pmi, const char *name)
{
    if (name == NULL || !manager_is_word(name) || strlen(name) >= AQI_MANAGER_NAME)
        return aqi_fail(AQ_EPROTO, "job", "the manager does not report the name of the job");
    strcpy(pmi->manager.info.job, name);
    return AQ_OK;
}

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
    aq_status status = pmi_query(pmi, false, "initack", &fields, "cmd=initack pmiid=%.100s\n", id);
    while (status == AQ_OK && !debug) {
        status = pmi_query(pmi, false, "set", &fields, NULL);
        if (status != AQ_OK) break;
        size = manager_number(manager_field(&fields, "size"), &info->size) || size;
        rank = manager_number(manager_field(&fields, "rank"), &info->rank) || rank;
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
    if (manager_number(getenv("PMI_RANK"), &info->rank) &&
        manager_number(getenv("PMI_SIZE"), &info->size))
        return AQ_OK;
    return aqi_fail(AQ_ESTATE, "job",
                    "PMI_FD is set, but PMI_RANK and PMI_SIZE are not numbers: "
                    "start this program with mpiexec or srun");
}

static aq_status pmi_greet(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    uint32_t version, sub;
    aq_status status = pmi_query(pmi, false, "response_to_init", &fields,
                                 "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (status != AQ_OK) return status;
    if (pmi_refused(pmi, &fields) || !pmi_version(&fields, "pmi_version", &version) ||
        !pmi_version(&fields, "pmi_subversion", &sub) || version != 1)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not support PMI-1: set AQ_BOOT=pmi2 or AQ_BOOT=pmix");
    snprintf(pmi->manager.info.version, AQI_MANAGER_NAME, "PMI %u.%u", version, sub);
    return AQ_OK;
}

/* Get the limits of keys and values, and the name of the key-value space. */
static aq_status pmi_get_limits(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    uint32_t key, value;
    aq_status status = pmi_query(pmi, false, "maxes", &fields, "cmd=get_maxes\n");
    if (status != AQ_OK) return status;
    if (!manager_number(manager_field(&fields, "keylen_max"), &key) ||
        !manager_number(manager_field(&fields, "vallen_max"), &value) || key < MANAGER_WIRE_KEY ||
        value < 64)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager's limits for keys or values are too short, or not reported "
                        "(%u and 64 bytes are needed)",
                        MANAGER_WIRE_KEY);
    status = pmi_query(pmi, false, "my_kvsname", &fields, "cmd=get_my_kvsname\n");
    if (status != AQ_OK) return status;
    const char *space = manager_field(&fields, "kvsname"); /* different for each job */
    status = pmi_name(pmi, space);
    if (status != AQ_OK) return status;
    size_t around = sizeof("cmd=put kvsname= key= value=\n") + strlen(space) + MANAGER_WIRE_KEY;
    pmi->texts.piece = aqi_min(value - 1, PMI_LINE - around);
    return AQ_OK;
}

/* ---- opening with PMI-2 ---- */

/* The first message is in PMI-1 format, so that both sides detect a mismatch. */
static aq_status pmi_greet_2(struct pmi_manager *pmi)
{
    static const char hello[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
    struct manager_fields fields;
    uint32_t version = 0;
    char *line;
    aq_status status = manager_stream_send(&pmi->stream, hello, sizeof(hello) - 1);
    if (status == AQ_OK) {
        status = manager_stream_line(&pmi->stream, aqi_job_config.start_timeout_ns, "init", &line);
        if (status == AQ_ETIMEOUT) status = manager_silent("init");
    }
    if (status != AQ_OK) return status;
    if (!manager_cut(line, ' ', &fields) || pmi_refused(pmi, &fields) ||
        !pmi_version(&fields, "pmi_version", &version) || version != 2)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not support PMI-2: set AQ_BOOT=pmi or AQ_BOOT=pmix");
    return AQ_OK;
}

static aq_status pmi_introduce_2(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    struct aqi_manager_info *info = &pmi->manager.info;
    const char *id = getenv("PMI_JOBID"), *rank = getenv("PMI_RANK");
    char job[220] = "";
    uint32_t major, minor;
    if (rank == NULL || !manager_is_word(rank) || (id != NULL && !manager_is_word(id)))
        return aqi_fail(AQ_ESTATE, "job",
                        "PMI_FD is set, but PMI_RANK is not: start this program "
                        "with srun --mpi=pmi2 or mpiexec");
    /* Left out if unknown: hydra 4.2 ends the job at an empty value. */
    if (id != NULL) snprintf(job, sizeof(job), "pmijobid=%.200s;", id);
    aq_status status = pmi_query(pmi, false, "fullinit-response", &fields,
                                 "cmd=fullinit;%spmirank=%.20s;threaded=FALSE;", job, rank);
    if (status != AQ_OK) return status;
    if (pmi_refused(pmi, &fields) || !manager_number(manager_field(&fields, "rank"), &info->rank) ||
        !manager_number(manager_field(&fields, "size"), &info->size))
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not report the rank and the size of the job in PMI-2's "
                        "fullinit-response");
    if (!pmi_version(&fields, "pmi-version", &major) ||
        !pmi_version(&fields, "pmi-subversion", &minor))
        major = 2, minor = 0; /* hydra 4.2 reports none here, but this one before */
    snprintf(info->version, sizeof(info->version), "PMI %u.%u", major, minor);
    return AQ_OK;
}

static aq_status pmi_name_2(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    aq_status status = pmi_query(pmi, false, "job-getid-response", &fields, "cmd=job-getid;");
    if (status != AQ_OK) return status;
    return pmi_name(pmi, pmi_refused(pmi, &fields) ? NULL : manager_field(&fields, "jobid"));
}

/* ---- opening ---- */

static aq_status pmi_map(struct pmi_manager *pmi)
{
    struct manager_fields fields;
    aq_status status = pmi->second ? pmi_query(pmi, false, "info-getjobattr-response", &fields,
                                               "cmd=info-getjobattr;key=PMI_process_mapping;")
                                   : pmi_query(pmi, false, "get_result", &fields,
                                               "cmd=get kvsname=%s key=PMI_process_mapping\n",
                                               pmi->manager.info.job);
    return status == AQ_OK ? manager_map_hosts(&pmi->manager, pmi_found(pmi, &fields)) : status;
}

static aq_status pmi_join(struct pmi_manager *pmi)
{
    aq_status status = pmi_identify(pmi);
    if (status == AQ_OK) status = manager_check_ranks(&pmi->manager);
    if (status == AQ_OK) status = pmi_greet(pmi);
    return status == AQ_OK ? pmi_get_limits(pmi) : status;
}

static aq_status pmi_join_2(struct pmi_manager *pmi)
{
    aq_status status = pmi_greet_2(pmi);
    if (status == AQ_OK) status = pmi_introduce_2(pmi);
    if (status == AQ_OK) status = manager_check_ranks(&pmi->manager);
    return status == AQ_OK ? pmi_name_2(pmi) : status;
}

static aq_status pmi_open(struct aqi_manager *manager)
{
    struct pmi_manager *pmi = pmi_of(manager);
    pmi->second = manager->kind == &aqi_manager_pmi2;
    pmi->texts = (struct manager_texts){PMI_PIECE, pmi_put_text, pmi_get_text};
    aq_status status = manager_stream_open(&pmi->stream, !pmi->second);
    if (status != AQ_OK) return status;
    status = pmi->second ? pmi_join_2(pmi) : pmi_join(pmi);
    if (status == AQ_OK) status = pmi_map(pmi);
    if (status != AQ_OK) manager_stream_close(&pmi->stream);
    return status;
}

#define PMI_KIND(NAME, LAUNCHED)                                                                   \
    {                                                                                              \
        .name = NAME, .bytes = sizeof(struct pmi_manager), .launched = LAUNCHED, .open = pmi_open, \
        .put = pmi_put, .fence = pmi_fence, .get = pmi_get, .abort = pmi_abort, .close = pmi_close \
    }

const struct aqi_manager_kind aqi_manager_pmi = PMI_KIND("pmi", pmi_launched);
const struct aqi_manager_kind aqi_manager_pmi2 = PMI_KIND("pmi2", pmi_launched_2);
