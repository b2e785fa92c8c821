/* cci: devices, configured by the file of CCI_CONFIG or derived from the interfaces of this host,
 * and their URIs. */
#include "front/cci/impl.h"

#include "base/ini.h"
#include "base/line.h"
#include "base/log.h"
#include "base/words.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

enum {
    DEVICE_HEADERS = 84, /* bytes of a packet besides the message */
    DEVICE_LEAST = 256
};

/* Those of CCI's own library that are not supported come last. */
static const struct {
    const char *name;
    struct aqi_log_name scheme;
    int priority;
} device_kinds[] = {[AQC_SM] = {"sm", {"shm://", "sm://"}, 20},
                    [AQC_SOCK] = {"sock", {"udp://", "sock://"}, 31},
                    [AQC_TCP] = {"tcp", {"udp://", "tcp://"}, 30},
                    {.name = "verbs"},
                    {.name = "gni"},
                    {.name = "eth"}};

/* CCI_CTP: the transports to use or, after "^", those not to use. */
static bool device_may_use(enum aqc_kind kind)
{
    const char *list = getenv("CCI_CTP");
    if (list == NULL || *list == '\0') return true;
    bool except = *list == '^';
    return aqi_words_have(list + except, device_kinds[kind].name) != except;
}

bool aqc_devices_possible(void)
{
    return device_may_use(AQC_SM) || device_may_use(AQC_SOCK) || device_may_use(AQC_TCP);
}

/* --- one device ------------------------------------------------------------------------------ */

static void device_free(struct aqc_device *device)
{
    for (unsigned i = 0; i < device->count; i++)
        free((void *)(uintptr_t)device->arguments[i]);
    free((void *)(uintptr_t)device->pub.name);
    free(device);
}

static struct aqc_device *device_new(const char *name)
{
    struct aqc_device *device = calloc(1, sizeof(*device));
    if (device == NULL) return NULL;
    device->pub.name = strdup(name);
    memset(&device->pub.pci, 0xff, sizeof(device->pub.pci)); /* none */
    device->pub.conf_argv = device->arguments;
    if (device->pub.name != NULL) return device;
    free(device);
    return NULL;
}

/* Add a key and value to those that the program can read. */
static void device_note(struct aqc_device *device, const char *key, const char *value)
{
    char *text;
    if (device->count == AQC_KEYS)
        aqi_log(AQI_LOG_WARN, "cci",
                "CCI_CONFIG: device %s: %s is ignored: there are %d keys already", device->pub.name,
                key, AQC_KEYS);
    else if (asprintf(&text, "%s=%s", key, value) >= 0)
        device->arguments[device->count++] = text;
}

/* The value of a key, found at index `*at` or later; NULL: none. */
static const char *device_next(const struct aqc_device *device, const char *key, unsigned *at)
{
    size_t len = strlen(key);
    while (*at < device->count) {
        const char *argument = device->arguments[(*at)++];
        if (strncmp(argument, key, len) == 0 && argument[len] == '=') return argument + len + 1;
    }
    return NULL;
}

static const char *device_get(const struct aqc_device *device, const char *key)
{
    unsigned at = 0;
    return device_next(device, key, &at);
}

/* The value of a key as a number; `def` if it is missing, malformed or above `most`. */
static unsigned long device_number(const struct aqc_device *device, const char *key,
                                   unsigned long most, unsigned long def)
{
    const char *text = device_get(device, key);
    char *end;
    if (text == NULL) return def;
    unsigned long value = strtoul(text, &end, 0);
    if (isdigit((unsigned char)text[0]) && *end == '\0' && value <= most) return value;
    aqi_log(AQI_LOG_WARN, "cci",
            "CCI_CONFIG: device %s: %s=%s is not a number from 0 to %lu, and is ignored",
            device->pub.name, key, text, most);
    return def;
}

/* --- interfaces ------------------------------------------------------------------------------ */

/* Get the rate and PCI address that the kernel reports. */
static void device_describe(struct cci_device *pub, const char *interface)
{
    char path[128], text[256];
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", interface);
    long speed = aqi_line_read(path, text, sizeof(text)) ? strtol(text, NULL, 10) : 0;
    if (speed > 0) pub->rate = (uint64_t)speed * 1000000;
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", interface);
    ssize_t len = readlink(path, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *slash = strrchr(text, '/');
    if (sscanf(slash != NULL ? slash + 1 : text, "%x:%x:%x.%x", &pub->pci.domain, &pub->pci.bus,
               &pub->pci.dev, &pub->pci.func) != 4)
        memset(&pub->pci, 0xff, sizeof(pub->pci));
}

void aqc_device_look(struct aqc_device *device)
{
    struct ifaddrs *all;
    const char *ip = device_get(device, "ip"), *interface = device_get(device, "interface");
    char text[INET6_ADDRSTRLEN];
    bool up = false, wanted = ip != NULL || interface != NULL;
    if (device->kind == AQC_SM) return;
    if (!wanted || getifaddrs(&all) != 0) all = NULL;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET) continue;
        (void)aqi_sockaddr_ip_text(at->ifa_addr, text);
        if (ip != NULL ? strcmp(ip, text) != 0 : strcmp(interface, at->ifa_name) != 0) continue;
        snprintf(device->address, sizeof(device->address), "%s", text);
        device_describe(&device->pub, at->ifa_name);
        up = (at->ifa_flags & IFF_UP) != 0;
        break;
    }
    if (all != NULL) freeifaddrs(all);
    device->pub.up = up;
}

void aqc_device_set_up(const struct aqc_device *device, bool up)
{
    for (unsigned i = 0; i < aqc.device_count; i++) {
        struct aqc_device *other = aqc.devices[i];
        if (other->kind != AQC_SM && strcmp(other->address, device->address) == 0)
            /* programs read it without the lock */
            __atomic_store_n(&other->pub.up, up, __ATOMIC_RELAXED);
    }
}

/* --- all devices ----------------------------------------------------------------------------- */

static bool device_skip(const struct aqc_device *device, const char *why)
{
    aqi_log(AQI_LOG_WARN, "cci", "CCI_CONFIG: device %s is skipped: %s", device->pub.name, why);
    return false;
}

/* Set the kind of the device. Returns false if it is not supported. */
static bool device_choose_kind(struct aqc_device *device)
{
    unsigned at = 0, kind = 0;
    const char *transport = device_next(device, "transport", &at);
    if (transport == NULL) return device_skip(device, "it has no transport");
    if (device_next(device, "transport", &at) != NULL)
        return device_skip(device, "it has more than one transport");
    while (kind < AQI_COUNT_OF(device_kinds) && strcmp(transport, device_kinds[kind].name) != 0)
        kind++;
    if (kind == AQI_COUNT_OF(device_kinds))
        return device_skip(device, "its transport is none of sm, sock and tcp");
    device->kind = (enum aqc_kind)kind;
    return kind < AQC_KINDS && device_may_use(device->kind);
}

/* Fill in the device from its keys. Returns false if it is not supported. */
static bool device_finish(struct aqc_device *device)
{
    if (!device_choose_kind(device)) return false;
    device->pub.transport = device_kinds[device->kind].name;
    unsigned long priority = device_number(device, "priority", 100, UINT32_MAX);
    device->priority = priority <= 100 ? (int)priority : device_kinds[device->kind].priority;
    device->is_default = device_get(device, "default") != NULL;
    unsigned long most = AQC_MESSAGE;
    if (device->kind == AQC_SM) {
        device->pub.up = 1;
        device->anyone = device_number(device, "other_users", 1, 0) != 0;
        device->pid = (unsigned)device_number(device, "pid", UINT32_MAX, 0);
        device->next_id = (unsigned)device_number(device, "id", UINT32_MAX, 0);
        most = device_number(device, "mss", UINT32_MAX, AQC_MESSAGE);
    } else {
        device->anyone = getenv("AQ_CONNECT_SECRET") == NULL;
        unsigned long mtu = device_number(device, "mtu", UINT32_MAX, AQC_MESSAGE + DEVICE_HEADERS);
        most = mtu > DEVICE_HEADERS ? mtu - DEVICE_HEADERS : 0;
        device->port = (uint16_t)device_number(device, "port", UINT16_MAX, 0);
        aqc_device_look(device);
    }
    device->pub.max_send_size = (uint32_t)aqi_max(aqi_min(most, AQC_MESSAGE), DEVICE_LEAST);
    return true;
}

/* Devices that are up come first, then the default one, then by priority and rate. */
int aqc_device_compare(const struct aqc_device *x, const struct aqc_device *y)
{
    if (x->pub.up != y->pub.up) return x->pub.up ? -1 : 1;
    if (x->is_default != y->is_default) return x->is_default ? -1 : 1;
    if (x->priority != y->priority) return x->priority > y->priority ? -1 : 1;
    return (x->pub.rate < y->pub.rate) - (x->pub.rate > y->pub.rate);
}

/* Add a device with all its keys behind those that are not worse. Returns false if it is skipped.
 */
static bool device_add(struct aqc_device *device)
{
    unsigned at = aqc.device_count;
    bool full = at == AQC_DEVICES;
    if (full) (void)device_skip(device, "there are 32 devices already");
    if (full || !device_finish(device)) {
        device_free(device);
        return false;
    }
    for (; at != 0 && aqc_device_compare(aqc.devices[at - 1], device) > 0; at--)
        aqc.devices[at] = aqc.devices[at - 1];
    aqc.devices[at] = device;
    aqc.device_count++;
    return true;
}

/* A section of the file ends. If its device is down, it stays in the list, as its interface may
 * come up later: report why. */
static void device_end(struct aqc_device *device)
{
    if (device == NULL || !device_add(device) || device->pub.up) return;
    const char *ip = device_get(device, "ip"), *interface = device_get(device, "interface");
    char why[600];
    if (device->address[0] != '\0')
        snprintf(why, sizeof(why), "its interface is down");
    else if (ip != NULL)
        snprintf(why, sizeof(why), "no interface has the address %s", ip);
    else if (interface != NULL)
        snprintf(why, sizeof(why), "no interface %s has an IPv4 address", interface);
    else
        snprintf(why, sizeof(why), "it has neither ip nor interface");
    aqi_log(AQI_LOG_WARN, "cci", "CCI_CONFIG: device %s is down: %s", device->pub.name, why);
}

static aq_status device_unreadable(const char *path, int err)
{
    aqi_log(AQI_LOG_ERROR, "cci", "cannot read CCI_CONFIG=%s: %s", path, strerror(err));
    return AQ_ESETTING;
}

static aq_status device_read_file(const char *path)
{
    struct aqc_device *device = NULL;
    struct aqi_ini ini = {.file = fopen(path, "re")};
    if (ini.file == NULL) return device_unreadable(path, errno);
    while (aqi_ini_next(&ini)) {
        if (ini.value == NULL) {
            device_end(device);
            device = device_new(ini.name);
        } else if (device != NULL) {
            device_note(device, ini.name, ini.value);
        }
    }
    int err = ferror(ini.file) != 0 ? errno : 0;
    (void)fclose(ini.file);
    device_end(device);
    return err == 0 ? AQ_OK : device_unreadable(path, err);
}

static void device_make(const char *name, enum aqc_kind kind, const char *interface)
{
    struct aqc_device *device = device_new(name);
    if (device == NULL) return;
    device_note(device, "transport", device_kinds[kind].name);
    if (interface != NULL) device_note(device, "interface", interface);
    (void)device_add(device);
}

/* Without a file. */
static void device_find_all(void)
{
    char name[32];
    struct ifaddrs *all;
    snprintf(name, sizeof(name), "sm%d", (int)getpid());
    device_make(name, AQC_SM, NULL);
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET) continue;
        if ((at->ifa_flags & IFF_LOOPBACK) != 0) continue;
        device_make(at->ifa_name, AQC_SOCK, at->ifa_name);
        device_make(at->ifa_name, AQC_TCP, at->ifa_name);
    }
    freeifaddrs(all);
}

aq_status aqc_devices_open(void)
{
    const char *path = getenv("CCI_CONFIG");
    if (path != NULL && *path != '\0') return device_read_file(path);
    device_find_all();
    return AQ_OK;
}

void aqc_devices_close(void)
{
    while (aqc.device_count != 0) {
        device_free(aqc.devices[--aqc.device_count]);
        aqc.devices[aqc.device_count] = NULL;
    }
}

int cci_get_devices(cci_device_t *const **devices)
{
    if (devices == NULL) return CCI_EINVAL;
    aqc_enter();
    int status = aqc.users != 0 ? CCI_SUCCESS : CCI_ERROR;
    /* The public part is the first member of a device. */
    *devices = (cci_device_t *const *)(void *)aqc.devices;
    aqc_unlock();
    return status;
}

/* --- URIs ------------------------------------------------------------------------------------ */

/* "PID/ID" */
static bool device_service_is_valid(const char *service)
{
    size_t pid = strspn(service, "0123456789");
    const char *id = service + pid + 1;
    return pid != 0 && service[pid] == '/' && *id != '\0' && id[strspn(id, "0123456789")] == '\0';
}

static bool device_shm_uri(struct aqc_device *device, const char *service, char *uri, size_t len)
{
    char host[65] = "", own[32];
    unsigned pid = device->pid != 0 ? device->pid : (unsigned)getpid();
    (void)gethostname(host, sizeof(host) - 1);
    if (service == NULL) snprintf(own, sizeof(own), "%u/%u", pid, device->next_id++);
    int n = snprintf(uri, len, "shm:///cci/%s/%s", host, service != NULL ? service : own);
    return (service == NULL || device_service_is_valid(service)) && n > 0 && (size_t)n < len;
}

bool aqc_device_uri(struct aqc_device *device, const char *service, char *uri, size_t len)
{
    char *end = NULL;
    aqi_log_rename(&device_kinds[device->kind].scheme); /* errors name URIs as programs do */
    if (device->kind == AQC_SM) return device_shm_uri(device, service, uri, len);
    unsigned long port = service != NULL ? strtoul(service, &end, 10) : device->port;
    if (service != NULL && (end == service || *end != '\0' || port > UINT16_MAX)) return false;
    snprintf(uri, len, "udp://%s:%lu", device->address, port);
    return true;
}

bool aqc_uri_inside(enum aqc_kind kind, const char *uri, char *inside, size_t len)
{
    const struct aqi_log_name *scheme = &device_kinds[kind].scheme;
    size_t n = strlen(scheme->outside);
    aqi_log_rename(scheme);
    bool fits = strncmp(uri, scheme->outside, n) == 0 &&
                snprintf(inside, len, "%s%s", scheme->inside, uri + n) < (int)len;
    if (!fits)
        aqi_log(AQI_LOG_WARN, "cci",
                "this endpoint cannot connect to %.200s: its device takes %s...", uri,
                scheme->outside);
    return fits;
}

char *aqc_uri_outside(enum aqc_kind kind, const char *inside)
{
    const struct aqi_log_name *scheme = &device_kinds[kind].scheme;
    char *uri;
    int n = asprintf(&uri, "%s%s", scheme->outside, inside + strlen(scheme->inside));
    return n >= 0 ? uri : NULL;
}
