/*
 * The part of the PMIx Standard's ABI that is used here, which is the same in all versions of
 * libpmix.so.2 (2 to 6). The build thus needs no header of it, and one build works with all of
 * them; if a header is installed, the test job.pmix_abi compares.
 */
#ifndef MANAGER_PMIX_ABI_H
#define MANAGER_PMIX_ABI_H

#include "base/base.h"

#define PMIX_ABI_KEY_COLLECT   "pmix.collect"
#define PMIX_ABI_KEY_IMMEDIATE "pmix.immediate"
#define PMIX_ABI_KEY_OPTIONAL  "pmix.optional"
#define PMIX_ABI_KEY_JOB_SIZE  "pmix.job.size"
#define PMIX_ABI_KEY_HOSTNAME  "pmix.hname"
#define PMIX_ABI_RANK_ALL      0xfffffffeu /* data of the job, not of a rank */

enum { PMIX_ABI_SCOPE_GLOBAL = 3 };
enum {
    PMIX_ABI_TYPE_BOOL = 1,
    PMIX_ABI_TYPE_STRING = 3,
    PMIX_ABI_TYPE_U32 = 14,
    PMIX_ABI_TYPE_BYTES = 27
};
enum {
    PMIX_ABI_STATUS_OK = 0,
    PMIX_ABI_STATUS_TIMEOUT = -24,
    PMIX_ABI_STATUS_NOT_FOUND = -46,
    PMIX_ABI_STATUS_DONE = -157 /* completed immediately, no callback follows */
};

struct pmix_abi_proc {
    char nspace[256];
    uint32_t rank;
};
struct pmix_abi_value {
    uint16_t type;
    union {
        bool flag;
        uint32_t u32;
        char *string;
        struct {
            char *at;
            size_t size;
        } bytes;
        void *largest[3];
    } data;
};
struct pmix_abi_info {
    char key[512];
    uint32_t flags;
    struct pmix_abi_value value;
};
static_assert(sizeof(struct pmix_abi_proc) == 260 && sizeof(struct pmix_abi_value) == 32 &&
                  sizeof(struct pmix_abi_info) == 552,
              "the sizes of the standard's ABI");

typedef void pmix_done_fn(int status, void *arg);
typedef void pmix_found_fn(int status, struct pmix_abi_value *value, void *arg);

#endif
