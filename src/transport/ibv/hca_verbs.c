/* ibv: loading libibverbs. */
#include "transport/ibv/hca_verbs.h"

#include "base/library.h"

#include <pthread.h>
#include <stdio.h>

struct hca_verbs hca_verbs;

static const struct aqi_symbol hca_verbs_symbols[] = {
    {"ibv_get_device_list", &hca_verbs.get_device_list},
    {"ibv_free_device_list", &hca_verbs.free_device_list},
    {"ibv_get_device_name", &hca_verbs.get_device_name},
    {"ibv_open_device", &hca_verbs.open_device},
    {"ibv_close_device", &hca_verbs.close_device},
    {"ibv_query_device", &hca_verbs.query_device},
    {"ibv_query_port", &hca_verbs.query_port},
    {"ibv_query_gid", &hca_verbs.query_gid},
    {"ibv_alloc_pd", &hca_verbs.alloc_pd},
    {"ibv_dealloc_pd", &hca_verbs.dealloc_pd},
    {"ibv_reg_mr", &hca_verbs.reg_mr},
    {"ibv_dereg_mr", &hca_verbs.dereg_mr},
    {"ibv_create_comp_channel", &hca_verbs.create_comp_channel},
    {"ibv_destroy_comp_channel", &hca_verbs.destroy_comp_channel},
    {"ibv_create_cq", &hca_verbs.create_cq},
    {"ibv_destroy_cq", &hca_verbs.destroy_cq},
    {"ibv_get_cq_event", &hca_verbs.get_cq_event},
    {"ibv_ack_cq_events", &hca_verbs.ack_cq_events},
    {"ibv_create_srq", &hca_verbs.create_srq},
    {"ibv_destroy_srq", &hca_verbs.destroy_srq},
    {"ibv_create_qp", &hca_verbs.create_qp},
    {"ibv_modify_qp", &hca_verbs.modify_qp},
    {"ibv_destroy_qp", &hca_verbs.destroy_qp},
    {"ibv_create_ah", &hca_verbs.create_ah},
    {"ibv_destroy_ah", &hca_verbs.destroy_ah},
    {"ibv_get_async_event", &hca_verbs.get_async_event},
    {"ibv_ack_async_event", &hca_verbs.ack_async_event},
    {"ibv_event_type_str", &hca_verbs.event_type_str},
    {"ibv_wc_status_str", &hca_verbs.wc_status_str},
};

static char hca_verbs_why[320];

static void hca_verbs_load(void)
{
    static const char library[] = "libibverbs.so.1";
    const char *missing =
        aqi_library_load(library, hca_verbs_symbols, AQI_COUNT_OF(hca_verbs_symbols));
    if (missing == library)
        aqi_library_advice("libibverbs1 and ibverbs-providers", sizeof(hca_verbs_why),
                           hca_verbs_why);
    else if (missing != NULL)
        snprintf(hca_verbs_why, sizeof(hca_verbs_why),
                 "libibverbs.so.1 has no %s: rdma-core 1.0 or later is required", missing);
}

const char *hca_verbs_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hca_verbs_load);
    return hca_verbs_why[0] != '\0' ? hca_verbs_why : NULL;
}
