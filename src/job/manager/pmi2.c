/* PMI-2 by its wire protocol: "name=value;" fields, preceded by their length, over the manager's
 * socket. */
#include "base/fail.h"
#include "job/settings.h"
#include "manager_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PMI2_MESSAGE 1536u /* longest message to send */
#define PMI2_PIECE   900u  /* all servers accept values of 1024 bytes */

struct pmi2_manager {
    struct aqi_manager manager;
    struct manager_stream stream;
    bool broken; /* a call has failed: the next message may be the answer to it */
};

static struct pmi2_manager *pmi2_of(struct aqi_manager *manager)
{
    return (struct pmi2_manager *)(void *)manager;
}

/* Slurm's plugin supports PMI-1 only for old programs; all other servers are known to support
 * PMI-1. */
static bool pmi2_launched(void)
{
    return getenv("PMI_FD") != NULL && getenv("SLURM_STEP_ID") != NULL &&
           getenv("PMI_JOBID") != NULL && !manager_is_hydra();
}

static aq_status pmi2_send(struct pmi2_manager *pmi2, const char *format, ...) AQI_PRINTF(2, 3);
static aq_status pmi2_send(struct pmi2_manager *pmi2, const char *format, ...)
{
    char text[6 + PMI2_MESSAGE], head[8];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text + 6, PMI2_MESSAGE, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= PMI2_MESSAGE)
        return aqi_fail(AQ_ESIZE, "job",
                        "a message of %d bytes is too long for PMI-2: the maximum is %u", len,
                        PMI2_MESSAGE - 1);
    snprintf(head, sizeof(head), "%6u", (unsigned)len % 1000000u);
    memcpy(text, head, 6);
    return manager_stream_send(&pmi2->stream, text, 6 + (size_t)len);
}

/* Receive the next message, which must be `cmd`. A timeout is not recorded. */
static aq_status pmi2_receive(struct pmi2_manager *pmi2, const char *cmd, uint64_t patience_ns,
                              struct manager_fields *fields)
{
    char *message;
    aq_status status = manager_stream_message(&pmi2->stream, patience_ns, cmd, &message);
    if (status != AQ_OK) return status;
    const char *said = manager_cut(message, ';', fields) ? manager_field(fields, "cmd") : NULL;
    if (said == NULL || strcmp(said, cmd) != 0)
        return aqi_fail(AQ_EPROTO, "job", "the manager answered '%.40s' instead of '%s' (PMI-2)",
                        said == NULL ? "an invalid command" : said, cmd);
    return AQ_OK;
}

/* Receive the answer to a request whose sending returned `sent`. */
static aq_status pmi2_answer(struct pmi2_manager *pmi2, aq_status sent, const char *cmd,
                             struct manager_fields *fields)
{
    aq_status status = sent;
    if (status == AQ_OK) {
        status = pmi2_receive(pmi2, cmd, aqi_job_config.start_timeout_ns, fields);
        if (status == AQ_ETIMEOUT) status = manager_silent(cmd);
    }
    if (status != AQ_OK) pmi2->broken = true;
    return status;
}

static bool pmi2_refused(const struct manager_fields *fields)
{
    const char *rc = manager_field(fields, "rc");
    return rc == NULL || strcmp(rc, "0") != 0;
}

static aq_status pmi2_put_text(struct aqi_manager *manager, const char *key, const char *text,
                               size_t len)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    struct manager_fields fields;
    aq_status status = pmi2_send(pmi2, "cmd=kvs-put;key=%s;value=%.*s;", key, (int)len, text);
    status = pmi2_answer(pmi2, status, "kvs-put-response", &fields);
    if (status == AQ_OK && pmi2_refused(&fields)) {
        const char *why = manager_field(&fields, "errmsg");
        status = aqi_fail(AQ_EREFUSED, "job", "the manager rejected the value of %s: %.100s", key,
                          why == NULL ? "it gave no reason" : why);
    }
    return status;
}

/* The value in an answer; NULL: not found. */
static const char *pmi2_found(const struct manager_fields *fields)
{
    const char *found = manager_field(fields, "found");
    if (pmi2_refused(fields) || found == NULL || strcmp(found, "TRUE") != 0) return NULL;
    return manager_field(fields, "value");
}

static aq_status pmi2_get_text(struct aqi_manager *manager, uint32_t rank, const char *key,
                               char *text, size_t room)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    struct manager_fields fields;
    aq_status status =
        pmi2_send(pmi2, "cmd=kvs-get;jobid=%s;srcid=%u;key=%s;", manager->info.job, rank, key);
    status = pmi2_answer(pmi2, status, "kvs-get-response", &fields);
    if (status != AQ_OK) return status;
    const char *value = pmi2_found(&fields);
    if (value == NULL) return AQ_AGAIN;
    snprintf(text, room, "%s", value);
    return AQ_OK;
}

static const struct manager_words pmi2_words = {PMI2_PIECE, pmi2_put_text, pmi2_get_text};

static aq_status pmi2_put(struct aqi_manager *manager, const char *key, const void *value,
                          size_t len)
{
    return manager_put_words(manager, &pmi2_words, key, value, len);
}

static aq_status pmi2_get(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                          size_t room, size_t *len)
{
    return manager_get_words(manager, &pmi2_words, rank, key, value, room, len);
}

/* Receive an answer that may have to wait for other ranks: the time limit is longer. */
static aq_status pmi2_await(struct pmi2_manager *pmi2, aq_status sent, const char *cmd,
                            struct manager_fields *fields)
{
    aq_status status = sent;
    if (status == AQ_OK) status = pmi2_receive(pmi2, cmd, aqi_job_config.start_timeout_ns, fields);
    if (status != AQ_OK) pmi2->broken = true;
    return status == AQ_ETIMEOUT ? manager_fence_late(&pmi2->manager) : status;
}

/* mpiexec.hydra answers a fence immediately, before other ranks have called it. A get of a value
 * that may still be put is answered once they have. */
static aq_status pmi2_fence(struct aqi_manager *manager)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    struct manager_fields fields;
    aq_status status = pmi2_send(pmi2, "cmd=kvs-fence;");
    status = pmi2_await(pmi2, status, "kvs-fence-response", &fields);
    if (status == AQ_OK && pmi2_refused(&fields))
        status = aqi_fail(AQ_EPEER, "job", "the manager has aborted the job");
    if (status != AQ_OK) return status;
    status = pmi2_send(pmi2, "cmd=kvs-get;jobid=%s;srcid=%u;key=aq.absent;", manager->info.job,
                       manager->info.rank);
    return pmi2_await(pmi2, status, "kvs-get-response", &fields);
}

/* The message has no field for the code: managers use that of a process that ends. mpiexec.hydra
 * only recognizes the end of a process without finalize. */
static void pmi2_abort(struct aqi_manager *manager, int code, const char *text)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    char plain[200];
    (void)code;
    pmi2->broken = true;
    if (manager_is_hydra()) return;
    snprintf(plain, sizeof(plain), "%s", text);
    for (char *at = plain; *at != '\0'; at++)
        if (*at < ' ' || *at > '~' || *at == ';' || *at == '=') *at = '_';
    (void)pmi2_send(pmi2, "cmd=abort;isworld=TRUE;msg=%s;", plain);
}

static void pmi2_close(struct aqi_manager *manager)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    struct manager_fields fields;
    if (!pmi2->broken && pmi2_send(pmi2, "cmd=finalize;") == AQ_OK)
        (void)pmi2_receive(pmi2, "finalize-response", MANAGER_LEAVE_NS, &fields);
    manager_stream_close(&pmi2->stream);
}

/* ---- opening ---- */

/* The first message is in PMI-1 format, so that both sides detect a mismatch. */
static aq_status pmi2_greet(struct pmi2_manager *pmi2)
{
    static const char hello[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
    struct manager_fields fields;
    uint32_t version = 0;
    char *line;
    aq_status status = manager_stream_send(&pmi2->stream, hello, sizeof(hello) - 1);
    if (status == AQ_OK) {
        status = manager_stream_line(&pmi2->stream, aqi_job_config.start_timeout_ns, "init", &line);
        if (status == AQ_ETIMEOUT) status = manager_silent("init");
    }
    if (status != AQ_OK) return status;
    if (!manager_cut(line, ' ', &fields) || pmi2_refused(&fields) ||
        !manager_field_number(&fields, "pmi_version", 99, &version) || version != 2)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not support PMI-2: set AQ_BOOT=pmi or AQ_BOOT=pmix");
    return AQ_OK;
}

static aq_status pmi2_introduce(struct pmi2_manager *pmi2)
{
    struct manager_fields fields;
    struct aqi_manager_info *info = &pmi2->manager.info;
    const char *id = getenv("PMI_JOBID"), *rank = getenv("PMI_RANK");
    char job[220] = "";
    uint32_t major, minor;
    if (rank == NULL || !manager_is_word(rank) || (id != NULL && !manager_is_word(id)))
        return aqi_fail(AQ_ESTATE, "job",
                        "PMI_FD is set, but PMI_RANK is not: start this program "
                        "with srun --mpi=pmi2 or mpiexec");
    /* Left out if unknown: hydra 4.2 ends the job at an empty value. */
    if (id != NULL) snprintf(job, sizeof(job), "pmijobid=%.200s;", id);
    aq_status status = pmi2_send(pmi2, "cmd=fullinit;%spmirank=%.20s;threaded=FALSE;", job, rank);
    status = pmi2_answer(pmi2, status, "fullinit-response", &fields);
    if (status != AQ_OK) return status;
    if (pmi2_refused(&fields) || !manager_field_number(&fields, "rank", UINT32_MAX, &info->rank) ||
        !manager_field_number(&fields, "size", UINT32_MAX, &info->size))
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager does not report the rank and the size of the job in PMI-2's "
                        "fullinit-response");
    if (!manager_field_number(&fields, "pmi-version", 99, &major) ||
        !manager_field_number(&fields, "pmi-subversion", 99, &minor))
        major = 2, minor = 0; /* hydra 4.2 reports none here, but this one before */
    snprintf(info->version, sizeof(info->version), "PMI %u.%u", major, minor);
    return AQ_OK;
}

static aq_status pmi2_name(struct pmi2_manager *pmi2)
{
    struct manager_fields fields;
    aq_status status =
        pmi2_answer(pmi2, pmi2_send(pmi2, "cmd=job-getid;"), "job-getid-response", &fields);
    if (status != AQ_OK) return status;
    const char *job = manager_field(&fields, "jobid");
    if (pmi2_refused(&fields) || job == NULL || !manager_is_word(job) ||
        strlen(job) >= AQI_MANAGER_NAME)
        return aqi_fail(AQ_EPROTO, "job", "the manager does not report the name of the job");
    strcpy(pmi2->manager.info.job, job);
    return AQ_OK;
}

static aq_status pmi2_map(struct pmi2_manager *pmi2)
{
    struct manager_fields fields;
    aq_status status = pmi2_send(pmi2, "cmd=info-getjobattr;key=PMI_process_mapping;");
    status = pmi2_answer(pmi2, status, "info-getjobattr-response", &fields);
    return status == AQ_OK ? manager_map_hosts(&pmi2->manager, pmi2_found(&fields)) : status;
}

static aq_status pmi2_open(struct aqi_manager *manager)
{
    struct pmi2_manager *pmi2 = pmi2_of(manager);
    aq_status status = manager_stream_open(&pmi2->stream, false);
    if (status != AQ_OK) return status;
    status = pmi2_greet(pmi2);
    if (status == AQ_OK) status = pmi2_introduce(pmi2);
    if (status == AQ_OK) status = manager_check_ranks(manager);
    if (status == AQ_OK) status = pmi2_name(pmi2);
    if (status == AQ_OK) status = pmi2_map(pmi2);
    if (status != AQ_OK) manager_stream_close(&pmi2->stream);
    return status;
}

const struct aqi_manager_kind aqi_manager_pmi2 = {
    .name = "pmi2",
    .bytes = sizeof(struct pmi2_manager),
    .launched = pmi2_launched,
    .open = pmi2_open,
    .put = pmi2_put,
    .fence = pmi2_fence,
    .get = pmi2_get,
    .abort = pmi2_abort,
    .close = pmi2_close,
};
