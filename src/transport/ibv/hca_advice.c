/*
 * ibv: reasons that keep a process from using adapters or from reaching a peer, and how to fix
 * them.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/settings.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { ADVICE_NAME = 64 };

AQI_PRINTF(1, 2) static struct hca_text hca_advice_text(const char *fmt, ...)
{
    struct hca_text text;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text.text, sizeof(text.text), fmt, args);
    va_end(args);
    return text;
}

struct hca_text hca_advice_memory(int err)
{
    struct rlimit limit;
    if (err == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return hca_advice_text(
            "only %llu bytes may be locked (ulimit -l, or LimitMEMLOCK= of the service that "
            "started this job): raise it, preferably to unlimited",
            (unsigned long long)limit.rlim_cur);
    return hca_advice_text("%s", strerror(err));
}

/* --- no port --------------------------------------------------------------------------------- */

/* Whether this system folder has an entry; if so, `name` is the first one. */
static bool hca_advice_is_there(const char *root, const char *folder, char name[ADVICE_NAME])
{
    char path[256];
    name[0] = '\0';
    snprintf(path, sizeof(path), "%s%s", root, folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && name[0] == '\0' && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') snprintf(name, ADVICE_NAME, "%.63s", entry->d_name);
    if (dir != NULL) closedir(dir);
    return name[0] != '\0';
}

/* The adapters that libibverbs offers, separated by commas. */
static struct hca_text hca_advice_devices(void)
{
    struct hca_text all = {""};
    int count = 0;
    struct ibv_device **list = hca_verbs.get_device_list(&count);
    for (int i = 0; list != NULL && i < count; i++)
        aqi_append(all.text, sizeof(all.text), "%s%s", i == 0 ? "" : ", ",
                   hca_verbs.get_device_name(list[i]));
    if (list != NULL) hca_verbs.free_device_list(list);
    return all;
}

struct hca_text hca_advice_no_port(const char *root)
{
    struct hca_text devices = hca_advice_devices();
    char name[ADVICE_NAME], node[ADVICE_NAME];
    if (devices.text[0] != '\0')
        return hca_advice_text(
            "%s=\"%.80s\" matches no port of this host (\"ibv_devinfo\" lists them), whose "
            "adapters are %.120s",
            aqi_setting_variable("AQ_IBV_PORTS"), hca_config.ports, devices.text);
    if (!hca_advice_is_there(root, "/sys/class/infiniband", name))
        return hca_advice_text(
            "the kernel has no RDMA device: load the adapter's module (such as mlx5_ib), or for "
            "software RoCE load rdma_rxe and run \"rdma link add rxe0 type rxe netdev eth0\"");
    if (!hca_advice_is_there(root, "/sys/class/infiniband_verbs", node))
        return hca_advice_text(
            "the kernel has %s, but the module that gives programs access is missing: "
            "modprobe ib_uverbs",
            name);
    if (!hca_advice_is_there(root, "/dev/infiniband", node))
        return hca_advice_text(
            "the kernel has %s, but /dev/infiniband is missing: give this container the "
            "devices /dev/infiniband/uverbs*",
            name);
    return hca_advice_text(
        "the kernel has %s, but libibverbs has no driver for it: install ibverbs-providers", name);
}

/* --- no route -------------------------------------------------------------------------------- */

static struct hca_text hca_advice_place(const struct hca_place *place)
{
    struct hca_text at;
    const uint8_t *gid = place->gid;
    if (place->link_layer != IBV_LINK_LAYER_ETHERNET)
        return hca_advice_text("LID %u of subnet %02x%02x:%02x%02x:%02x%02x:%02x%02x", place->lid,
                               gid[0], gid[1], gid[2], gid[3], gid[4], gid[5], gid[6], gid[7]);
    bool ipv4 = hca_gid_is_ipv4(gid);
    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid + 12 : gid, at.text, sizeof(at.text));
    return at;
}

/* Text before and after the name of the variable that chooses ports. */
struct advice_fix {
    const char *before, *after;
};

static struct advice_fix hca_advice_to_fix(const struct hca_place *from, const struct hca_place *to)
{
    static const struct advice_fix
        layers = {"one is on InfiniBand and the other on Ethernet: choose ports of one network "
                  "with ",
                  ""},
        networks = {"if these are in different networks, choose ports of one with ",
                    ", or other addresses of them with AQ_IBV_GID"},
        kinds = {"one has an IPv4 address and the other does not: choose one kind with "
                 "AQ_IBV_GID, or other ports with ",
                 ""},
        subnets = {"choose ports of one subnet with ", ", or set up a router between the two"},
        fabrics = {"if these are in different fabrics, choose ports of one with ",
                   "; otherwise check the subnet manager (\"sminfo\", \"ibtracert\")"};
    if (from->link_layer != to->link_layer) return layers;
    if (from->link_layer == IBV_LINK_LAYER_ETHERNET)
        return hca_gid_is_ipv4(from->gid) != hca_gid_is_ipv4(to->gid) ? kinds : networks;
    return memcmp(from->gid, to->gid, 8) != 0 ? subnets : fabrics;
}

struct hca_text hca_advice_path(const struct hca_rail *rail, const struct hca_place *to)
{
    struct advice_fix fix = hca_advice_to_fix(&rail->place, to);
    return hca_advice_text("from %.24s (%.40s) to %.40s: %s%.32s%s", rail->name,
                           hca_advice_place(&rail->place).text, hca_advice_place(to).text,
                           fix.before, aqi_setting_variable("AQ_IBV_PORTS"), fix.after);
}

struct hca_text hca_advice_packets(const struct hca_rail *rail, const struct hca_place *to)
{
    unsigned mtu = 128u << aqi_min(rail->place.mtu, to->mtu);
    return hca_advice_text(
        "the network from %s (%.48s) to %.48s may not carry packets of %u bytes, which both "
        "ports support: set AQ_IBV_MTU=1024, or raise the MTU in between",
        rail->name, hca_advice_place(&rail->place).text, hca_advice_place(to).text, mtu);
}
