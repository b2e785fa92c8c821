/*
 * The interface of CCI 2.2 (ABI version 2), implemented with Aqueduct's connections, see
 * docs/cci.md.
 *
 * All functions return a status (enum cci_status), 0 on success, and may be called by any thread.
 * None blocks unless its flags contain CCI_FLAG_BLOCKING, except that those which end connections
 * deliver what was sent before.
 */
#ifndef CCI_H
#define CCI_H

#include <cci/public_config.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>

BEGIN_C_DECLS

/** The `abi_ver` for cci_init. */
#define CCI_ABI_VERSION 2
/** Maximum bytes of data for cci_connect. */
#define CCI_CONN_REQ_LEN 1024

/** The status of a call, or of an operation in its event. */
typedef enum cci_status {
    CCI_SUCCESS = 0,
    CCI_ERROR = 1,               /**< any other failure */
    CCI_ERR_DISCONNECTED = 2,    /**< either side has disconnected, or the peer has ended */
    CCI_ERR_RNR = 3,             /**< the peer had no room for the message before the timeout */
    CCI_ERR_DEVICE_DEAD = 4,     /**< the local device has failed */
    CCI_ERR_RMA_HANDLE = 5,      /**< the peer does not allow access to the memory */
    CCI_ERR_RMA_OP = 6,          /**< the peer does not support the operation */
    CCI_ERR_NOT_IMPLEMENTED = 7, /**< not supported */
    CCI_ERR_NOT_FOUND = 8,       /**< no such object */
    CCI_EAGAIN = EAGAIN,         /**< nothing available now */
    CCI_ENOMEM = ENOMEM,
    CCI_EBUSY = EBUSY, /**< the service is in use */
    CCI_ENODEV = ENODEV,
    CCI_EINVAL = EINVAL,
    CCI_ERANGE = ERANGE,
    CCI_ENOMSG = ENOMSG,
    CCI_EMSGSIZE = EMSGSIZE, /**< longer than max_send_size */
    CCI_EADDRNOTAVAIL = EADDRNOTAVAIL,
    CCI_ENETDOWN = ENETDOWN, /**< the device is down */
    CCI_ENOBUFS = ENOBUFS,   /**< no room now: return events and retry */
    CCI_ETIMEDOUT = ETIMEDOUT,
    CCI_ECONNREFUSED = ECONNREFUSED
} cci_status_t;

/** Properties of a connection. */
typedef enum cci_conn_attribute {
    CCI_CONN_ATTR_RO = 0,       /**< reliable: messages and completions arrive in order */
    CCI_CONN_ATTR_RU = 1,       /**< reliable, unordered */
    CCI_CONN_ATTR_UU = 2,       /**< unreliable, unordered: SEND events are local; no RMA */
    CCI_CONN_ATTR_UU_MC_TX = 3, /**< like CCI_CONN_ATTR_UU, but only to a multicast group */
    CCI_CONN_ATTR_UU_MC_RX = 4  /**< the same, from a multicast group */
} cci_conn_attribute_t;

typedef enum cci_event_type {
    CCI_EVENT_NONE = 0,
    CCI_EVENT_SEND = 1,
    CCI_EVENT_RECV = 2,
    CCI_EVENT_CONNECT = 3,
    CCI_EVENT_CONNECT_REQUEST = 4,
    CCI_EVENT_ACCEPT = 5,
    CCI_EVENT_KEEPALIVE_TIMEDOUT = 6,
    CCI_EVENT_ENDPOINT_DEVICE_FAILED = 7
} cci_event_type_t;

typedef enum cci_opt_name {
    CCI_OPT_ENDPT_SEND_TIMEOUT = 0,
    CCI_OPT_ENDPT_RECV_BUF_COUNT = 1,
    CCI_OPT_ENDPT_SEND_BUF_COUNT = 2,
    CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT = 3,
    CCI_OPT_ENDPT_URI = 4,
    CCI_OPT_ENDPT_RMA_ALIGN = 5,
    CCI_OPT_CONN_SEND_TIMEOUT = 6,
    CCI_OPT_CONN_KEEPALIVE_TIMEOUT = 7
} cci_opt_name_t;

typedef enum cci_endpoint_flags { bogus_must_have_something_here = 0 } cci_endpoint_flags_t;

#define CCI_FLAG_BLOCKING 1  /**< cci_send, cci_sendv, cci_rma: return once complete; no event */
#define CCI_FLAG_NO_COPY  2  /**< hint that has no effect: the source may be reused on return */
#define CCI_FLAG_SILENT   8  /**< no SEND event */
#define CCI_FLAG_READ     16 /**< cci_rma: read from the peer; cci_rma_register: peers may read */
#define CCI_FLAG_WRITE    32 /**< the same for writing */
#define CCI_FLAG_FENCE    64 /**< cci_rma: start after all earlier ones on the connection */

/** For select() and poll() only; do not read it. Readable if the endpoint may have events. */
typedef int cci_os_handle_t;

/** An endpoint or a connection, for options. */
typedef const void cci_opt_handle_t;

typedef const struct cci_device {
    const char *name;
    const char *transport;
    unsigned up;                  /**< 1: it can be used */
    const char *info;             /**< NULL */
    const char *const *conf_argv; /**< "key=value", then NULL */
    uint32_t max_send_size;       /**< maximum message size in bytes */
    uint64_t rate;                /**< in bit/s; 0: unknown */
    struct {
        uint32_t domain, bus, dev, func;
    } pci; /**< all UINT32_MAX: no PCI device */
} cci_device_t;

typedef const struct cci_endpoint {
    cci_device_t *device;
} cci_endpoint_t;

typedef const struct cci_connection {
    uint32_t max_send_size;
    cci_endpoint_t *endpoint;
    cci_conn_attribute_t attribute;
    void *context; /**< of cci_connect or cci_accept */
} cci_connection_t;

/** May be copied to a peer, which passes a pointer to its copy as the remote handle. */
typedef struct cci_rma_handle {
    uint64_t stuff[4];
} cci_rma_handle_t;

/** Required alignment of addresses and lengths; 0: none. */
typedef struct cci_alignment {
    uint32_t rma_write_local_addr;
    uint32_t rma_write_remote_addr;
    uint32_t rma_write_length;
    uint32_t rma_read_local_addr;
    uint32_t rma_read_remote_addr;
    uint32_t rma_read_length;
} cci_alignment_t;

typedef const struct cci_event_send {
    cci_event_type_t type;
    cci_status_t status;
    cci_connection_t *connection;
    void *context;
} cci_event_send_t;

typedef const struct cci_event_recv {
    cci_event_type_t type;
    uint32_t len;
    const void
        *ptr; /**< 16-byte aligned, followed by a 0 byte; valid until the event is returned */
    cci_connection_t *connection;
} cci_event_recv_t;

typedef const struct cci_event_connect {
    cci_event_type_t type;
    cci_status_t status;
    void *context;
    cci_connection_t *connection; /**< NULL unless `status` is 0 */
} cci_event_connect_t;

typedef const struct cci_event_connect_request {
    cci_event_type_t type;
    uint32_t data_len;
    const void *data_ptr; /**< valid until the event is returned */
    cci_conn_attribute_t attribute;
} cci_event_connect_request_t;

typedef const struct cci_event_accept {
    cci_event_type_t type;
    cci_status_t status;
    void *context;
    cci_connection_t *connection; /**< NULL unless `status` is 0 */
} cci_event_accept_t;

typedef const struct cci_event_keepalive_timedout {
    cci_event_type_t type;
    cci_connection_t *connection;
} cci_event_keepalive_timedout_t;

typedef const struct cci_event_endpoint_device_failed {
    cci_event_type_t type;
    cci_endpoint_t *endpoint;
} cci_event_endpoint_device_failed_t;

typedef const union cci_event {
    cci_event_type_t type;
    struct cci_event_send send;
    struct cci_event_recv recv;
    struct cci_event_connect connect;
    struct cci_event_connect_request request;
    struct cci_event_accept accept;
    struct cci_event_keepalive_timedout keepalive;
    struct cci_event_endpoint_device_failed dev_failed;
} cci_event_t;

/** Open the library, or add a user of it. `flags` must be 0; `*caps` is set to 0. */
CCI_DECLSPEC int cci_init(uint32_t abi_ver, uint32_t flags, uint32_t *caps);
/** Remove a user of the library. The last call closes it, and all open endpoints. */
CCI_DECLSPEC int cci_finalize(void);
/** The name of a status; never NULL. `endpoint` may be NULL. */
CCI_DECLSPEC const char *cci_strerror(cci_endpoint_t *endpoint, enum cci_status status);

/** The devices, best first, terminated by NULL; valid until the last cci_finalize. */
CCI_DECLSPEC int cci_get_devices(cci_device_t *const **devices);

/** Create an endpoint. `device` NULL: the default device; `fd` NULL: no handle for select() is
 * needed. */
CCI_DECLSPEC int cci_create_endpoint(cci_device_t *device, int flags, cci_endpoint_t **endpoint,
                                     cci_os_handle_t *fd);
/** The same, at a port (sock, tcp) or "PID/ID" (sm) chosen by the program. CCI_EBUSY: in use. */
CCI_DECLSPEC int cci_create_endpoint_at(cci_device_t *device, const char *service, int flags,
                                        cci_endpoint_t **endpoint, cci_os_handle_t *fd);
/** Close an endpoint and its connections, events and registrations. Messages already sent are
 * delivered. */
CCI_DECLSPEC int cci_destroy_endpoint(cci_endpoint_t *endpoint);

CCI_DECLSPEC int cci_set_opt(cci_opt_handle_t *handle, cci_opt_name_t name, const void *val);
CCI_DECLSPEC int cci_get_opt(cci_opt_handle_t *handle, cci_opt_name_t name, void *val);

/** Start to connect. Exactly one CONNECT event follows success. `timeout` NULL or negative: no
 * limit. */
CCI_DECLSPEC int cci_connect(cci_endpoint_t *endpoint, const char *server_uri, const void *data_ptr,
                             uint32_t data_len, cci_conn_attribute_t attribute, const void *context,
                             int flags, const struct timeval *timeout);
CCI_DECLSPEC int cci_accept(cci_event_t *conn_req, const void *context);
CCI_DECLSPEC int cci_reject(cci_event_t *conn_req);
/** Close a connection, and drop its events. Messages already sent are delivered; the peer's next
 * call on it fails. */
CCI_DECLSPEC int cci_disconnect(cci_connection_t *connection);

CCI_DECLSPEC int cci_get_event(cci_endpoint_t *endpoint, cci_event_t **event);
CCI_DECLSPEC int cci_return_event(cci_event_t *event);
/** Not needed: returns CCI_ERR_NOT_IMPLEMENTED. */
CCI_DECLSPEC int cci_arm_os_handle(cci_endpoint_t *endpoint, int flags);

CCI_DECLSPEC int cci_send(cci_connection_t *connection, const void *msg_ptr, uint32_t msg_len,
                          const void *context, int flags);
CCI_DECLSPEC int cci_sendv(cci_connection_t *connection, const struct iovec *data, uint32_t iovcnt,
                           const void *context, int flags);

CCI_DECLSPEC int cci_rma_register(cci_endpoint_t *endpoint, void *start, uint64_t length, int flags,
                                  cci_rma_handle_t **rma_handle);
CCI_DECLSPEC int cci_rma_deregister(cci_endpoint_t *endpoint, cci_rma_handle_t *rma_handle);
/* * Transfer data. If `msg_len` > 0, the peer receives the message after the transfer is
 * complete. */
CCI_DECLSPEC int cci_rma(cci_connection_t *connection, const void *msg_ptr, uint32_t msg_len,
                         cci_rma_handle_t *local_handle, uint64_t local_offset,
                         cci_rma_handle_t *remote_handle, uint64_t remote_offset, uint64_t data_len,
                         const void *context, int flags);

static inline const char *cci_event_type_str(cci_event_type_t type)
{
    switch (type) {
    case CCI_EVENT_NONE:
        return "CCI_EVENT_NONE";
    case CCI_EVENT_SEND:
        return "CCI_EVENT_SEND";
    case CCI_EVENT_RECV:
        return "CCI_EVENT_RECV";
    case CCI_EVENT_CONNECT:
        return "CCI_EVENT_CONNECT";
    case CCI_EVENT_CONNECT_REQUEST:
        return "CCI_EVENT_CONNECT_REQUEST";
    case CCI_EVENT_ACCEPT:
        return "CCI_EVENT_ACCEPT";
    case CCI_EVENT_KEEPALIVE_TIMEDOUT:
        return "CCI_EVENT_KEEPALIVE_TIMEDOUT";
    case CCI_EVENT_ENDPOINT_DEVICE_FAILED:
        return "CCI_EVENT_ENDPOINT_DEVICE_FAILED";
    }
    return "Unknown event";
}

END_C_DECLS
#endif
