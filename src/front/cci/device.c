/* cci: devices, configured by the file of CCI_CONFIG or derived from the interfaces of this host,
 * and their URIs. */
#include "front/cci/impl.h"

#include "base/array.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEVICE_MAX = 32,
    DEVICE_KEYS = 32,
    DEVICE_LINE = 1024,
    DEVICE_PRIORITY = 50,
    DEVICE_HEADERS = 84, /* bytes of a packet besides the message */
    DEVICE_LEAST = 256
};

static const struct {
    const char *name;
    struct aqi_log_name scheme;
    int priority;
} device_kinds[AQC_KINDS] = {[AQC_SM] = {"sm", {"shm://", "sm://"}, 20},
                             [AQC_SOCK] = {"sock", {"udp://", "sock://"}, 31},
                             [AQC_TCP] = {"tcp", {"udp://", "tcp://"}, 30}};

/* CCI_CTP: the transports to use or, after "^", those not to use. */
static bool device_may_use(const char *transport)
{
    const char *list = getenv("CCI_CTP");
    if (list == NULL || *list == '\0') return true;
    bool except = *list == '^', named = false;
    for (const char *at = list + except; *at != '\0'; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ", ");
        named = named || (len == strlen(transport) && strncmp(at, transport, len) == 0);
        at += len;
    }
    return named != except;
}

/* --- one device ------------------------------------------------------------------------------ */

static void device_free(struct aqc_device *device)
{
    if (device == NULL) return;
    for (unsigned i = 0; i < device->count; i++)
        free((void *)(uintptr_t)device->arguments[i]);
    free(device->arguments);
    free((void *)(uintptr_t)device->pub.name);
    free((void *)(uintptr_t)device->pub.transport);
    free(device);
}

static struct aqc_device *device_new(const char *name)
{
    struct aqc_device *device = calloc(1, sizeof(*device));
    if (device == NULL) return NULL;
    device->kind = AQC_KINDS;
    device->priority = -1;
    device->arguments = calloc(DEVICE_KEYS + 1, sizeof(char *));
    device->pub.name = strdup(name);
    device->pub.pci.domain = device->pub.pci.bus = UINT32_MAX;
    device->pub.pci.dev = device->pub.pci.func = UINT32_MAX;
    device->pub.conf_argv = device->arguments;
    if (device->arguments != NULL && device->pub.name != NULL) return device;
    device_free(device);
    return NULL;
}

/* Add a key and value to those that the program can read. */
static bool device_note(struct aqc_device *device, const char *key, const char *value)
{
    char *text;
    if (device->count == DEVICE_KEYS || asprintf(&text, "%s=%s", key, value) < 0) return false;
    device->arguments[device->count++] = text;
    return true;
}

static const char *device_get(const struct aqc_device *device, const char *key)
{
    size_t len = strlen(key);
    for (unsigned i = 0; i < device->count; i++)
        if (strncmp(device->arguments[i], key, len) == 0 && device->arguments[i][len] == '=')
            return device->arguments[i] + len + 1;
    return NULL;
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
static void device_describe(struct aqc_device *device, const char *interface)
{
    char path[128], text[256];
    unsigned domain, bus, dev, func;
    long speed = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", interface);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%ld", &speed) == 1 && speed > 0)
            device->pub.rate = (uint64_t)speed * 1000000;
        fclose(file);
    }
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", interface);
    ssize_t len = readlink(path, text, sizeof(text) - 1);
    if (len <= 0) return;
    text[len] = '\0';
    const char *slash = strrchr(text, '/');
    if (sscanf(slash != NULL ? slash + 1 : text, "%x:%x:%x.%x", &domain, &bus, &dev, &func) != 4)
        return;
    device->pub.pci.domain = domain;
    device->pub.pci.bus = bus;
    device->pub.pci.dev = dev;
    device->pub.pci.func = func;
}

/* Find the interface with this name or, if `ip` is given, this address. */
static bool device_find_interface(struct aqc_device *device, const char *interface, const char *ip)
{
    struct ifaddrs *all, *at;
    char text[INET_ADDRSTRLEN];
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (at = all; at != NULL && !found; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET) continue;
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr,
                  text, sizeof(text));
        found = ip != NULL ? strcmp(ip, text) == 0 : strcmp(interface, at->ifa_name) == 0;
        if (!found) continue;
        snprintf(device->address, sizeof(device->address), "%s", text);
        device->pub.up = (at->ifa_flags & IFF_UP) != 0;
        device_describe(device, at->ifa_name);
    }
    freeifaddrs(all);
    return found;
}

void aqc_device_look(struct aqc_device *device)
{
    if (device->kind == AQC_SM) return;
    const char *ip = device_get(device, "ip"), *interface = device_get(device, "interface");
    if ((ip == NULL && interface == NULL) || !device_find_interface(device, interface, ip))
        device->pub.up = 0;
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

/* --- devices of the configuration file ------------------------------------------------------- */

static bool device_skip(const struct aqc_device *device, const char *why)
{
    aqi_log(AQI_LOG_WARN, "cci", "CCI_CONFIG: device %s is skipped: %s", device->pub.name, why);
    return false;
}

/* Set the kind of the device. Returns false if it is not supported. */
static bool device_choose_kind(struct aqc_device *device)
{
    static const char *const elsewhere[] = {"verbs", "gni", "eth"}; /* in CCI's own library */
    const char *transport = device_get(device, "transport");
    unsigned transports = 0;
    for (unsigned i = 0; i < device->count; i++)
        transports += strncmp(device->arguments[i], "transport=", 10) == 0;
    if (transports != 1)
        return device_skip(device, transports == 0 ? "it has no transport"
                                                   : "it has more than one transport");
    for (unsigned i = 0; i < AQC_KINDS; i++)
        if (strcmp(transport, device_kinds[i].name) == 0) device->kind = (enum aqc_kind)i;
    for (unsigned i = 0; i < AQI_COUNT_OF(elsewhere); i++)
        if (strcmp(transport, elsewhere[i]) == 0) return false;
    if (device->kind == AQC_KINDS)
        return device_skip(device, "its transport is none of sm, sock and tcp");
    return device_may_use(transport);
}

/* Fill in the device from its keys. Returns false if it is not supported. */
static bool device_finish(struct aqc_device *device)
{
    if (!device_choose_kind(device)) return false;
    device->pub.transport = strdup(device_kinds[device->kind].name);
    if (device->pub.transport == NULL) return false;
    unsigned long priority = device_number(device, "priority", 100, 101);
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
    device->pub.max_send_size =
        (uint32_t)aqi_max(aqi_min(most, (unsigned long)AQC_MESSAGE), DEVICE_LEAST);
    return true;
}

static bool device_add(struct aqc_device *device)
{
    if (device == NULL) return false;
    if (aqc.device_count == DEVICE_MAX)
        (void)device_skip(device, "there are 32 devices already");
    else if (device_finish(device)) {
        aqc.devices[aqc.device_count++] = device;
        return true;
    }
    device_free(device);
    return false;
}

/* A device that is down stays in the list, as its interface may come up later: report why. */
static void device_report_down(const struct aqc_device *device)
{
    const char *ip = device_get(device, "ip"), *interface = device_get(device, "interface");
    char why[DEVICE_LINE];
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

/* A section of the file ends. */
static void device_end(struct aqc_device *device)
{
    if (device_add(device) && !device->pub.up) device_report_down(device);
}

static char *device_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t len = strlen(text); len != 0 && isspace((unsigned char)text[len - 1]);)
        text[--len] = '\0';
    return text;
}

/* Parse "key = value"; a value ends at the first blank. */
static void device_read_key(struct aqc_device *device, char *line)
{
    char *equals = strchr(line, '=');
    if (device == NULL || equals == NULL) return;
    *equals = '\0';
    char *value = device_trim(equals + 1);
    value[strcspn(value, " \t")] = '\0';
    char *key = device_trim(line);
    if (*key != '\0' && !device_note(device, key, value))
        aqi_log(AQI_LOG_WARN, "cci",
                "CCI_CONFIG: device %s: %s is ignored: there are %d keys already", device->pub.name,
                key, DEVICE_KEYS);
}

static aq_status device_unreadable(const char *path, int err)
{
    aqi_log(AQI_LOG_ERROR, "cci", "cannot read CCI_CONFIG=%s: %s", path, strerror(err));
    return AQ_ESETTING;
}

/* Skip the rest of a line that is too long, which must not be taken for another line. */
static void device_skip_line(FILE *file)
{
    for (int c; (c = getc(file)) != EOF && c != '\n';)
        ;
}

static aq_status device_read_file(const char *path)
{
    char line[DEVICE_LINE];
    struct aqc_device *device = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) return device_unreadable(path, errno);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strchr(line, '\n') == NULL) device_skip_line(file);
        line[strcspn(line, "#\n")] = '\0';
        /* some editors put a byte order mark at the beginning of a file */
        char *text = device_trim(line + (strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0));
        char *end = strchr(text, ']');
        if (*text != '[' || end == NULL) {
            device_read_key(device, text);
            continue;
        }
        *end = '\0';
        device_end(device);
        device = device_new(text + 1);
    }
    int err = ferror(file) != 0 ? errno : 0;
    fclose(file);
    device_end(device);
    return err == 0 ? AQ_OK : device_unreadable(path, err);
}

/* --- devices without a file ------------------------------------------------------------------- */

static void device_make(const char *name, enum aqc_kind kind, const char *interface)
{
    struct aqc_device *device = device_new(name);
    if (device == NULL) return;
    (void)device_note(device, "transport", device_kinds[kind].name);
    if (interface != NULL) (void)device_note(device, "interface", interface);
    (void)device_add(device);
}

static aq_status device_find_all(void)
{
    char name[32];
    struct ifaddrs *all;
    snprintf(name, sizeof(name), "sm%d", (int)getpid());
    device_make(name, AQC_SM, NULL);
    if (getifaddrs(&all) != 0) return AQ_OK;
    for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET) continue;
        if ((at->ifa_flags & IFF_LOOPBACK) != 0) continue;
        device_make(at->ifa_name, AQC_SOCK, at->ifa_name);
        device_make(at->ifa_name, AQC_TCP, at->ifa_name);
    }
    freeifaddrs(all);
    return AQ_OK;
}

/* Sort: devices that are up first, then the default one, then by priority and rate. */
static int device_compare(const struct aqc_device *x, const struct aqc_device *y)
{
    if (x->pub.up != y->pub.up) return x->pub.up ? -1 : 1;
    if (x->is_default != y->is_default) return x->is_default ? -1 : 1;
    if (x->priority != y->priority) return x->priority > y->priority ? -1 : 1;
    if (x->pub.rate != y->pub.rate) return x->pub.rate > y->pub.rate ? -1 : 1;
    return 0;
}

bool aqc_device_is_better(const struct aqc_device *device, const struct aqc_device *than)
{
    return device_compare(device, than) < 0;
}

/* Devices that compare equal stay in the order of the file, which qsort does not guarantee. */
static void device_sort_all(void)
{
    for (unsigned i = 1; i < aqc.device_count; i++) {
        struct aqc_device *device = aqc.devices[i];
        unsigned at = i;
        for (; at > 0 && device_compare(aqc.devices[at - 1], device) > 0; at--)
            aqc.devices[at] = aqc.devices[at - 1];
        aqc.devices[at] = device;
    }
}

bool aqc_devices_possible(void)
{
    bool some = false;
    for (unsigned i = 0; i < AQC_KINDS; i++)
        some = some || device_may_use(device_kinds[i].name);
    return some;
}

aq_status aqc_devices_open(void)
{
    const char *path = getenv("CCI_CONFIG");
    aqc.device_count = 0;
    aqc.devices = calloc(DEVICE_MAX + 1, sizeof(struct aqc_device *));
    if (aqc.devices == NULL) return AQ_ENOMEM;
    aq_status st = path != NULL && *path != '\0' ? device_read_file(path) : device_find_all();
    device_sort_all();
    return st;
}

void aqc_devices_close(void)
{
    for (unsigned i = 0; i < aqc.device_count; i++)
        device_free(aqc.devices[i]);
    free(aqc.devices);
    aqc.devices = NULL;
    aqc.device_count = 0;
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

static int device_shm_uri(struct aqc_device *device, const char *service, char *uri, size_t len)
{
    char host[65] = "";
    unsigned pid = device->pid != 0 ? device->pid : (unsigned)getpid();
    (void)gethostname(host, sizeof(host) - 1);
    int n = service == NULL ? snprintf(uri, len, "sm:///cci/%s/%u/%u", host, pid, device->next_id++)
                            : snprintf(uri, len, "sm:///cci/%s/%s", host, service);
    if (service != NULL && !device_service_is_valid(service)) return CCI_EINVAL;
    return n > 0 && (size_t)n < len ? CCI_SUCCESS : CCI_EINVAL;
}

int aqc_device_uri(struct aqc_device *device, const char *service, char *uri, size_t len)
{
    unsigned long port = device->port;
    char *end = NULL;
    if (device->kind == AQC_SM) return device_shm_uri(device, service, uri, len);
    if (service != NULL) {
        port = strtoul(service, &end, 10);
        if (end == service || *end != '\0' || port > UINT16_MAX) return CCI_EINVAL;
    }
    snprintf(uri, len, "%s%s:%lu", device_kinds[device->kind].scheme.outside, device->address,
             port);
    return CCI_SUCCESS;
}

static bool device_translate(const char *from, const char *to, const char *uri, char *out,
                             size_t len)
{
    size_t n = strlen(from);
    if (strncmp(uri, from, n) != 0) return false;
    int written = snprintf(out, len, "%s%s", to, uri + n);
    return written > 0 && (size_t)written < len;
}

bool aqc_uri_inside(enum aqc_kind kind, const char *uri, char *inside, size_t len)
{
    const struct aqi_log_name *scheme = &device_kinds[kind].scheme;
    aqi_log_rename(scheme); /* errors name the URI as the program did */
    return device_translate(scheme->outside, scheme->inside, uri, inside, len);
}

void aqc_uri_group(const struct aqc_device *device, char *inside, size_t len)
{
    char port[16];
    char *end = strstr(inside, "]:"), *colon = strrchr(inside, ':');
    if (end == NULL) end = colon;
    if (end == NULL || device->address[0] == '\0' || strchr(inside, '%') != NULL ||
        strlen(end) >= sizeof(port) || strlen(inside) + strlen(device->address) + 2 > len)
        return;
    memcpy(port, end, strlen(end) + 1);
    sprintf(end, "%%%s%s", device->address, port);
}

void aqc_uri_outside(enum aqc_kind kind, const char *inside, char *uri, size_t len)
{
    const struct aqi_log_name *scheme = &device_kinds[kind].scheme;
    if (!device_translate(scheme->inside, scheme->outside, inside, uri, len)) uri[0] = '\0';
}
