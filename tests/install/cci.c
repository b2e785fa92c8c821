/* A client of CCI's interface, with both ends in one process. */
#include <cci.h>
#include <string.h>

static cci_event_t *next(cci_endpoint_t *endpoint)
{
    cci_event_t *event;
    while (cci_get_event(endpoint, &event) == CCI_EAGAIN)
        continue;
    return event;
}

int main(void)
{
    cci_endpoint_t *endpoint;
    cci_event_t *event;
    char *uri;
    uint32_t caps;
    if (cci_init(CCI_ABI_VERSION, 0, &caps) != CCI_SUCCESS) return 1;
    if (cci_create_endpoint(NULL, 0, &endpoint, NULL) != CCI_SUCCESS) return 2;
    if (cci_get_opt(endpoint, CCI_OPT_ENDPT_URI, &uri) != CCI_SUCCESS) return 3;
    if (cci_connect(endpoint, uri, "hello", 6, CCI_CONN_ATTR_RO, NULL, 0, NULL) != CCI_SUCCESS)
        return 4;
    for (;;) {
        event = next(endpoint);
        if (event->type == CCI_EVENT_CONNECT_REQUEST && cci_accept(event, NULL) != CCI_SUCCESS)
            return 5;
        if (event->type == CCI_EVENT_ACCEPT)
            cci_send(event->accept.connection, "hello", 6, NULL, 0);
        if (event->type == CCI_EVENT_RECV) break;
        cci_return_event(event);
    }
    printf("CCI: %s\n", (const char *)event->recv.ptr);
    return cci_finalize() != CCI_SUCCESS || strcmp(cci_strerror(NULL, CCI_SUCCESS), "CCI_SUCCESS");
}
