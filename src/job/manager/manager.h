/*
 * Managers: how a process started by srun, mpirun or mpiexec.hydra gets its rank, and how the
 * processes of its job exchange small values before they can communicate otherwise.
 *
 * A kind of manager is a row of operations: "pmix" (libpmix, loaded at run time), "pmi2" and "pmi"
 * (their protocols over the socket PMI_FD). To add one: a file with its row, and a line in the
 * table of choose.c.
 *
 *     const struct aqi_manager_kind *kind;
 *     aq_status status = aqi_manager_choose(&kind);      (kind NULL: no manager started us)
 *     if (status == AQ_OK) status = aqi_manager_open(kind, &manager);
 *     manager->kind->put(manager, "card", card, len);    (any ranks that have values)
 *     manager->kind->fence(manager);                     (all ranks, whether they have put or not)
 *     manager->kind->get(manager, aqi_manager_first(manager, host), "card", …);
 *     aqi_manager_close(manager);
 *
 * One thread at a time. If open or fence fails, the job cannot start: if the process has a manager,
 * it calls abort, since not every manager ends a job when one of its processes fails. A forked
 * child must not use the manager; it must close all descriptors, since managers consider a rank
 * alive as long as its socket is open anywhere.
 */
#ifndef AQI_MANAGER_H
#define AQI_MANAGER_H

#include "base/base.h"

#define AQI_MANAGER_KEY   24u   /* maximum bytes of a key: letters, digits, '-' and '_' */
#define AQI_MANAGER_VALUE 8192u /* maximum bytes of a value; any bytes */
#define AQI_MANAGER_NAME  256u  /* maximum bytes of a name, with NUL */

struct aqi_manager;

struct aqi_manager_info {
    uint32_t rank; /* in the job */
    uint32_t size; /* of the job */
    /* Hosts as defined by the manager, numbered in the order of the first rank of each: rank 0 is
     * on host 0. Two hosts may be the same machine. */
    uint32_t host, hosts;
    uint32_t local_rank, local_size; /* among the ranks of this host, in the order of ranks */
    uint32_t *host_of;               /* of each rank: the number of its host */
    char job[AQI_MANAGER_NAME];      /* different for each job of this manager; printable */
    char version[AQI_MANAGER_NAME];  /* for messages: "PMI 1.1", "PMIx 4.2.2" */
};

/* Every slot is filled. Call as manager->kind->put(manager, …). */
struct aqi_manager_kind {
    const char *name; /* as in AQ_BOOT */
    size_t bytes;     /* of its struct */

    /* Whether it started this process. Cheap: only checks the environment. */
    bool (*launched)(void);

    /*
     * Register this process; fills `info` of a zeroed struct. Undone on failure.
     *
     * Blocking    Until the manager has answered, within AQ_START_TIMEOUT. May wait for other
     *             ranks.
     *
     * @return AQ_ESTATE    It did not start this process, whatever AQ_BOOT says.
     * @return AQ_ENOTSUP   A required library is missing (libpmix; the message says what to do).
     * @return AQ_EPEER     The manager has ended.
     * @return AQ_EPROTO    It uses another version, or sent a malformed message.
     * @return AQ_ETIMEOUT  It did not answer.
     */
    aq_status (*open)(struct aqi_manager *manager);

    /*
     * Publish `len` bytes under `key` of this rank; available to other ranks after the next fence.
     * A key can be used once. The value is copied.
     *
     * Blocking    Until the manager has accepted it.
     *
     * @return AQ_EINVAL  The key is invalid.
     * @return AQ_ESIZE   The value is longer than AQI_MANAGER_VALUE.
     */
    aq_status (*put)(struct aqi_manager *manager, const char *key, const void *value, size_t len);

    /*
     * Collective: no call returns before every rank has called it. Afterwards all ranks can get
     * the values put before.
     *
     * Blocking    Within AQ_START_TIMEOUT.
     *
     * @return AQ_EPEER     The manager has ended, or has abandoned the job.
     * @return AQ_ETIMEOUT  Not all ranks called it.
     */
    aq_status (*fence)(struct aqi_manager *manager);

    /*
     * Get the value that `rank` put under `key` before the last fence, as `*len` bytes in `value`.
     *
     * Blocking    Until the manager has answered, within AQ_START_TIMEOUT; does not wait for the
     * other rank.
     *
     * @return AQ_EINVAL  There is no value: the rank put none, or there was no fence after it.
     * @return AQ_ESIZE   It is longer than `room`.
     */
    aq_status (*get)(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                     size_t room, size_t *len);

    /*
     * Ask the manager to end all processes of the job, if possible with exit code `code` (1 to
     * 255), and to print `text`. It may end this process before the call returns; otherwise the
     * caller must exit immediately with that code, without a fence or get: some managers only
     * notice that a process ends without close. A later close does not sign off. Not
     * async-signal-safe.
     */
    void (*abort)(struct aqi_manager *manager, int code, const char *text);

    /*
     * Leave in an orderly way, so that the manager does not treat the end of this process as a
     * crash; to be called before every other exit. Does not wait for other ranks, and at most a
     * second for the manager. Frees all that open allocated.
     */
    void (*close)(struct aqi_manager *manager);
};

extern const struct aqi_manager_kind aqi_manager_pmix;
extern const struct aqi_manager_kind aqi_manager_pmi2;
extern const struct aqi_manager_kind aqi_manager_pmi;

/* The common part of all kinds; each kind's struct begins with it. */
struct aqi_manager {
    const struct aqi_manager_kind *kind;
    struct aqi_manager_info info;
};

/*
 * Determine the manager that started this process, by the setting AQ_BOOT and the environment.
 * `*kind` is NULL if none did: the process belongs to aqrun or is a job of one.
 *
 * @return AQ_ESTATE  A manager started it as one of several, but cannot be reached, so each would
 *                    run as a job of one: the message says which, what is missing and what to do.
 */
aq_status aqi_manager_choose(const struct aqi_manager_kind **kind);

/* Join through the manager `kind`; see its open. */
aq_status aqi_manager_open(const struct aqi_manager_kind *kind, struct aqi_manager **manager);

/* The first rank of a host. */
uint32_t aqi_manager_first(const struct aqi_manager *manager, uint32_t host);

/* Call close and free the struct. Cannot fail. */
void aqi_manager_close(struct aqi_manager *manager);

#endif
