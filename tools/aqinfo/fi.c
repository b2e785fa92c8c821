/* The provider for libfabric: where it is, whether libfabric finds it, and how to enable it. */
#include "data.h"
#include "provider.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef AQINFO_WITH_FI
#include <rdma/fabric.h>
#endif

#ifdef AQINFO_WITH_FI
/* Check whether libfabric finds the provider in this environment. Returns NULL, or the reason why
 * not. */
static const char *ask_libfabric(uint32_t *version)
{
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                   struct fi_info **);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    uint32_t (*get_version)(void);
    struct fi_info *info, *hints;
    setenv("IPATH_NO_BACKTRACE", "1", 0); /* otherwise the library of a provider catches signals */
    void *library = dlopen("libfabric.so.1", RTLD_NOW);
    if (library == NULL) return "libfabric.so.1 cannot be loaded: install libfabric1";
    *(void **)&getinfo = dlsym(library, "fi_getinfo");
    *(void **)&dupinfo = dlsym(library, "fi_dupinfo");
    *(void **)&get_version = dlsym(library, "fi_version");
    if (getinfo == NULL || dupinfo == NULL || get_version == NULL)
        return "libfabric.so.1 does not contain libfabric's functions";
    *version = get_version();
    hints = dupinfo(NULL);
    if (hints == NULL) return "no memory to query libfabric";
    hints->fabric_attr->prov_name = strdup("aqueduct");
    return getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &info) == 0
               ? NULL
               : "libfabric does not find it in this environment";
}
#endif

int fi_show(void)
{
    char folder[PROVIDER_PATH];
    if (!provider_find(PROVIDER_FI, folder)) {
        puts("fi: the provider for libfabric, libaqueduct-fi.so, is not installed: build Aqueduct "
             "with libfabric's headers (libfabric-dev)");
        return 1;
    }
    printf("fi: the provider for libfabric is %s/libaqueduct-fi.so\n", folder);
#ifdef AQINFO_WITH_FI
    uint32_t version = 0;
    const char *why = ask_libfabric(&version);
    if (why == NULL)
        printf("  libfabric %u.%u finds it in this environment\n", FI_MAJOR(version),
               FI_MINOR(version));
    else
        printf("  %s\n", why);
#endif
    printf("  any program:  export FI_PROVIDER_PATH=%s FI_PROVIDER=aqueduct\n"
           "  Open MPI 4:   mpirun -x FI_PROVIDER_PATH=%s --mca pml cm --mca mtl ofi "
           "--mca mtl_ofi_provider_include aqueduct PROGRAM\n",
           folder, folder);
    return 0;
}
