/*
 * hwloc, loaded only when somebody asks for a description: the library itself must run, and start
 * quickly, on machines without it. The types are those of the real header, found at build time.
 */
#include "base/topology_hwloc.h"

#include "base/base.h"

#if AQI_HAVE_HWLOC

#include <dlfcn.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

/* The calls in use, by their names in the library. */
struct hwloc_calls {
    __typeof__(&hwloc_topology_init) init;
    __typeof__(&hwloc_topology_load) load;
    __typeof__(&hwloc_topology_destroy) destroy;
    __typeof__(&hwloc_get_type_depth) type_depth;
    __typeof__(&hwloc_get_nbobjs_by_depth) count;
    __typeof__(&hwloc_get_obj_by_depth) object;
};

static const struct {
    const char *name;
    size_t offset;
} hwloc_symbols[] = {
    {"hwloc_topology_init", offsetof(struct hwloc_calls, init)},
    {"hwloc_topology_load", offsetof(struct hwloc_calls, load)},
    {"hwloc_topology_destroy", offsetof(struct hwloc_calls, destroy)},
    {"hwloc_get_type_depth", offsetof(struct hwloc_calls, type_depth)},
    {"hwloc_get_nbobjs_by_depth", offsetof(struct hwloc_calls, count)},
    {"hwloc_get_obj_by_depth", offsetof(struct hwloc_calls, object)},
};
static_assert(AQI_COUNT_OF(hwloc_symbols) * sizeof(void *) == sizeof(struct hwloc_calls),
              "a symbol for each call");

static bool topology_hwloc_hwloc_find_calls(void *library, struct hwloc_calls *calls)
{
    for (size_t i = 0; i < AQI_COUNT_OF(hwloc_symbols); i++) {
        void *symbol = dlsym(library, hwloc_symbols[i].name);
        if (symbol == NULL) return false;
        /* A function pointer by its bytes: C has no conversion from void *. */
        memcpy((char *)calls + hwloc_symbols[i].offset, &symbol, sizeof(symbol));
    }
    return true;
}

static unsigned topology_hwloc_hwloc_count(const struct hwloc_calls *calls,
                                           hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int depth = calls->type_depth(topology, type);
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE
               ? 0
               : calls->count(topology, depth);
}

static void topology_hwloc_hwloc_list_caches(const struct hwloc_calls *calls,
                                             hwloc_topology_t topology, char *text, size_t len)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                              HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < AQI_COUNT_OF(levels); i++) {
        int depth = calls->type_depth(topology, levels[i]);
        if (depth < 0) continue;
        hwloc_obj_t cache = calls->object(topology, depth, 0);
        if (cache == NULL) continue;
        int n = snprintf(text + used, len - used, " L%u %lluK", i + 1,
                         (unsigned long long)cache->attr->cache.size / 1024);
        used = aqi_min(used + (size_t)n, len - 1);
    }
}

static int topology_hwloc_hwloc_describe(const struct hwloc_calls *calls, char *buf, size_t len)
{
    hwloc_topology_t topology;
    int n = -1;
    if (calls->init(&topology) != 0) return -1;
    if (calls->load(topology) == 0) {
        char caches[128];
        topology_hwloc_hwloc_list_caches(calls, topology, caches, sizeof(caches));
        n = snprintf(buf, len, "packages %u, cores %u, threads %u, caches%s, NUMA nodes %u (hwloc)",
                     topology_hwloc_hwloc_count(calls, topology, HWLOC_OBJ_PACKAGE),
                     topology_hwloc_hwloc_count(calls, topology, HWLOC_OBJ_CORE),
                     topology_hwloc_hwloc_count(calls, topology, HWLOC_OBJ_PU),
                     caches[0] == '\0' ? " unknown" : caches,
                     topology_hwloc_hwloc_count(calls, topology, HWLOC_OBJ_NUMANODE));
    }
    calls->destroy(topology);
    return n;
}

int aqi_topology_describe_hwloc(char *buf, size_t len)
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return -1;
    struct hwloc_calls calls;
    int n = topology_hwloc_hwloc_find_calls(library, &calls)
                ? topology_hwloc_hwloc_describe(&calls, buf, len)
                : -1;
    dlclose(library);
    return n;
}

#else

int aqi_topology_describe_hwloc(char *buf, size_t len)
{
    (void)buf;
    (void)len;
    return -1;
}

#endif
