/* cci: options of endpoints and connections. */
#include "front/cci/impl.h"

#include <string.h>

/* Whether it is an option of connections; endpoints and connections have no common options. */
static bool option_is_of_connection(cci_opt_name_t name)
{
    return name == CCI_OPT_CONN_SEND_TIMEOUT || name == CCI_OPT_CONN_KEEPALIVE_TIMEOUT;
}

/* Programs may confuse the two kinds of handles. */
static bool option_fits(const void *handle, cci_opt_name_t name)
{
    bool endpoint = false;
    for (struct aqi_node *at = aqc.eps.next; at != &aqc.eps && !endpoint; at = at->next)
        endpoint = &AQI_OF(at, const struct aqc_ep, link)->pub == handle;
    return endpoint != option_is_of_connection(name);
}

static int option_set_connection(struct aqc_conn *conn, cci_opt_name_t name, uint32_t value)
{
    *(name == CCI_OPT_CONN_SEND_TIMEOUT ? &conn->send_timeout : &conn->keepalive) = value;
    aqc_conn_watch(conn);
    return CCI_SUCCESS;
}

static int option_set_endpoint(struct aqc_ep *ep, cci_opt_name_t name, uint32_t value)
{
    switch (name) {
    case CCI_OPT_ENDPT_SEND_TIMEOUT:
        ep->send_timeout = value;
        return CCI_SUCCESS;
    case CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT:
        ep->keepalive = value;
        for (struct aqi_node *at = ep->conns.next; at != &ep->conns; at = at->next)
            (void)option_set_connection(AQI_OF(at, struct aqc_conn, link),
                                        CCI_OPT_CONN_KEEPALIVE_TIMEOUT, value);
        return CCI_SUCCESS;
    case CCI_OPT_ENDPT_RECV_BUF_COUNT:
    case CCI_OPT_ENDPT_SEND_BUF_COUNT:
        return CCI_ERR_NOT_IMPLEMENTED;
    default:
        return CCI_EINVAL;
    }
}

int cci_set_opt(cci_opt_handle_t *handle, cci_opt_name_t name, const void *val)
{
    uint32_t value = 0;
    if (handle == NULL || val == NULL) return CCI_EINVAL;
    if (name != CCI_OPT_ENDPT_URI) /* which may be shorter, and cannot be set */
        memcpy(&value, val, sizeof(value));
    aqc_enter();
    int status = CCI_EINVAL;
    if (option_fits(handle, name))
        status = option_is_of_connection(name)
                     ? option_set_connection(AQI_OF(handle, struct aqc_conn, pub), name, value)
                     : option_set_endpoint(AQI_OF(handle, struct aqc_ep, pub), name, value);
    aqc_unlock();
    return status;
}

static int option_get_uri(const struct aqc_ep *ep, char **uri)
{
    *uri = aqc_uri_outside(ep->device->kind, aq_listener_uri(ep->listener));
    return *uri != NULL ? CCI_SUCCESS : CCI_ENOMEM;
}

static int option_get(const void *handle, cci_opt_name_t name, void *val)
{
    const struct aqc_ep *ep = AQI_OF(handle, const struct aqc_ep, pub);
    const struct aqc_conn *conn = AQI_OF(handle, const struct aqc_conn, pub);
    uint32_t value;
    switch (name) {
    case CCI_OPT_ENDPT_SEND_TIMEOUT:
        value = ep->send_timeout;
        break;
    case CCI_OPT_ENDPT_RECV_BUF_COUNT: /* of minimum-size messages */
        value = AQC_WINDOW / 2;
        break;
    case CCI_OPT_ENDPT_SEND_BUF_COUNT:
        value = AQC_QUEUED;
        break;
    case CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT:
        value = ep->keepalive;
        break;
    case CCI_OPT_CONN_SEND_TIMEOUT:
        value = conn->send_timeout;
        break;
    case CCI_OPT_CONN_KEEPALIVE_TIMEOUT:
        value = conn->keepalive;
        break;
    case CCI_OPT_ENDPT_URI:
        return option_get_uri(ep, val);
    case CCI_OPT_ENDPT_RMA_ALIGN:
        memset(val, 0, sizeof(cci_alignment_t));
        return CCI_SUCCESS;
    default:
        return CCI_EINVAL;
    }
    memcpy(val, &value, sizeof(value));
    return CCI_SUCCESS;
}

int cci_get_opt(cci_opt_handle_t *handle, cci_opt_name_t name, void *val)
{
    if (handle == NULL || val == NULL) return CCI_EINVAL;
    aqc_enter();
    int status = option_fits(handle, name) ? option_get(handle, name, val) : CCI_EINVAL;
    aqc_unlock();
    return status;
}
