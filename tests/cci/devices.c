/*
 * Devices: those in the file that CCI_CONFIG names, those found without one, and endpoints at a
 * given service.
 */
#include "../common/capture.h"
#include "side.h"

#include <sys/wait.h>

static cci_device_t *const *begin(void)
{
    uint32_t caps;
    cci_device_t *const *devices;
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    CHECK_STATUS(cci_get_devices(NULL), CCI_EINVAL);
    CHECK_OK(cci_get_devices(&devices));
    return devices;
}

static bool has(const cci_device_t *device, const char *argument)
{
    for (const char *const *at = device->conf_argv; *at != NULL; at++)
        if (strcmp(*at, argument) == 0) return true;
    return false;
}

static void check_names(cci_device_t *const *devices, const char *const *names)
{
    unsigned i = 0;
    for (; names[i] != NULL; i++) {
        CHECK(devices[i] != NULL);
        if (strcmp(devices[i]->name, names[i]) != 0)
            check_failed(__FILE__, __LINE__, "device %u is %s, expected %s", i, devices[i]->name,
                         names[i]);
    }
    CHECK(devices[i] == NULL);
}

static void of_a_file(void)
{
    static const char *const order[] = {"last but default", "a", "b", "down", NULL};
    side_configure(
        "# a comment\n"
        "key = before any section\n"
        "[b]\ntransport = sock # and a comment\nip=127.0.0.1\npriority = 10\nmtu = 9000\n"
        "[a]\n  transport=sm\n mss = 1024 more\nodd key=odd\nno equals sign\npriority = 20\n"
        "[none]\nip = 127.0.0.1\n"
        "[twice]\ntransport = sm\ntransport = sm\n"
        "[strange]\ntransport = ether\n"
        "[down]\ntransport = tcp\nip = 192.0.2.1\ndefault = 1\n"
        "[last but default]\ntransport = tcp\ninterface = lo\ndefault = 0\npriority = 101\n");
    cci_device_t *const *devices = begin();
    check_names(devices, order);
    CHECK(strcmp(devices[0]->transport, "tcp") == 0 && has(devices[0], "priority=101"));
    CHECK_EQUAL(devices[1]->max_send_size, 1024);
    CHECK(has(devices[1], "transport=sm") && has(devices[1], "mss=1024") &&
          has(devices[1], "odd key=odd"));
    CHECK(devices[2]->max_send_size > 8000 && devices[2]->max_send_size < 9000);
    CHECK_EQUAL(devices[2]->up, 1);
    CHECK_EQUAL(devices[3]->up, 0);
    CHECK_EQUAL(devices[2]->pci.bus, UINT32_MAX);
    cci_endpoint_t *endpoint;
    CHECK_STATUS(cci_create_endpoint(devices[3], 0, &endpoint, NULL), CCI_ENETDOWN);
    CHECK_STATUS(cci_create_endpoint((cci_device_t *)order, 0, &endpoint, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_create_endpoint(NULL, 1, &endpoint, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_create_endpoint(NULL, 0, NULL, NULL), CCI_EINVAL);
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    CHECK(endpoint->device == devices[0]);
    CHECK_OK(cci_finalize());
}

/* Values that are not numbers, or too large, are reported by key, and the default is used. */
static void malformed_numbers(void)
{
    struct capture capture;
    side_configure("[a]\ntransport = sock\nip = 127.0.0.1\nport = 70000\nmtu = -1\n");
    capture_begin(&capture);
    cci_device_t *const *devices = begin();
    const char *said = capture_end(&capture);
    CHECK(strstr(said, "device a: port=70000 is not a number from 0 to 65535") != NULL);
    CHECK(strstr(said, "device a: mtu=-1 is not a number from 0 to 4294967295") != NULL);
    CHECK(devices[0]->max_send_size > 8000);
    CHECK_OK(cci_finalize());
}

/* A URI of another device is reported. */
static void other_device(void)
{
    struct capture capture;
    cci_endpoint_t *endpoint;
    side_configure("[a]\ntransport = sm\n");
    (void)begin();
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    capture_begin(&capture);
    CHECK_STATUS(
        cci_connect(endpoint, "sock://127.0.0.1:1", NULL, 0, CCI_CONN_ATTR_RO, NULL, 0, NULL),
        CCI_EINVAL);
    CHECK(strstr(capture_end(&capture), "cannot connect to sock://127.0.0.1:1: its device takes "
                                        "sm://...") != NULL);
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK_OK(cci_finalize());
}

/* Sections that cannot be used are reported, but for those of CCI's other transports. */
static void unusable_sections(void)
{
    static const char *const names[] = {"a", "g", "h", "i", NULL};
    struct capture capture;
    side_configure("\xef\xbb\xbf[a]\ntransport = sm\n[b]\ntransport = sm\ntransport = sm\n[c]\n"
                   "[d]\ntransport = socks\n[e]\ntransport = verbs\n[g]\ntransport = sock\n"
                   "[h]\ntransport = sock\ninterface = nosuch\n"
                   "[i]\ntransport = tcp\nip = 192.0.2.77\n");
    capture_begin(&capture);
    cci_device_t *const *devices = begin();
    const char *said = capture_end(&capture);
    CHECK(strstr(said, "device b is skipped: it has more than one transport") != NULL);
    CHECK(strstr(said, "device c is skipped: it has no transport") != NULL);
    CHECK(strstr(said, "device d is skipped: its transport is none of sm, sock and tcp") != NULL);
    CHECK(strstr(said, "device e") == NULL);
    CHECK(strstr(said, "device g is down: it has neither ip nor interface") != NULL);
    CHECK(strstr(said, "device h is down: no interface nosuch has an IPv4 address") != NULL);
    CHECK(strstr(said, "device i is down: no interface has the address 192.0.2.77") != NULL);
    check_names(devices, names);
    CHECK_OK(cci_finalize());
}

/* Sections and keys beyond the limits are reported. */
static void too_many(void)
{
    struct capture capture;
    char text[4096] = "[a]\ntransport = sm\n";
    for (unsigned i = 0; i < 32; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "k%u = 1\n", i);
    for (unsigned i = 1; i < 33; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "[d%u]\ntransport = sm\n", i);
    side_configure(text);
    capture_begin(&capture);
    cci_device_t *const *devices = begin();
    const char *said = capture_end(&capture);
    CHECK(strstr(said, "device a: k31 is ignored: there are 32 keys already") != NULL);
    CHECK(strstr(said, "device d32 is skipped: there are 32 devices already") != NULL);
    CHECK(devices[31] != NULL && devices[32] == NULL);
    CHECK_OK(cci_finalize());
}

/* Numbers that another endpoint has are passed over silently. */
static void numbers_in_use(void)
{
    enum { MANY = 12 };
    struct capture capture;
    cci_endpoint_t *endpoints[MANY + 1];
    char text[256];
    snprintf(text, sizeof(text),
             "[a]\ntransport = sm\npid = %d\nid = 5\n[b]\ntransport = sm\npid = %d\nid = 5\n",
             (int)getpid(), (int)getpid());
    side_configure(text);
    cci_device_t *const *devices = begin();
    capture_begin(&capture);
    for (unsigned i = 0; i <= MANY; i++)
        CHECK_OK(cci_create_endpoint(devices[i / MANY], 0, &endpoints[i], NULL));
    CHECK(capture_end(&capture)[0] == '\0');
    char *uri = side_uri(endpoints[MANY]);
    snprintf(text, sizeof(text), "%d/%d", (int)getpid(), 5 + MANY);
    CHECK(strstr(uri, text) != NULL);
    free(uri);
    CHECK_OK(cci_finalize());
}

/* Errors name URIs as programs do. */
static void at(cci_device_t *device, const char *service, const char *wrong, const char *other)
{
    struct capture capture;
    cci_endpoint_t *endpoint, *second;
    CHECK_STATUS(cci_create_endpoint_at(NULL, service, 0, &endpoint, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_create_endpoint_at(device, NULL, 0, &endpoint, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_create_endpoint_at(device, wrong, 0, &endpoint, NULL), CCI_EINVAL);
    CHECK_OK(cci_create_endpoint_at(device, service, 0, &endpoint, NULL));
    char *uri = side_uri(endpoint);
    CHECK(strstr(uri, service) != NULL);
    capture_begin(&capture);
    CHECK_STATUS(cci_create_endpoint_at(device, service, 0, &second, NULL), CCI_EBUSY);
    CHECK_OK(cci_connect(endpoint, other, NULL, 0, CCI_CONN_ATTR_RO, NULL, 0, NULL));
    const char *said = capture_end(&capture);
    CHECK(strstr(said, uri) != NULL && strstr(said, other) != NULL);
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK_OK(cci_create_endpoint_at(device, service, 0, &endpoint, NULL));
    CHECK_OK(cci_destroy_endpoint(endpoint));
    free(uri);
}

static void at_a_service(void)
{
    char port[16], pid[32];
    side_configure("[sm]\ntransport = sm\npriority = 2\n[sock]\ntransport = sock\nip = 127.0.0.1\n"
                   "priority = 1\n");
    cci_device_t *const *devices = begin();
    cci_endpoint_t *endpoint;
    CHECK_OK(cci_create_endpoint(devices[1], 0, &endpoint, NULL));
    char *uri = side_uri(endpoint);
    snprintf(port, sizeof(port), "%s", strrchr(uri, ':') + 1); /* a port that will be free */
    CHECK_OK(cci_destroy_endpoint(endpoint));
    free(uri);
    snprintf(pid, sizeof(pid), "%d/8", (int)getpid());
    at(devices[0], pid, "7/8/../x", "sm://no path");
    at(devices[1], port, "70000", "sock://127.0.0.1:70000");
    CHECK_OK(cci_finalize());
}

static void without_a_file(void)
{
    char name[32];
    CHECK(setenv("CCI_CONFIG", "", 1) == 0);
    cci_device_t *const *devices = begin();
    bool found = false;
    snprintf(name, sizeof(name), "sm%d", (int)getpid());
    for (; *devices != NULL; devices++) {
        CHECK(strcmp((*devices)->name, "lo") != 0);
        CHECK((*devices)->max_send_size >= 256 && (*devices)->conf_argv != NULL);
        found = found || (strcmp((*devices)->name, name) == 0 && (*devices)->up);
    }
    CHECK(found);
    CHECK_OK(cci_finalize());
}

/* Equal devices stay in order; the rest of a line that is too long is not a line of its own. */
static void long_lines(void)
{
    static const char *const order[] = {"z", "y", "x", "w", "v", "u", "t", "s", NULL};
    char text[4096] = "", blanks[1100];
    memset(blanks, ' ', sizeof(blanks) - 1);
    blanks[sizeof(blanks) - 1] = '\0';
    for (unsigned i = 0; order[i] != NULL; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "[%s]\ntransport = sm\n",
                 order[i]);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "# comment%s[more]\ntransport=sm\n",
             blanks);
    side_configure(text);
    /* the last device is invalid, as it has two transports */
    const char *const rest[] = {"z", "y", "x", "w", "v", "u", "t", NULL};
    check_names(begin(), rest);
    CHECK_OK(cci_finalize());
}

/* CCI_CTP restricts the transports. */
static void some_transports(void)
{
    static const char *const sm[] = {"a", NULL}, *const others[] = {"b", "c", NULL};
    static const char *const none[] = {NULL}, *const all[] = {"b", "c", "a", NULL};
    uint32_t caps;
    const struct {
        const char *list;
        const char *const *names;
    } cases[] = {{"sm", sm}, {"^sm", others}, {"tcp,sock", others},   {"^tcp,sock", sm},
                 {"", all},  {"verbs", NULL}, {"^sm,tcp,sock", NULL}, {"^sm,sock,verbs", none}};
    side_configure("[a]\ntransport = sm\n[b]\ntransport = sock\nip = 127.0.0.1\n"
                   "[c]\ntransport = sock\nip = 127.0.0.1\n");
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        CHECK(setenv("CCI_CTP", cases[i].list, 1) == 0);
        if (cases[i].names == NULL) {
            CHECK_STATUS(cci_init(CCI_ABI_VERSION, 0, &caps), CCI_ERR_NOT_FOUND);
            continue;
        }
        check_names(begin(), cases[i].names);
        CHECK_OK(cci_finalize());
    }
    CHECK(unsetenv("CCI_CTP") == 0);
}

static void unreadable(void)
{
    uint32_t caps;
    CHECK(setenv("CCI_CONFIG", "/nonexistent/cci.ini", 1) == 0);
    CHECK_STATUS(cci_init(CCI_ABI_VERSION, 0, &caps), CCI_ERROR);
    CHECK_STATUS(cci_finalize(), CCI_ERROR);
    CHECK(setenv("CCI_CONFIG", "/", 1) == 0);
    CHECK_STATUS(cci_init(CCI_ABI_VERSION, 0, &caps), CCI_ERROR);
    side_configure("nothing");
    cci_endpoint_t *endpoint;
    CHECK(begin()[0] == NULL);
    CHECK_STATUS(cci_create_endpoint(NULL, 0, &endpoint, NULL), CCI_ENODEV);
    CHECK_OK(cci_finalize());
}

static void texts(void)
{
    CHECK(strcmp(cci_strerror(NULL, CCI_ECONNREFUSED), "CCI_ECONNREFUSED") == 0);
    CHECK(strcmp(cci_strerror(NULL, CCI_SUCCESS), "CCI_SUCCESS") == 0);
    CHECK(cci_strerror(NULL, (enum cci_status)9999) != NULL);
    CHECK(strcmp(cci_event_type_str(CCI_EVENT_RECV), "CCI_EVENT_RECV") == 0);
    CHECK(strcmp(cci_event_type_str((cci_event_type_t)99), "Unknown event") == 0);
    CHECK_EQUAL(sizeof(struct cci_device), 72);
    CHECK_EQUAL(sizeof(struct cci_connection), 32);
    CHECK_EQUAL(sizeof(union cci_event), 24);
    CHECK_EQUAL(sizeof(struct cci_rma_handle), 32);
    CHECK_EQUAL(offsetof(struct cci_device, max_send_size), 40);
    CHECK_EQUAL(offsetof(struct cci_device, pci), 56);
}

static void use(void)
{
    cci_endpoint_t *endpoint;
    (void)begin();
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    side_nothing(endpoint);
}

/* AQ_STATS: the counters are printed by cci_finalize, or at exit. */
static void counters(void)
{
    struct capture capture;
    char closed[64], ended[64];
    int status;
    side_configure("[a]\ntransport = sm\n");
    CHECK(setenv("AQ_STATS", "yes", 1) == 0);
    capture_begin(&capture);
    pid_t child = fork();
    if (child == 0) {
        use();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (unsigned i = 0; i < 2; i++) {
        use();
        CHECK_OK(cci_finalize());
    }
    CHECK(unsetenv("AQ_STATS") == 0);
    const char *said = capture_end(&capture);
    snprintf(ended, sizeof(ended), "process %d (cci): poll_empty ", (int)child);
    snprintf(closed, sizeof(closed), "process %d (cci): poll_empty ", (int)getpid());
    CHECK(strstr(said, ended) != NULL);
    const char *first = strstr(said, closed);
    CHECK(first != NULL && strstr(first + 1, closed) != NULL);
}

int main(void)
{
    counters();
    texts();
    of_a_file();
    malformed_numbers();
    other_device();
    unusable_sections();
    too_many();
    numbers_in_use();
    at_a_service();
    without_a_file();
    long_lines();
    some_transports();
    unreadable();
    return 0;
}
