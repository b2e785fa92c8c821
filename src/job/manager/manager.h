/*
 * Managers: how a process that srun, mpirun or mpiexec.hydra started learns who it is, and how the
 * processes of its job exchange small values before they can speak to one another.
 *
 * A kind of manager is a row of operations: "pmix" (libpmix, loaded at run time), "pmi2" and "pmi"
 * (their protocols over the socket PMI_FD). To add one: a file with its row, and a line in the
 * table of choose.c.
 *
 *     const struct aqi_manager_kind *kind;
 *     aq_status status = aqi_manager_choose(&kind);      (kind NULL: no manager started us)
 *     if (status == AQ_OK) status = aqi_manager_open(kind, &manager);
 *     manager->kind->put(manager, "card", card, len);    (who has something to say)
 *     manager->kind->fence(manager);                     (all ranks, whether they have put or not)
 *     manager->kind->get(manager, aqi_manager_first(manager, host), "card", …);
 *     aqi_manager_close(manager);
 *
 * One thread at a time. After open, fence or barrier have failed the job cannot start: who has a
 * manager calls abort, since not every manager ends a job of which a process has failed. A
 * child made by fork must not use the manager; the descriptor `fd` has to be closed in it, since
 * managers take a rank to be alive as long as somebody has it open.
 */
#ifndef AQI_MANAGER_H
#define AQI_MANAGER_H

#include "base/base.h"

#define AQI_MANAGER_KEY   24u   /* most bytes of a key: letters, digits, '-' and '_' */
#define AQI_MANAGER_VALUE 8192u /* most bytes of a value; any bytes */
#define AQI_MANAGER_NAME  256u  /* most bytes of a name, with NUL */

struct aqi_manager;

struct aqi_manager_info {
    uint32_t rank; /* in the job */
    uint32_t size; /* of the job */
    /* Hosts as the manager sees them, numbered in the order of the first rank that each has: rank 0
     * is on host 0. Two of them may be one machine. */
    uint32_t host, hosts;
    uint32_t local_rank, local_size; /* among the ranks of this host, in the order of ranks */
    const uint32_t *host_of;         /* of each rank: the number of its host */
    char job[AQI_MANAGER_NAME];      /* different for each job of this manager; printable */
    char version[AQI_MANAGER_NAME];  /* for messages: "PMI 1.1", "PMIx 4.2.2" */
};

/* Every slot is filled. A call goes through the manager's row: manager->kind->put(manager, …). */
struct aqi_manager_kind {
    const char *name; /* as in AQ_BOOT */
    size_t bytes;     /* of its struct */

    /* Did it start this process? Looks at the environment only, and cheaply. */
    bool (*launched)(void);

    /*
     * Introduce this process; fills `info` and `fd` of a zeroed struct. Undoes itself when it
     * fails.
     *
     * Blocking    Until the manager has answered, within AQ_START_TIMEOUT. May wait for the others.
     *
     * @return AQ_ESTATE    It did not start this process, whatever AQ_BOOT says.
     * @return AQ_ENOTSUP   What is needed to speak with it is not here (libpmix; says what to do).
     * @return AQ_EPEER     The manager is gone.
     * @return AQ_EPROTO    It speaks another version, or what makes no sense.
     * @return AQ_ETIMEOUT  It did not answer.
     */
    aq_status (*open)(struct aqi_manager *manager);

    /*
     * Give `len` bytes to whoever asks for `key` of this rank; they can be had after the next
     * fence. A key serves once. The value is copied.
     *
     * Blocking    Until the manager has taken it.
     *
     * @return AQ_EINVAL  The key is no key.
     * @return AQ_ESIZE   The value is longer than AQI_MANAGER_VALUE.
     */
    aq_status (*put)(struct aqi_manager *manager, const char *key, const void *value, size_t len);

    /*
     * Collective: every rank calls it, and none returns before all have come. Then all can get what
     * was put before it.
     *
     * Blocking    Within AQ_START_TIMEOUT.
     *
     * @return AQ_EPEER     The manager is gone, or has given the job up.
     * @return AQ_ETIMEOUT  Not all ranks came.
     */
    aq_status (*fence)(struct aqi_manager *manager);

    /*
     * What `rank` put under `key` before the last fence, as `*len` bytes in `value`.
     *
     * Blocking    Until the manager has answered, within AQ_START_TIMEOUT; never for the other
     * rank.
     *
     * @return AQ_EINVAL  There is none: the rank put nothing, or there was no fence since.
     * @return AQ_ESIZE   It is longer than `room`.
     */
    aq_status (*get)(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                     size_t room, size_t *len);

    /* As fence, but what was put may stay where it is. */
    aq_status (*barrier)(struct aqi_manager *manager);

    /*
     * Ask the manager to end all processes of the job, with exit code `code` where it can (1 to
     * 255), and to say `text`. It may end this one before the call returns; if it does not the
     * caller ends it at once with that code, and without a fence or get before: some managers hear
     * no more than that a process ends without close. After it close says no goodbye. Not for
     * signal handlers.
     */
    void (*abort)(struct aqi_manager *manager, int code, const char *text);

    /*
     * Leave in good order, so that the manager does not take the end of this process for a crash:
     * to be called before every exit that is not one. Does not wait for the other ranks, and for
     * the manager no longer than a second. Frees what open made.
     */
    void (*close)(struct aqi_manager *manager);
};

extern const struct aqi_manager_kind aqi_manager_pmix;
extern const struct aqi_manager_kind aqi_manager_pmi2;
extern const struct aqi_manager_kind aqi_manager_pmi;

/* The part that all kinds have; each kind's own struct begins with it. */
struct aqi_manager {
    const struct aqi_manager_kind *kind;
    struct aqi_manager_info info;
    int fd;            /* that leads to the manager and is not for children; -1: there is none */
    uint32_t *host_of; /* the memory of info.host_of */
};

/*
 * Which manager started this process, by the setting AQ_BOOT and the environment; `*kind` is NULL
 * when none did, so that it belongs to aqrun or is alone.
 *
 * @return AQ_ESTATE  One did, but there is no way to it (aqi_manager_mistake).
 */
aq_status aqi_manager_choose(const struct aqi_manager_kind **kind);

/*
 * Is this process one of several that a manager started, but the way to the manager is not there,
 * so that each would believe to be alone? Then writes which manager it was, what is missing and
 * what to do (at most `room` bytes with NUL) and returns true. Looks at the environment only.
 */
bool aqi_manager_mistake(char *text, size_t room);

/* Join by the manager `kind`; as its open. */
aq_status aqi_manager_open(const struct aqi_manager_kind *kind, struct aqi_manager **manager);

/* The first rank of a host of the job. */
uint32_t aqi_manager_first(const struct aqi_manager *manager, uint32_t host);

/* close, and free. Cannot fail. */
void aqi_manager_close(struct aqi_manager *manager);

#endif
