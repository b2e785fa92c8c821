/*
 * ofi: loading libfabric. Some of the libraries that it loads (libinfinipath) install handlers for
 * SIGSEGV and other signals, which would turn a crash into an exit; so dispositions are restored
 * after such calls.
 *
 * With its default of 128 packets in flight to a peer, udp;ofi_rxd (1.17) loses its own completions
 * and then sends nothing more to that peer.
 */
#include "transport/ofi/ofi_library.h"

#include "base/library.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct ofi_library ofi_library;

static const struct aqi_symbol ofi_library_symbols[] = {
    {"fi_version", &ofi_library.version},   {"fi_getinfo", &ofi_library.getinfo},
    {"fi_freeinfo", &ofi_library.freeinfo}, {"fi_dupinfo", &ofi_library.dupinfo},
    {"fi_fabric", &ofi_library.fabric},     {"fi_strerror", &ofi_library.strerror},
};

static const int ofi_library_signals[] = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM};
enum { OFI_SIGNALS = AQI_COUNT_OF(ofi_library_signals) };

static void ofi_library_keep(struct sigaction kept[OFI_SIGNALS])
{
    for (unsigned i = 0; i < OFI_SIGNALS; i++)
        (void)sigaction(ofi_library_signals[i], NULL, &kept[i]);
}

static void ofi_library_restore(const struct sigaction kept[OFI_SIGNALS])
{
    for (unsigned i = 0; i < OFI_SIGNALS; i++)
        (void)sigaction(ofi_library_signals[i], &kept[i], NULL);
}

static const char *ofi_library_why;

static void ofi_library_load(void)
{
    static const char library[] = "libfabric.so.1";
    struct sigaction kept[OFI_SIGNALS];
    (void)setenv("FI_OFI_RXD_MAX_UNACKED", "32", false);
    ofi_library_keep(kept);
    const char *missing =
        aqi_library_load(library, ofi_library_symbols, AQI_COUNT_OF(ofi_library_symbols));
    ofi_library_restore(kept);
    static char why[320];
    if (missing == library)
        ofi_library_why = aqi_library_advice("libfabric1", sizeof(why), why);
    else if (missing != NULL || FI_VERSION_LT(ofi_library.version(), OFI_API))
        ofi_library_why = "libfabric.so.1 is too old: libfabric 1.14 or later is required";
}

const char *ofi_library_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ofi_library_load);
    return ofi_library_why;
}

int ofi_library_getinfo(const struct fi_info *hints, struct fi_info **info)
{
    struct sigaction kept[OFI_SIGNALS];
    ofi_library_keep(kept);
    int err = ofi_library.getinfo(OFI_API, NULL, NULL, 0, hints, info);
    ofi_library_restore(kept);
    return err;
}
