/* Where this process runs: see here.h. */
#include "base/here.h"

#include "base/base.h"

#include <stdio.h>
#include <sys/stat.h>

uint64_t aqi_here_boot(void)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL) return 0;
    bool known = fgets(id, sizeof(id), file) != NULL;
    (void)fclose(file);
    return known ? aqi_hash_text(AQI_HASH_SEED, id) : 0;
}

uint64_t aqi_here_network(void)
{
    struct stat net;
    uint64_t boot = aqi_here_boot();
    if (boot == 0 || stat("/proc/self/ns/net", &net) != 0) return 0;
    return aqi_hash(aqi_hash(boot, net.st_ino), net.st_dev);
}
