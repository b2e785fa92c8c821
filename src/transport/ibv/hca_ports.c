/* ibv: choosing the ports of adapters. */
#include "transport/ibv/hca_impl.h"

#include "base/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether this port may be used if the filter names none of the device. */
static bool hca_ports_is_usual(unsigned port)
{
    return hca_config.port == 0 || port == hca_config.port;
}

/* Whether the filter names this port. */
static bool hca_ports_allowed(const char *device, unsigned port)
{
    size_t name = strlen(device);
    for (const char *at = hca_config.ports; *at != 0; at += strcspn(at, "+")) {
        at += strspn(at, "+");
        size_t len = strcspn(at, ":+");
        if (len != name || memcmp(at, device, len) != 0) continue;
        if (at[len] != ':') return hca_ports_is_usual(port);
        const char *number = at + len;
        do {
            char *end;
            unsigned long given = strtoul(number + 1, &end, 10);
            if (given == port) return true;
            number = end;
        } while (*number == ',');
    }
    return false;
}

static void hca_ports_look(struct ibv_context *context, struct hca_port *port)
{
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    if (hca_verbs.query_port(context, port->number, &attr) != 0) {
        snprintf(port->why, sizeof(port->why), "cannot query the port");
        return;
    }
    port->active = attr.state == IBV_PORT_ACTIVE;
    if (!port->active)
        snprintf(port->why, sizeof(port->why),
                 "the port is %s: check the cable and, for InfiniBand, "
                 "the subnet manager",
                 attr.state == IBV_PORT_INIT || attr.state == IBV_PORT_ARMED ? "not configured yet"
                                                                             : "down");
}

/* Only matters if processes may begin with different ports; otherwise all must number them
 * alike. */
static bool hca_ports_near(const struct ibv_device *device)
{
    char path[IBV_SYSFS_PATH_MAX + 32];
    if (!hca_config.spread) return true;
    snprintf(path, sizeof(path), "%s/device/local_cpulist", device->ibdev_path);
    return aqi_runs_near(path);
}

/* libibverbs tries other paths after a failure, so its errno may be meaningless. */
static void hca_ports_closed(const struct ibv_device *device, int err, struct hca_port *port)
{
    char path[IBV_SYSFS_NAME_MAX + 32];
    bool named = device->dev_name[0] != '\0';
    snprintf(path, sizeof(path), "/dev/infiniband/%s", named ? device->dev_name : "uverbs*");
    if (named && access(path, R_OK | W_OK) != 0) err = errno;
    snprintf(port->why, sizeof(port->why), "cannot open %.60s (%s): check its permissions", path,
             strerror(err));
}

/* The ports of one device; without a filter, its first active one. */
static unsigned hca_ports_of(struct ibv_device *device, struct hca_port *ports, unsigned most)
{
    struct ibv_device_attr attr;
    const char *name = hca_verbs.get_device_name(device);
    struct ibv_context *context = hca_verbs.open_device(device);
    int err = errno;
    unsigned count = 0;
    bool all = hca_config.ports[0] == 0;
    memset(&attr, 0, sizeof(attr));
    if (context != NULL && hca_verbs.query_device(context, &attr) != 0) attr.phys_port_cnt = 0;
    for (unsigned p = 1; context != NULL && p <= attr.phys_port_cnt && count < most; p++) {
        if (all ? !hca_ports_is_usual(p) : !hca_ports_allowed(name, p)) continue;
        struct hca_port *port = &ports[count];
        *port = (struct hca_port){.number = (uint8_t)p, .near = hca_ports_near(device)};
        snprintf(port->device, sizeof(port->device), "%s", name);
        hca_ports_look(context, port);
        count++;
        if (all && port->active) {
            ports[0] = *port;
            count = 1;
            break;
        }
    }
    if (context == NULL && count < most && (all || hca_ports_allowed(name, 1))) {
        ports[count] = (struct hca_port){.near = true};
        snprintf(ports[count].device, sizeof(ports[count].device), "%s", name);
        hca_ports_closed(device, err, &ports[count]);
        ports[count++].number = 1;
    }
    if (context != NULL) hca_verbs.close_device(context);
    return count;
}

static int hca_ports_order(const void *a, const void *b)
{
    const struct hca_port *x = a, *y = b;
    if (x->active != y->active) return y->active - x->active;
    if (x->near != y->near) return y->near - x->near;
    int names = strcmp(x->device, y->device);
    return names != 0 ? names : x->number - y->number;
}

unsigned hca_ports_find(struct hca_port ports[HCA_PORTS])
{
    int devices = 0;
    unsigned count = 0;
    struct ibv_device **list = hca_verbs.get_device_list(&devices);
    for (int i = 0; list != NULL && i < devices && count < HCA_PORTS; i++)
        count += hca_ports_of(list[i], &ports[count], HCA_PORTS - count);
    if (list != NULL) hca_verbs.free_device_list(list);
    qsort(ports, count, sizeof(*ports), hca_ports_order);
    return count;
}
