/* udp: the packets of calls on the wire, the secret of connections, and their URIs. */
#include "transport/udp/udp_call.h"

#include "base/fail.h"
#include "base/inet.h"
#include "base/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL_MAGIC 0x316c6c6163757141ull /* "Aqucall1" */
enum { CALL_SECRET_LEAST = 16, CALL_SECRET_MOST = 4096 };

/* --- the secret ------------------------------------------------------------------------------ */

/* Read all of it; -1: see errno. Processes that inherit a descriptor share its offset. */
static ssize_t udp_call_read_all(int fd, unsigned char *buf, size_t size)
{
    size_t len = 0;
    ssize_t got;
    do {
        got = pread(fd, buf + len, size - len, (off_t)len);
        if (got < 0 && errno == ESPIPE) got = read(fd, buf + len, size - len);
        if (got < 0 && errno != EINTR) return -1;
        if (got > 0) len += (size_t)got;
    } while (got != 0);
    return (ssize_t)len;
}

static aq_status udp_call_secret_open(const char *setting, int *fd)
{
    char *end;
    struct stat info;
    if (strncmp(setting, "fd:", 3) == 0 && setting[3] >= '0' && setting[3] <= '9') {
        unsigned long number = strtoul(setting + 3, &end, 10);
        if (*end == 0 && number <= INT_MAX && fcntl((int)number, F_GETFD) >= 0) {
            *fd = (int)number;
            return AQ_OK;
        }
        return aqi_fail(AQ_ESETTING, "udp", "AQ_CONNECT_SECRET=%s: no such descriptor is open",
                        setting);
    }
    if (strncmp(setting, "file:", 5) != 0)
        return aqi_fail(AQ_ESETTING, "udp",
                        "AQ_CONNECT_SECRET: give file:PATH or fd:NUMBER, never the secret itself");
    *fd = open(setting + 5, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return aqi_fail_errno(AQ_ESETTING, errno, "udp", "cannot open AQ_CONNECT_SECRET=%s",
                              setting);
    if (fstat(*fd, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return AQ_OK;
    close(*fd);
    return aqi_fail(AQ_EACCESS, "udp",
                    "AQ_CONNECT_SECRET=%s: other users can access it: \"chmod 600\" it, and create "
                    "a new secret",
                    setting);
}

aq_status udp_secret_read(const char *setting, struct aqi_mac *mac, struct udp_secret *secret)
{
    /* The secret read from a descriptor, kept because the library may be initialized again. */
    static struct udp_secret kept;
    static char kept_for[32];
    static const uint8_t zeros[AQI_MAC_BYTES];
    unsigned char bytes[CALL_SECRET_MOST];
    int fd = -1;
    memset(secret, 0, sizeof(*secret));
    if (setting[0] == 0) return AQ_OK;
    bool once = strncmp(setting, "fd:", 3) == 0 && strlen(setting) < sizeof(kept_for);
    if (once && kept.is_set && strcmp(setting, kept_for) == 0) {
        *secret = kept;
        return AQ_OK;
    }
    aq_status st = udp_call_secret_open(setting, &fd);
    if (st != AQ_OK) return st;
    ssize_t len = udp_call_read_all(fd, bytes, sizeof(bytes));
    int err = errno;
    close(fd);
    if (len < 0)
        return aqi_fail_errno(AQ_ESETTING, err, "udp", "cannot read AQ_CONNECT_SECRET=%s", setting);
    if (len < CALL_SECRET_LEAST || len == CALL_SECRET_MOST)
        return aqi_fail(AQ_ESETTING, "udp",
                        "AQ_CONNECT_SECRET=%s holds %zd bytes: it must have %d to %d random bytes "
                        "(head -c 32 /dev/urandom)",
                        setting, len, CALL_SECRET_LEAST, CALL_SECRET_MOST - 1);
    aqi_mac_bytes(mac, NULL, zeros, bytes, (size_t)len, secret->key);
    explicit_bzero(bytes, sizeof(bytes));
    secret->is_set = true;
    if (once) {
        kept = *secret;
        strcpy(kept_for, setting);
    }
    return AQ_OK;
}

void udp_secret_derive(struct aqi_mac *mac, const struct udp_secret *secret, const char *what,
                       const uint8_t caller[UDP_CALL_BYTES], const uint8_t listener[UDP_CALL_BYTES],
                       uint8_t key[AQI_MAC_BYTES])
{
    const struct iovec iov[] = {
        {.iov_base = (void *)(uintptr_t)caller, .iov_len = UDP_CALL_BYTES},
        {.iov_base = (void *)(uintptr_t)listener, .iov_len = UDP_CALL_BYTES}};
    aqi_mac_for(mac, what, secret->key, iov, AQI_COUNT_OF(iov), key);
}

/* --- packets --------------------------------------------------------------------------------- */

static void udp_call_prove(struct aqi_mac *mac, const struct udp_secret *secret,
                           const struct udp_call *call, uint8_t proof[UDP_CALL_BYTES])
{
    aqi_mac_bytes(mac, "udp call", secret->key, call, offsetof(struct udp_call, proof), proof);
}

static void udp_call_sum(struct aqi_mac *mac, const struct udp_call *call,
                         uint8_t check[UDP_CALL_BYTES])
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    aqi_mac_bytes(mac, NULL, zeros, call, offsetof(struct udp_call, check), check);
}

void udp_call_seal(struct aqi_mac *mac, const struct udp_secret *secret, enum udp_call_kind kind,
                   struct udp_call *call)
{
    call->magic = CALL_MAGIC;
    call->version = aqi_wire_version(AQI_WIRE_CALL);
    call->packets = aqi_wire_version(AQI_WIRE_UDP);
    call->kind = (uint8_t)kind;
    udp_call_prove(mac, secret, call, call->proof);
    udp_call_sum(mac, call, call->check);
}

static bool udp_call_is_ours(const struct udp_call *call)
{
    return call->version == aqi_wire_version(AQI_WIRE_CALL) &&
           call->packets == aqi_wire_version(AQI_WIRE_UDP);
}

/* Whether it is of this library, in any version, and unaltered. */
static bool udp_call_is_whole(struct aqi_mac *mac, const void *bytes, size_t len,
                              struct udp_call *call)
{
    uint8_t check[UDP_CALL_BYTES];
    if (len != sizeof(*call)) return false;
    memcpy(call, bytes, sizeof(*call));
    if (call->magic != CALL_MAGIC) return false;
    udp_call_sum(mac, call, check);
    return aqi_mac_same(check, call->check);
}

bool udp_call_read(struct aqi_mac *mac, const void *bytes, size_t len, struct udp_call *call)
{
    struct udp_call read;
    if (!udp_call_is_whole(mac, bytes, len, &read) || !udp_call_is_ours(&read)) return false;
    if (read.kind == 0 || read.kind >= UDP_CALL_KINDS) return false;
    *call = read;
    return true;
}

bool udp_call_read_other(struct aqi_mac *mac, const void *bytes, size_t len, struct udp_call *call)
{
    struct udp_call read;
    if (!udp_call_is_whole(mac, bytes, len, &read) || udp_call_is_ours(&read)) return false;
    if (read.kind != UDP_CALL_KNOCK && read.kind != UDP_CALL_OTHER) return false;
    memset(call, 0, sizeof(*call));
    memcpy(call, &read, offsetof(struct udp_call, listener));
    return true;
}

void udp_call_differs(const struct udp_call *call, const char *them, char *why, size_t room)
{
    static const char us[] = "this process";
    if (call->version != aqi_wire_version(AQI_WIRE_CALL))
        aqi_wire_differs(why, room, AQI_WIRE_CALL, them, call->version, us);
    else
        aqi_wire_differs(why, room, AQI_WIRE_UDP, them, call->packets, us);
}

bool udp_call_proved(struct aqi_mac *mac, const struct udp_secret *secret,
                     const struct udp_call *call)
{
    uint8_t proof[UDP_CALL_BYTES];
    udp_call_prove(mac, secret, call, proof);
    return aqi_mac_same(proof, call->proof);
}

/* --- URIs ------------------------------------------------------------------------------------ */

static bool udp_call_read_port(const char *text, char port[8])
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 5 || text[n] != 0 || strtoul(text, NULL, 10) > UINT16_MAX) return false;
    strcpy(port, text);
    return true;
}

bool udp_uri_read(const char *uri, struct udp_uri *out)
{
    static const char scheme[] = "udp://";
    struct udp_uri read = {.port = "0"};
    if (strncmp(uri, scheme, sizeof(scheme) - 1) != 0) return false;
    const char *host = uri + sizeof(scheme) - 1, *end;
    bool six = host[0] == '[';
    if (six) {
        end = strchr(++host, ']');
        if (end == NULL || end == host) return false;
    } else {
        end = host + strcspn(host, ":");
    }
    for (const char *c = host; c != end; c++)
        if (*c <= ' ' || *c > '~' || strchr("/@?#[]", *c) != NULL) return false;
    if ((size_t)(end - host) > UDP_HOST_MAX) return false;
    memcpy(read.host, host, (size_t)(end - host));
    if (six) end++;
    if (*end != 0 && (*end != ':' || !udp_call_read_port(end + 1, read.port))) return false;
    *out = read;
    return true;
}

aq_status udp_uri_bad(const char *uri)
{
    return aqi_fail(
        AQ_EINVAL, "udp",
        "\"%s\" is not an address of udp: give udp://HOST:PORT, with an IPv6 address in brackets",
        uri);
}

aq_status udp_uri_resolve(const struct udp_uri *uri, bool listen, struct addrinfo **names)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = listen ? AI_PASSIVE : 0};
    int error = aqi_inet_resolve(uri->host, uri->port, &hints, names);
    if (error == 0) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "udp", "host \"%s\" is unknown: %s", uri->host,
                    error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
}

unsigned udp_call_most(bool secret)
{
    enum { MOST = 256, TRUSTED = 2048 };
    unsigned long long most = aqi_min(secret ? TRUSTED : MOST, aqi_fd_limit() / 4);
    return (unsigned)aqi_max(most, UDP_CALL_EACH);
}
