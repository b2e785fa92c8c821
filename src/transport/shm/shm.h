/* shm: processes of one host over shared memory. */
#ifndef AQI_SHM_H
#define AQI_SHM_H

#include "base/settings.h"
#include "transport/transport.h"

enum { SHM_CMA_NO, SHM_CMA_AUTO, SHM_CMA_ALWAYS };

struct shm_config {
    uint64_t slots;   /* of each ring */
    uint64_t payload; /* bytes of each payload ring; 0: the minimum */
    uint64_t map;     /* segments are mapped for plain loads and stores */
    uint64_t piece;   /* bytes of a put or get per message */
    uint64_t cma;     /* SHM_CMA_ */
    uint64_t cma_least;
    uint64_t hot, cool;
    const char *folder; /* of the sockets of listeners; "": their names are abstract */
};

extern struct shm_config shm_config;
extern const struct aqi_transport aqi_shm_transport;

#endif
