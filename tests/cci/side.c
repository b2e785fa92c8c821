/* Two endpoints in one process. */
#include "side.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 2000 };

static cci_device_t *device;

double side_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void side_configure(const char *text)
{
    char path[64];
    int fd = memfd_create("cci", 0);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(setenv("CCI_CONFIG", path, 1) == 0);
}

void side_init(int argc, char **argv)
{
    uint32_t caps = 1;
    cci_device_t *const *devices;
    char text[128];
    snprintf(text, sizeof(text), "[test]\ntransport = %s\nip = 127.0.0.1\n",
             argc > 1 ? argv[1] : "sm");
    side_configure(text);
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    CHECK_EQUAL(caps, 0);
    CHECK_OK(cci_get_devices(&devices));
    device = devices[0];
    CHECK(device != NULL && devices[1] == NULL);
    cci_endpoint_t *endpoint;
    int status = cci_create_endpoint(device, 0, &endpoint, NULL);
    if (status == CCI_ENODEV) { /* libcrypto is missing; the library has reported it */
        printf("skipped: no endpoint can be created over %s\n", device->transport);
        exit(77);
    }
    CHECK_OK(status);
    CHECK_OK(cci_destroy_endpoint(endpoint));
}

cci_endpoint_t *side_open(cci_os_handle_t *fd)
{
    cci_endpoint_t *endpoint = NULL;
    CHECK_OK(cci_create_endpoint(device, 0, &endpoint, fd));
    CHECK(endpoint->device == device);
    return endpoint;
}

char *side_uri(cci_endpoint_t *endpoint)
{
    char *uri = NULL;
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_URI, &uri));
    CHECK(strlen(uri) < 256 && strchr(uri, ' ') == NULL);
    return uri;
}

cci_event_t *side_event(cci_endpoint_t *endpoint, cci_endpoint_t *other)
{
    double limit = side_now() + TIMEOUT;
    cci_event_t *event, *kept;
    int status;
    while ((status = cci_get_event(endpoint, &event)) == CCI_EAGAIN) {
        CHECK(event == NULL);
        CHECK(side_now() < limit);
        if (other != NULL && other != endpoint && cci_get_event(other, &kept) == CCI_SUCCESS)
            check_failed(__FILE__, __LINE__, "unexpected event %s at the other endpoint",
                         cci_event_type_str(kept->type));
    }
    CHECK_OK(status);
    return event;
}

void side_nothing(cci_endpoint_t *endpoint)
{
    cci_event_t *event;
    for (int i = 0; i < ROUNDS; i++)
        CHECK_STATUS(cci_get_event(endpoint, &event), CCI_EAGAIN);
}

cci_event_t *side_expect(cci_endpoint_t *endpoint, cci_endpoint_t *other, cci_event_type_t type)
{
    cci_event_t *event = side_event(endpoint, other);
    if (event->type != type)
        check_failed(__FILE__, __LINE__, "the event is %s, expected %s",
                     cci_event_type_str(event->type), cci_event_type_str(type));
    return event;
}

void pair_connect(struct pair *pair, cci_conn_attribute_t attribute, void *out, void *in)
{
    static const char data[] = "a call";
    char *uri = side_uri(pair->called);
    CHECK_OK(cci_connect(pair->caller, uri, data, sizeof(data), attribute, out, 0, NULL));
    free(uri);
    /* If the call fails, it is the caller that gets an event. */
    cci_event_t *event = side_expect(pair->called, pair->caller, CCI_EVENT_CONNECT_REQUEST);
    CHECK_EQUAL(event->request.data_len, sizeof(data));
    CHECK(memcmp(event->request.data_ptr, data, sizeof(data)) == 0);
    CHECK_EQUAL(event->request.attribute, attribute);
    CHECK_OK(cci_accept(event, in));
    CHECK_STATUS(cci_accept(event, in), CCI_EINVAL);
    CHECK_OK(cci_return_event(event));
    event = side_expect(pair->caller, NULL, CCI_EVENT_CONNECT);
    CHECK_EQUAL(event->connect.status, CCI_SUCCESS);
    CHECK(event->connect.context == out);
    pair->out = event->connect.connection;
    CHECK_OK(cci_return_event(event));
    event = side_expect(pair->called, NULL, CCI_EVENT_ACCEPT);
    CHECK_EQUAL(event->accept.status, CCI_SUCCESS);
    CHECK(event->accept.context == in);
    pair->in = event->accept.connection;
    CHECK_OK(cci_return_event(event));
    CHECK(pair->out->context == out && pair->in->context == in);
    CHECK(pair->out->endpoint == pair->caller && pair->in->endpoint == pair->called);
    CHECK_EQUAL(pair->out->attribute, attribute);
    CHECK_EQUAL(pair->in->attribute, attribute);
    CHECK(pair->out->max_send_size >= 256);
}

void pair_open(struct pair *pair, cci_conn_attribute_t attribute)
{
    pair->caller = side_open(NULL);
    pair->called = side_open(NULL);
    pair_connect(pair, attribute, pair, &pair->in);
}

void pair_close(struct pair *pair)
{
    CHECK_OK(cci_destroy_endpoint(pair->caller));
    CHECK_OK(cci_destroy_endpoint(pair->called));
}
