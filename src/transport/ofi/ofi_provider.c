/*
 * ofi: choosing a provider of libfabric. Unless one is requested, only those of fabrics are
 * considered, the best first: providers over the kernel's network are slower than the transport
 * udp. Without an adapter of a fabric, libfabric is not even loaded, since that alone takes a fifth
 * of a second.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/mac.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In order of preference. Providers for the RDMA adapters of `ibv` are used only on request. */
static const struct {
    const char *name;
    bool fabric;
} ofi_providers[] = {
    {"cxi", true},  {"efa", true},  {"opx", true},
    {"psm3", true}, {"psm2", true}, {"tcp", false}, /* if `ofi` is requested by name */
};

/* One of these exists if there is an adapter that these providers can drive. */
static const char *const ofi_adapters[] = {"/sys/class/cxi", "/sys/class/cxi_user",
                                           "/sys/class/infiniband"};

static bool ofi_provider_may_be_here(void)
{
    for (size_t i = 0; i < AQI_COUNT_OF(ofi_adapters); i++)
        if (access(ofi_adapters[i], F_OK) == 0) return true;
    return false;
}

/* psm3 also runs over plain sockets; then its domain is an interface of the kernel. */
static bool ofi_provider_is_fabric(const struct fi_info *info)
{
    char path[300];
    snprintf(path, sizeof(path), "/sys/class/net/%.256s", info->domain_attr->name);
    return access(path, F_OK) != 0;
}

/* Whether the provider has this name. "tcp" also matches "tcp;ofi_rxm", a layer over it. */
static bool ofi_provider_is(const struct fi_info *info, const char *name)
{
    const char *here = info->fabric_attr->prov_name;
    size_t len = strlen(name);
    return strncmp(here, name, len) == 0 && (here[len] == 0 || here[len] == ';');
}

static bool ofi_provider_fits(const struct fi_info *info, const char *name)
{
    if (!ofi_provider_is(info, name)) return false;
    if (ofi_config.domain[0] != 0) return strcmp(info->domain_attr->name, ofi_config.domain) == 0;
    return true;
}

/* The first provider with this name whose domain is not the loopback interface, if possible. */
static const struct fi_info *ofi_provider_named(const struct fi_info *list, const char *name)
{
    const struct fi_info *found = NULL;
    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        if (!ofi_provider_fits(info, name)) continue;
        if (found == NULL) found = info;
        if (strcmp(info->domain_attr->name, "lo") != 0) return info;
    }
    return found;
}

static const struct fi_info *ofi_provider_choose(const struct fi_info *list, bool asked)
{
    if (ofi_config.provider[0] != 0) return ofi_provider_named(list, ofi_config.provider);
    for (size_t i = 0; i < AQI_COUNT_OF(ofi_providers); i++) {
        if (!ofi_providers[i].fabric && !asked) continue;
        const struct fi_info *info = ofi_provider_named(list, ofi_providers[i].name);
        if (info != NULL && (!ofi_providers[i].fabric || ofi_provider_is_fabric(info))) return info;
    }
    return NULL;
}

/* Hints that allow the provider to require anything that we support, and nothing else. */
static struct fi_info *ofi_provider_hints(const char *name)
{
    struct fi_info *hints = ofi_library.dupinfo(NULL);
    if (hints == NULL) return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (name[0] != 0) hints->fabric_attr->prov_name = strdup(name);
    return hints;
}

uint64_t ofi_provider_order(void)
{
    static const uint64_t asked[] = {0, FI_ORDER_SAS, FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW};
    return asked[ofi_config.order];
}

/* Optional features requested of a chosen provider. */
enum { OFI_NO_PROGRESS = 1 << 0, OFI_NO_ORDER = 1 << 1, OFI_NO_MANY = 1 << 2, OFI_NOTHING = 7 };

static struct fi_info *ofi_provider_with(const struct fi_info *info, unsigned without)
{
    struct fi_info *hints = ofi_provider_hints(info->fabric_attr->prov_name), *list = NULL,
                   *found = NULL;
    if (hints == NULL) return NULL;
    if ((without & OFI_NO_MANY) == 0) hints->caps |= FI_MULTI_RECV;
    if ((without & OFI_NO_ORDER) == 0)
        hints->tx_attr->msg_order = hints->rx_attr->msg_order = ofi_provider_order();
    if ((without & OFI_NO_PROGRESS) == 0) {
        hints->domain_attr->data_progress = hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
        hints->domain_attr->threading =
            FI_THREAD_SAFE; /* its progress thread does not take our locks */
    }
    hints->domain_attr->name = strdup(info->domain_attr->name);
    if (ofi_library_getinfo(hints, &list) == 0) found = ofi_library.dupinfo(list);
    if (list != NULL) ofi_library.freeinfo(list);
    ofi_library.freeinfo(hints);
    return found;
}

/*
 * The same provider with as many of the requested features as it has; it may report some only on
 * request.
 */
static struct fi_info *ofi_provider_take(const struct fi_info *info)
{
    unsigned unasked = (ofi_config.progress == 0 ? OFI_NO_PROGRESS : 0u) |
                       (ofi_config.order == 0 ? OFI_NO_ORDER : 0u);
    struct fi_info *taken = NULL;
    for (unsigned without = 0; without < OFI_NOTHING && taken == NULL; without++)
        if ((without & unasked) == unasked) taken = ofi_provider_with(info, without);
    return taken != NULL ? taken : ofi_library.dupinfo(info);
}

/*
 * ofi_rxm has thousands of buffers of 16 KB, which it clears when an endpoint is opened; no message
 * needs more than the size of ours. Over tcp, all peers share 4096 of them; over adapters, each has
 * 128, which is also enough for tcp, since data without a buffer stays in the socket. It also sizes
 * queues below it for 256 peers, which small adapters and rxe reject. libfabric reads all of these
 * only once, when it is loaded.
 */
static void ofi_provider_size(uint32_t endpoints)
{
    enum { LEAST = 2, USUAL = 256 };
    char text[24];
    snprintf(text, sizeof(text), "%zu", ofi_buffer_bytes((size_t)ofi_config.medium));
    (void)setenv("FI_OFI_RXM_BUFFER_SIZE", text, false);
    (void)setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", false);
    if (endpoints == 0) return;
    snprintf(text, sizeof(text), "%zu", aqi_max(LEAST, aqi_min(endpoints, USUAL)));
    (void)setenv("FI_UNIVERSE_SIZE", text, false);
}

static void ofi_provider_explain(int err, char *why, size_t len)
{
    const char *by = aqi_setting_variable("AQ_OFI_PROVIDER");
    char name[80] = "of a fabric", domain[100] = "";
    bool named = ofi_config.provider[0] != 0;
    if (named) snprintf(name, sizeof(name), "%.40s (%s)", ofi_config.provider, by);
    if (ofi_config.domain[0] != 0)
        snprintf(domain, sizeof(domain), " and domain %.40s (%s)", ofi_config.domain,
                 aqi_setting_variable("AQ_OFI_DOMAIN"));
    snprintf(why, len,
             "libfabric has no provider %s%s with messages and remote memory here%s%s: \"fi_info "
             "-t FI_EP_RDM\" lists %s%s",
             name, domain, err != 0 ? ": " : "", err != 0 ? ofi_library.strerror(-err) : "",
             named ? "them" : "the choices for ", named ? "" : by);
}

struct fi_info *ofi_provider_find(bool asked, uint32_t endpoints, char *why, size_t len)
{
    asked = asked || ofi_config.provider[0] != 0;
    if (!asked && !ofi_provider_may_be_here()) {
        snprintf(why, len,
                 "no adapter of a fabric was found (cxi, efa, opx, psm3, psm2); "
                 "AQ_OFI_PROVIDER=tcp uses TCP, which is slower than udp");
        return NULL;
    }
    ofi_provider_size(endpoints);
    const char *missing = ofi_library_missing();
    if (missing == NULL) missing = aqi_mac_missing();
    if (missing != NULL) {
        snprintf(why, len, "%s", missing);
        return NULL;
    }
    struct fi_info *hints = ofi_provider_hints(ofi_config.provider), *list = NULL, *chosen = NULL;
    int err = hints != NULL ? ofi_library_getinfo(hints, &list) : -FI_ENOMEM;
    const struct fi_info *info = err == 0 ? ofi_provider_choose(list, asked) : NULL;
    if (info != NULL) chosen = ofi_provider_take(info);
    if (chosen == NULL) ofi_provider_explain(err, why, len);
    if (list != NULL) ofi_library.freeinfo(list);
    if (hints != NULL) ofi_library.freeinfo(hints);
    return chosen;
}

/* Layers over adapters are tried: nothing else shows whether the adapters have room for them. */
static void ofi_provider_say(struct aqi_tp_probe *probe, struct fi_info *info, bool usable)
{
    const char *name = info->fabric_attr->prov_name;
    snprintf(probe->device, sizeof(probe->device), "%.40s on %.19s", name, info->domain_attr->name);
    probe->usable = usable && (strstr(name, "ofi_rxm") == NULL || ofi_try(info) == AQ_OK);
    if (usable && !probe->usable)
        snprintf(probe->reason, sizeof(probe->reason), "%s", aq_error_message());
}

static bool ofi_provider_is_in(const struct fi_info *list, const struct fi_info *end,
                               const char *name)
{
    for (; list != end; list = list->next)
        if (strcmp(list->fabric_attr->prov_name, name) == 0) return true;
    return false;
}

/* The provider with this index among those that are not used, each counted once. */
static bool ofi_provider_probe_other(unsigned index, const struct fi_info *used,
                                     struct aqi_tp_probe *probe)
{
    struct fi_info *hints = ofi_provider_hints(""), *fit = NULL, *all = NULL;
    struct fi_info *info = NULL;
    if (hints != NULL && ofi_library_getinfo(hints, &fit) == 0) {
        hints->caps = 0;
        hints->mode = UINT64_MAX;
        hints->domain_attr->mr_mode |= FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_HMEM;
        (void)ofi_library_getinfo(hints, &all);
    }
    for (info = all; info != NULL; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        if (strcmp(name, used->fabric_attr->prov_name) == 0) continue;
        if (!ofi_provider_is_in(all, info, name) && index-- == 0) break;
    }
    if (info != NULL) {
        const char *name = info->fabric_attr->prov_name;
        bool fits = ofi_provider_is_in(fit, NULL, name);
        ofi_provider_say(probe, info, fits);
        if (probe->usable)
            snprintf(probe->reason, sizeof(probe->reason),
                     "not used: set AQ_OFI_PROVIDER=\"%.40s\" to choose it", name);
        else if (!fits)
            snprintf(probe->reason, sizeof(probe->reason),
                     "%.40s does not support the required kinds of messages or remote memory here",
                     name);
    }
    if (all != NULL) ofi_library.freeinfo(all);
    if (fit != NULL) ofi_library.freeinfo(fit);
    if (hints != NULL) ofi_library.freeinfo(hints);
    return info != NULL;
}

bool ofi_provider_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.device = "no provider"};
    /* As in a job of two; but without the setting, a job calls this before its size is known. */
    struct fi_info *info = ofi_provider_find(false, ofi_config.provider[0] != 0 ? 2 : 0,
                                             probe->reason, sizeof(probe->reason));
    bool found = device == 0;
    if (device != 0)
        found = info != NULL && ofi_provider_probe_other(device - 1, info, probe);
    else if (info != NULL)
        ofi_provider_say(probe, info, true);
    else
        probe->on_request = ofi_config.provider[0] == 0 && ofi_config.domain[0] == 0 &&
                            (!ofi_provider_may_be_here() ||
                             (ofi_library_missing() == NULL && aqi_mac_missing() == NULL));
    if (info != NULL) ofi_library.freeinfo(info);
    return found;
}
